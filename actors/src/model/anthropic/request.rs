//! The body of a request (Anthropic API reference, "Create a Message"; guides "Extended thinking",
//! "Prompt caching", "How to implement tool use").

use std::collections::BTreeSet;

use rookery_messages::attachment::Image;
use rookery_messages::chat::ChatMessage;
use rookery_messages::settings::ReasoningEffort;
use serde_json::{Map, Value, json};

use super::Anthropic;
use crate::model::http::Ask;
use crate::model::wire::{
    GO_ON, Piece, images, marked, own, pieces, push_parts, split_system, wire_id, wire_name,
};

/// The output cap where none is set: the API wants a number. What may be thought is added.
const DEFAULT_OUTPUT: u64 = 16_384;
/// The least the API takes as a budget of thinking.
const LEAST_BUDGET: u64 = 1_024;
/// Longest id of a call.
const MAX_ID: usize = 64;

/// How thinking is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Thinking {
    Off,
    /// A number of tokens: models up to the 4.5 family.
    Budget(u64),
    /// As the model sees fit, by effort: later ones, which take no budget.
    Adaptive(&'static str),
}

pub(super) fn body(dialect: &Anthropic, ask: &Ask<'_>) -> Value {
    let (system, rest) = split_system(ask.messages);
    let (cap, mut thinking) = cap_and_thinking(dialect, ask);
    let (mut messages, signed) = conversation(ask, rest);
    if matches!(thinking, Thinking::Budget(_)) && !signed {
        // The API wants each answer of the current tool loop to begin with its thinking. One of another
        // provider has none, so that this loop goes on without.
        thinking = Thinking::Off;
    }
    let mut body = Map::new();
    body.insert("model".into(), json!(ask.origin.model));
    body.insert("max_tokens".into(), json!(cap));
    body.insert("stream".into(), json!(true));
    match thinking {
        Thinking::Off => {}
        Thinking::Budget(budget) => {
            body.insert("thinking".into(), json!({ "type": "enabled", "budget_tokens": budget }));
        }
        Thinking::Adaptive(effort) => {
            body.insert("thinking".into(), json!({ "type": "adaptive" }));
            body.insert("output_config".into(), json!({ "effort": effort }));
        }
    }
    let mut tools = tools(ask, &mut body, &messages);
    // The stable prefix is tools, then system; the second mark moves with the conversation, so that each
    // call of a tool loop reads what the one before has written.
    match system {
        Some(text) => {
            let block = json!({ "type": "text", "text": text, "cache_control": ephemeral() });
            body.insert("system".into(), json!([block]));
        }
        None => mark(tools.last_mut()),
    }
    let last = messages.last_mut().and_then(|message| message["content"].as_array_mut());
    mark(last.and_then(|blocks| blocks.last_mut()));
    if !tools.is_empty() {
        body.insert("tools".into(), Value::Array(tools));
    }
    body.insert("messages".into(), Value::Array(messages));
    Value::Object(body)
}

fn ephemeral() -> Value {
    json!({ "type": "ephemeral" })
}

fn mark(block: Option<&mut Value>) {
    if let Some(block) = block.and_then(Value::as_object_mut) {
        block.insert("cache_control".into(), ephemeral());
    }
}

fn cap_and_thinking(dialect: &Anthropic, ask: &Ask<'_>) -> (u64, Thinking) {
    let effort = dialect.effort.filter(|_| !ask.ease.no_reasoning);
    let wanted = match effort {
        None | Some(ReasoningEffort::None) => 0,
        Some(ReasoningEffort::Low) => 2_048,
        Some(ReasoningEffort::Medium) => 8_192,
        Some(ReasoningEffort::High) => 24_576,
    };
    let cap = ask.ease.output_cap.or(dialect.max_output_tokens).unwrap_or(DEFAULT_OUTPUT + wanted);
    let thinking = match effort {
        Some(effort) if wanted > 0 && !takes_budget(&ask.origin.model) => {
            Thinking::Adaptive(effort.as_str())
        }
        // The budget is part of the cap: half of it is left for the answer.
        _ => match wanted.min(cap / 2) {
            budget if budget >= LEAST_BUDGET => Thinking::Budget(budget),
            _ => Thinking::Off,
        },
    };
    (cap, thinking)
}

/// Whether a model's thinking is asked for by a budget, as its name tells: `claude-3-7-sonnet-…`,
/// `claude-sonnet-4-20250514`, `claude-opus-4-5`. Names without a version count as the newest.
fn takes_budget(model: &str) -> bool {
    let mut numbers = model
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter_map(|word| word.parse::<u64>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), _) if major < 4 => true,
        // A date, or none: the family's first.
        (Some(4), minor) => minor.is_none_or(|minor| minor <= 5 || minor > 1_000),
        _ => false,
    }
}

/// The messages, and whether every answer of the current tool loop begins with thinking of its own.
fn conversation(ask: &Ask<'_>, messages: &[ChatMessage]) -> (Vec<Value>, bool) {
    let mut out = Vec::new();
    let mut signed = true;
    for message in messages {
        match message {
            ChatMessage::System { text } | ChatMessage::User { text, .. } => {
                // Images first (guide "Vision"). What is said between results goes on with the loop.
                let in_loop = out.last().is_some_and(|last: &Value| last["role"] == "user");
                signed |= !in_loop;
                let shown = images(ask, message.attachments()).map(image_block);
                let blocks = shown.chain(text_block(text)).collect();
                push_parts(&mut out, "user", "content", blocks);
            }
            ChatMessage::Assistant { text, calls, interrupted, opaque } => {
                let text = marked(text, *interrupted);
                let mut parts = pieces(&text, calls, own(ask, opaque));
                // An answer can't end with thinking.
                while matches!(parts.last(), Some(Piece::Own(_))) {
                    parts.pop();
                }
                signed &= calls.is_empty() || matches!(parts.first(), Some(Piece::Own(_)));
                let blocks = parts.into_iter().map(block).collect();
                push_parts(&mut out, "assistant", "content", blocks);
            }
            ChatMessage::Tool { call, wire_id: known, output, .. } => {
                let result = json!({
                    "type": "tool_result",
                    "tool_use_id": wire_id(*call, known, takes_id),
                    "content": output,
                });
                push_parts(&mut out, "user", "content", vec![result]);
            }
        }
    }
    if out.last().is_none_or(|last| last["role"] != "user") {
        push_parts(&mut out, "user", "content", text_block(GO_ON));
    }
    (out, signed)
}

fn text_block(text: &str) -> Vec<Value> {
    if text.trim().is_empty() { Vec::new() } else { vec![json!({ "type": "text", "text": text })] }
}

fn image_block(image: &Image) -> Value {
    let media_type = image.format.media_type();
    let source = json!({ "type": "base64", "media_type": media_type, "data": &*image.data });
    json!({ "type": "image", "source": source })
}

fn block(piece: Piece<'_>) -> Value {
    match piece {
        Piece::Text(text) => json!({ "type": "text", "text": text }),
        Piece::Call(call) => json!({
            "type": "tool_use",
            "id": wire_id(call.id, &call.wire_id(), takes_id),
            "name": wire_name(&call.name),
            "input": match &call.arguments {
                rookery_messages::chat::Arguments::Object(map) => Value::Object(map.clone()),
                rookery_messages::chat::Arguments::Invalid { .. } => json!({}),
            },
        }),
        Piece::Own(block) => block.block.clone(),
    }
}

/// What the API takes as an id of a call (A047).
pub(super) fn takes_id(id: &str) -> bool {
    !id.is_empty()
        && id.len() <= MAX_ID
        && id.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

fn tools(ask: &Ask<'_>, body: &mut Map<String, Value>, messages: &[Value]) -> Vec<Value> {
    if !ask.offers.is_empty() {
        let tools = ask.offers.iter().map(|offer| {
            json!({
                "name": offer.spec.name,
                "description": offer.spec.description,
                "input_schema": &*offer.parameters,
            })
        });
        return tools.collect();
    }
    // A conversation with calls in it must name their tools, also where none may be called.
    let blocks = messages.iter().filter_map(|message| message["content"].as_array()).flatten();
    let names: BTreeSet<&str> = blocks
        .filter(|block| block["type"] == "tool_use")
        .filter_map(|block| block["name"].as_str())
        .collect();
    if !names.is_empty() {
        body.insert("tool_choice".into(), json!({ "type": "none" }));
    }
    let schema = json!({ "type": "object", "properties": {} });
    names.into_iter().map(|name| json!({ "name": name, "input_schema": schema })).collect()
}

#[cfg(test)]
mod tests;
