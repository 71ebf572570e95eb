//! What an OpenAI-compatible provider accepts, as strictly as the strictest of them (I4).

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// Checks one request body; says what is wrong with it.
///
/// A request begins with its only system message, pairs each call with exactly one result directly after
/// the calls and in their order, has no orphan result and no id twice, and ends with a user or a tool.
pub fn check(body: &Value) -> Result<(), String> {
    let messages = body["messages"].as_array().ok_or("no `messages` array")?;
    if body["model"].as_str().is_none_or(str::is_empty) {
        return Err("no `model`".to_owned());
    }
    check_tools(body)?;
    match messages.first().map(role) {
        Some("system") => {}
        other => return Err(format!("the first message is {other:?}, not system")),
    }
    match messages.last().map(role) {
        Some("user" | "tool") => {}
        other => return Err(format!("the last message is {other:?}, neither user nor tool")),
    }
    let mut ids = HashSet::new();
    let mut at = 1;
    while let Some(message) = messages.get(at) {
        match role(message) {
            "user" => {
                if text(message).is_none_or(|text| text.trim().is_empty()) {
                    return Err(format!("message {at}: a user message without text"));
                }
                if !message["content"].as_array().into_iter().flatten().all(is_part) {
                    return Err(format!("message {at}: a part that is neither text nor an image"));
                }
                at += 1;
            }
            "assistant" => at += check_round(messages, at, &mut ids)?,
            "tool" => return Err(format!("message {at}: an orphan tool result")),
            "system" => return Err(format!("message {at}: a system message that isn't the first")),
            other => return Err(format!("message {at}: the role `{other}` is unknown")),
        }
    }
    Ok(())
}

/// Checks an assistant message with its results; gives back how many messages that were.
fn check_round(messages: &[Value], at: usize, ids: &mut HashSet<String>) -> Result<usize, String> {
    let message = &messages[at];
    let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
    if message.get("tool_calls").is_some() && calls.is_empty() {
        return Err(format!("message {at}: an empty `tool_calls`"));
    }
    if calls.is_empty() && text(message).is_none_or(str::is_empty) {
        return Err(format!("message {at}: an assistant message with neither text nor calls"));
    }
    for (slot, call) in calls.iter().enumerate() {
        let id = call["id"].as_str().unwrap_or_default();
        if id.is_empty() {
            return Err(format!("message {at}: call {slot} has no id"));
        }
        if !ids.insert(id.to_owned()) {
            return Err(format!("message {at}: the call id `{id}` stands twice"));
        }
        if call["type"] != "function" || call["function"]["name"].as_str().is_none() {
            return Err(format!("message {at}: call {slot} is no function call"));
        }
        let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
        if !serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object()) {
            return Err(format!("message {at}: the arguments of `{id}` are no JSON object"));
        }
        let result = messages.get(at + 1 + slot);
        let answered = result.filter(|result| role(result) == "tool");
        match answered.map(|result| result["tool_call_id"].as_str().unwrap_or_default()) {
            Some(found) if found == id => {}
            found => {
                return Err(format!(
                    "message {at}: after `{id}` its result is due, found {found:?}"
                ));
            }
        }
        if result.and_then(text).is_none() {
            return Err(format!("message {at}: the result of `{id}` has no text"));
        }
    }
    Ok(1 + calls.len())
}

fn check_tools(body: &Value) -> Result<(), String> {
    let Some(tools) = body.get("tools") else { return Ok(()) };
    let tools = tools.as_array().filter(|tools| !tools.is_empty()).ok_or("`tools` is empty")?;
    let mut names = HashSet::new();
    for tool in tools {
        let name = tool["function"]["name"].as_str().unwrap_or_default();
        let fits = !name.is_empty()
            && name.len() <= 64
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        if !fits || !names.insert(name) {
            return Err(format!("the tool name `{name}` is not allowed, or stands twice"));
        }
        if tool["function"]["parameters"]["type"] != "object" {
            return Err(format!("the parameters of `{name}` are no object schema"));
        }
    }
    Ok(())
}

/// Text that says something, or an image of a known kind with all its bytes.
fn is_part(part: &Value) -> bool {
    match part["type"].as_str() {
        Some("text") => part["text"].as_str().is_some_and(|text| !text.trim().is_empty()),
        Some("image_url") => image(part).is_some_and(|(kind, bytes)| {
            let known = ["image/png", "image/jpeg", "image/gif", "image/webp"];
            known.contains(&kind) && !bytes.is_empty()
        }),
        _ => false,
    }
}

/// The media type and the bytes of a part that is an image.
pub fn image(part: &Value) -> Option<(&str, Vec<u8>)> {
    let url = part["image_url"]["url"].as_str()?.strip_prefix("data:")?;
    let (kind, data) = url.split_once(";base64,")?;
    Some((kind, STANDARD.decode(data).ok()?))
}

fn role(message: &Value) -> &str {
    message["role"].as_str().unwrap_or_default()
}

/// A message's text, whether plain or in parts.
pub fn text(message: &Value) -> Option<&str> {
    match &message["content"] {
        Value::String(text) => Some(text),
        Value::Array(parts) => parts.first().and_then(|part| part["text"].as_str()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
