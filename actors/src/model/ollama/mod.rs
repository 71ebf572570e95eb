//! Ollama's own chat, streamed as one JSON document a line.

mod lines;
mod request;

use reqwest::Url;
use rookery_messages::chat::Origin;
use rookery_messages::settings::{ProviderSettings, ReasoningEffort};

use self::lines::LineReader;
use super::error::Upstream;
use super::http::{Ask, Dialect, HttpProvider, Unsendable, endpoint_in};

const DEFAULT_BASE_URL: &str = "http://127.0.0.1:11434";

/// A profile of kind `ollama`.
pub(super) type OllamaProvider = HttpProvider<Ollama>;

/// The wire protocol.
pub(super) struct Ollama {
    effort: Option<ReasoningEffort>,
    max_output_tokens: Option<u64>,
    num_ctx: Option<u64>,
}

/// The address below which its calls are; given with or without its `/api`.
pub(super) fn host(base: Option<&str>) -> &str {
    let base = base.unwrap_or(DEFAULT_BASE_URL).trim().trim_end_matches('/');
    base.strip_suffix("/api").unwrap_or(base)
}

impl Dialect for Ollama {
    const KIND: &'static str = "ollama";
    type Reader = LineReader;

    fn new(settings: &ProviderSettings) -> Self {
        Self {
            effort: settings.reasoning_effort,
            max_output_tokens: settings.max_output_tokens,
            num_ctx: settings.num_ctx,
        }
    }

    fn endpoint(base: Option<&str>, _model: &str) -> Option<Url> {
        endpoint_in(host(base), "", &["api", "chat"])
    }

    fn body(&self, ask: &Ask<'_>) -> Result<Vec<u8>, Unsendable> {
        let body = request::body(self, ask);
        request::check(&body).map_err(Unsendable::Malformed)?;
        Ok(serde_json::to_vec(&body)?)
    }

    fn reader(&self, upstream: Upstream, _origin: &Origin) -> LineReader {
        LineReader::new(upstream)
    }
}
