//! OpenAI-compatible chat completions: one pooled client a profile, streams of server-sent events.

mod calls;
pub mod chunk;
mod offer;
mod request;
mod schema;
mod stream;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, InvalidHeaderValue,
};
use reqwest::{Client, Response, Url, redirect};
use rookery_messages::BoxFuture;
use rookery_messages::model::{
    ModelError, ModelErrorClass, ModelProvider, ModelRequest, ModelStream,
};
use rookery_messages::settings::{ProviderSettings, Secret};
use tokio::time::{Instant, timeout, timeout_at};

use super::error::Upstream;
use crate::policy::redact::Redactor;
use offer::{Offer, Offers, blamed};

const DEFAULT_BASE_URL: &str = "https://api.openai.com/v1";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// What is read of an error's body.
const MAX_ERROR_BODY: usize = 64 << 10;
/// How long an error's body may take.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Most tools that one request may turn out to be refused for.
const MOST_BLAMED: usize = 16;

/// A profile of kind `openai`.
pub struct OpenAiProvider {
    upstream: Upstream,
    model: String,
    client: Client,
    endpoint: Url,
    idle: Duration,
    offers: Offers,
}

impl fmt::Debug for OpenAiProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAiProvider")
            .field("model", &self.model)
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

impl OpenAiProvider {
    /// From a profile's settings; `name` stands in its errors. No key is fine: local servers need none.
    /// An idle timeout of 0 counts as 1 s: a stream must not be able to hang for ever.
    ///
    /// The process must have a default rustls crypto provider before this is called.
    pub fn new(name: &str, settings: &ProviderSettings) -> Result<Self, ModelError> {
        let key = settings
            .api_key
            .as_ref()
            .map(|key| key.expose().trim())
            .filter(|key| !key.is_empty())
            .map(Secret::new);
        let upstream = Upstream::new(name, key.clone());
        let invalid = |what: &str| upstream.error(ModelErrorClass::InvalidRequest, what);
        if settings.model.trim().is_empty() {
            return Err(invalid("has no model: set the profile's `model`"));
        }
        let base = settings.base_url.as_deref().unwrap_or(DEFAULT_BASE_URL);
        let endpoint = endpoint(base).ok_or_else(|| {
            invalid("has an unusable base_url: give an http or https URL, up to and including /v1")
        })?;
        let headers = headers(key.as_ref()).map_err(|_| {
            upstream.error(
                ModelErrorClass::Auth,
                "has an api_key with characters that no header can carry: check it for line breaks",
            )
        })?;
        let client = client(&headers, &endpoint)
            .map_err(|error| upstream.network("could not set up its HTTP client", error))?;
        let idle = Duration::from_secs(settings.idle_timeout_secs.max(1));
        let model = settings.model.trim().to_owned();
        Ok(Self { upstream, model, client, endpoint, idle, offers: Offers::default() })
    }

    /// Its errors hold none of these secrets either.
    pub fn hiding(self, secrets: &Arc<Redactor>) -> Self {
        Self { upstream: self.upstream.hiding(secrets), ..self }
    }

    /// Asks; without the tools that the API turns out to refuse, each of which is left out from then on:
    /// one bad schema must not cost every turn (A105).
    async fn open(&self, request: &ModelRequest) -> Result<ModelStream, ModelError> {
        for _ in 0..MOST_BLAMED {
            let offers = self.offers.of(&request.tools);
            match self.ask(request, &offers).await {
                Ok(stream) => return Ok(stream),
                Err(Refusal { error, body }) => {
                    let Some(bad) = body.as_deref().and_then(|body| blamed(body, &offers)) else {
                        return Err(error);
                    };
                    tracing::error!(
                        tool = bad.spec.name,
                        %error,
                        "the provider refuses this tool; it is not offered there any more, until its schema changes"
                    );
                    self.offers.refuse(&bad.spec);
                }
            }
        }
        let offers = self.offers.of(&request.tools);
        self.ask(request, &offers).await.map_err(|refusal| refusal.error)
    }

    async fn ask(&self, request: &ModelRequest, offers: &[Offer]) -> Result<ModelStream, Refusal> {
        let body = request::body(&self.model, request, offers).map_err(|error| {
            let what = format!("could not be asked: the request has no JSON form ({error})");
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
        Ok(stream::run(bytes, self.upstream.clone(), declared_sse, self.idle))
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

impl ModelProvider for OpenAiProvider {
    fn kind(&self) -> &str {
        "openai"
    }

    fn model(&self) -> &str {
        &self.model
    }

    fn quarantined(&self) -> Vec<String> {
        self.offers.refused()
    }

    fn stream(&self, request: ModelRequest) -> BoxFuture<'_, Result<ModelStream, ModelError>> {
        Box::pin(async move { self.open(&request).await })
    }
}

/// The address of the API's only call, with a query of the base kept (some gateways need one).
fn endpoint(base: &str) -> Option<Url> {
    let mut url = Url::parse(base.trim()).ok()?;
    if !matches!(url.scheme(), "http" | "https") {
        return None;
    }
    if !url.path().trim_end_matches('/').ends_with("/chat/completions") {
        url.path_segments_mut().ok()?.pop_if_empty().extend(["chat", "completions"]);
    }
    Some(url)
}

fn headers(key: Option<&Secret>) -> Result<HeaderMap, InvalidHeaderValue> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    if let Some(key) = key {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", key.expose()))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}

/// No total timeout: an active generation is never cut (V-L21). No redirects: the key goes where the
/// configuration says and nowhere else.
fn client(headers: &HeaderMap, endpoint: &Url) -> reqwest::Result<Client> {
    let builder = || {
        Client::builder()
            .user_agent(concat!("rookery/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers.clone())
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(redirect::Policy::none())
    };
    match builder().build() {
        // A machine without root certificates can still use a server that speaks plain HTTP.
        Err(_) if endpoint.scheme() == "http" => builder().tls_certs_only([]).build(),
        built => built,
    }
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod http_tests;
