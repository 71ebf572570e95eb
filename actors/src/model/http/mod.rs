//! A provider behind HTTP: one pooled client a profile, one streaming call. What differs between the
//! wire protocols is a [`Dialect`]; opening a stream, its retries of form, and errors are the same for all.
//!
//! Proxies come from the environment (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`), HTTP/2 is
//! negotiated, and of a host's IPv6 and IPv4 addresses the one that answers is used ([`crate::outbound`]):
//! all three apply to every dialect, since there is no other client.

mod dialect;
mod ease;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use parking_lot::Mutex;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, InvalidHeaderValue};
use reqwest::{Client, Response, Url};
use rookery_messages::BoxFuture;
use rookery_messages::chat::Origin;
use rookery_messages::check_invariant;
use rookery_messages::model::{
    ModelError, ModelErrorClass, ModelProvider, ModelRequest, ModelStream,
};
use rookery_messages::settings::{ProviderSettings, Secret};
use tokio::time::{Instant, timeout, timeout_at};

pub(super) use self::dialect::{Ask, Dialect, Unsendable, endpoint_in};
pub(super) use self::ease::Ease;
use self::ease::Holds;
use super::error::Upstream;
use super::offer::{Offer, Offers, blamed};
use super::stream;
use super::stream::Framing;
use super::stream::reading::Reading as _;
use crate::outbound;
use crate::policy::redact::Redactor;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// What is read of an error's body.
const MAX_ERROR_BODY: usize = 64 << 10;
/// How long an error's body may take.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Most tools that one request may turn out to be refused for.
const MOST_BLAMED: usize = 16;

/// A profile whose provider speaks `D`.
pub(super) struct HttpProvider<D> {
    upstream: Upstream,
    origin: Origin,
    client: Client,
    endpoint: Url,
    idle: Duration,
    offers: Offers,
    /// What this provider turned out not to take.
    learned: Mutex<Ease>,
    dialect: D,
}

impl<D> fmt::Debug for HttpProvider<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpProvider")
            .field("origin", &self.origin)
            .field("endpoint", &self.endpoint.as_str())
            .finish_non_exhaustive()
    }
}

/// Why there is no stream.
struct Refusal {
    error: ModelError,
    /// The answer's text, if it was one of status 400.
    body: Option<String>,
}

impl From<ModelError> for Refusal {
    fn from(error: ModelError) -> Self {
        Self { error, body: None }
    }
}

impl<D: Dialect> HttpProvider<D> {
    /// From a profile's settings; `name` stands in its errors. No key is fine: local servers need none.
    /// An idle timeout of 0 counts as 1 s: a stream must not be able to hang for ever.
    ///
    /// The process must have a default rustls crypto provider before this is called.
    pub(super) fn new(name: &str, settings: &ProviderSettings) -> Result<Self, ModelError> {
        let key = settings
            .api_key
            .as_ref()
            .map(|key| key.expose().trim())
            .filter(|key| !key.is_empty())
            .map(Secret::new);
        let upstream = Upstream::new(name, key.clone());
        let invalid = |what: &str| upstream.error(ModelErrorClass::InvalidRequest, what);
        let model = settings.model.trim();
        if model.is_empty() {
            return Err(invalid("has no model: set the profile's `model`"));
        }
        let endpoint = D::endpoint(settings.base_url.as_deref(), model).ok_or_else(|| {
            invalid("has an unusable base_url: give an http or https URL, up to and including /v1")
        })?;
        let headers = headers::<D>(key.as_ref()).map_err(|_| {
            upstream.error(
                ModelErrorClass::Auth,
                "has an api_key with characters that no header can carry: check it for line breaks",
            )
        })?;
        let client = client(&headers, &endpoint)
            .map_err(|error| upstream.network("could not set up its HTTP client", error))?;
        Ok(Self {
            upstream,
            origin: Origin {
                profile: name.to_owned(),
                kind: D::KIND.to_owned(),
                model: model.to_owned(),
            },
            client,
            endpoint,
            idle: Duration::from_secs(settings.idle_timeout_secs.max(1)),
            offers: Offers::new(D::lower),
            learned: Mutex::default(),
            dialect: D::new(settings),
        })
    }

    /// Its errors hold none of these secrets either.
    pub(super) fn hiding(self, secrets: &Arc<Redactor>) -> Self {
        Self { upstream: self.upstream.hiding(secrets), ..self }
    }

    /// Asks. What the API turns out to refuse is left out, and it is asked again: a tool with a schema it
    /// does not take (A105), or a part of the request that this model does not know (see [`Ease`]).
    async fn open(&self, request: &ModelRequest) -> Result<ModelStream, ModelError> {
        let known = *self.learned.lock();
        let mut ease = known;
        let mut blame = 0;
        loop {
            let offers = self.offers.of(&request.tools);
            let refusal = match self.ask(request, &offers, &ease).await {
                Ok(stream) => {
                    if ease != known {
                        *self.learned.lock() = ease.lasting();
                    }
                    return Ok(stream);
                }
                Err(refusal) => refusal,
            };
            let Some(body) = refusal.body.as_deref() else { return Err(refusal.error) };
            let holds =
                Holds { opaque: self.sends_opaque(request), images: !request.images.is_empty() };
            if let Some(next) = ease.after(body, holds) {
                tracing::warn!(
                    profile = self.origin.profile,
                    error = %refusal.error,
                    "the request is sent again without what the provider refuses"
                );
                ease = next;
                continue;
            }
            let Some(bad) = blamed(body, &offers).filter(|_| blame < MOST_BLAMED) else {
                return Err(refusal.error);
            };
            blame += 1;
            tracing::error!(
                tool = bad.spec.name,
                error = %refusal.error,
                "the provider refuses this tool; it is not offered there any more, until its schema changes"
            );
            self.offers.refuse(&bad.spec);
        }
    }

    fn sends_opaque(&self, request: &ModelRequest) -> bool {
        use rookery_messages::chat::ChatMessage::Assistant;
        request.messages.iter().any(|message| match message {
            Assistant { opaque, .. } => opaque.iter().any(|block| block.origin == self.origin),
            _ => false,
        })
    }

    async fn ask(
        &self,
        request: &ModelRequest,
        offers: &[Offer],
        ease: &Ease,
    ) -> Result<ModelStream, Refusal> {
        let ask = Ask {
            origin: &self.origin,
            messages: &request.messages,
            images: &request.images,
            offers,
            ease,
        };
        let body = self.dialect.body(&ask).map_err(|fault| {
            let malformed = matches!(fault, Unsendable::Malformed(_));
            check_invariant!(I4, !malformed, "a request is malformed: {fault}");
            let what = format!("could not be asked: {fault}");
            self.upstream.error(ModelErrorClass::InvalidRequest, &what)
        })?;
        let call = self.client.post(self.endpoint.clone()).body(body).send();
        let response = match timeout(self.idle, call).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                let what = if error.is_connect() {
                    "could not be reached"
                } else {
                    "broke the connection before it answered"
                };
                return Err(self.upstream.network(what, error).into());
            }
            Err(_) => {
                let what = format!("did not answer for {} s", self.idle.as_secs());
                return Err(self.upstream.error(ModelErrorClass::IdleTimeout, &what).into());
            }
        };
        outbound::heard(&response);
        if !response.status().is_success() {
            return Err(self.refusal(response).await);
        }
        let declared_sse = response
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .is_some_and(|value| value.trim_start().starts_with("text/event-stream"));
        let upstream = self.upstream.clone();
        let bytes = response
            .bytes_stream()
            .map_err(move |error| upstream.network("broke its stream off", error));
        let reader = self.dialect.reader(self.upstream.clone(), &self.origin);
        Ok(stream::run(bytes, reader, self.upstream.clone(), declared_sse, self.idle))
    }

    /// The error in an answer that is not a success. Its body is bounded in size and time.
    async fn refusal(&self, mut response: Response) -> Refusal {
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let until = Instant::now() + ERROR_BODY_TIMEOUT.min(self.idle);
        let mut body = Vec::new();
        // A body that breaks or stalls leaves us the status and what came.
        while let Ok(Ok(Some(chunk))) = timeout_at(until, response.chunk()).await {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_ERROR_BODY {
                // Up to a border between words, so that no half of a secret stays behind.
                body.truncate(MAX_ERROR_BODY);
                let border = body.iter().rposition(u8::is_ascii_whitespace);
                body.truncate(border.unwrap_or(0));
                break;
            }
        }
        if response.status().is_redirection() {
            return self.upstream.error(
                ModelErrorClass::InvalidRequest,
                &format!("answered with a redirection (HTTP {status}), which is not followed: set base_url to the final address"),
            ).into();
        }
        let body = String::from_utf8_lossy(&body).into_owned();
        let error = self.upstream.status(status, &headers, &body);
        Refusal { error, body: (status == 400).then_some(body) }
    }
}

impl<D: Dialect> ModelProvider for HttpProvider<D> {
    fn kind(&self) -> &str {
        D::KIND
    }

    fn model(&self) -> &str {
        &self.origin.model
    }

    fn quarantined(&self) -> Vec<String> {
        self.offers.refused()
    }

    fn stream(&self, request: ModelRequest) -> BoxFuture<'_, Result<ModelStream, ModelError>> {
        Box::pin(async move { self.open(&request).await })
    }
}

fn headers<D: Dialect>(key: Option<&Secret>) -> Result<HeaderMap, InvalidHeaderValue> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(
        ACCEPT,
        HeaderValue::from_static(match D::Reader::FRAMING {
            Framing::Sse => "text/event-stream",
            Framing::Lines => "application/x-ndjson",
        }),
    );
    D::sign(key, &mut headers)?;
    Ok(headers)
}

/// No total timeout: an active generation is never cut (V-L21). No redirects: the key goes where the
/// configuration says and nowhere else.
pub(super) fn client(headers: &HeaderMap, endpoint: &Url) -> reqwest::Result<Client> {
    let builder =
        || outbound::client().default_headers(headers.clone()).connect_timeout(CONNECT_TIMEOUT);
    match builder().build() {
        // A machine without root certificates can still use a server that speaks plain HTTP.
        Err(_) if endpoint.scheme() == "http" => builder().tls_certs_only([]).build(),
        built => built,
    }
}

#[cfg(test)]
mod refusal_tests;
#[cfg(test)]
mod tests;
