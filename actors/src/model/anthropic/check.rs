//! The last look before the wire (I4): what the API refuses, as its reference and guides state it.

use std::collections::HashSet;

use serde_json::Value;

use super::request::takes_id;
use crate::model::wire::is_image;

/// Most marks of a cached prefix.
const MOST_MARKS: usize = 4;

/// What is wrong, or nothing.
pub(super) fn check(body: &Value) -> Result<(), String> {
    let cap = body["max_tokens"].as_u64().unwrap_or(0);
    if cap == 0 {
        return Err("max_tokens must be at least 1".into());
    }
    let budget = match body["thinking"]["type"].as_str() {
        Some("enabled") => {
            let budget = body["thinking"]["budget_tokens"].as_u64().unwrap_or(0);
            if !(1_024..cap).contains(&budget) {
                return Err("the budget of thinking must lie between 1024 and max_tokens".into());
            }
            true
        }
        _ => false,
    };
    let tools = tools(body)?;
    let messages = body["messages"].as_array().ok_or("there are no messages")?;
    let mut ids = HashSet::new();
    let mut waiting: Vec<&str> = Vec::new();
    let mut marks = marks_in(&body["system"]) + marks_in(&body["tools"]);
    for (at, message) in messages.iter().enumerate() {
        let role = if at % 2 == 0 { "user" } else { "assistant" };
        if message["role"] != role {
            return Err(format!("messages[{at}] must be of role {role}"));
        }
        marks += marks_in(&message["content"]);
        let blocks = message["content"].as_array().filter(|blocks| !blocks.is_empty());
        let blocks = blocks.ok_or_else(|| format!("messages[{at}] is empty"))?;
        let wrong = |what: &str| Err(format!("messages[{at}]: {what}"));
        let answers = blocks.iter().take_while(|block| block["type"] == "tool_result");
        let answered: Vec<&str> =
            answers.filter_map(|block| block["tool_use_id"].as_str()).collect();
        if answered != waiting {
            return wrong("its results are not those of the calls before it, in their order");
        }
        waiting.clear();
        for (place, block) in blocks.iter().enumerate() {
            match (block["type"].as_str().unwrap_or_default(), role) {
                ("text", _) if is_blank(&block["text"]) => return wrong("a text is blank"),
                ("text", _) => {}
                ("image", "user") if is_sound(&block["source"]) => {}
                ("tool_result", "user") if place >= answered.len() => {
                    return wrong("a result stands behind other content");
                }
                ("tool_result", "user") if is_blank(&block["content"]) => {
                    return wrong("a result is blank");
                }
                ("tool_result", "user") => {}
                ("tool_use", "assistant") => {
                    let id = block["id"].as_str().unwrap_or_default();
                    if !takes_id(id) || !ids.insert(id) || !block["input"].is_object() {
                        return wrong("a call has an unusable id or input");
                    }
                    if !block["name"].as_str().is_some_and(is_name) || !tools {
                        return wrong("a call has an unusable name, or no tools are named");
                    }
                    waiting.push(id);
                }
                ("thinking", "assistant")
                    if block["thinking"].is_string() && !is_blank(&block["signature"]) => {}
                ("redacted_thinking", "assistant") if !is_blank(&block["data"]) => {}
                (kind, _) => {
                    return wrong(&format!("a block of type `{kind}` is not allowed here"));
                }
            }
        }
        if blocks.last().is_some_and(is_thinking) {
            return wrong("an answer can't end with thinking");
        }
    }
    if !waiting.is_empty() || messages.len() % 2 == 0 {
        return Err("the last message must be the user's".into());
    }
    if budget && !loop_is_signed(messages) {
        return Err("an answer of the current tool loop does not begin with thinking".into());
    }
    if marks > MOST_MARKS {
        return Err(format!("more than {MOST_MARKS} cache marks"));
    }
    Ok(())
}

/// Whether the tools are well-formed, and there are any.
fn tools(body: &Value) -> Result<bool, String> {
    let mut names = HashSet::new();
    for tool in body["tools"].as_array().into_iter().flatten() {
        let name = tool["name"].as_str().unwrap_or_default();
        if !is_name(name) || !names.insert(name) {
            return Err(format!("the tool name `{name}` is unusable, or there twice"));
        }
        if tool["input_schema"]["type"] != "object" {
            return Err(format!("the schema of `{name}` is not an object's"));
        }
    }
    Ok(!names.is_empty())
}

/// The answers since the person spoke last, as far as they ask for tools, begin with thinking.
fn loop_is_signed(messages: &[Value]) -> bool {
    let blocks = |message: &Value| message["content"].as_array().cloned().unwrap_or_default();
    let spoke = messages.iter().rposition(|message| {
        message["role"] == "user"
            && blocks(message).iter().all(|block| block["type"] != "tool_result")
    });
    messages[spoke.map_or(0, |at| at + 1)..].iter().all(|message| {
        let blocks = blocks(message);
        message["role"] == "user"
            || blocks.iter().all(|block| block["type"] != "tool_use")
            || blocks.first().is_some_and(is_thinking)
    })
}

/// Whether an image's source holds an image.
fn is_sound(source: &Value) -> bool {
    let text = |key: &str| source[key].as_str().unwrap_or_default();
    text("type") == "base64" && is_image(text("media_type"), text("data"))
}

fn is_thinking(block: &Value) -> bool {
    matches!(block["type"].as_str(), Some("thinking" | "redacted_thinking"))
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 128
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

fn is_blank(text: &Value) -> bool {
    text.as_str().is_none_or(|text| text.trim().is_empty())
}

fn marks_in(list: &Value) -> usize {
    let blocks = list.as_array().into_iter().flatten();
    blocks.filter(|block| block.get("cache_control").is_some()).count()
}
