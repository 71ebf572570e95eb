//! `memory_store`: remembers something.

use std::sync::Arc;

use rookery_messages::ids::MemoryId;
use rookery_messages::memory::{Memory, NewMemory, Source, StoredAs};
use rookery_messages::time::World;
use rookery_messages::tool::{ToolContext, ToolResult, ToolSpec};
use serde_json::json;

use super::{Arguments, MemoryTool, category, failed, required, scope};
use crate::policy::redact::Redactor;

/// The tool.
pub(super) struct MemoryStore {
    spec: Arc<ToolSpec>,
    memory: Arc<dyn Memory>,
    redactor: Arc<Redactor>,
    world: World,
}

impl MemoryStore {
    pub(super) fn new(memory: Arc<dyn Memory>, redactor: Arc<Redactor>, world: World) -> Self {
        let spec = super::spec(
            "memory_store",
            "Remembers something beyond this conversation. Under a key that is taken the new content takes \
             the place of the old.",
            json!({
                "key": {"type": "string", "description": "Short name, such as favourite_colour."},
                "content": {"type": "string", "description": "What to remember, understandable by itself."},
                "category": super::category_schema("core"),
                "scope": super::scope_schema("agent"),
            }),
            &["key", "content"],
        );
        Self { spec, memory, redactor, world }
    }
}

impl MemoryTool for MemoryStore {
    const WRITES: bool = true;

    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn run(&self, arguments: &Arguments, cx: &ToolContext) -> Result<ToolResult, ToolResult> {
        let new = NewMemory {
            // The call's own: a call that is run again after a crash stores nothing twice.
            id: MemoryId(cx.call.0),
            agent: cx.agent.clone(),
            scope: scope(arguments, cx)?.unwrap_or_default(),
            key: self.redactor.scrub(required(arguments, "key")?.trim()),
            content: self.redactor.scrub(required(arguments, "content")?),
            category: category(arguments)?.unwrap_or_default(),
            source: if cx.tainted.is_some() { Source::External } else { Source::Model },
            via: cx.tainted.clone(),
            turn: Some(cx.turn),
            at: self.world.now(),
        };
        let stored = self.memory.store(new).await.map_err(|error| failed(&error))?;
        let key = &stored.entry.key;
        let done = match stored.how {
            StoredAs::New => format!("remembered as `{key}`"),
            StoredAs::Superseding => format!("remembered as `{key}`, in place of what was there"),
            StoredAs::Refreshed => format!("`{key}` says so already"),
        };
        Ok(ToolResult::ok(match stored.entry.source {
            Source::External => format!(
                "{done}; marked as external, since content from outside was in the conversation: it is \
                 recalled only on request"
            ),
            Source::Model | Source::User => done,
        }))
    }
}
