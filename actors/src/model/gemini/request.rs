//! The body of a request (Gemini API reference, "Generating content"; guides "Function calling",
//! "Thinking", "Thought signatures").

use std::borrow::Cow;

use rookery_messages::attachment::Image;
use rookery_messages::chat::{Arguments, ChatMessage, OpaqueBlock, ToolCall};
use rookery_messages::settings::ReasoningEffort;
use serde_json::{Map, Value, json};

use super::Gemini;
use crate::model::http::Ask;
use crate::model::wire::{
    GO_ON, Piece, images, marked, own, pieces, push_parts, split_system, wire_name,
};

/// Where a call's signature stands in a block; the same in a part.
pub(super) const SIGNATURE: &str = "thoughtSignature";
/// What a block's `on` says of a signature that belongs to the call after it.
pub(super) const ON_CALL: &str = "call";
/// Stands for the signature of a call that another model made ("Thought signatures", FAQ): models that
/// insist on one take it.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

pub(super) fn body(dialect: &Gemini, ask: &Ask<'_>) -> Value {
    let (system, rest) = split_system(ask.messages);
    let mut body = Map::new();
    if let Some(text) = system {
        body.insert("systemInstruction".into(), json!({ "parts": [{ "text": text }] }));
    }
    body.insert("contents".into(), Value::Array(contents(ask, rest)));
    if !ask.offers.is_empty() {
        let tools = ask.offers.iter().map(|offer| {
            json!({
                "name": offer.spec.name,
                "description": offer.spec.description,
                "parametersJsonSchema": &*offer.parameters,
            })
        });
        let tools: Vec<Value> = tools.collect();
        body.insert("tools".into(), json!([{ "functionDeclarations": tools }]));
    }
    let mut config = Map::new();
    if let Some(cap) = ask.ease.output_cap.or(dialect.max_output_tokens) {
        config.insert("maxOutputTokens".into(), json!(cap));
    }
    if let Some(effort) = dialect.effort.filter(|_| !ask.ease.no_reasoning) {
        config.insert("thinkingConfig".into(), thinking(&ask.origin.model, effort));
    }
    if !config.is_empty() {
        body.insert("generationConfig".into(), Value::Object(config));
    }
    Value::Object(body)
}

/// From the third generation on a level is asked for, before that a number of tokens.
fn thinking(model: &str, effort: ReasoningEffort) -> Value {
    if insists_on_signatures(model) {
        let level = match effort {
            // The least there is.
            ReasoningEffort::None | ReasoningEffort::Low => "low",
            // Not every model has one between.
            ReasoningEffort::Medium | ReasoningEffort::High => "high",
        };
        return json!({ "includeThoughts": true, "thinkingLevel": level });
    }
    let budget = match effort {
        ReasoningEffort::None => return json!({ "thinkingBudget": 0 }),
        ReasoningEffort::Low => 2_048,
        ReasoningEffort::Medium => 8_192,
        ReasoningEffort::High => 24_576,
    };
    json!({ "includeThoughts": true, "thinkingBudget": budget })
}

/// Models from the third generation on refuse calls without a signature.
fn insists_on_signatures(model: &str) -> bool {
    let version = model
        .strip_prefix("models/")
        .unwrap_or(model)
        .strip_prefix("gemini-")
        .and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    version.is_some_and(|digits| digits.parse::<u32>().is_ok_and(|major| major >= 3))
}

fn contents(ask: &Ask<'_>, messages: &[ChatMessage]) -> Vec<Value> {
    let mut out = Vec::new();
    for message in messages {
        match message {
            ChatMessage::System { text } | ChatMessage::User { text, .. } => {
                let text = Some(text).filter(|text| !text.trim().is_empty());
                let text = text.map(|text| json!({ "text": text }));
                // Images first (guide "Image understanding").
                let shown = images(ask, message.attachments()).map(image_part);
                push_user(&mut out, shown.chain(text).collect());
            }
            ChatMessage::Assistant { text, calls, interrupted, opaque } => {
                let text = marked(text, *interrupted);
                push_parts(&mut out, "model", "parts", answer(ask, &text, calls, opaque));
            }
            ChatMessage::Tool { wire_id, name, output, .. } => {
                let result = json!({
                    "functionResponse": {
                        "id": wire_id,
                        "name": function_name(name),
                        "response": { "result": output },
                    },
                });
                push_parts(&mut out, "user", "parts", vec![result]);
            }
        }
    }
    named_alike(&mut out);
    if out.last().is_none_or(|last| last["role"] != "user") {
        push_parts(&mut out, "user", "parts", vec![json!({ "text": GO_ON })]);
    }
    out
}

fn image_part(image: &Image) -> Value {
    json!({ "inlineData": { "mimeType": image.format.media_type(), "data": &*image.data } })
}

/// What the person says behind results is a turn of its own: the results stand alone in theirs.
fn push_user(out: &mut Vec<Value>, parts: Vec<Value>) {
    let results = out.last().is_some_and(|last| {
        last["role"] == "user" && last["parts"][0].get("functionResponse").is_some()
    });
    if results && !parts.is_empty() {
        out.push(json!({ "role": "user", "parts": parts }));
    } else {
        push_parts(out, "user", "parts", parts);
    }
}

fn answer(ask: &Ask<'_>, text: &str, calls: &[ToolCall], opaque: &[OpaqueBlock]) -> Vec<Value> {
    let mut parts = Vec::new();
    let mut signature = None;
    let mut first_call = true;
    for piece in pieces(text, calls, own(ask, opaque)) {
        match piece {
            Piece::Text(text) => parts.push(json!({ "text": text })),
            Piece::Own(block) if block.block["on"] == ON_CALL => {
                signature = block.block[SIGNATURE].as_str();
            }
            Piece::Own(block) => {
                parts.push(json!({ "text": "", SIGNATURE: block.block[SIGNATURE] }));
            }
            Piece::Call(call) => {
                let mut part = json!({ "functionCall": function_call(call) });
                // Of the calls made at once only the first has one.
                let needs = first_call && insists_on_signatures(&ask.origin.model);
                if let Some(signature) = signature.take().or(needs.then_some(NO_SIGNATURE)) {
                    part[SIGNATURE] = json!(signature);
                }
                first_call = false;
                parts.push(part);
            }
        }
    }
    parts
}

fn function_call(call: &ToolCall) -> Value {
    let arguments = match &call.arguments {
        Arguments::Object(map) => Value::Object(map.clone()),
        Arguments::Invalid { .. } => json!({}),
    };
    json!({ "id": call.wire_id(), "name": function_name(&call.name), "args": arguments })
}

/// Names begin with a letter or an underscore.
fn function_name(name: &str) -> Cow<'_, str> {
    let name = wire_name(name);
    if name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        name
    } else {
        Cow::Owned(wire_name(&format!("_{name}")).into_owned())
    }
}

/// A result goes under the name its call has here: the call's may be the model's spelling, the result's
/// the tool's own.
fn named_alike(contents: &mut [Value]) {
    let mut names: Vec<Value> = Vec::new();
    for content in contents {
        let Some(parts) = content["parts"].as_array_mut() else { continue };
        let called = parts.iter().filter_map(|part| part.get("functionCall"));
        let called: Vec<Value> = called.map(|call| call["name"].clone()).collect();
        if !called.is_empty() {
            names = called;
            continue;
        }
        let results = parts.iter_mut().filter_map(|part| part.get_mut("functionResponse"));
        for (result, name) in results.zip(names.drain(..)) {
            result["name"] = name;
        }
    }
}

#[cfg(test)]
mod tests;
