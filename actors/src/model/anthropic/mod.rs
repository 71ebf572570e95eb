//! Anthropic's Messages, streamed as server-sent events.

mod check;
mod events;
mod request;

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, InvalidHeaderValue};
use rookery_messages::chat::Origin;
use rookery_messages::settings::{ProviderSettings, ReasoningEffort, Secret};

use self::events::EventReader;
use super::error::Upstream;
use super::http::{Ask, Dialect, HttpProvider, Unsendable, endpoint_in};

const DEFAULT_BASE_URL: &str = "https://api.anthropic.com/v1";
/// The version of the API (its page "Versions").
const API_VERSION: &str = "2023-06-01";

/// A profile of kind `anthropic`.
pub(super) type AnthropicProvider = HttpProvider<Anthropic>;

/// The wire protocol.
pub(super) struct Anthropic {
    effort: Option<ReasoningEffort>,
    max_output_tokens: Option<u64>,
}

impl Dialect for Anthropic {
    const KIND: &'static str = "anthropic";
    type Reader = EventReader;

    fn new(settings: &ProviderSettings) -> Self {
        Self { effort: settings.reasoning_effort, max_output_tokens: settings.max_output_tokens }
    }

    fn endpoint(base: Option<&str>, _model: &str) -> Option<Url> {
        endpoint_in(base.unwrap_or(DEFAULT_BASE_URL), "v1", &["messages"])
    }

    fn sign(key: Option<&Secret>, headers: &mut HeaderMap) -> Result<(), InvalidHeaderValue> {
        let version = HeaderName::from_static("anthropic-version");
        headers.insert(version, HeaderValue::from_static(API_VERSION));
        if let Some(key) = key {
            let mut value = HeaderValue::from_str(key.expose())?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_static("x-api-key"), value);
        }
        Ok(())
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
