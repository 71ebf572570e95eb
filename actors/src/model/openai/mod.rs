//! OpenAI-compatible chat completions, streamed as server-sent events.

mod calls;
pub(super) mod chunk;
mod content;
mod request;

use reqwest::Url;
use rookery_messages::chat::Origin;
use rookery_messages::settings::{CallIdForm, ProviderSettings, ReasoningEffort};

use self::chunk::ChunkParser;
pub(super) use self::request::wire_tool;
use super::error::Upstream;
use super::http::{Ask, Dialect, HttpProvider, Unsendable, endpoint_in};

pub(super) const DEFAULT_BASE_URL: &str = "https://api.openai.com/v1";

/// A profile of kind `openai`.
pub(super) type OpenAiProvider = HttpProvider<OpenAi>;

/// The wire protocol.
pub(super) struct OpenAi {
    effort: Option<ReasoningEffort>,
    max_output_tokens: Option<u64>,
    call_ids: CallIdForm,
    /// OpenAI's own address: it names the output cap differently from those who copied it.
    is_openai: bool,
}

impl Dialect for OpenAi {
    const KIND: &'static str = "openai";
    type Reader = ChunkParser;

    fn new(settings: &ProviderSettings) -> Self {
        let host = settings.base_url.as_deref().map(|base| Url::parse(base.trim()).ok());
        Self {
            effort: settings.reasoning_effort,
            max_output_tokens: settings.max_output_tokens,
            call_ids: settings.call_ids,
            is_openai: host.is_none_or(|url| {
                url.and_then(|url| url.host_str().map(|host| host.ends_with("openai.com")))
                    .unwrap_or(false)
            }),
        }
    }

    fn endpoint(base: Option<&str>, _model: &str) -> Option<Url> {
        endpoint_in(base.unwrap_or(DEFAULT_BASE_URL), "", &["chat", "completions"])
    }

    fn body(&self, ask: &Ask<'_>) -> Result<Vec<u8>, Unsendable> {
        request::body(self, ask)
    }

    fn reader(&self, upstream: Upstream, _origin: &Origin) -> ChunkParser {
        ChunkParser::new(upstream)
    }
}
