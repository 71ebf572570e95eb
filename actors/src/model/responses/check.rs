//! The last look before the wire (I4): what the API refuses, as its reference and guides state it.

use std::collections::HashSet;

use serde_json::Value;

use super::request::takes_id;
use crate::model::wire::is_data_url;

/// What is wrong, or nothing.
pub(super) fn check(body: &Value) -> Result<(), String> {
    if body.get("max_output_tokens").is_some_and(|cap| cap.as_u64().unwrap_or(0) == 0) {
        return Err("max_output_tokens must be at least 1".into());
    }
    if body.get("instructions").is_some_and(is_blank) {
        return Err("the instructions are blank".into());
    }
    let items = body["input"].as_array().ok_or("there is no input")?;
    let mut asked: HashSet<&str> = HashSet::new();
    let mut open: Vec<&str> = Vec::new();
    let mut any_user = false;
    for (at, item) in items.iter().enumerate() {
        let wrong = |what: &str| Err(format!("input[{at}]: {what}"));
        let kind = item["type"].as_str().unwrap_or("message");
        // Results follow their calls at once; reasoning may stand between calls of one answer.
        let goes_on = matches!(kind, "function_call" | "function_call_output" | "reasoning");
        if !open.is_empty() && !goes_on {
            return wrong("a call before it has no result");
        }
        match kind {
            "message" => {
                let role = item["role"].as_str().unwrap_or_default();
                let sound = match &item["content"] {
                    Value::Array(parts) => role == "user" && parts.iter().all(is_sound),
                    text => !is_blank(text),
                };
                if !sound || !matches!(role, "user" | "assistant") {
                    return wrong("a message is blank, or of an unknown role, or holds no image");
                }
                any_user |= role == "user";
                if !any_user {
                    return wrong("an answer stands before the first question");
                }
            }
            "function_call" => {
                let id = item["call_id"].as_str().unwrap_or_default();
                let parsed = item["arguments"].as_str().map(serde_json::from_str::<Value>);
                let arguments = matches!(parsed, Some(Ok(Value::Object(_))));
                if !any_user || !takes_id(id) || !asked.insert(id) || !arguments {
                    return wrong("a call has an unusable id or arguments, or answers nobody");
                }
                if is_blank(&item["name"]) {
                    return wrong("a call has no name");
                }
                let after_result =
                    at > 0 && items[at - 1]["type"] == "function_call_output" && !open.is_empty();
                if after_result {
                    return wrong("a call stands between the results of others");
                }
                open.push(id);
            }
            "function_call_output" => {
                let id = item["call_id"].as_str().unwrap_or_default();
                if open.first() != Some(&id) || is_blank(&item["output"]) {
                    return wrong("a result is blank, or not that of the call whose turn it is");
                }
                open.remove(0);
            }
            "reasoning" => {
                let next = items.get(at + 1);
                let leads = next.is_some_and(|next| match next["type"].as_str() {
                    Some(kind) => matches!(kind, "function_call" | "reasoning"),
                    None => next["role"] == "assistant",
                });
                if !leads || is_blank(&item["encrypted_content"]) || !item["summary"].is_array() {
                    return wrong("a reasoning item is not whole, or leads to nothing");
                }
            }
            kind => return wrong(&format!("an item of type `{kind}` is not known")),
        }
    }
    if let Some(id) = open.first() {
        return Err(format!("the call {id} has no result"));
    }
    if any_user { Ok(()) } else { Err("nobody asks anything".into()) }
}

/// Whether a part of what a person says is text to be read, or an image.
fn is_sound(part: &Value) -> bool {
    match part["type"].as_str() {
        Some("input_text") => !is_blank(&part["text"]),
        Some("input_image") => part["image_url"].as_str().is_some_and(is_data_url),
        _ => false,
    }
}

pub(super) fn is_blank(text: &Value) -> bool {
    text.as_str().is_none_or(|text| text.trim().is_empty())
}
