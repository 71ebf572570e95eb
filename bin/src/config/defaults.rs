//! What holds where nothing is configured (DESIGN.md, section 7).

use std::path::Path;

use rookery_messages::settings::{
    AgentSettings, ProviderKind, ProviderSettings, Secret, Settings, WebhookSettings,
};

use super::environment::Environment;

/// The agent that is there when none is configured, and that owns what nobody else does.
const HOME: &str = "home";
/// The webhook that is there when none is configured.
const WEBHOOK: &str = "ci";
/// The model of the provider made from `OPENAI_API_KEY` when `ROOKERY_MODEL` is not set.
const OPENAI_MODEL: &str = "gpt-4.1-mini";
/// The same for the one made from `ANTHROPIC_API_KEY`.
const ANTHROPIC_MODEL: &str = "claude-sonnet-4-5";

/// Fills in what is absent. Nothing configured is changed.
pub(super) fn fill(settings: &mut Settings, environment: &Environment) {
    settings.store.path.get_or_insert_with(|| settings.data_dir.join("rookery.db"));
    settings.memory.path.get_or_insert_with(|| settings.data_dir.join("memory.db"));
    settings.risk_profiles.entry("default".to_owned()).or_default();
    settings.runtime_profiles.entry("default".to_owned()).or_default();
    fill_providers(settings, environment);
    fill_agents(settings);
    fill_channels(settings);
}

fn fill_providers(settings: &mut Settings, environment: &Environment) {
    if settings.providers.is_empty() {
        if let Some(key) = environment.get("OPENAI_API_KEY") {
            let mut openai = ProviderSettings::new(
                ProviderKind::Openai,
                environment.get("ROOKERY_MODEL").unwrap_or(OPENAI_MODEL),
            );
            openai.base_url = environment.get("OPENAI_BASE_URL").map(str::to_owned);
            openai.api_key = Some(Secret::new(key));
            settings.providers.insert("openai".to_owned(), openai);
        } else if let Some(key) = environment.get("ANTHROPIC_API_KEY") {
            let mut anthropic = ProviderSettings::new(
                ProviderKind::Anthropic,
                environment.get("ROOKERY_MODEL").unwrap_or(ANTHROPIC_MODEL),
            );
            anthropic.base_url = environment.get("ANTHROPIC_BASE_URL").map(str::to_owned);
            anthropic.api_key = Some(Secret::new(key));
            settings.providers.insert("anthropic".to_owned(), anthropic);
        } else {
            let demo = ProviderSettings::new(ProviderKind::Demo, "demo");
            settings.providers.insert("demo".to_owned(), demo);
        }
    }
    // The demo needs no settings: naming it is enough.
    let named = settings.agents.values().any(|agent| agent.provider == "demo")
        || settings.providers.values().any(|one| one.fallback.iter().any(|name| name == "demo"));
    if named {
        settings
            .providers
            .entry("demo".to_owned())
            .or_insert_with(|| ProviderSettings::new(ProviderKind::Demo, "demo"));
    }
    for one in settings.providers.values_mut() {
        if one.kind == ProviderKind::Demo && one.model.is_empty() {
            one.model = "demo".to_owned();
        }
    }
}

fn fill_agents(settings: &mut Settings) {
    let preferred =
        ["main", "openai", "anthropic"].iter().find(|name| settings.providers.contains_key(**name));
    let provider = preferred
        .map(|name| (*name).to_owned())
        .or_else(|| settings.providers.keys().next().cloned())
        .unwrap_or_default();
    for agent in settings.agents.values_mut().filter(|agent| agent.provider.is_empty()) {
        agent.provider.clone_from(&provider);
    }
    if settings.agents.is_empty() {
        settings.agents.insert(
            HOME.to_owned(),
            AgentSettings {
                provider,
                models: Vec::new(),
                vision_provider: None,
                risk_profile: "default".to_owned(),
                runtime_profile: "default".to_owned(),
                workspace: None,
                channels: Vec::new(),
                system_prompt: None,
                hooks: Vec::new(),
                approval_route: None,
                approval_route_inherit: false,
                mcp_bundles: Vec::new(),
                tool_filter_groups: Vec::new(),
                tool_receipts: Default::default(),
                uses_memory: true,
            },
        );
    }
    for (name, agent) in &mut settings.agents {
        agent.workspace.get_or_insert_with(|| Path::new("work").join(name));
    }
}

/// `cli` and `ws` always have an owner. An agent that lists no channels gets the webhooks and bots nobody lists,
/// if it is `home` or the first; whoever lists channels gets just those.
fn fill_channels(settings: &mut Settings) {
    let owner = if settings.agents.contains_key(HOME) {
        HOME.to_owned()
    } else {
        settings.agents.keys().next().cloned().unwrap_or_default()
    };
    let listed = |settings: &Settings, channel: &str| {
        settings.agents.values().any(|agent| agent.channels.iter().any(|name| name == channel))
    };
    let takes_all = settings.agents.get(&owner).is_some_and(|agent| agent.channels.is_empty());
    let usual = format!("webhook.{WEBHOOK}");
    if settings.channels.webhook.is_empty() && (takes_all || listed(settings, &usual)) {
        settings.channels.webhook.insert(WEBHOOK.to_owned(), WebhookSettings::default());
    }
    let mut unowned: Vec<String> = vec!["cli".to_owned(), "ws".to_owned()];
    if takes_all {
        unowned.extend(settings.channels.webhook.keys().map(|alias| format!("webhook.{alias}")));
        unowned.extend(settings.channels.telegram.keys().map(|alias| format!("telegram.{alias}")));
    }
    unowned.retain(|channel| !listed(settings, channel));
    if let Some(agent) = settings.agents.get_mut(&owner) {
        agent.channels.extend(unowned);
    }
}
