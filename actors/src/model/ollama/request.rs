//! The body of a request (Ollama API documentation, "Generate a chat completion"; "Thinking").

use rookery_messages::chat::{Arguments, ChatMessage};
use rookery_messages::settings::ReasoningEffort;
use serde_json::{Map, Value, json};

use super::Ollama;
use crate::model::http::Ask;
use crate::model::wire::{images, is_image, marked, wire_name};

pub(super) fn body(dialect: &Ollama, ask: &Ask<'_>) -> Value {
    let mut body = Map::new();
    body.insert("model".into(), json!(ask.origin.model));
    body.insert("stream".into(), json!(true));
    body.insert("messages".into(), ask.messages.iter().map(|one| message(ask, one)).collect());
    if !ask.offers.is_empty() {
        let tools = ask.offers.iter().map(|offer| {
            json!({
                "type": "function",
                "function": {
                    "name": offer.spec.name,
                    "description": offer.spec.description,
                    "parameters": &*offer.parameters,
                },
            })
        });
        body.insert("tools".into(), tools.collect());
    }
    if let Some(effort) = dialect.effort.filter(|_| !ask.ease.no_reasoning) {
        body.insert("think".into(), think(&ask.origin.model, effort));
    }
    let mut options = Map::new();
    if let Some(cap) = ask.ease.output_cap.or(dialect.max_output_tokens) {
        options.insert("num_predict".into(), json!(cap));
    }
    if let Some(window) = dialect.num_ctx {
        options.insert("num_ctx".into(), json!(window));
    }
    if !options.is_empty() {
        body.insert("options".into(), Value::Object(options));
    }
    Value::Object(body)
}

/// Most models think or don't; `gpt-oss` knows by how much, and does not take yes or no.
fn think(model: &str, effort: ReasoningEffort) -> Value {
    match effort {
        ReasoningEffort::None => json!(false),
        effort if model.contains("gpt-oss") => json!(effort.as_str()),
        _ => json!(true),
    }
}

fn message(ask: &Ask<'_>, message: &ChatMessage) -> Value {
    match message {
        ChatMessage::System { text } => json!({ "role": "system", "content": text }),
        ChatMessage::User { text, attachments, .. } => {
            let mut said = json!({ "role": "user", "content": text });
            let shown: Vec<&str> = images(ask, attachments).map(|image| &*image.data).collect();
            if !shown.is_empty() {
                said["images"] = json!(shown);
            }
            said
        }
        ChatMessage::Assistant { text, calls, interrupted, .. } => {
            let mut said = json!({ "role": "assistant", "content": marked(text, *interrupted) });
            if !calls.is_empty() {
                let calls = calls.iter().map(|call| {
                    let arguments = match &call.arguments {
                        Arguments::Object(map) => Value::Object(map.clone()),
                        Arguments::Invalid { .. } => json!({}),
                    };
                    let name = wire_name(&call.name);
                    json!({ "function": { "name": name, "arguments": arguments } })
                });
                said["tool_calls"] = calls.collect();
            }
            said
        }
        ChatMessage::Tool { name, output, .. } => {
            json!({ "role": "tool", "tool_name": wire_name(name), "content": output })
        }
    }
}

/// The last look before the wire (I4): the model's template pairs calls and results by their order alone.
pub(super) fn check(body: &Value) -> Result<(), String> {
    let messages = body["messages"].as_array().ok_or("there are no messages")?;
    let mut waiting = 0_usize;
    let mut asked = false;
    for (at, message) in messages.iter().enumerate() {
        let wrong = |what: &str| Err(format!("messages[{at}]: {what}"));
        let blank = message["content"].as_str().is_none_or(|text| text.trim().is_empty());
        let calls = message["tool_calls"].as_array().map_or(0, Vec::len);
        let role = message["role"].as_str().unwrap_or_default();
        if blank && calls == 0 {
            return wrong("it is blank");
        }
        let mut shown = message["images"].as_array().into_iter().flatten().peekable();
        if shown.peek().is_some() && role != "user" {
            return wrong("only what a person says has images");
        }
        // The server tells their kind by itself.
        if !shown.all(|data| is_image("image/png", data.as_str().unwrap_or_default())) {
            return wrong("an image is none");
        }
        if role == "tool" {
            waiting = match waiting.checked_sub(1) {
                Some(rest) => rest,
                None => return wrong("a result that nothing asked for"),
            };
            continue;
        }
        if waiting > 0 {
            return wrong("a call before it has no result");
        }
        match role {
            "system" if at > 0 => return wrong("a system message that is not the first"),
            "system" => {}
            "user" => asked = true,
            "assistant" if !asked => return wrong("an answer before the first question"),
            "assistant" => waiting = calls,
            _ => return wrong("an unknown role"),
        }
    }
    match (waiting, asked) {
        (0, true) => Ok(()),
        (0, false) => Err("nobody asks anything".into()),
        _ => Err("the last call has no result".into()),
    }
}

#[cfg(test)]
mod tests;
