//! `memory_forget`: forgets what is remembered under a key, for good.

use std::sync::Arc;

use rookery_messages::memory::{Forget, Forgotten, Memory, MemoryFilter};
use rookery_messages::tool::{ToolContext, ToolResult, ToolSpec};
use serde_json::json;

use super::{Arguments, MemoryTool, failed, required, scope};

/// The tool.
pub(super) struct MemoryForget {
    spec: Arc<ToolSpec>,
    memory: Arc<dyn Memory>,
}

impl MemoryForget {
    pub(super) fn new(memory: Arc<dyn Memory>) -> Self {
        let spec = super::spec(
            "memory_forget",
            "Forgets for good what is remembered under a key.",
            json!({
                "key": {"type": "string", "description": "The key, as memory_recall shows it."},
                "scope": super::scope_schema("both"),
            }),
            &["key"],
        );
        Self { spec, memory }
    }
}

impl MemoryTool for MemoryForget {
    const WRITES: bool = true;

    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn run(&self, arguments: &Arguments, cx: &ToolContext) -> Result<ToolResult, ToolResult> {
        let key = required(arguments, "key")?.trim().to_owned();
        let mut filter = MemoryFilter::of_turn(cx.agent.clone(), cx.conversation_id);
        // What came from outside may be forgotten as well.
        filter.least_trust = None;
        if let Some(scope) = scope(arguments, cx)? {
            filter.scopes = Some(vec![scope]);
        }
        let what = Forgotten::Key(key.clone());
        let gone = self.memory.forget(Forget { filter, what }).await;
        Ok(ToolResult::ok(match gone.map_err(|error| failed(&error))? {
            0 => format!("nothing is remembered as `{key}`"),
            _ => format!("forgotten: `{key}`"),
        }))
    }
}
