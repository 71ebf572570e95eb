//! Embeddings of a provider profile: texts in, vectors out, by the wire of its kind.
//!
//! Facts: OpenAI "Create embeddings", Gemini "batchEmbedContents", Ollama "Generate embeddings".

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, InvalidHeaderValue};
use reqwest::{Client, Response, Url};
use rookery_messages::BoxFuture;
use rookery_messages::model::{ModelError, ModelErrorClass};
use rookery_messages::settings::{EmbeddingSettings, ProviderKind, ProviderSettings, Secret};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::error::Upstream;
use super::gemini::Gemini;
use super::http::{Dialect, client, endpoint_in};
use super::{gemini, ollama, openai};
use crate::memory::Embedder;
use crate::outbound;
use crate::policy::redact::Redactor;

/// What is read of an answer: a batch of the largest vectors there are, written as JSON, is below it.
const MAX_ANSWER: usize = 16 << 20;

/// How a kind is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wire {
    OpenAi,
    Gemini,
    Ollama,
}

/// The embedding model of one provider profile.
pub struct EmbeddingClient {
    wire: Wire,
    profile: String,
    model: String,
    dimensions: Option<u32>,
    upstream: Upstream,
    client: Client,
    endpoint: Url,
}

/// Whether providers of this kind have embeddings here.
pub fn has_embeddings(kind: ProviderKind) -> bool {
    wire(kind).is_some()
}

fn wire(kind: ProviderKind) -> Option<Wire> {
    match kind {
        ProviderKind::Openai | ProviderKind::OpenaiResponses => Some(Wire::OpenAi),
        ProviderKind::Gemini => Some(Wire::Gemini),
        ProviderKind::Ollama => Some(Wire::Ollama),
        ProviderKind::Anthropic | ProviderKind::Demo => None,
    }
}

impl EmbeddingClient {
    /// Of the profile that the settings name. Its errors show none of `secrets`.
    pub fn new(
        settings: &EmbeddingSettings,
        profile: &ProviderSettings,
        secrets: &Arc<Redactor>,
    ) -> Result<Self, ModelError> {
        let key = profile
            .api_key
            .as_ref()
            .map(|key| key.expose().trim())
            .filter(|key| !key.is_empty())
            .map(Secret::new);
        let upstream = Upstream::new(&settings.provider, key.clone()).hiding(secrets);
        let invalid = |what: &str| upstream.error(ModelErrorClass::InvalidRequest, what);
        let wire = wire(profile.kind).ok_or_else(|| {
            invalid(
                "has no embeddings: name a profile of another kind in memory.embeddings.provider",
            )
        })?;
        let model = settings.model.trim();
        let endpoint = endpoint(wire, profile.base_url.as_deref(), model)
            .ok_or_else(|| invalid("has an unusable base_url: give an http or https URL"))?;
        let headers = headers(wire, key.as_ref()).map_err(|_| {
            invalid(
                "has an api_key with characters that no header can carry: check it for line breaks",
            )
        })?;
        let client = client(&headers, &endpoint)
            .map_err(|error| upstream.network("could not set up its HTTP client", error))?;
        Ok(Self {
            wire,
            profile: settings.provider.clone(),
            model: model.to_owned(),
            dimensions: settings.dimensions,
            upstream,
            client,
            endpoint,
        })
    }

    fn body(&self, texts: &[String]) -> Value {
        let mut body = match self.wire {
            Wire::OpenAi => {
                json!({ "model": self.model, "input": texts, "encoding_format": "float" })
            }
            Wire::Ollama => json!({ "model": self.model, "input": texts, "truncate": true }),
            Wire::Gemini => {
                let model = format!("models/{}", bare(&self.model));
                let one = |text: &String| {
                    let mut one =
                        json!({ "model": model, "content": { "parts": [{ "text": text }] } });
                    if let Some(dimensions) = self.dimensions {
                        one["outputDimensionality"] = dimensions.into();
                    }
                    one
                };
                return json!({ "requests": texts.iter().map(one).collect::<Vec<_>>() });
            }
        };
        if let Some(dimensions) = self.dimensions {
            body["dimensions"] = dimensions.into();
        }
        body
    }

    async fn ask(&self, texts: &[String], until: Instant) -> Result<Vec<Vec<f32>>, ModelError> {
        let call = self.client.post(self.endpoint.clone()).json(&self.body(texts)).send();
        let late =
            || self.upstream.error(ModelErrorClass::IdleTimeout, "gave no embeddings in time");
        let answer = timeout_at(until, call).await.map_err(|_| late())?;
        let mut answer = answer
            .map_err(|error| self.upstream.network("could not be asked for embeddings", error))?;
        outbound::heard(&answer);
        let body = timeout_at(until, whole(&mut answer)).await.map_err(|_| late())?;
        let body = body
            .map_err(|error| self.upstream.network("broke its embeddings off", error))?
            .ok_or_else(|| {
                self.upstream.error(ModelErrorClass::Protocol, "gave embeddings without an end")
            })?;
        if answer.status().is_redirection() {
            let what = "answered with a redirection, which is not followed: set base_url to the final address";
            return Err(self.upstream.error(ModelErrorClass::InvalidRequest, what));
        }
        if !answer.status().is_success() {
            let body = String::from_utf8_lossy(&body);
            return Err(self.upstream.status(answer.status().as_u16(), answer.headers(), &body));
        }
        vectors(self.wire, &body).map_err(|why| {
            let what = format!("gave embeddings that can't be read: {why}");
            self.upstream.error(ModelErrorClass::Protocol, &what)
        })
    }
}

impl Embedder for EmbeddingClient {
    fn profile(&self) -> &str {
        &self.profile
    }

    fn model(&self) -> &str {
        &self.model
    }

    fn dimensions(&self) -> Option<usize> {
        self.dimensions.and_then(|numbers| usize::try_from(numbers).ok())
    }

    fn embed<'a>(
        &'a self,
        texts: &'a [String],
        limit: Duration,
    ) -> BoxFuture<'a, Result<Vec<Vec<f32>>, ModelError>> {
        Box::pin(self.ask(texts, Instant::now() + limit))
    }
}

fn bare(model: &str) -> &str {
    model.strip_prefix("models/").unwrap_or(model)
}

fn endpoint(wire: Wire, base: Option<&str>, model: &str) -> Option<Url> {
    match wire {
        Wire::OpenAi => endpoint_in(base.unwrap_or(openai::DEFAULT_BASE_URL), "", &["embeddings"]),
        Wire::Gemini => {
            let call = format!("{}:batchEmbedContents", bare(model));
            let base = base.unwrap_or(gemini::DEFAULT_BASE_URL);
            endpoint_in(base, "v1beta", &["models", &call])
        }
        Wire::Ollama => endpoint_in(ollama::host(base), "", &["api", "embed"]),
    }
}

fn headers(wire: Wire, key: Option<&Secret>) -> Result<HeaderMap, InvalidHeaderValue> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    match wire {
        Wire::Gemini => Gemini::sign(key, &mut headers)?,
        Wire::OpenAi | Wire::Ollama => openai::OpenAi::sign(key, &mut headers)?,
    }
    Ok(headers)
}

/// The answer's body; none if it is too long.
async fn whole(answer: &mut Response) -> reqwest::Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        if body.len() + chunk.len() > MAX_ANSWER {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}

#[derive(Deserialize)]
struct OpenAiAnswer {
    data: Vec<OpenAiVector>,
}

#[derive(Deserialize)]
struct OpenAiVector {
    #[serde(default)]
    index: Option<usize>,
    embedding: Vec<f32>,
}

#[derive(Deserialize)]
struct GeminiAnswer {
    embeddings: Vec<GeminiVector>,
}

#[derive(Deserialize)]
struct GeminiVector {
    values: Vec<f32>,
}

#[derive(Deserialize)]
struct OllamaAnswer {
    embeddings: Vec<Vec<f32>>,
}

fn vectors(wire: Wire, body: &[u8]) -> serde_json::Result<Vec<Vec<f32>>> {
    Ok(match wire {
        Wire::OpenAi => {
            let mut data = serde_json::from_slice::<OpenAiAnswer>(body)?.data;
            // Without numbers they stand in order.
            data.sort_by_key(|one| one.index);
            data.into_iter().map(|one| one.embedding).collect()
        }
        Wire::Gemini => {
            let answer: GeminiAnswer = serde_json::from_slice(body)?;
            answer.embeddings.into_iter().map(|one| one.values).collect()
        }
        Wire::Ollama => serde_json::from_slice::<OllamaAnswer>(body)?.embeddings,
    })
}

#[cfg(test)]
mod tests;
