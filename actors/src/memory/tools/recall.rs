//! `memory_recall`: what is remembered about something.

use std::sync::Arc;

use rookery_messages::memory::{Memory, RecallQuery, Recalled};
use rookery_messages::tool::{ToolContext, ToolResult, ToolSpec};
use serde_json::{Value, json};

use super::{Arguments, MemoryTool, failed, limit, readable, required, shown, wants_external};

/// Entries shown if the call doesn't say, and at most.
const USUAL: u32 = 5;
const MOST: u32 = 50;

/// The tool.
pub(super) struct MemoryRecall {
    spec: Arc<ToolSpec>,
    memory: Arc<dyn Memory>,
}

impl MemoryRecall {
    pub(super) fn new(memory: Arc<dyn Memory>) -> Self {
        let spec = super::spec(
            "memory_recall",
            "Finds what is remembered about something, the best match first.",
            json!({
                "query": {"type": "string", "description": "Words to look for."},
                "category": super::category_schema("all"),
                "scope": super::scope_schema("both"),
                "limit": {"type": "integer", "minimum": 1, "maximum": MOST},
                "include_external": super::external_schema(),
            }),
            &["query"],
        );
        Self { spec, memory }
    }
}

impl MemoryTool for MemoryRecall {
    const WRITES: bool = false;

    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn run(&self, arguments: &Arguments, cx: &ToolContext) -> Result<ToolResult, ToolResult> {
        let query = RecallQuery {
            filter: readable(arguments, cx)?,
            text: required(arguments, "query")?.to_owned(),
            limit: limit(arguments, USUAL, MOST)?,
        };
        let found = self.memory.recall(query).await.map_err(|error| failed(&error))?;
        Ok(shown(found.iter().map(line), wants_external(arguments)))
    }
}

fn line(Recalled { entry, score }: &Recalled) -> Value {
    let mut line = json!({
        "key": entry.key,
        "content": entry.content,
        "category": entry.category,
        "scope": entry.scope.as_str(),
        "source": entry.source,
        "written": entry.updated_at.strftime("%Y-%m-%d").to_string(),
    });
    if let Some(score) = score {
        line["score"] = json!((score * 100.0).round() / 100.0);
    }
    line
}
