//! `memory_export`: all that is remembered, the newest first.

use std::sync::Arc;

use rookery_messages::memory::{ListQuery, MAX_ANSWER, Memory};
use rookery_messages::tool::{ToolContext, ToolResult, ToolSpec};
use serde_json::json;

use super::{Arguments, MemoryTool, failed, limit, readable, shown, wants_external};

/// The tool.
pub(super) struct MemoryExport {
    spec: Arc<ToolSpec>,
    memory: Arc<dyn Memory>,
}

impl MemoryExport {
    pub(super) fn new(memory: Arc<dyn Memory>) -> Self {
        let spec = super::spec(
            "memory_export",
            "Lists all that is remembered as JSON, one entry a line, the newest first.",
            json!({
                "category": super::category_schema("all"),
                "scope": super::scope_schema("both"),
                "limit": {"type": "integer", "minimum": 1, "maximum": MAX_ANSWER},
                "include_external": super::external_schema(),
            }),
            &[],
        );
        Self { spec, memory }
    }
}

impl MemoryTool for MemoryExport {
    const WRITES: bool = false;

    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn run(&self, arguments: &Arguments, cx: &ToolContext) -> Result<ToolResult, ToolResult> {
        let query = ListQuery {
            filter: readable(arguments, cx)?,
            key: None,
            superseded: false,
            before: None,
            limit: limit(arguments, MAX_ANSWER, MAX_ANSWER)?,
        };
        let found = self.memory.list(query).await.map_err(|error| failed(&error))?;
        Ok(shown(found.iter().map(|entry| json!(entry)), wants_external(arguments)))
    }
}
