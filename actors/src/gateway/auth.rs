//! Who calls: bearer tokens, loopback callers, the role each route needs.

use std::fmt;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use rookery_messages::caller::Caller;
use rookery_messages::settings::{AuthRole, Secret, TokenSettings};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use super::deps::Shared;
use super::error::ApiError;
use super::guard::{Peer, refused};

/// The name of a loopback caller without a token.
pub(super) const LOCAL: &str = "local";
/// The surface of a loopback caller without a token: no token's caller has it, whatever its name.
pub(super) const LOOPBACK: &str = "loopback";
/// Browsers can't set headers on a WebSocket: the token comes as a subprotocol, base64url without
/// padding, beside [`SOCKET_PROTOCOL`].
pub(super) const TOKEN_PROTOCOL: &str = "rookery.token.";
/// The subprotocol the server speaks and selects.
pub(super) const SOCKET_PROTOCOL: &str = "rookery.v1";
/// Shortest token that is taken from a file.
const MIN_TOKEN: usize = 16;

struct Token {
    name: String,
    digest: [u8; 32],
    role: AuthRole,
}

/// The tokens that are known. Holds digests, never the tokens.
#[derive(Default)]
pub struct Tokens {
    known: Vec<Token>,
    /// Loopback callers without a token have role `chat`.
    open_on_loopback: bool,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.known.iter().map(|token| (&token.name, token.role)).collect();
        f.debug_struct("Tokens").field("known", &names).finish_non_exhaustive()
    }
}

impl Tokens {
    /// Configured ones: nobody else gets in.
    pub fn configured(tokens: &[TokenSettings]) -> Self {
        let known = tokens
            .iter()
            .map(|token| Token {
                name: token.name.clone(),
                digest: digest(token.token.expose()),
                role: token.role,
            })
            .collect();
        Self { known, open_on_loopback: false }
    }

    /// The admin token we made ourselves; loopback callers may chat without.
    pub fn generated(admin: &Secret) -> Self {
        let admin = Token {
            name: "admin".to_owned(),
            digest: digest(admin.expose()),
            role: AuthRole::Admin,
        };
        Self { known: vec![admin], open_on_loopback: true }
    }

    /// Looks at every token, whatever it finds, and compares digests: the time tells nothing.
    fn find(&self, given: &str) -> Option<&Token> {
        let given = digest(given);
        let mut found = None;
        for token in &self.known {
            let same: Choice = token.digest.ct_eq(&given);
            if bool::from(same) {
                found = Some(token);
            }
        }
        found
    }
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

/// Why there is no admin token.
#[derive(Debug, thiserror::Error)]
#[error("the admin token in {path} can't be {tried}: {source}; check data_dir and its permissions")]
pub struct TokenError {
    path: PathBuf,
    tried: &'static str,
    source: std::io::Error,
}

/// The admin token in `data_dir/admin.token`, made if it isn't there; mode 0600.
pub fn ensure_admin_token(data_dir: &Path) -> Result<Secret, TokenError> {
    let path = data_dir.join("admin.token");
    let failed = |tried, source| TokenError { path: path.clone(), tried, source };
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(data_dir)
        .map_err(|error| failed("written", error))?;
    match std::fs::read_to_string(&path) {
        Ok(text) if text.trim().len() >= MIN_TOKEN => {
            let mode = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(&path, mode).map_err(|error| failed("protected", error))?;
            return Ok(Secret::new(text.trim()));
        }
        // Too short: what a crash left of a write.
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed("read", error)),
    }
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| failed("made", std::io::Error::other(error.to_string())))?;
    let token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    write_private(data_dir, &path, &token).map_err(|error| failed("written", error))?;
    Ok(Secret::new(token))
}

/// Whole or not at all, and never readable by others.
fn write_private(folder: &Path, path: &Path, token: &str) -> std::io::Result<()> {
    let fresh = folder.join(format!(".admin.token.{}", std::process::id()));
    let _left_by_a_crash = std::fs::remove_file(&fresh);
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
    file.write_all(token.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    std::fs::rename(&fresh, path)?;
    std::fs::File::open(folder)?.sync_all()
}

/// What a route asks of its caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Need {
    /// Nothing: the page and its parts.
    Nothing,
    /// Nothing from loopback, else `viewer`: the probes.
    Probe,
    /// The webhook's own rule.
    Webhook,
    /// A role.
    Role(AuthRole),
}

/// The role matrix, by path and method. What is unknown under `/admin` needs most.
fn need(method: &Method, path: &str) -> Need {
    match path {
        "/" => return Need::Nothing,
        "/livez" | "/readyz" | "/metrics" => return Need::Probe,
        _ => {}
    }
    if path.starts_with("/page/") {
        return Need::Nothing;
    }
    if path.starts_with("/v1/channels/webhook/") {
        return Need::Webhook;
    }
    if let Some(admin) = path.strip_prefix("/admin") {
        let reads = matches!(*method, Method::GET | Method::HEAD) || admin == "/v1/receipts/verify";
        return Need::Role(if reads {
            AuthRole::Viewer
        } else if operator_may(admin)
            // Who may give a grant may take one back.
            || (*method == Method::DELETE && admin.starts_with("/v1/grants/"))
        {
            AuthRole::Operator
        } else {
            AuthRole::Admin
        });
    }
    Need::Role(AuthRole::Chat)
}

fn operator_may(admin: &str) -> bool {
    let pauses = admin.ends_with("/pause") || admin.ends_with("/resume");
    let sends = admin.ends_with("/send");
    admin.starts_with("/v1/approvals/")
        // Letting somebody into a channel is an approval too.
        || admin == "/v1/pairings"
        || admin.starts_with("/v1/pairings/")
        || (admin.starts_with("/v1/channels/") && sends)
        || admin == "/v1/memory"
        || admin.starts_with("/v1/memory/")
        || admin.starts_with("/v1/deadletters/")
        || (admin.starts_with("/v1/actors/") && pauses)
}

/// The auth layer: lets in who may, and says who it is.
pub(super) async fn authenticate(shared: &Shared, mut request: Request, next: Next) -> Response {
    match identify(shared, &request) {
        Ok(caller) => {
            if let Some(caller) = caller {
                request.extensions_mut().insert(caller);
            }
            next.run(request).await
        }
        Err(error) => {
            refused(
                shared,
                if error.status == StatusCode::UNAUTHORIZED { "token" } else { "role" },
            );
            error.into_response()
        }
    }
}

fn identify(shared: &Shared, request: &Request) -> Result<Option<Caller>, ApiError> {
    let path = request.uri().path();
    let need = need(request.method(), path);
    let loopback = request.extensions().get::<Peer>().is_some_and(|peer| peer.is_loopback());
    match need {
        Need::Nothing => return Ok(None),
        Need::Probe if loopback => return Ok(None),
        Need::Webhook => {
            // The handler decides again by the decoded alias: without a signature it wants a caller.
            let alias = path.strip_prefix("/v1/channels/webhook/").unwrap_or(path);
            let signed = shared.webhook(alias).is_some_and(|webhook| webhook.secret.is_some());
            if signed {
                return Ok(None);
            }
        }
        Need::Probe | Need::Role(_) => {}
    }
    let via = if path.starts_with("/admin") { "admin" } else { "api" };
    if let Some(given) = presented(request.headers())? {
        let token = shared.deps.tokens.find(&given).ok_or_else(unknown_token)?;
        let least = match need {
            Need::Role(role) => role,
            Need::Probe => AuthRole::Viewer,
            Need::Nothing | Need::Webhook => AuthRole::Chat,
        };
        if token.role < least {
            let message = format!(
                "the token `{}` has role {}, this needs {}",
                token.name,
                token.role.as_str(),
                least.as_str()
            );
            return Err(ApiError::forbidden(message).hint("use a token with that role"));
        }
        let name = token.name.clone();
        return Ok(Some(Caller { name, role: token.role, via: via.to_owned() }));
    }
    // With configured tokens nobody gets in without one, a webhook's caller neither: behind a proxy on
    // this machine every caller is on loopback.
    let chats = matches!(need, Need::Webhook | Need::Role(AuthRole::Chat));
    if chats && loopback && shared.deps.tokens.open_on_loopback {
        let (name, via) = (LOCAL.to_owned(), LOOPBACK.to_owned());
        return Ok(Some(Caller { name, role: AuthRole::Chat, via }));
    }
    let error = ApiError::new(StatusCode::UNAUTHORIZED, "no_token", "this needs a bearer token");
    Err(error.hint(if need == Need::Webhook {
        "send `authorization: Bearer <token>`, or give the webhook a `secret` and sign the message with it"
    } else {
        "send `authorization: Bearer <token>`; the admin token of a service without configured tokens stands in data_dir/admin.token"
    }))
}

fn unknown_token() -> ApiError {
    ApiError::new(StatusCode::UNAUTHORIZED, "wrong_token", "the token is not known")
        .hint("check it, and which service it belongs to")
}

/// The token a request presents. A header that can't be read is a wrong token, not none.
fn presented(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    if let Some(value) = headers.get(AUTHORIZATION) {
        let text = value.to_str().map_err(|_| unknown_token())?;
        let (scheme, token) = text.split_once(' ').ok_or_else(unknown_token)?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(unknown_token());
        }
        return Ok(Some(token.trim().to_owned()));
    }
    for value in headers.get_all(SEC_WEBSOCKET_PROTOCOL) {
        let protocols = value.to_str().map_err(|_| unknown_token())?;
        for protocol in protocols.split(',') {
            if let Some(encoded) = protocol.trim().strip_prefix(TOKEN_PROTOCOL) {
                let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD
                    .decode(encoded)
                    .map_err(|_| unknown_token())?;
                return String::from_utf8(bytes).map(Some).map_err(|_| unknown_token());
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_route_needs_its_role() {
        let role = Need::Role;
        let cases = [
            (Method::GET, "/", Need::Nothing),
            (Method::GET, "/page/app.js", Need::Nothing),
            (Method::GET, "/metrics", Need::Probe),
            (Method::POST, "/v1/channels/webhook/ci", Need::Webhook),
            (Method::GET, "/v1/turns", role(AuthRole::Chat)),
            (Method::GET, "/v1/ws", role(AuthRole::Chat)),
            (Method::GET, "/admin/v1/tree", role(AuthRole::Viewer)),
            (Method::GET, "/admin/v1/actors/root/service", role(AuthRole::Viewer)),
            (Method::POST, "/admin/v1/receipts/verify", role(AuthRole::Viewer)),
            (Method::POST, "/admin/v1/approvals/1", role(AuthRole::Operator)),
            (Method::POST, "/admin/v1/deadletters/1/purge", role(AuthRole::Operator)),
            (Method::GET, "/admin/v1/memory", role(AuthRole::Viewer)),
            (Method::DELETE, "/admin/v1/grants/1", role(AuthRole::Operator)),
            (Method::POST, "/admin/v1/grants/1", role(AuthRole::Admin)),
            (Method::GET, "/admin/v1/grants", role(AuthRole::Viewer)),
            (Method::DELETE, "/admin/v1/memory", role(AuthRole::Operator)),
            (Method::GET, "/admin/v1/pairings", role(AuthRole::Viewer)),
            (Method::POST, "/admin/v1/pairings", role(AuthRole::Operator)),
            (Method::DELETE, "/admin/v1/pairings/telegram.main/7", role(AuthRole::Operator)),
            (Method::GET, "/admin/v1/channels", role(AuthRole::Viewer)),
            (Method::POST, "/admin/v1/channels/telegram.main/send", role(AuthRole::Operator)),
            (Method::POST, "/admin/v1/channels/telegram.main", role(AuthRole::Admin)),
            (Method::DELETE, "/admin/v1/memory/1", role(AuthRole::Operator)),
            (Method::POST, "/admin/v1/actors/root/store/pause", role(AuthRole::Operator)),
            (Method::POST, "/admin/v1/actors/root/store/resume", role(AuthRole::Operator)),
            (Method::POST, "/admin/v1/actors/root/store/stop", role(AuthRole::Admin)),
            (Method::POST, "/admin/v1/actors/root/store/kill", role(AuthRole::Admin)),
            (Method::POST, "/admin/v1/actors/pause/restart", role(AuthRole::Admin)),
            (Method::POST, "/admin/v1/config/reload", role(AuthRole::Admin)),
        ];
        for (method, path, expected) in cases {
            assert_eq!(need(&method, path), expected, "{method} {path}");
        }
    }

    #[test]
    fn the_admin_token_is_made_once_and_only_its_owner_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let first = ensure_admin_token(&data).unwrap();
        let path = data.join("admin.token");
        assert_eq!(first.expose().len(), 64);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(&data).unwrap().permissions().mode() & 0o777, 0o700);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(ensure_admin_token(&data).unwrap().expose(), first.expose());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        // What a crash left of a write is replaced.
        std::fs::write(&path, "abc").unwrap();
        let second = ensure_admin_token(&data).unwrap();
        assert!(second.expose().len() == 64 && second.expose() != first.expose());
        assert_eq!(std::fs::read_dir(&data).unwrap().count(), 1);
    }

    #[test]
    fn only_whole_tokens_are_found_and_none_is_shown() {
        let settings = TokenSettings {
            name: "ci".into(),
            token: Secret::new("0123456789abcdef"),
            role: AuthRole::Chat,
        };
        let tokens = Tokens::configured(&[settings]);
        assert!(tokens.find("0123456789abcdef").is_some_and(|token| token.name == "ci"));
        for wrong in ["", "0123456789abcde", "0123456789abcdef ", "0123456789ABCDEF"] {
            assert!(tokens.find(wrong).is_none(), "{wrong:?}");
        }
        assert!(!format!("{tokens:?}").contains("0123456789abcdef"));
    }
}
