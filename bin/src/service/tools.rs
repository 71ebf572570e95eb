//! The tools that are there without any server: their names, and what they are for.

use std::sync::Arc;

use rookery_actors::runtime::system_world;
use rookery_actors::tool::builtin::builtin_registry;
use rookery_actors::tool::mcp::SEARCH_TOOL;
use rookery_actors::turn::delegate::{DELEGATE, NAMES, SPAWN, TASKS};
use rookery_messages::settings::Settings;

use super::memory;

/// A tool's name and what it is for.
pub(crate) type Described = (String, String);

/// All of them, in the order of their names, whatever an agent may use.
pub(crate) fn builtins() -> Vec<Described> {
    let world = system_world();
    let mut registry = builtin_registry(Arc::clone(&world.clock), None);
    memory::offer(&Settings::default(), &mut registry, &world);
    let described = |name: &str| {
        let about = registry.resolve(name).map(|(_, tool)| tool.spec().description.clone());
        (name.to_owned(), about.unwrap_or_default())
    };
    let mut all: Vec<Described> = registry.names().map(described).collect();
    // Those of a turn itself.
    let own = [
        (DELEGATE, "Hands a task on to a sub-agent and waits for its answer."),
        (SPAWN, "Hands a task on to a sub-agent in the background."),
        (TASKS, "Looks after background tasks."),
        (SEARCH_TOOL, "Finds tools of MCP servers that are announced by name only."),
    ];
    all.extend(own.map(|(name, about)| (name.to_owned(), about.to_owned())));
    all.sort();
    all
}

/// Their names.
pub(crate) fn builtin_names() -> Vec<String> {
    builtins().into_iter().map(|(name, _)| name).collect()
}

/// Whether a turn itself does it: hands work on, or looks for tools. What comes of it is judged when it comes.
pub(crate) fn handing_on(tool: &str) -> Option<&'static str> {
    NAMES.into_iter().chain([SEARCH_TOOL]).find(|name| *name == tool)
}
