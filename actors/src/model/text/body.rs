//! What stands in a call's element (form 5): elements, JSON, attributes, function style, lines.

use rookery_messages::model::RawCall;
use serde_json::{Map, Value};

use super::attributes::{Attributes, attributes};
use super::calls::{self, Marked, Read};
use super::elements::{self, Element};
use super::known::Known;
use super::named::{self, bare, is_key, lines, unquoted};
use super::names::{Kind, kind};
use super::perl;

/// How deep call elements nest.
const MAX_NESTED: usize = 16;

/// A key under which a call's name stands.
pub(super) fn is_name_key(key: &str) -> bool {
    matches!(key, "name" | "tool" | "tool_name" | "function")
}

/// The tool an element's attributes name.
pub(super) fn name_of(attributes: &Attributes) -> Option<&str> {
    let named = attributes.iter().find(|(key, _)| is_name_key(key));
    named.map(|(_, name)| name.trim()).filter(|name| !name.is_empty())
}

fn id_of(attributes: &Attributes) -> Option<String> {
    let ids = ["id", "tool_call_id", "call_id"];
    let found = attributes.iter().find(|(key, _)| ids.contains(&key.as_str()));
    found.map(|(_, id)| id.trim().to_owned()).filter(|id| !id.is_empty())
}

/// A call of a tool an element's attributes name.
pub(super) fn named_call(
    name: &str,
    attributes: &Attributes,
    arguments: String,
    known: &Known,
) -> RawCall {
    RawCall { provider_id: id_of(attributes), name: known.spelled(name), arguments }
}

/// The calls of a body, or why they can't be read. An empty body asks for nothing.
pub(super) fn read(
    body: &str,
    attributes: &Attributes,
    known: &Known,
) -> Result<Vec<RawCall>, String> {
    within(body, attributes, known, 0)
}

fn within(
    body: &str,
    attributes: &Attributes,
    known: &Known,
    depth: usize,
) -> Result<Vec<RawCall>, String> {
    if depth > MAX_NESTED {
        return Err("its elements nest too deep".to_owned());
    }
    if let Some(name) = name_of(attributes) {
        let given = given(name, attributes, known);
        let arguments = named::from_body(name, given, body, known)?;
        return Ok(vec![named_call(name, attributes, arguments, known)]);
    }
    let text = body.trim();
    if text.is_empty() {
        return Ok(Vec::new());
    }
    if text.starts_with(['{', '[']) {
        return values(text, known);
    }
    if text.starts_with('<') {
        let found = elements::read(text).ok_or("its elements can't be read")?;
        return of_elements(found, known, depth);
    }
    let (name, arguments) = name_led(text, known)?;
    Ok(vec![RawCall { provider_id: id_of(attributes), name: known.spelled(&name), arguments }])
}

/// Arguments that stand as attributes.
fn given(tool: &str, attributes: &Attributes, known: &Known) -> Map<String, Value> {
    let of_call = |key: &str| {
        (is_name_key(key) || matches!(key, "id" | "tool_call_id" | "call_id" | "type"))
            && !(known.has_property(tool, key) && key != "name")
    };
    let mut map = Map::new();
    for (key, value) in attributes.iter().filter(|(key, _)| !of_call(key)) {
        map.insert(key.clone(), known.value(tool, key, value));
    }
    map
}

/// Several JSON values, or a body in braces that is not JSON.
pub(super) fn values(text: &str, known: &Known) -> Result<Vec<RawCall>, String> {
    let mut found = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        let value = match value {
            Ok(value) => value,
            Err(error) => {
                let call = if found.is_empty() { braces(text, known) } else { None };
                let call = call.ok_or_else(|| format!("its JSON can't be read: {error}"))?;
                return Ok(vec![call]);
            }
        };
        match calls::read(&value, known, Marked::Yes) {
            Read::Calls { calls, .. } => found.extend(calls),
            Read::Malformed | Read::Other => return Err("its JSON has no name of a tool".into()),
        }
    }
    Ok(found)
}

/// `{tool => "shell", args => {--command "ls"}}` (form 7).
pub(super) fn braces(text: &str, known: &Known) -> Option<RawCall> {
    let mut map = perl::read(text)?;
    let key = ["tool", "name", "tool_name", "function"]
        .into_iter()
        .find(|key| map.get(*key).is_some_and(Value::is_string))?;
    let name = map.shift_remove(key)?.as_str()?.to_owned();
    let provider_id = calls::id(&map);
    let inner = ["args", "arguments", "parameters", "input"]
        .into_iter()
        .find_map(|key| map.get(key).cloned());
    let arguments = match inner {
        Some(Value::Object(inner)) => named::json(inner),
        Some(Value::String(text)) => text,
        Some(other) => other.to_string(),
        None => {
            for key in ["id", "tool_call_id", "call_id"] {
                map.shift_remove(key);
            }
            named::json(map)
        }
    };
    Some(RawCall { provider_id, name: known.spelled(&name), arguments })
}

fn of_elements(
    found: Vec<Element<'_>>,
    known: &Known,
    depth: usize,
) -> Result<Vec<RawCall>, String> {
    let names_tool = |element: &Element<'_>| {
        is_name_key(&element.local())
            && element.attributes.is_empty()
            && element.value.is_none()
            && is_key(element.inner.trim())
    };
    if let Some(at) = found.iter().position(names_tool) {
        let mut found = found;
        let name = found.remove(at).inner.trim().to_owned();
        let ids = ["id", "tool_call_id", "call_id"];
        let id = found.iter().position(|element| ids.contains(&element.local().as_str()));
        let provider_id = id.map(|at| found.remove(at).inner.trim().to_owned());
        let arguments = named::of_elements(&name, found, known)?;
        return Ok(vec![RawCall { provider_id, name: known.spelled(&name), arguments }]);
    }
    let mut calls = Vec::new();
    for element in found {
        let plain = matches!(kind(element.name), Kind::Call(_)) || element.local() == "function";
        let mut attributes = element.attributes.clone();
        let name = match (plain, element.value) {
            (true, None) => None,
            (_, Some(name)) => Some(name),
            (false, None) => Some(element.name),
        };
        if let Some(name) = name {
            attributes.retain(|(key, _)| key != "name");
            attributes.insert(0, ("name".to_owned(), name.to_owned()));
        }
        calls.extend(within(element.inner, &attributes, known, depth + 1)?);
    }
    Ok(calls)
}

/// A body that begins with the tool's name, or with a line that says it.
fn name_led(text: &str, known: &Known) -> Result<(String, String), String> {
    let unreadable = || "its body can't be read".to_owned();
    let length =
        text.find(|c: char| !c.is_ascii_alphanumeric() && !"_-.".contains(c)).unwrap_or(text.len());
    let (name, rest) = text.split_at(length);
    if name.is_empty() {
        return Err(unreadable());
    }
    let after = rest.trim_start();
    if is_name_key(name) && after.starts_with([':', '=']) && known.find(name).is_none() {
        return named_lines(text, known);
    }
    let map = Map::new();
    let arguments = match after.chars().next() {
        None => named::json(map),
        Some('{' | '<') => named::from_body(name, map, after, known)?,
        Some('(') => {
            let inner = after[1..].rsplit_once(')').map_or(&after[1..], |(inner, _)| inner);
            function_style(name, inner.trim(), known)?
        }
        Some('>') => named::from_body(name, map, &after[1..], known)?,
        Some('/') => {
            let (key, value) = after[1..].split_once('>').ok_or_else(unreadable)?;
            let key = key.trim();
            let value = known.value(name, key, value.trim());
            named::json(Map::from_iter([(key.to_owned(), value)]))
        }
        Some(_) => match lines(after, |_| true) {
            Some(pairs) => typed(name, pairs, known),
            None => {
                let pairs = attributes(after.trim_end_matches(['>', '/']));
                if pairs.is_empty() || !pairs.iter().all(|(key, _)| is_key(key)) {
                    return Err(unreadable());
                }
                typed(name, pairs, known)
            }
        },
    };
    Ok((name.to_owned(), arguments))
}

fn typed(tool: &str, pairs: Vec<(String, String)>, known: &Known) -> String {
    let pairs = pairs.into_iter().map(|(key, value)| {
        let value = known.value(tool, &key, &value);
        (key, value)
    });
    named::json(pairs.collect())
}

fn function_style(tool: &str, inner: &str, known: &Known) -> Result<String, String> {
    if inner.is_empty() || inner.starts_with('{') {
        return named::from_body(tool, Map::new(), inner, known);
    }
    let pairs = attributes(inner);
    if !pairs.is_empty() && pairs.iter().all(|(key, _)| is_key(key)) {
        return Ok(typed(tool, pairs, known));
    }
    bare(tool, Map::new(), inner, known)
}

/// `name: shell`, then its arguments as lines or as JSON.
fn named_lines(text: &str, known: &Known) -> Result<(String, String), String> {
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let (_, name) = first.split_once([':', '=']).ok_or("its first line names no tool")?;
    let name = unquoted(name.trim());
    if !is_key(name) {
        return Err("its first line names no tool".to_owned());
    }
    let rest = rest.trim();
    let keys = ["arguments", "parameters", "args", "input"];
    let inner = keys.iter().find_map(|key| {
        rest.strip_prefix(key).map(str::trim_start)?.strip_prefix([':', '=']).map(str::trim)
    });
    let body = inner.unwrap_or(rest);
    let arguments = match lines(body, |_| true) {
        Some(pairs) if !body.starts_with('{') => typed(name, pairs, known),
        _ => named::from_body(name, Map::new(), body, known)?,
    };
    Ok((name.to_owned(), arguments))
}
