//! From a server's list to tools of ours. A tool that can't be used is left out; the others stay.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rookery_messages::tool::{CallEffects, Effects, Reach, ToolSpec, head};
use serde_json::{Value, json};

use super::client::{Hints, ToolInfo};
use super::link::Link;
use super::names::wire_names;
use super::tool::McpTool;

/// Most tools of one server.
const MOST_TOOLS: usize = 2_000;
/// Longest description a model is told, in bytes.
const LONGEST_DESCRIPTION: usize = 8 * 1_024;
/// Largest schema of one tool, in bytes of JSON.
const LARGEST_SCHEMA: usize = 256 * 1_024;

/// What tools of a server have in common.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    /// Its hints are believed.
    pub(super) trusted: bool,
    /// How long a call may take.
    pub(super) call_limit: Duration,
    /// How long a call waits for the connection.
    pub(super) connect_limit: Duration,
}

/// The tools of one list, in the order of their names.
pub(super) fn tools(link: &Arc<Link>, terms: &Terms, listed: Vec<ToolInfo>) -> Arc<[Arc<McpTool>]> {
    let server = link.server();
    if listed.len() > MOST_TOOLS {
        tracing::warn!(
            server,
            listed = listed.len(),
            "only the first {MOST_TOOLS} tools are taken"
        );
    }
    let mut seen = BTreeSet::new();
    let mut kept = Vec::new();
    for info in listed.into_iter().take(MOST_TOOLS) {
        let size = info.schema.to_string().len();
        if size > LARGEST_SCHEMA {
            let tool = head(&info.name, 200);
            tracing::warn!(server, tool, size, "a tool is left out: its schema is too large");
        } else if !seen.insert(info.name.clone()) {
            let tool = head(&info.name, 200);
            tracing::warn!(server, tool, "a tool is listed twice; the first one is taken");
        } else {
            kept.push(info);
        }
    }
    let names = wire_names(server, &seen.iter().map(String::as_str).collect());
    let mut tools: Vec<Arc<McpTool>> = kept
        .into_iter()
        .filter_map(|info| {
            let name = names.get(&info.name)?.clone();
            Some(Arc::new(tool(link, terms, name, info)))
        })
        .collect();
    tools.sort_by(|a, b| a.name().cmp(b.name()));
    tools.into()
}

fn tool(link: &Arc<Link>, terms: &Terms, name: String, info: ToolInfo) -> McpTool {
    let effects = effects(terms.trusted, info.hints);
    let mut description = head(info.description.trim(), LONGEST_DESCRIPTION).to_owned();
    let full = format!("{}__{}", link.server(), info.name);
    if name != full {
        // People and policy know it by its own name.
        description = format!("[{full}] {description}");
    }
    let spec = Arc::new(ToolSpec { name, description, parameters: parameters(info.schema) });
    McpTool {
        spec,
        server: link.server().to_owned(),
        original: info.name,
        full,
        effects,
        call_limit: terms.call_limit,
        connect_limit: terms.connect_limit,
        link: Arc::downgrade(link),
    }
}

/// The server's schema as it is. What is no schema of an object admits any arguments.
fn parameters(schema: Value) -> Value {
    match schema {
        Value::Object(_) => schema,
        _ => json!({"type": "object"}),
    }
}

/// What a call would do: unknown, unless the operator trusts what the server says.
pub(super) fn effects(trusted: bool, hints: Hints) -> CallEffects {
    if !trusted {
        return CallEffects { brings_in: true, ..CallEffects::unknown() };
    }
    let effects = match hints {
        Hints { read_only: Some(true), .. } => Effects::ReadOnly,
        Hints { idempotent: Some(true), .. } => Effects::Idempotent,
        _ => Effects::Once,
    };
    // What stays within the server and destroys nothing is no worse than a change in the workspace.
    let inside = hints.open_world == Some(false) && hints.destructive == Some(false);
    let reach = if inside { Reach::Workspace } else { Reach::Outside };
    // Whom the operator trusts with hints, others may still have written into.
    CallEffects { effects, reach, brings_in: true, ..CallEffects::read_only() }
}
