//! Google's Gemini, `streamGenerateContent` as server-sent events.

mod check;
mod events;
mod request;
mod schema;

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, InvalidHeaderValue};
use rookery_messages::chat::Origin;
use rookery_messages::settings::{ProviderSettings, ReasoningEffort, Secret};
use serde_json::Value;

use self::events::ChunkReader;
use super::error::Upstream;
use super::http::{Ask, Dialect, HttpProvider, Unsendable, endpoint_in};
use super::schema::Lowered;

pub(super) const DEFAULT_BASE_URL: &str = "https://generativelanguage.googleapis.com/v1beta";

/// A profile of kind `gemini`.
pub(super) type GeminiProvider = HttpProvider<Gemini>;

/// The wire protocol.
pub(super) struct Gemini {
    effort: Option<ReasoningEffort>,
    max_output_tokens: Option<u64>,
}

impl Dialect for Gemini {
    const KIND: &'static str = "gemini";
    type Reader = ChunkReader;

    fn new(settings: &ProviderSettings) -> Self {
        Self { effort: settings.reasoning_effort, max_output_tokens: settings.max_output_tokens }
    }

    fn endpoint(base: Option<&str>, model: &str) -> Option<Url> {
        let model = model.strip_prefix("models/").unwrap_or(model);
        let call = format!("{model}:streamGenerateContent");
        let base = base.unwrap_or(DEFAULT_BASE_URL);
        let mut url = endpoint_in(base, "v1beta", &["models", &call])?;
        url.query_pairs_mut().append_pair("alt", "sse");
        Some(url)
    }

    fn sign(key: Option<&Secret>, headers: &mut HeaderMap) -> Result<(), InvalidHeaderValue> {
        if let Some(key) = key {
            let mut value = HeaderValue::from_str(key.expose())?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_static("x-goog-api-key"), value);
        }
        Ok(())
    }

    fn lower(schema: &Value) -> Lowered {
        schema::lower(schema)
    }

    fn body(&self, ask: &Ask<'_>) -> Result<Vec<u8>, Unsendable> {
        let body = request::body(self, ask);
        check::check(&body).map_err(Unsendable::Malformed)?;
        Ok(serde_json::to_vec(&body)?)
    }

    fn reader(&self, upstream: Upstream, origin: &Origin) -> ChunkReader {
        ChunkReader::new(upstream, origin.clone())
    }
}
