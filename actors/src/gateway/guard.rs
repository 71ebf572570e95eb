//! The outer layers: `Host` and `Origin`, lengths, error bodies, panics, the version header.
//!
//! A page of a foreign site must not reach us through its visitor's browser: neither by our address
//! (its `Origin` shows) nor by a name of its own that resolves to loopback (its `Host` shows).

use std::net::{IpAddr, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{self, HeaderValue};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use rookery_messages::observe::Observation;

use super::auth::authenticate;
use super::deps::Shared;
use super::error::ApiError;
use super::extract::{BodyLimit, too_large};

/// Most bytes of a plain error text that are taken over.
const MAX_ERROR_TEXT: usize = 4_096;

/// The peer's address, put into each request by the serve loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub SocketAddr);

impl Peer {
    /// Whether the request comes from this machine.
    pub fn is_loopback(self) -> bool {
        is_loopback(self.0.ip())
    }
}

fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

/// The outermost layer: what is inside can fail as it likes, clients read an answer of ours.
pub(super) async fn outermost(
    State(shared): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path().to_owned();
    let inner = AssertUnwindSafe(admit(&shared, request, next)).catch_unwind().await;
    let mut response = match inner {
        Ok(response) => explained(response).await,
        Err(_) => {
            tracing::error!(%path, "a request's handler panicked");
            let message = "the request's handler crashed; the service goes on";
            ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
                .hint("the log names the place")
                .into_response()
        }
    };
    if response.status() == StatusCode::PAYLOAD_TOO_LARGE {
        refused(&shared, "body_too_large");
    }
    let headers = response.headers_mut();
    headers.insert("x-rookery", HeaderValue::from_static(env!("CARGO_PKG_VERSION")));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Counts something that never became a request of anybody.
pub(super) fn refused(shared: &Shared, reason: &'static str) {
    shared.deps.observer.observe(Observation::Refused { surface: "gateway".to_owned(), reason });
}

async fn admit(shared: &Shared, mut request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<Peer>().copied();
    let Some(peer) = peer else {
        return ApiError::forbidden("the request has no peer address").into_response();
    };
    if let Err((error, reason)) = check(shared, peer, request.headers(), request.uri()) {
        refused(shared, reason);
        return error.into_response();
    }
    let limit = shared.deps.settings.gateway.body_limit_bytes;
    let announced = request
        .headers()
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.parse::<u64>().ok());
    if announced.is_some_and(|length| length > limit as u64) {
        return too_large(limit).into_response();
    }
    request.extensions_mut().insert(BodyLimit(limit));
    // Called here, not as a layer of its own: each layer costs every request a copy of what is inside.
    authenticate(shared, request, next).await
}

/// Gives an error that speaks plain text, or nothing, the form of all others.
async fn explained(response: Response) -> Response {
    let status = response.status();
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let ours = kind.is_some_and(|kind| kind.starts_with("application/json"));
    if !(status.is_client_error() || status.is_server_error()) || ours {
        return response;
    }
    let (parts, body) = response.into_parts();
    let said = axum::body::to_bytes(body, MAX_ERROR_TEXT).await.unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let mut explained = ApiError::of_status(status, &said).into_response();
    if let Some(allow) = parts.headers.get(header::ALLOW) {
        explained.headers_mut().insert(header::ALLOW, allow.clone());
    }
    explained
}

type Refusal = (ApiError, &'static str);

fn check(shared: &Shared, peer: Peer, headers: &HeaderMap, uri: &Uri) -> Result<(), Refusal> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next().and_then(|value| value.to_str().ok());
    let (Some(host), None) = (host, hosts.next()) else {
        let error = ApiError::bad_request("bad_host", "the request needs exactly one Host header");
        return Err((error, "foreign_host"));
    };
    let absolute = uri.authority().map(|authority| authority.as_str());
    for name in std::iter::once(host).chain(absolute) {
        if !is_our_host(shared, peer, host_of(name)) {
            let message = format!("`{name}` is not a name of this service");
            let error = ApiError::new(StatusCode::FORBIDDEN, "foreign_host", message)
                .hint("use a loopback address or the address in gateway.listen, or add the name to gateway.hosts");
            return Err((error, "foreign_host"));
        }
    }
    for origin in headers.get_all(header::ORIGIN) {
        if !origin.to_str().is_ok_and(|origin| is_our_origin(shared, host, origin)) {
            let message = "requests of other sites' pages are not taken";
            let error = ApiError::new(StatusCode::FORBIDDEN, "foreign_origin", message);
            return Err((error, "foreign_origin"));
        }
    }
    Ok(())
}

/// The name without its port.
fn host_of(authority: &str) -> &str {
    match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => authority.split(':').next().unwrap_or(authority),
    }
}

fn is_loopback_name(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(is_loopback)
}

fn is_our_host(shared: &Shared, peer: Peer, host: &str) -> bool {
    if is_loopback_name(host) {
        return true;
    }
    let gateway = &shared.deps.settings.gateway;
    let listen = host_of(&gateway.listen);
    let ours = std::iter::once(listen).chain(gateway.hosts.iter().map(String::as_str));
    if ours.into_iter().any(|name| !name.is_empty() && host.eq_ignore_ascii_case(name)) {
        return true;
    }
    if !shared.local.ip().is_unspecified() || peer.is_loopback() {
        return false;
    }
    // Listening everywhere, our addresses are not known; our names are only if they are configured. Callers
    // from elsewhere need a token or a signature anyway, which a foreign page does not have.
    gateway.hosts.is_empty() || host.parse::<IpAddr>().is_ok()
}

fn is_our_origin(shared: &Shared, host: &str, origin: &str) -> bool {
    let Some((scheme, authority)) = origin.split_once("://") else { return false };
    if !matches!(scheme, "http" | "https") {
        return false;
    }
    // The same place the request went to, which is one of ours.
    if authority.eq_ignore_ascii_case(host) {
        return true;
    }
    let name = host_of(authority);
    let port = authority.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    let port = port.unwrap_or(if scheme == "https" { 443 } else { 80 });
    is_loopback_name(name) && port == shared.local.port()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_read_without_its_port() {
        for (authority, host) in [
            ("127.0.0.1:7717", "127.0.0.1"),
            ("localhost", "localhost"),
            ("[::1]:7717", "::1"),
            ("[::1]", "::1"),
            ("evil.example:80", "evil.example"),
        ] {
            assert_eq!(host_of(authority), host);
        }
        assert!(is_loopback_name("LOCALHOST") && is_loopback_name("127.9.9.9"));
        assert!(is_loopback_name("::1") && is_loopback_name("::ffff:127.0.0.1"));
        assert!(!is_loopback_name("localhost.evil.example") && !is_loopback_name("10.0.0.1"));
    }
}
