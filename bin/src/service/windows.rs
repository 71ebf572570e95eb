//! The windows local models are loaded with.

use rookery_messages::settings::{ProviderSettings, RuntimeProfile, Settings};

use super::plan::chosen;

/// A local model is loaded with the window its conversations are kept in: left alone, Ollama takes a small
/// one, and cuts off without a word what is beyond it.
pub(super) fn sized(
    settings: &Settings,
    name: &str,
    profile: &ProviderSettings,
) -> ProviderSettings {
    let usual = RuntimeProfile::default().max_context_tokens;
    let windows = settings.agents.values().filter_map(|agent| {
        let uses = chosen(settings, agent).contains(&name);
        let runtime = settings.runtime_profiles.get(&agent.runtime_profile).filter(|_| uses)?;
        // What nobody wrote down is no wish for that much memory.
        Some(runtime.max_context_tokens).filter(|tokens| ![0, usual].contains(tokens))
    });
    ProviderSettings { num_ctx: profile.num_ctx.or(windows.max()), ..profile.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(text: &str, name: &str) -> Option<u64> {
        let text = format!(
            "{text}\n[providers.local]\nkind = 'ollama'\nmodel = 'm'\n[providers.spare]\nkind = 'ollama'\n\
             model = 'm'\nnum_ctx = 2048\n"
        );
        let settings: Settings = toml::from_str(&text).unwrap();
        sized(&settings, name, &settings.providers[name]).num_ctx
    }

    #[test]
    fn a_local_model_has_the_largest_window_that_is_set_for_those_who_use_it() {
        let agents = "[runtime_profiles.small]\nmax_context_tokens = 8000\n\
             [runtime_profiles.large]\nmax_context_tokens = 32000\n\
             [runtime_profiles.usual]\n[runtime_profiles.open]\nmax_context_tokens = 0\n\
             [agents.a]\nprovider = 'local'\nruntime_profile = 'small'\n\
             [agents.b]\nprovider = 'local'\nruntime_profile = 'large'\n";
        assert_eq!(window(agents, "local"), Some(32_000));
        assert_eq!(window(agents, "spare"), Some(2_048), "its own stands");
        for profile in ["usual", "open"] {
            let one = format!(
                "[runtime_profiles.usual]\n[runtime_profiles.open]\nmax_context_tokens = 0\n\
                 [agents.a]\nprovider = 'local'\nruntime_profile = '{profile}'\n"
            );
            assert_eq!(window(&one, "local"), None, "{profile}");
        }
    }
}
