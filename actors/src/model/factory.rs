//! From a profile's settings to its provider.

use std::sync::Arc;

use rookery_messages::model::{ModelError, ModelProvider};
use rookery_messages::settings::{ProviderKind, ProviderSettings};

use super::anthropic::AnthropicProvider;
use super::demo::{DEFAULT_PAUSE, DemoProvider};
use super::gemini::GeminiProvider;
use super::ollama::OllamaProvider;
use super::openai::OpenAiProvider;
use super::responses::ResponsesProvider;
use crate::policy::redact::Redactor;

/// The provider of the profile `name`, or what is wrong with its settings. Its errors show no secret.
pub fn build_provider(
    name: &str,
    settings: &ProviderSettings,
    secrets: &Arc<Redactor>,
) -> Result<Arc<dyn ModelProvider>, ModelError> {
    Ok(match settings.kind {
        ProviderKind::Openai => Arc::new(OpenAiProvider::new(name, settings)?.hiding(secrets)),
        ProviderKind::OpenaiResponses => {
            Arc::new(ResponsesProvider::new(name, settings)?.hiding(secrets))
        }
        ProviderKind::Anthropic => {
            Arc::new(AnthropicProvider::new(name, settings)?.hiding(secrets))
        }
        ProviderKind::Gemini => Arc::new(GeminiProvider::new(name, settings)?.hiding(secrets)),
        ProviderKind::Ollama => Arc::new(OllamaProvider::new(name, settings)?.hiding(secrets)),
        ProviderKind::Demo => Arc::new(DemoProvider::new(DEFAULT_PAUSE)),
    })
}
