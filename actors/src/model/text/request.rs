//! A request for a model that has no native tool calls: the tools and how to call them stand in the
//! system prompt, calls and results are messages (T4).
//!
//! A result is framed as one JSON object in a `<tool_result>` element, with every `<` in it escaped as
//! JSON does it. What a tool puts out can therefore hold no tag: it can neither end its frame, nor look
//! like a call or another result (V-J23).

use std::fmt::Write as _;
use std::sync::Arc;

use rookery_messages::chat::{ChatMessage, ToolCall, UserKind};
use rookery_messages::model::ModelRequest;
use rookery_messages::tool::{ToolSpec, text};
use serde_json::{Value, json};

/// The same request without native tools. Deterministic.
pub fn as_text(request: &ModelRequest) -> ModelRequest {
    let mut messages = Vec::with_capacity(request.messages.len() + 1);
    let instructions = instructions(&request.tools);
    let mut rest = request.messages.as_slice();
    let system = match rest {
        [ChatMessage::System { text }, others @ ..] => {
            rest = others;
            Some(text.as_str())
        }
        _ => None,
    };
    let system: Vec<&str> = system.into_iter().chain(instructions.as_deref()).collect();
    if !system.is_empty() {
        messages.push(ChatMessage::System { text: system.join("\n\n") });
    }
    let mut results = String::new();
    for message in rest {
        if let ChatMessage::Tool { name, output, .. } = message {
            framed(&mut results, name, output);
            continue;
        }
        flush(&mut results, &mut messages);
        messages.push(match message {
            ChatMessage::Assistant { text, calls, interrupted, .. } if !calls.is_empty() => {
                ChatMessage::Assistant {
                    text: with_calls(text, calls),
                    calls: Vec::new(),
                    interrupted: *interrupted,
                    // They stand beside calls, which are none any more.
                    opaque: Vec::new(),
                }
            }
            other => other.clone(),
        });
    }
    flush(&mut results, &mut messages);
    let images = Arc::clone(&request.images);
    ModelRequest { messages: Arc::new(messages), tools: Arc::default(), images }
}

fn instructions(tools: &[Arc<ToolSpec>]) -> Option<String> {
    if tools.is_empty() {
        return None;
    }
    let mut said = format!("{}\n<tools>\n", text::TEXT_CALLS);
    for tool in tools {
        let spec = json!({
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
        });
        said.push_str(&untagged(&spec));
        said.push('\n');
    }
    said.push_str("</tools>");
    Some(said)
}

fn with_calls(said: &str, calls: &[ToolCall]) -> String {
    let mut whole = said.trim_end().to_owned();
    for call in calls {
        if !whole.is_empty() {
            whole.push('\n');
        }
        let call = json!({ "name": call.name, "arguments": call.arguments.to_value() });
        // Writing into a text does not fail.
        let _ = write!(whole, "<tool_call>{}</tool_call>", untagged(&call));
    }
    whole
}

fn framed(results: &mut String, name: &str, output: &str) {
    if !results.is_empty() {
        results.push('\n');
    }
    let result = json!({ "tool": name, "output": output });
    // Writing into a text does not fail.
    let _ = write!(results, "<tool_result>{}</tool_result>", untagged(&result));
}

fn flush(results: &mut String, messages: &mut Vec<ChatMessage>) {
    if !results.is_empty() {
        let text = std::mem::take(results);
        messages.push(ChatMessage::of_kind(UserKind::Feedback, text));
    }
}

/// JSON without a single `<`: in JSON it stands in texts only, where its escape means the same.
fn untagged(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c")
}
