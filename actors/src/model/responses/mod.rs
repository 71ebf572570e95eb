//! OpenAI's Responses, streamed as server-sent events. Nothing is stored at OpenAI: reasoning comes back
//! encrypted and goes along with the next request.

mod check;
mod events;
mod request;

use reqwest::Url;
use rookery_messages::chat::Origin;
use rookery_messages::settings::{ProviderSettings, ReasoningEffort};

use self::events::EventReader;
use super::error::Upstream;
use super::http::{Ask, Dialect, HttpProvider, Unsendable, endpoint_in};

const DEFAULT_BASE_URL: &str = "https://api.openai.com/v1";

/// A profile of kind `openai_responses`.
pub(super) type ResponsesProvider = HttpProvider<Responses>;

/// The wire protocol.
pub(super) struct Responses {
    effort: Option<ReasoningEffort>,
    max_output_tokens: Option<u64>,
}

impl Dialect for Responses {
    const KIND: &'static str = "openai_responses";
    type Reader = EventReader;

    fn new(settings: &ProviderSettings) -> Self {
        Self { effort: settings.reasoning_effort, max_output_tokens: settings.max_output_tokens }
    }

    fn endpoint(base: Option<&str>, _model: &str) -> Option<Url> {
        endpoint_in(base.unwrap_or(DEFAULT_BASE_URL), "v1", &["responses"])
    }

    fn body(&self, ask: &Ask<'_>) -> Result<Vec<u8>, Unsendable> {
        let body = request::body(self, ask);
        check::check(&body).map_err(Unsendable::Malformed)?;
        Ok(serde_json::to_vec(&body)?)
    }

    fn reader(&self, upstream: Upstream, origin: &Origin) -> EventReader {
        EventReader::new(upstream, origin.clone())
    }
}
