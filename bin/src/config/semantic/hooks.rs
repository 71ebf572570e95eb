//! Hooks: each is complete, and each is some agent's.

use std::collections::BTreeSet;

use rookery_messages::settings::Settings;

use super::{Findings, NOT_A_URL, counts, is_http_url, unknown};

pub(super) fn check(settings: &Settings, found: &mut Findings<'_>) {
    let mut used = BTreeSet::new();
    for (agent, agent_settings) in &settings.agents {
        let path = ["agents", agent.as_str(), "hooks"];
        for (name, count) in counts(agent_settings.hooks.iter().map(String::as_str)) {
            used.insert(name);
            if !settings.hooks.contains_key(name) {
                found.add(&path, unknown("hook", name, settings.hooks.keys()));
            } else if count > 1 {
                found.add(&path, format!("names hook `{name}` {count} times; once is enough"));
            }
        }
    }
    for (name, hook) in &settings.hooks {
        let path = |key| ["hooks", name.as_str(), key];
        if !used.contains(name.as_str()) {
            found.add(
                &["hooks", name],
                "is no agent's, so nobody would ask it; add it to agents.<name>.hooks, or take it out",
            );
        }
        match (&hook.command, &hook.url) {
            (Some(command), None) if command.first().is_none_or(|program| program.is_empty()) => {
                found.add(
                    &path("command"),
                    "names no program; write it like [\"/path/to/hook\", \"--flag\"]",
                );
            }
            (Some(_), None) => {}
            (None, Some(url)) if !is_http_url(url) => found.add(&path("url"), NOT_A_URL),
            (None, Some(_)) => {}
            _ => found.add(&["hooks", name], "needs either `command` or `url`; set one of them"),
        }
        if hook.token.is_some() && hook.url.is_none() {
            found.add(&path("token"), "is sent to `url`, which is not set; take it out");
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Environment, load_text};

    fn faults(text: &str) -> String {
        let read = load_text(None, text, &Environment::default());
        read.err().map(|errors| errors.lines().join("\n")).unwrap_or_default()
    }

    const AGENT: &str = "[providers.main]\nkind = 'demo'\n[agents.home]\nprovider = 'main'\n";

    #[test]
    fn a_hook_must_be_complete_and_some_agents() {
        for (lines, word) in [
            ("command = ['x']", ""),
            ("url = 'http://127.0.0.1:1/hook'\ntoken = 'a-token'\ntools = ['shell']", ""),
            ("", "either `command` or `url`"),
            ("command = ['x']\nurl = 'http://x'", "either `command` or `url`"),
            ("command = []", "names no program"),
            ("url = 'ftp://x'", "hooks.h.url"),
            ("command = ['x']\ntoken = 'a-token'", "hooks.h.token"),
            ("command = ['x']\ntimeout_ms = 0", "hooks.h.timeout_ms"),
        ] {
            let hook = format!("[hooks.h]\nevent = 'after_tool_call'\n{lines}");
            let found = faults(&format!("{AGENT}hooks = ['h']\n{hook}"));
            assert!(
                found.contains(word) && found.is_empty() == word.is_empty(),
                "{lines}: {found}"
            );
            assert!(faults(&format!("{AGENT}{hook}")).contains("is no agent's"));
        }
        let unknown = faults(&format!("{AGENT}hooks = ['g']"));
        assert!(unknown.contains("there is no hook `g`"), "{unknown}");
        let loops = "[runtime_profiles.default.loop_detection]\nrepeats = 1\nwindow = 0";
        let loops = faults(loops);
        assert!(loops.contains("loop_detection.repeats") && loops.contains("window"), "{loops}");
    }
}
