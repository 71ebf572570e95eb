//! An HTTP client that goes nowhere the guard hasn't judged.
//!
//! Each hop of a request: its address is judged, its name looked up once, every answer judged, and the
//! connection pinned to those answers; so a name that changes its mind between check and use, or a
//! redirect, gains nothing (A095). Each request has a client of its own: no pooled connection that another
//! agent's rules opened is ever reused. No proxy, no cookies, no decompression.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use reqwest::header::{CONTENT_LENGTH, HeaderMap, LOCATION};
use reqwest::{Method, Response, StatusCode, Url};
use rookery_messages::BoxFuture;
use tokio::time::{Instant, timeout_at};

use crate::outbound;

use super::{Destination, Host, NetworkRules, Refusal, reaches_own};

/// Most redirects followed.
const MAX_REDIRECTS: usize = 5;
/// Most addresses of one name that are looked at.
const MAX_ADDRESSES: usize = 64;

/// Looks names up.
pub trait Resolver: Send + Sync + 'static {
    /// All addresses of a name.
    fn lookup<'a>(&'a self, name: &'a str) -> BoxFuture<'a, std::io::Result<Vec<IpAddr>>>;
}

/// The system's resolver.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn lookup<'a>(&'a self, name: &'a str) -> BoxFuture<'a, std::io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// Why there is no answer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WebError {
    /// The guard refused a hop.
    #[error("refused: {0}")]
    Refused(#[from] Refusal),
    /// The guard refused where a redirect led to.
    #[error("refused after a redirect: {0}")]
    RedirectRefused(Refusal),
    /// The name has no address.
    #[error("host `{0}` can't be resolved: {1}")]
    NoAddress(String, String),
    /// Too many redirects.
    #[error("more than {MAX_REDIRECTS} redirects; the last led to {0}")]
    TooManyRedirects(String),
    /// It took too long.
    #[error("no complete answer within {} s", .0.as_secs_f32())]
    TimedOut(Duration),
    /// The connection failed. Holds no address (A098).
    #[error("the request failed: {0}")]
    Failed(String),
}

/// A request.
#[derive(Clone, Debug)]
pub struct WebRequest {
    /// The method. Redirects of `GET` and `HEAD` alone are followed: what writes goes where it was judged
    /// and approved to go.
    pub method: Method,
    /// The address.
    pub url: String,
    /// Headers, for the first address's origin alone.
    pub headers: HeaderMap,
    /// The body.
    pub body: Option<Vec<u8>>,
    /// Most bytes of the answer's body.
    pub limit: usize,
    /// Longest time for all hops and the body.
    pub time: Duration,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct WebAnswer {
    /// The address that answered.
    pub url: Url,
    /// The status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body, up to the limit.
    pub body: Vec<u8>,
    /// There was more.
    pub cut: bool,
}

/// See the module's documentation.
#[derive(Clone)]
pub struct WebClient {
    resolver: Arc<dyn Resolver>,
    /// Where this service listens.
    own: Option<SocketAddr>,
}

impl WebClient {
    /// A client that never calls `own`, the service's own gateway.
    pub fn new(resolver: Arc<dyn Resolver>, own: Option<SocketAddr>) -> Self {
        Self { resolver, own }
    }

    /// Sends a request by these rules.
    pub async fn send(
        &self,
        rules: &NetworkRules,
        request: WebRequest,
    ) -> Result<WebAnswer, WebError> {
        let time = request.time;
        match timeout_at(Instant::now() + time, self.follow(rules, request)).await {
            Ok(answer) => answer,
            Err(_elapsed) => Err(WebError::TimedOut(time)),
        }
    }

    async fn follow(
        &self,
        rules: &NetworkRules,
        mut request: WebRequest,
    ) -> Result<WebAnswer, WebError> {
        let mut to = rules.judge(&request.url)?;
        let follows = matches!(request.method, Method::GET | Method::HEAD);
        for hop in 0..=MAX_REDIRECTS {
            let answer = match self.hop(rules, &to, &request).await {
                Err(WebError::Refused(refusal)) if hop > 0 => {
                    return Err(WebError::RedirectRefused(refusal));
                }
                answer => answer?,
            };
            let next = if follows { redirect(&to.url, &answer) } else { None };
            let Some(next) = next else {
                return read(to.url, answer, request.limit).await;
            };
            if next.origin() != to.url.origin() {
                // What was meant for one server is not told to the next.
                request.headers.clear();
            }
            to = rules.judge_url(next).map_err(WebError::RedirectRefused)?;
        }
        Err(WebError::TooManyRedirects(to.host.to_string()))
    }

    async fn hop(
        &self,
        rules: &NetworkRules,
        to: &Destination,
        request: &WebRequest,
    ) -> Result<Response, WebError> {
        let mut addresses = self.addresses(rules, to).await?;
        let mut builder = outbound::client().no_proxy().referer(false).pool_max_idle_per_host(0);
        if let Host::Name(_) = &to.host {
            // As the address spells it: a final dot makes another key.
            let name = to.url.host_str().unwrap_or_default();
            outbound::arranged(name, &mut addresses);
            builder = builder.resolve_to_addrs(name, &addresses);
        }
        let client = builder.build().map_err(|error| failed(&error))?;
        let mut outgoing =
            client.request(request.method.clone(), to.url.clone()).headers(request.headers.clone());
        if let Some(body) = &request.body {
            outgoing = outgoing.body(body.clone());
        }
        let answer = outgoing.send().await.map_err(|error| failed(&error))?;
        outbound::heard(&answer);
        Ok(answer)
    }

    /// The addresses of a hop, looked up once, each of them judged.
    async fn addresses(
        &self,
        rules: &NetworkRules,
        to: &Destination,
    ) -> Result<Vec<SocketAddr>, WebError> {
        let found = match &to.host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => {
                let wrong = |why: String| WebError::NoAddress(name.clone(), why);
                let found = self.resolver.lookup(name).await;
                let found = found.map_err(|error| wrong(error.to_string()))?;
                if found.is_empty() {
                    return Err(wrong("it has no address".to_owned()));
                }
                found
            }
        };
        let mut addresses = Vec::new();
        for address in found.into_iter().take(MAX_ADDRESSES) {
            // One bad answer spoils the name: which of them is used is not ours to say.
            rules.judge_address(to, address)?;
            let address = SocketAddr::new(address, to.port);
            if self.own.is_some_and(|own| reaches_own(own, address)) {
                return Err(Refusal::OwnGateway(address).into());
            }
            addresses.push(address);
        }
        Ok(addresses)
    }
}

/// Where an answer sends the client on to.
fn redirect(from: &Url, answer: &Response) -> Option<Url> {
    if !matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    from.join(answer.headers().get(LOCATION)?.to_str().ok()?).ok()
}

async fn read(url: Url, answer: Response, limit: usize) -> Result<WebAnswer, WebError> {
    let (status, headers) = (answer.status(), answer.headers().clone());
    let announced: usize = headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse().ok())
        .unwrap_or_default();
    let mut body = Vec::with_capacity(announced.min(limit));
    let mut chunks = answer.bytes_stream();
    let mut cut = false;
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| failed(&error))?;
        let room = limit - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            cut = true;
            break;
        }
    }
    Ok(WebAnswer { url, status, headers, body, cut })
}

/// What went wrong, without the address: it may hold a token (A098).
fn failed(error: &reqwest::Error) -> WebError {
    let what = if error.is_timeout() {
        "it timed out"
    } else if error.is_connect() {
        "no connection could be made"
    } else if error.is_body() || error.is_decode() {
        "the answer broke off"
    } else if error.is_builder() {
        "it could not be built"
    } else {
        "the connection broke before the answer"
    };
    let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(error);
    while let Some(deeper) = cause.and_then(std::error::Error::source) {
        cause = Some(deeper);
    }
    // The innermost cause is the system's or the protocol's, and knows no address.
    let cause = cause.map(|cause| format!(" ({cause})")).unwrap_or_default();
    WebError::Failed(format!("{what}{cause}"))
}
