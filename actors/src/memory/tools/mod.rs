//! The tools: `memory_store`, `memory_recall`, `memory_forget`, `memory_export`.
//!
//! A call sees its agent's entries and its conversation's, no others. What is written while content from
//! outside is in the conversation is marked [`Source::External`] (A100); such entries are shown only if they
//! are asked for, and then they count as content from outside again.

mod export;
mod forget;
mod recall;
mod store;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use rookery_messages::BoxFuture;
use rookery_messages::memory::{Category, Memory, MemoryError, MemoryFilter, MemoryScope, Source};
use rookery_messages::time::World;
use rookery_messages::tool::{CallEffects, Effects, Tool, ToolContext, ToolResult, ToolSpec, text};
use serde_json::{Map, Value, json};

use crate::policy::redact::Redactor;

/// What a call may take; the disk is near.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Their names.
pub const NAMES: [&str; 4] = ["memory_export", "memory_forget", "memory_recall", "memory_store"];

/// The tools on this memory. No configured secret is written into it (I12).
pub fn all(
    memory: &Arc<dyn Memory>,
    redactor: &Arc<Redactor>,
    world: &World,
) -> [Arc<dyn Tool>; 4] {
    [
        Arc::new(OnMemory(export::MemoryExport::new(Arc::clone(memory)))),
        Arc::new(OnMemory(forget::MemoryForget::new(Arc::clone(memory)))),
        Arc::new(OnMemory(recall::MemoryRecall::new(Arc::clone(memory)))),
        Arc::new(OnMemory(store::MemoryStore::new(
            Arc::clone(memory),
            Arc::clone(redactor),
            world.clone(),
        ))),
    ]
}

type Arguments = Map<String, Value>;

/// What one of the tools is; [`OnMemory`] makes it a tool.
trait MemoryTool: Send + Sync + 'static {
    /// It changes what is remembered; otherwise it only reads.
    const WRITES: bool;

    fn spec(&self) -> &Arc<ToolSpec>;

    /// Both sides are results for the model.
    fn run(
        &self,
        arguments: &Arguments,
        cx: &ToolContext,
    ) -> impl Future<Output = Result<ToolResult, ToolResult>> + Send;
}

/// The frame of all of them.
struct OnMemory<T>(T);

impl<T: MemoryTool> Tool for OnMemory<T> {
    fn spec(&self) -> Arc<ToolSpec> {
        Arc::clone(self.0.spec())
    }

    fn effects(&self, arguments: &Arguments) -> CallEffects {
        if T::WRITES { writing() } else { reading(arguments) }
    }

    fn timeout(&self, _: &Arguments) -> Duration {
        TIMEOUT
    }

    fn execute<'a>(
        &'a self,
        arguments: &'a Arguments,
        cx: &'a ToolContext,
    ) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move { self.0.run(arguments, cx).await.unwrap_or_else(|failed| failed) })
    }
}

fn spec(name: &str, description: &str, properties: Value, required: &[&str]) -> Arc<ToolSpec> {
    Arc::new(ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: json!({ "type": "object", "properties": properties, "required": required }),
    })
}

/// The argument `scope`.
fn scope_schema(otherwise: &str) -> Value {
    json!({
        "type": "string",
        "enum": ["agent", "session"],
        "description": format!("`agent`: every conversation; `session`: this one. Default: {otherwise}."),
    })
}

/// The argument `category`.
fn category_schema(otherwise: &str) -> Value {
    json!({
        "type": "string",
        "description": format!(
            "`core` (lasting), `daily` (these days), `conversation`, or a word of your own. Default: {otherwise}."
        ),
    })
}

/// The argument `include_external`.
fn external_schema() -> Value {
    json!({
        "type": "boolean",
        "description": "Also what was written under the influence of content from outside. Default: false.",
    })
}

/// What a call that only reads would do. Entries from outside are content from outside.
fn reading(arguments: &Arguments) -> CallEffects {
    CallEffects { brings_in: wants_external(arguments), ..CallEffects::read_only() }
}

/// What a call that writes would do: it changes what later turns are told, and twice is once.
fn writing() -> CallEffects {
    CallEffects { effects: Effects::Idempotent, carries_out: true, ..CallEffects::read_only() }
}

/// Anything but a plain no is a yes: what decides the marks of a result errs on the safe side.
fn wants_external(arguments: &Arguments) -> bool {
    !matches!(
        arguments.get("include_external"),
        None | Some(Value::Null) | Some(Value::Bool(false))
    )
}

fn wrong(field: &str, wanted: &str) -> ToolResult {
    ToolResult::failed(format!("{}`{field}` must be {wanted}", text::INVALID_ARGUMENTS_PREFIX))
}

fn optional<'a>(arguments: &'a Arguments, field: &str) -> Result<Option<&'a str>, ToolResult> {
    match arguments.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(wrong(field, "a string")),
    }
}

fn required<'a>(arguments: &'a Arguments, field: &str) -> Result<&'a str, ToolResult> {
    optional(arguments, field)?.ok_or_else(|| wrong(field, "a string"))
}

fn category(arguments: &Arguments) -> Result<Option<Category>, ToolResult> {
    let word = optional(arguments, "category")?;
    word.map(str::parse).transpose().map_err(|error: MemoryError| failed(&error))
}

fn scope(arguments: &Arguments, cx: &ToolContext) -> Result<Option<MemoryScope>, ToolResult> {
    match optional(arguments, "scope")? {
        None => Ok(None),
        Some("agent") => Ok(Some(MemoryScope::Agent)),
        Some("session") => Ok(Some(MemoryScope::Session(cx.conversation_id))),
        Some(_) => Err(wrong("scope", "`agent` or `session`")),
    }
}

fn limit(arguments: &Arguments, otherwise: u32, most: u32) -> Result<u32, ToolResult> {
    let wanted = || wrong("limit", &format!("a whole number from 1 to {most}"));
    match arguments.get("limit") {
        None | Some(Value::Null) => Ok(otherwise),
        // Models write `5.0` for `5`.
        Some(value) => match value.as_f64() {
            Some(n) if n.fract() == 0.0 && (1.0..=f64::from(most)).contains(&n) => Ok(n as u32),
            _ => Err(wanted()),
        },
    }
}

/// What a call may read: its agent's entries and its conversation's.
fn readable(arguments: &Arguments, cx: &ToolContext) -> Result<MemoryFilter, ToolResult> {
    let mut filter = MemoryFilter::of_turn(cx.agent.clone(), cx.conversation_id);
    filter.category = category(arguments)?;
    if let Some(scope) = scope(arguments, cx)? {
        filter.scopes = Some(vec![scope]);
    }
    if wants_external(arguments) {
        filter.least_trust = Some(Source::External);
    }
    Ok(filter)
}

fn failed(error: &MemoryError) -> ToolResult {
    ToolResult::failed(error.to_string())
}

/// Entries as the model reads them: one JSON object a line, which no content can break out of.
fn shown(entries: impl Iterator<Item = Value>, external: bool) -> ToolResult {
    let lines: Vec<String> = entries.map(|entry| entry.to_string()).collect();
    if lines.is_empty() {
        return ToolResult::ok("nothing is remembered about that");
    }
    let lines = lines.join("\n");
    ToolResult::ok(if external { format!("{}\n{lines}", text::OUTSIDE_CONTENT) } else { lines })
}
