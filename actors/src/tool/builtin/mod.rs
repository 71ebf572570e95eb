//! The built-in tools.

mod args;
mod ask;
mod edit;
mod file_tool;
mod files;
mod glob;
mod list;
mod read;
mod search;
mod shell;
#[cfg(test)]
mod tests;
mod time;
mod wait;
mod walk;
mod web;
mod write;

use std::net::SocketAddr;
use std::sync::Arc;

use rookery_messages::time::Clock;
use rookery_messages::tool::{Tool, ToolSpec};
use serde_json::{Value, json};

use self::file_tool::OnFiles;
use super::registry::Registry;
use crate::policy::network::client::{SystemResolver, WebClient};

/// All built-in tools. `clock` is what `time` reads; `own` is where this service listens, which no tool calls.
pub fn builtin_registry(clock: Arc<dyn Clock>, own: Option<SocketAddr>) -> Registry {
    let tools: [Arc<dyn Tool>; 10] = [
        Arc::new(ask::AskUser::new()),
        OnFiles::<search::ContentSearch>::tool(),
        OnFiles::<edit::FileEdit>::tool(),
        OnFiles::<list::FileList>::tool(),
        OnFiles::<read::FileRead>::tool(),
        OnFiles::<write::FileWrite>::tool(),
        OnFiles::<glob::GlobSearch>::tool(),
        Arc::new(shell::Shell::new()),
        Arc::new(time::Time::new(clock)),
        Arc::new(wait::Wait::new()),
    ];
    let mut registry = Registry::new();
    let web = web::tools(WebClient::new(Arc::new(SystemResolver), own));
    for tool in tools.into_iter().chain(web) {
        let added = registry.insert(tool);
        debug_assert_eq!(added, Ok(()), "built-in names are valid and differ");
    }
    registry
}

/// A spec whose parameters are an object with these properties.
fn spec(name: &str, description: &str, properties: Value, required: &[&str]) -> Arc<ToolSpec> {
    Arc::new(ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: json!({
            "type": "object",
            "properties": properties,
            "required": required,
        }),
    })
}
