//! Names of tools: a list that means to keep a tool away, or to have it asked about, has to name one there is.

use rookery_messages::settings::Settings;

use super::Findings;
use crate::config::shape::nearest;
use crate::service::builtin_names;

pub(super) fn check(settings: &Settings, found: &mut Findings<'_>) {
    let known = builtin_names();
    for (name, profile) in &settings.risk_profiles {
        let path = |key| ["risk_profiles", name.as_str(), key];
        let no_names = Vec::new();
        let limited: Vec<String> = profile.rate_limits.keys().cloned().collect();
        // A name that means nothing leaves the tool that was meant free: that has to be mended first.
        for (key, names) in [
            ("excluded_tools", &profile.excluded_tools),
            ("always_ask", &profile.always_ask),
            ("rate_limits", &limited),
        ] {
            for message in unknown(settings, &known, names) {
                found.add(&path(key), message);
            }
        }
        let allowed = profile.allowed_tools.as_ref().unwrap_or(&no_names);
        for (key, names) in [("allowed_tools", allowed), ("auto_approve", &profile.auto_approve)] {
            for message in unknown(settings, &known, names) {
                found.warn(&path(key), message);
            }
        }
        for command in profile.allowed_commands.iter().flatten() {
            if command.trim().contains(char::is_whitespace) {
                let command = crate::render::strict(command);
                found.warn(
                    &path("allowed_commands"),
                    format!("`{command}` is more than a command's first word, so it never matches"),
                );
            }
        }
    }
    for (name, profile) in &settings.runtime_profiles {
        for message in unknown(settings, &known, &profile.duplicate_exempt) {
            found.warn(&["runtime_profiles", name.as_str(), "duplicate_exempt"], message);
        }
    }
}

/// What is wrong with each name that names nothing. What a server of tools offers is known only while it runs.
fn unknown<'a>(
    settings: &'a Settings,
    known: &'a [String],
    names: &'a [String],
) -> impl Iterator<Item = String> + 'a {
    names.iter().filter_map(|name| {
        let shown = crate::render::strict(name);
        if let Some((server, _)) = name.split_once("__") {
            let is_there = settings.mcp.servers.contains_key(server);
            return (!is_there).then(|| {
                format!("`{shown}` is a tool of the MCP server `{server}`, which is not configured")
            });
        }
        if known.iter().any(|one| one == name) {
            return None;
        }
        let near = nearest(name, known.iter().map(String::as_str)).unwrap_or_default();
        Some(format!(
            "there is no tool `{shown}`; the nearest is `{near}`, and `rookery tools` lists all"
        ))
    })
}
