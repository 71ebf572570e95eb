//! Hooks from the configuration.

use std::sync::Arc;

use rookery_actors::hook::ExternalHook;
use rookery_actors::policy::redact::Redactor;
use rookery_messages::hook::Hook;
use rookery_messages::settings::{AgentSettings, Settings};

/// An agent's hooks, in the order its settings name them.
pub(super) fn of_agent(
    settings: &Settings,
    agent: &AgentSettings,
    redactor: &Arc<Redactor>,
) -> Result<Vec<Arc<dyn Hook>>, String> {
    let named = agent.hooks.iter().filter_map(|name| Some((name, settings.hooks.get(name)?)));
    let hooks = named.map(|(name, hook)| {
        let hook = ExternalHook::new(name, hook, Arc::clone(redactor))?;
        Ok(Arc::new(hook) as Arc<dyn Hook>)
    });
    hooks.collect()
}
