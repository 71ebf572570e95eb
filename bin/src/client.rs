//! A client of the HTTP API, as the command line uses it.

use std::path::PathBuf;
use std::time::Duration;

use reqwest::{Method, StatusCode, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::exit::Exit;

/// One request's time, connection included. Nothing here streams.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Why a request did not do what it was for.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The base address is none.
    #[error("`{0}` is not an http:// or https:// address; set --url or ROOKERY_URL")]
    BadUrl(String),
    /// Nobody answered.
    #[error(
        "can't reach {url}: {cause}; start the service with `rookery run`, or name another with --url"
    )]
    Unreachable {
        /// Where.
        url: String,
        /// What the connection says.
        cause: String,
    },
    /// The service refused.
    #[error("{}", refusal_text(*.status, .code, .message, .hint.as_deref()))]
    Refused {
        /// HTTP status.
        status: StatusCode,
        /// The error's stable word.
        code: String,
        /// What the service says.
        message: String,
        /// What it advises.
        hint: Option<String>,
    },
    /// Somebody answered, but not as a Rookery does.
    #[error(
        "what answers at {url} is no Rookery (HTTP {}); check --url and gateway.listen, or the proxy between", .status.as_u16()
    )]
    Foreign {
        /// Where.
        url: String,
        /// HTTP status.
        status: StatusCode,
    },
    /// The answer is not what the API promises.
    #[error(
        "{url} answered with something this client can't read ({cause}); is it a Rookery of the same version?"
    )]
    Unreadable {
        /// Where.
        url: String,
        /// What is wrong.
        cause: String,
    },
}

fn refusal_text(status: StatusCode, code: &str, message: &str, hint: Option<&str>) -> String {
    let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
    format!("{message} ({code}, HTTP {}){hint}", status.as_u16())
}

impl ClientError {
    /// The program's exit code for it.
    pub fn exit(&self) -> Exit {
        match self {
            Self::BadUrl(_) => Exit::Usage,
            Self::Unreachable { .. } | Self::Foreign { .. } => Exit::Unreachable,
            Self::Refused { status, .. } => match *status {
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Exit::Refused,
                StatusCode::SERVICE_UNAVAILABLE => Exit::NotReady,
                _ => Exit::Failed,
            },
            Self::Unreadable { .. } => Exit::Failed,
        }
    }
}

/// The error object of the API.
#[derive(Deserialize)]
struct ErrorBody {
    error: ErrorFields,
}

#[derive(Deserialize)]
struct ErrorFields {
    code: String,
    message: String,
    #[serde(default)]
    hint: Option<String>,
}

/// The answer of `/readyz`.
#[derive(Deserialize)]
pub struct Readiness {
    /// Whether the service takes work.
    pub ready: bool,
    /// Each part.
    pub components: Vec<Component>,
}

/// One part of the service.
#[derive(Deserialize)]
pub struct Component {
    /// Its name.
    pub name: String,
    /// Whether it works.
    pub ready: bool,
    /// Why not.
    #[serde(default)]
    pub reason: Option<String>,
}

/// A refusal from its status and body. Every one of ours explains itself.
pub fn refusal(url: &str, status: StatusCode, body: &[u8]) -> ClientError {
    match serde_json::from_slice::<ErrorBody>(body) {
        Ok(ErrorBody { error }) => ClientError::Refused {
            status,
            code: error.code,
            message: error.message,
            hint: error.hint,
        },
        Err(_) => ClientError::Foreign { url: url.to_owned(), status },
    }
}

/// Speaks to one service. Has no `Debug`: it holds the token.
#[derive(Clone)]
pub struct Client {
    base: Url,
    token: Option<String>,
    /// Where a token was looked for, if there is none.
    looked_for: Option<PathBuf>,
    http: reqwest::Client,
}

impl Client {
    /// For a base address such as `http://127.0.0.1:7717`.
    pub fn new(base: &str, token: Option<String>) -> Result<Self, ClientError> {
        let bad = || ClientError::BadUrl(crate::config::redact_url(base));
        let base = Url::parse(base).map_err(|_| bad())?;
        if !matches!(base.scheme(), "http" | "https") || !base.has_host() {
            return Err(bad());
        }
        // WebSocket upgrades need HTTP/1.1. A proxy never stands between us and our own machine.
        let mut builder =
            reqwest::Client::builder().http1_only().connect_timeout(Duration::from_secs(5));
        if is_loopback(&base) {
            builder = builder.no_proxy();
        }
        let http = builder.build().map_err(|error| ClientError::Unreachable {
            url: base.to_string(),
            cause: causes(&error),
        })?;
        Ok(Self { base, token, looked_for: None, http })
    }

    /// Without a token, because there was none in this file: a refusal says so.
    #[must_use]
    pub fn without_token_from(mut self, looked_for: Option<PathBuf>) -> Self {
        self.looked_for = looked_for;
        self
    }

    /// The address it speaks to, safe to show.
    pub fn shown_base(&self) -> String {
        crate::config::redact_url(self.base.as_str()).trim_end_matches('/').to_owned()
    }

    /// The address of a route; each segment is percent-encoded by itself.
    pub fn url(&self, segments: &[&str], query: &[(&str, &str)]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }

    /// A request with the token, not yet sent.
    pub fn request(&self, method: Method, url: Url) -> reqwest::RequestBuilder {
        let request = self.http.request(method, url);
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    /// A connection that failed, as an error of ours.
    pub fn unreachable(&self, error: &reqwest::Error) -> ClientError {
        ClientError::Unreachable { url: self.shown_base(), cause: causes(error) }
    }

    /// `GET`, any JSON.
    pub async fn get(
        &self,
        segments: &[&str],
        query: &[(&str, &str)],
    ) -> Result<Value, ClientError> {
        self.send(self.request(Method::GET, self.url(segments, query))).await
    }

    /// `POST` of a JSON body; an empty answer is null.
    pub async fn post(&self, segments: &[&str], body: &Value) -> Result<Value, ClientError> {
        self.post_with(segments, &[], body).await
    }

    /// As [`Client::post`], with a query.
    pub async fn post_with(
        &self,
        segments: &[&str],
        query: &[(&str, &str)],
        body: &Value,
    ) -> Result<Value, ClientError> {
        self.send(self.request(Method::POST, self.url(segments, query)).json(body)).await
    }

    /// `DELETE`.
    pub async fn delete(
        &self,
        segments: &[&str],
        query: &[(&str, &str)],
    ) -> Result<Value, ClientError> {
        self.send(self.request(Method::DELETE, self.url(segments, query))).await
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<Value, ClientError> {
        let (status, body) = self.answer(request).await?;
        if !status.is_success() {
            return Err(self.with_reason(refusal(&self.shown_base(), status, &body)));
        }
        if body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&body).map_err(|error| self.unreadable(&error))
    }

    /// Why there was no token stands beside a refusal for want of one.
    fn with_reason(&self, mut error: ClientError) -> ClientError {
        if let (ClientError::Refused { status: StatusCode::UNAUTHORIZED, hint, .. }, Some(file)) =
            (&mut error, &self.looked_for)
        {
            let here = std::env::current_dir().unwrap_or_default();
            *hint = Some(format!(
                "no token was sent, because {} can't be read; a relative data_dir is meant from the folder the \
                 service was started in: run this there, or give --token or ROOKERY_TOKEN",
                here.join(file).display()
            ));
        }
        error
    }

    /// What `/readyz` says, ready or not.
    pub async fn readiness(&self) -> Result<Readiness, ClientError> {
        let request = self.request(Method::GET, self.url(&["readyz"], &[]));
        let (status, body) = self.answer(request).await?;
        serde_json::from_slice(&body).map_err(|_| refusal(&self.shown_base(), status, &body))
    }

    async fn answer(
        &self,
        request: reqwest::RequestBuilder,
    ) -> Result<(StatusCode, Vec<u8>), ClientError> {
        let answer =
            request.timeout(TIMEOUT).send().await.map_err(|error| self.unreachable(&error))?;
        let status = answer.status();
        let body = answer.bytes().await.map_err(|error| self.unreachable(&error))?;
        Ok((status, Vec::from(body)))
    }

    /// An answer as its type.
    pub fn read<T: DeserializeOwned>(&self, value: Value) -> Result<T, ClientError> {
        serde_json::from_value(value).map_err(|error| self.unreadable(&error))
    }

    /// A list, bare or as the one list of an object (`{turns: […]}`).
    pub fn read_list<T: DeserializeOwned>(&self, value: Value) -> Result<Vec<T>, ClientError> {
        self.read(match value {
            Value::Object(map) => {
                map.into_iter().map(|(_, field)| field).find(Value::is_array).unwrap_or(Value::Null)
            }
            other => other,
        })
    }

    fn unreadable(&self, error: &serde_json::Error) -> ClientError {
        ClientError::Unreadable { url: self.shown_base(), cause: error.to_string() }
    }
}

/// Whether an address points to this machine.
pub fn is_loopback_url(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| is_loopback(&url))
}

fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let host = host.trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// An error with its causes: reqwest's own text leaves out what went wrong. The address is not repeated.
fn causes(error: &reqwest::Error) -> String {
    let mut text = String::new();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = cause.to_string();
        source = cause.source();
    }
    if error.is_timeout() {
        "no answer in time".to_owned()
    } else if text.is_empty() {
        "the connection failed".to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16) -> Exit {
        let body = br#"{"error":{"code":"c","message":"m","hint":"h"}}"#;
        refusal("u", StatusCode::from_u16(status).unwrap(), body).exit()
    }

    #[test]
    fn exit_codes_follow_what_the_service_answers() {
        assert_eq!(refused(401), Exit::Refused);
        assert_eq!(refused(403), Exit::Refused);
        assert_eq!(refused(404), Exit::Failed);
        assert_eq!(refused(409), Exit::Failed);
        assert_eq!(refused(500), Exit::Failed);
        assert_eq!(refused(503), Exit::NotReady);
        let codes =
            [Exit::Ok, Exit::Failed, Exit::Usage, Exit::Refused, Exit::Unreachable, Exit::NotReady];
        assert_eq!(codes.map(Exit::code), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_refusal_is_shown_in_full() {
        let body =
            br#"{"error":{"code":"role","message":"needs role admin","hint":"use --token"}}"#;
        assert_eq!(
            refusal("u", StatusCode::FORBIDDEN, body).to_string(),
            "needs role admin (role, HTTP 403); use --token"
        );
    }

    #[test]
    fn an_answer_of_another_program_is_not_taken_for_a_refusal() {
        let foreign = refusal("http://h", StatusCode::BAD_GATEWAY, b"<html>");
        assert_eq!(foreign.exit(), Exit::Unreachable);
        assert_eq!(
            foreign.to_string(),
            "what answers at http://h is no Rookery (HTTP 502); check --url and gateway.listen, or the proxy between"
        );
    }

    #[tokio::test]
    async fn a_service_that_is_not_there_is_unreachable() {
        crate::install_crypto();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let error = Client::new(&url, None).unwrap().get(&["livez"], &[]).await.unwrap_err();
        assert_eq!(error.exit(), Exit::Unreachable, "{error}");
        assert!(error.to_string().contains("refused"), "{error}");
    }

    #[test]
    fn segments_are_encoded_and_lists_are_read_bare_or_named() {
        crate::install_crypto();
        let client = Client::new("http://127.0.0.1:1/base/", None).unwrap();
        assert_eq!(
            client.url(&["v1", "a/b c"], &[("q", "x&y")]).as_str(),
            "http://127.0.0.1:1/base/v1/a%2Fb%20c?q=x%26y"
        );
        let bare: Vec<u8> = client.read_list(serde_json::json!([1])).unwrap();
        let named: Vec<u8> = client.read_list(serde_json::json!({ "a": 0, "xs": [1] })).unwrap();
        assert_eq!((bare, named), (vec![1], vec![1]));
        assert!(client.read_list::<u8>(serde_json::json!({})).is_err());
    }

    #[test]
    fn an_address_that_is_none_is_a_usage_error_and_hides_its_password() {
        crate::install_crypto();
        let error = Client::new("ftp://u:hunter2@x/", None).err().unwrap();
        assert_eq!(error.exit(), Exit::Usage);
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}
