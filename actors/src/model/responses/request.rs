//! The body of a request (OpenAI API reference, "Create a model response"; guide "Reasoning models").

use rookery_messages::attachment::Attachment;
use rookery_messages::chat::ChatMessage;
use rookery_messages::settings::ReasoningEffort;
use serde_json::{Map, Value, json};

use super::Responses;
use crate::model::http::Ask;
use crate::model::wire::{
    Piece, data_url, images, marked, own, pieces, split_system, wire_id, wire_name,
};
use crate::model::wire_check::MAX_WIRE_ID;

pub(super) fn body(dialect: &Responses, ask: &Ask<'_>) -> Value {
    let (system, rest) = split_system(ask.messages);
    let mut body = Map::new();
    body.insert("model".into(), json!(ask.origin.model));
    body.insert("stream".into(), json!(true));
    body.insert("store".into(), json!(false));
    if !ask.ease.no_state {
        body.insert("include".into(), json!(["reasoning.encrypted_content"]));
    }
    if let Some(text) = system {
        body.insert("instructions".into(), json!(text));
    }
    if let Some(cap) = ask.ease.output_cap.or(dialect.max_output_tokens) {
        body.insert("max_output_tokens".into(), json!(cap));
    }
    match (ask.ease.no_reasoning, dialect.effort) {
        (true, _) | (false, Some(ReasoningEffort::None)) => {
            body.insert("reasoning".into(), json!({ "effort": "none" }));
        }
        (false, Some(effort)) => {
            let reasoning = json!({ "effort": effort.as_str(), "summary": "auto" });
            body.insert("reasoning".into(), reasoning);
        }
        (false, None) => {}
    }
    if !ask.offers.is_empty() {
        let tools = ask.offers.iter().map(|offer| {
            json!({
                "type": "function",
                "name": offer.spec.name,
                "description": offer.spec.description,
                "parameters": &*offer.parameters,
                // Strict schemas admit less than what tools declare.
                "strict": false,
            })
        });
        body.insert("tools".into(), tools.collect());
    }
    body.insert("input".into(), Value::Array(input(ask, rest)));
    Value::Object(body)
}

fn input(ask: &Ask<'_>, messages: &[ChatMessage]) -> Vec<Value> {
    let mut items = Vec::new();
    for message in messages {
        match message {
            ChatMessage::System { text } => {
                items.push(json!({ "role": "user", "content": text }));
            }
            ChatMessage::User { text, attachments, .. } => {
                items.push(json!({ "role": "user", "content": content(ask, text, attachments) }));
            }
            ChatMessage::Assistant { text, calls, interrupted, opaque } => {
                let text = marked(text, *interrupted);
                let mut parts = pieces(&text, calls, own(ask, opaque));
                // A reasoning item goes with what it led to, and alone it is refused.
                while matches!(parts.last(), Some(Piece::Own(_))) {
                    parts.pop();
                }
                items.extend(parts.into_iter().map(item));
            }
            ChatMessage::Tool { call, wire_id: known, output, .. } => items.push(json!({
                "type": "function_call_output",
                "call_id": wire_id(*call, known, takes_id),
                "output": output,
            })),
        }
    }
    items
}

/// Text alone stays plain; beside images it is a part (guide "Images and vision").
fn content(ask: &Ask<'_>, text: &str, attachments: &[Attachment]) -> Value {
    let shown = images(ask, attachments).map(
        |image| json!({ "type": "input_image", "image_url": data_url(image), "detail": "auto" }),
    );
    let shown: Vec<Value> = shown.collect();
    if shown.is_empty() {
        return json!(text);
    }
    let text = json!({ "type": "input_text", "text": text });
    std::iter::once(text).chain(shown).collect()
}

fn item(piece: Piece<'_>) -> Value {
    match piece {
        Piece::Text(text) => json!({ "role": "assistant", "content": text }),
        Piece::Call(call) => json!({
            "type": "function_call",
            "call_id": wire_id(call.id, &call.wire_id(), takes_id),
            "name": wire_name(&call.name),
            "arguments": call.arguments.to_wire(),
        }),
        Piece::Own(block) => block.block.clone(),
    }
}

/// What the API takes as an id of a call (A047).
pub(super) fn takes_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= MAX_WIRE_ID && id.chars().all(|c| c.is_ascii_graphic())
}

#[cfg(test)]
mod tests;
