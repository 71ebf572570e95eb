//! The last look before the wire (I4): what the API refuses, as its reference and guides state it.

use serde_json::Value;

use crate::model::wire::is_image;

/// What is wrong, or nothing.
pub(super) fn check(body: &Value) -> Result<(), String> {
    let system = body.pointer("/systemInstruction/parts/0/text");
    if system.is_some_and(is_blank) {
        return Err("the system instruction is blank".into());
    }
    for tool in body
        .pointer("/tools/0/functionDeclarations")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        if !tool["name"].as_str().is_some_and(is_name) {
            return Err(format!("the tool name {} is unusable", tool["name"]));
        }
        if tool["parametersJsonSchema"]["type"] != "object" {
            return Err(format!("the schema of {} is not an object's", tool["name"]));
        }
    }
    let contents = body["contents"].as_array().ok_or("there are no contents")?;
    let mut waiting: Vec<(&Value, &Value)> = Vec::new();
    let mut spoke = "";
    for (at, content) in contents.iter().enumerate() {
        let wrong = |what: &str| Err(format!("contents[{at}]: {what}"));
        let role = content["role"].as_str().unwrap_or_default();
        let parts = content["parts"].as_array().filter(|parts| !parts.is_empty());
        let Some(parts) = parts else { return wrong("it has no parts") };
        match (role, spoke) {
            ("user", _) | ("model", "user") => {}
            ("model", "") => return wrong("the model speaks first"),
            _ => return wrong("the model speaks twice, or the role is unknown"),
        }
        spoke = role;
        let results: Vec<(&Value, &Value)> = parts
            .iter()
            .filter_map(|part| part.get("functionResponse"))
            .map(|result| (&result["name"], &result["id"]))
            .collect();
        if results != waiting {
            return wrong("its results are not those of the calls before it, in their order");
        }
        if !results.is_empty() && results.len() != parts.len() {
            return wrong("results stand beside other parts");
        }
        waiting.clear();
        for part in parts {
            if let Some(call) = part.get("functionCall") {
                let named = call["name"].as_str().is_some_and(is_name);
                if role != "model" || !named || !call["args"].is_object() {
                    return wrong("a call has an unusable name or arguments, or is the user's");
                }
                waiting.push((&call["name"], &call["id"]));
            } else if let Some(result) = part.get("functionResponse") {
                if !result["response"].is_object() {
                    return wrong("a result is no object");
                }
            } else if let Some(data) = part.get("inlineData") {
                let text = |key: &str| data[key].as_str().unwrap_or_default();
                if role != "user" || !is_image(text("mimeType"), text("data")) {
                    return wrong("an image is the model's, or none");
                }
            } else if is_blank(&part["text"]) && part.get("thoughtSignature").is_none() {
                return wrong("a text is blank");
            }
        }
    }
    if spoke != "user" || !waiting.is_empty() {
        return Err("the last content must be the user's".into());
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':'))
}

fn is_blank(text: &Value) -> bool {
    text.as_str().is_none_or(|text| text.trim().is_empty())
}
