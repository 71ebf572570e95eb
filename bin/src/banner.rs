//! What is said before anything is sent: what runs, with which model, where.

use std::path::Path;

use rookery_messages::settings::{ProviderKind, Settings};

use crate::config::{Loaded, redact_url};
use crate::endpoint::TOKEN_FILE;
use crate::logging::Destination;
use crate::render::{lists, strict};

/// The banner. Holds no secret.
pub fn banner(loaded: &Loaded, logs: &Destination) -> String {
    let settings = &loaded.settings;
    let config = loaded.file.as_deref().map_or_else(
        || "defaults (no rookery.toml)".to_owned(),
        |file| strict(&file.display().to_string()),
    );
    let mut facts = vec![("config", config)];
    for (name, agent) in &settings.agents {
        facts.push((
            "agent",
            format!(
                "{name}: {}; risk profile {}; channels {}",
                provider(settings, &agent.provider),
                agent.risk_profile,
                agent.channels.join(", "),
            ),
        ));
    }
    facts.push(("gateway", format!("http://{}", settings.gateway.listen)));
    facts.push(("token", token(settings)));
    facts.push((
        "logs",
        match logs {
            Destination::Stderr => "standard error".to_owned(),
            Destination::File(path) => shown(path),
        },
    ));
    format!("rookery {}\n{}", env!("CARGO_PKG_VERSION"), lists::facts(&facts))
}

fn provider(settings: &Settings, name: &str) -> String {
    let Some(provider) = settings.providers.get(name) else { return name.to_owned() };
    match provider.kind {
        ProviderKind::Demo => format!("provider {name} (built in, offline)"),
        ProviderKind::Openai
        | ProviderKind::OpenaiResponses
        | ProviderKind::Anthropic
        | ProviderKind::Gemini
        | ProviderKind::Ollama => {
            let base = provider.base_url.as_deref().map(redact_url);
            let place = base.map(|base| format!(" at {}", strict(&base))).unwrap_or_default();
            format!("provider {name}, model {}{place}", strict(&provider.model))
        }
    }
}

fn token(settings: &Settings) -> String {
    if settings.gateway.tokens.is_empty() {
        shown(&settings.data_dir.join(TOKEN_FILE))
    } else {
        format!("{} configured in gateway.tokens", settings.gateway.tokens.len())
    }
}

fn shown(path: &Path) -> String {
    strict(&path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Environment, load_text};

    #[test]
    fn the_banner_names_provider_model_agent_channels_address_token_and_logs() {
        let loaded = load_text(None, "", &Environment::default()).unwrap();
        let logs = Destination::file_in(&loaded.settings.data_dir);
        assert_eq!(
            banner(&loaded, &logs),
            format!(
                "rookery {}\n\
                 config   defaults (no rookery.toml)\n\
                 agent    home: provider demo (built in, offline); risk profile default; channels cli, ws, webhook.ci\n\
                 gateway  http://127.0.0.1:7717\n\
                 token    data/admin.token\n\
                 logs     data/rookery.log\n",
                env!("CARGO_PKG_VERSION")
            )
        );
    }

    // I12
    #[test]
    fn the_banner_shows_the_model_and_no_key() {
        let environment = Environment::from([
            ("OPENAI_API_KEY", "sk-very-secret-key"),
            ("ROOKERY_MODEL", "m1"),
            ("OPENAI_BASE_URL", "http://user:hunter2@mock:1/v1"),
        ]);
        let loaded = load_text(None, "", &environment).unwrap();
        let text = banner(&loaded, &Destination::Stderr);
        assert!(text.contains("provider openai, model m1 at http://[secret]@mock:1/v1"), "{text}");
        assert!(!text.contains("sk-very") && !text.contains("hunter2"), "{text}");
    }
}
