//! From a profile's settings to its provider.

use std::sync::Arc;

use rookery_messages::model::{ModelError, ModelProvider};
use rookery_messages::settings::{ProviderKind, ProviderSettings};

use super::demo::{DEFAULT_PAUSE, DemoProvider};
use super::openai::OpenAiProvider;
use crate::policy::redact::Redactor;

/// The provider of the profile `name`, or what is wrong with its settings. Its errors show no secret.
pub fn build_provider(
    name: &str,
    settings: &ProviderSettings,
    secrets: &Arc<Redactor>,
) -> Result<Arc<dyn ModelProvider>, ModelError> {
    Ok(match settings.kind {
        ProviderKind::Openai => Arc::new(OpenAiProvider::new(name, settings)?.hiding(secrets)),
        ProviderKind::Demo => Arc::new(DemoProvider::new(DEFAULT_PAUSE)),
    })
}
