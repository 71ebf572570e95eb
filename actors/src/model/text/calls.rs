//! Calls in parsed JSON.

use rookery_messages::model::RawCall;
use serde_json::{Map, Value};

use super::known::Known;

/// How much says that the JSON is meant as a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Marked {
    /// It stands in an envelope that says so.
    Yes,
    /// Only its own keys say so: business data has such keys too (V-E10).
    No,
}

/// What a JSON value is, read as calls.
#[derive(PartialEq, Debug)]
pub(super) enum Read {
    /// Calls, and the text that came with them.
    Calls { calls: Vec<RawCall>, text: Option<String> },
    /// An envelope some of whose entries are no calls.
    Malformed,
    /// Nothing of the kind.
    Other,
}

pub(super) fn read(value: &Value, known: &Known, marked: Marked) -> Read {
    match value {
        Value::Array(entries) => list(entries, known, marked),
        Value::Object(object) => match object.get("tool_calls") {
            // V-F15: an empty list asks for nothing.
            Some(Value::Null) if speaks(object) => no_calls(object),
            Some(Value::Array(entries)) if entries.is_empty() && speaks(object) => no_calls(object),
            Some(Value::Array(entries)) if !entries.is_empty() => {
                match list(entries, known, Marked::Yes) {
                    Read::Calls { calls, .. } => Read::Calls { calls, text: content(object) },
                    other => other,
                }
            }
            _ => match one(object, known, marked) {
                Some(call) => Read::Calls { calls: vec![call], text: None },
                None => Read::Other,
            },
        },
        _ => Read::Other,
    }
}

/// An answer without calls has a text, or nothing at all; anything else is data.
fn speaks(object: &Map<String, Value>) -> bool {
    object.len() == 1 || content(object).is_some()
}

fn no_calls(object: &Map<String, Value>) -> Read {
    Read::Calls { calls: Vec::new(), text: content(object) }
}

fn content(object: &Map<String, Value>) -> Option<String> {
    ["content", "text"].iter().find_map(|key| object.get(*key)?.as_str()).map(str::to_owned)
}

fn list(entries: &[Value], known: &Known, marked: Marked) -> Read {
    // In a list one known name is enough to tell that all of them are calls.
    let one_known = marked == Marked::Yes
        || entries.iter().any(|entry| {
            entry.as_object().and_then(name).is_some_and(|name| known.find(name).is_some())
        });
    if entries.is_empty() && marked == Marked::Yes {
        return Read::Calls { calls: Vec::new(), text: None };
    }
    if !one_known {
        return Read::Other;
    }
    let calls: Vec<Option<RawCall>> = entries
        .iter()
        .map(|entry| {
            let object = entry.as_object()?;
            let bare = marked == Marked::No && arguments(object).is_none();
            (!bare).then(|| one(object, known, Marked::Yes)).flatten()
        })
        .collect();
    if calls.iter().all(Option::is_none) {
        return Read::Other;
    }
    match (calls.into_iter().collect::<Option<Vec<_>>>(), marked) {
        (Some(calls), _) => Read::Calls { calls, text: None },
        (None, Marked::Yes) => Read::Malformed,
        (None, Marked::No) => Read::Other,
    }
}

fn one(object: &Map<String, Value>, known: &Known, marked: Marked) -> Option<RawCall> {
    let written = name(object).filter(|name| !name.trim().is_empty())?;
    let arguments = arguments(object);
    if marked == Marked::No {
        let own = |key: &str| {
            matches!(key, "name" | "function" | "id" | "type" | "tool_call_id" | "call_id")
        };
        let bare = arguments.is_none();
        let certain = known.find(written).is_some();
        if !certain || (bare && !object.keys().all(|key| own(key))) {
            return None;
        }
    }
    Some(RawCall {
        provider_id: id(object),
        name: known.spelled(written),
        arguments: arguments.map(written_arguments).unwrap_or_default(),
    })
}

fn name(object: &Map<String, Value>) -> Option<&str> {
    let nested = object.get("function").and_then(|function| match function {
        Value::String(name) => Some(name.as_str()),
        function => function.get("name")?.as_str(),
    });
    ["name", "tool", "tool_name"].iter().find_map(|key| object.get(*key)?.as_str()).or(nested)
}

fn arguments(object: &Map<String, Value>) -> Option<&Value> {
    fn of(object: &Map<String, Value>) -> Option<&Value> {
        ["arguments", "parameters", "args", "input"].iter().find_map(|key| object.get(*key))
    }
    of(object).or_else(|| of(object.get("function")?.as_object()?))
}

/// The id the model gave, from any of the keys it is known under.
pub(super) fn id(object: &Map<String, Value>) -> Option<String> {
    let text = |value: &Value| match value {
        Value::String(id) => Some(id.trim().to_owned()),
        Value::Number(id) => Some(id.to_string()),
        _ => None,
    };
    ["id", "tool_call_id", "call_id"]
        .iter()
        .find_map(|key| text(object.get(*key)?))
        .or_else(|| text(object.get("function")?.get("id")?))
        .filter(|id| !id.is_empty())
}

/// The arguments as a provider's stream would give them: JSON in a text.
fn written_arguments(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        // Encoded twice, or not JSON at all: told apart where native arguments are.
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
