//! A turn's tools: built in and granted, as they are now, for one model step (T2–T7).
//!
//! The set is put together before each model request and stands until the next: the calls of a response
//! are judged and run against what that response's model was shown (A106). Cost: linear in the tools
//! granted; schemas are shared.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rookery_messages::journal::JournalEntry;
use rookery_messages::tool::{Tool, ToolSpec, text};

use super::bundle::AgentBundle;
use crate::tool::mcp::{
    Activation, McpTool, SEARCH_TOOL, SEPARATOR, Stub, ToolSearch, activated_by, stub_section,
};
use crate::tool::registry::Registry;

/// See the module's documentation.
pub struct TurnTools {
    bundle: Arc<AgentBundle>,
    /// What the person said: it decides which groups are shown.
    message: String,
    /// Deferred tools that are live, by name.
    activated: Mutex<BTreeSet<String>>,
    step: Mutex<Arc<Step>>,
    myself: Weak<Self>,
}

/// The tools of one model step.
#[derive(Default)]
struct Step {
    /// All that can be called.
    registry: Registry,
    /// What the model is shown of them.
    specs: Vec<Arc<ToolSpec>>,
    /// What is announced by name only.
    stubs: Vec<Stub>,
}

impl TurnTools {
    /// For a turn that answers `message`; `journal` is what former attempts wrote.
    pub fn new(bundle: Arc<AgentBundle>, message: &str, journal: &[JournalEntry]) -> Arc<Self> {
        let tools = Arc::new_cyclic(|myself| Self {
            bundle,
            message: message.to_owned(),
            activated: Mutex::new(activated_by(journal).into_iter().collect()),
            step: Mutex::default(),
            myself: Weak::clone(myself),
        });
        tools.advance();
        tools
    }

    /// The next model step begins: takes the tools as they are now.
    pub fn advance(&self) {
        // Built-in tools do not change while a turn runs.
        if self.bundle.mcp.is_empty() && !self.step.lock().registry.is_empty() {
            return;
        }
        let step = Arc::new(self.assemble());
        *self.step.lock() = step;
    }

    /// What the model is shown: admitted tools only, in the order of their names, schemas shared.
    pub fn specs(&self) -> Vec<Arc<ToolSpec>> {
        self.step.lock().specs.clone()
    }

    /// What the model is told first.
    pub fn system_prompt(&self) -> String {
        let own = self.bundle.system_prompt.clone();
        match stub_section(&self.step.lock().stubs) {
            Some(section) if own.is_empty() => section,
            Some(section) => format!("{own}\n\n{section}"),
            None => own,
        }
    }

    /// The tool a call means in this step, with its own name: policy is asked about that (V-D17).
    pub fn resolve(&self, name: &str) -> Option<(String, Arc<dyn Tool>)> {
        let step = Arc::clone(&self.step.lock());
        step.registry.resolve(name).map(|(own, tool)| (own.to_owned(), Arc::clone(tool)))
    }

    /// What a model is told of a call that means no tool.
    pub fn unknown(&self, name: &str) -> String {
        let waiting = self.step.lock().stubs.iter().any(|stub| stub.spec.name == name);
        let suffix = if waiting { text::NOT_ACTIVE_SUFFIX } else { "" };
        format!("{}{name}{suffix}", text::UNKNOWN_TOOL_PREFIX)
    }

    /// After a restart a turn may be quicker than its servers: waits for those its calls are meant for.
    pub async fn settled(&self, names: impl Iterator<Item = &str>) {
        let missing = names.filter(|name| self.resolve(name).is_none());
        let missing: Vec<String> = missing.map(|name| self.full_name(name)).collect();
        if !missing.is_empty() {
            let missing: Vec<&str> = missing.iter().map(String::as_str).collect();
            self.bundle.mcp.settled(&missing).await;
            self.advance();
        }
    }

    /// The name of an activated tool that is called without its server; otherwise the name as it is.
    fn full_name(&self, name: &str) -> String {
        let short = |full: &&String| full.split_once(SEPARATOR).is_some_and(|(_, own)| own == name);
        self.activated.lock().iter().find(short).cloned().unwrap_or_else(|| name.to_owned())
    }

    fn assemble(&self) -> Step {
        let bundle = &self.bundle;
        let shown = bundle.mcp.filter.for_message(&self.message);
        let activated = self.activated.lock().clone();
        let mut registry = Registry::clone(&bundle.tools);
        let (mut hidden, mut stubs) = (BTreeSet::new(), Vec::new());
        for granted in bundle.mcp.tools() {
            let tool = granted.tool;
            let names = tool.names();
            let handed = bundle.narrowing.hands(tool.name());
            let live = !granted.deferred
                || handed
                || activated.contains(tool.name())
                || shown.always(names);
            let admitted = bundle.admits(tool.name());
            if !shown.shows(names) && !handed {
                hidden.insert(tool.name().to_owned());
            } else if !live && admitted {
                stubs.push(Stub { spec: Tool::spec(&*tool) });
            }
            if live {
                insert(&mut registry, tool);
            }
        }
        if bundle.mcp.has_deferred() && bundle.admits(SEARCH_TOOL) {
            // The name is ours alone: servers' tools have a prefix.
            let search = Arc::new(ToolSearch::new(Weak::clone(&self.myself)));
            if let Err(error) = registry.insert(search) {
                tracing::error!(%error, "deferred tools can't be searched");
            }
        } else {
            stubs.clear();
        }
        let specs = registry.specs(|name| bundle.admits(name) && !hidden.contains(name));
        Step { registry, specs, stubs }
    }
}

fn insert(registry: &mut Registry, tool: Arc<McpTool>) {
    let name = tool.name().to_owned();
    if let Err(error) = registry.insert(tool) {
        tracing::warn!(tool = name, %error, "an MCP tool is left out");
    }
}

impl Activation for TurnTools {
    /// Also those that are live already: finding a tool twice is finding it (V-D14).
    fn findable(&self) -> Vec<Stub> {
        let bundle = &self.bundle;
        let shown = bundle.mcp.filter.for_message(&self.message);
        let deferred = bundle.mcp.tools().into_iter().filter(|granted| granted.deferred);
        deferred
            .map(|granted| granted.tool)
            .filter(|tool| bundle.admits(tool.name()) && shown.shows(tool.names()))
            .map(|tool| Stub { spec: Tool::spec(&*tool) })
            .collect()
    }

    fn activate(&self, name: &str) -> bool {
        self.activated.lock().insert(name.to_owned())
    }
}

#[cfg(test)]
mod tests;
