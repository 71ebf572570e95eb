//! MCP servers, the bundles that grant their tools, and the groups that show them.

use rookery_messages::settings::{FilterMode, McpServerSettings, Settings};

use super::{Findings, NOT_A_URL, is_http_url, unknown};

/// Longest server name: with it and `__` there is still room for a tool's name in a model's 64 characters.
const LONGEST_NAME: usize = 40;

pub(super) fn check(settings: &Settings, found: &mut Findings<'_>) {
    for (name, server) in &settings.mcp.servers {
        check_name(name, found);
        check_server(name, server, found);
    }
    for (name, bundle) in &settings.mcp_bundles {
        let known = settings.mcp.servers.keys();
        for server in &bundle.servers {
            if !settings.mcp.servers.contains_key(server) {
                let path = ["mcp_bundles", name.as_str(), "servers"];
                found.add(&path, unknown("MCP server", server, known.clone()));
            }
        }
        for pattern in bundle.tools.iter().flatten() {
            check_pattern(&["mcp_bundles", name, "tools"], pattern, found);
        }
    }
    for (name, agent) in &settings.agents {
        for bundle in &agent.mcp_bundles {
            if !settings.mcp_bundles.contains_key(bundle) {
                let path = ["agents", name.as_str(), "mcp_bundles"];
                found.add(&path, unknown("MCP bundle", bundle, settings.mcp_bundles.keys()));
            }
        }
        let path = ["agents", name.as_str(), "tool_filter_groups"];
        for group in &agent.tool_filter_groups {
            for pattern in &group.tools {
                check_pattern(&path, pattern, found);
            }
            let words = group.keywords.iter().filter(|word| !word.trim().is_empty()).count();
            match group.mode {
                FilterMode::Dynamic if words < group.keywords.len() || words == 0 => found.add(
                    &path,
                    "a group of mode \"dynamic\" needs keywords, none of them empty; add some, or \
                     make its mode \"always\"",
                ),
                FilterMode::Always if !group.keywords.is_empty() => found.add(
                    &path,
                    "a group of mode \"always\" has keywords, which would mean nothing; take them \
                     out, or make its mode \"dynamic\"",
                ),
                _ => {}
            }
        }
    }
}

/// The name and `__` stand before each tool's name; it must be clear where it ends.
fn check_name(name: &str, found: &mut Findings<'_>) {
    let plain = (1..=LONGEST_NAME).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if !plain || name.contains("__") || name.ends_with('_') {
        found.add(
            &["mcp", "servers", name],
            format!(
                "names of MCP servers have 1 to {LONGEST_NAME} of a-z, A-Z, 0-9, `-` and `_`, no \
                 `__`, and don't end in `_`; rename it"
            ),
        );
    }
}

fn check_server(name: &str, server: &McpServerSettings, found: &mut Findings<'_>) {
    let path = |key| ["mcp", "servers", name, key];
    match (&server.command, &server.url) {
        (None, None) => {
            found.add(&["mcp", "servers", name], "has neither `command` nor `url`; give it one");
        }
        (Some(_), Some(_)) => found
            .add(&["mcp", "servers", name], "has both `command` and `url`; take one of them out"),
        (Some(command), None) if command.trim().is_empty() => {
            found.add(&path("command"), "is empty; name the program to start");
        }
        (None, Some(url)) if !is_http_url(url) => found.add(&path("url"), NOT_A_URL),
        _ => {}
    }
    if server.command.is_none() {
        let given = [
            ("args", !server.args.is_empty()),
            ("env", !server.env.is_empty()),
            ("cwd", server.cwd.is_some()),
        ];
        for (key, _) in given.into_iter().filter(|(_, given)| *given) {
            found.add(&path(key), "is for a `command`; take it out, or give the command");
        }
    }
    if server.url.is_none() && !server.headers.is_empty() {
        found.add(&path("headers"), "is for a `url`; take it out, or give the address");
    }
    for variable in server.env.keys() {
        if variable.is_empty() || variable.contains(['=', '\0']) {
            found.add(&path("env"), "has a variable whose name is empty or holds `=`; rename it");
        }
    }
    for (header, value) in &server.headers {
        let well = reqwest::header::HeaderName::from_bytes(header.as_bytes()).is_ok()
            && reqwest::header::HeaderValue::from_str(value.expose()).is_ok();
        if !well {
            let header = crate::render::strict(header);
            let message = format!("`{header}` can't be sent as a header; check name and value");
            found.add(&path("headers"), message);
        }
    }
}

fn check_pattern(path: &[&str], pattern: &str, found: &mut Findings<'_>) {
    if pattern.trim().is_empty() {
        found.add(path, "holds an empty name; write it like `<server>__<tool>`, or `<server>__*`");
    }
}
