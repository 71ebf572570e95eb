//! Arguments of a call whose tool is known: from elements, lines, pairs, or one bare value.

use serde_json::{Map, Value};

use super::elements::{self, Element};
use super::known::Known;

/// How deep elements of arguments nest.
const MAX_NESTED: usize = 8;

/// The arguments' JSON as a text, or what was written in its place: what is not JSON is refused later
/// with the complaint, never run as `{}` (T8).
pub(super) fn from_body(
    tool: &str,
    given: Map<String, Value>,
    body: &str,
    known: &Known,
) -> Result<String, String> {
    let text = body.trim();
    if text.is_empty() {
        return Ok(json(given));
    }
    if text.starts_with('{') {
        return Ok(text.to_owned());
    }
    if text.starts_with('<') {
        // Guessing what broken elements mean would run something nobody wrote.
        let found = elements::read(text).ok_or("its elements can't be read")?;
        return from_elements(tool, given, found, known, 0);
    }
    let mut map = given;
    if let Some(pairs) = lines(text, |key| known.has_property(tool, key)) {
        for (key, value) in pairs {
            map.insert(key.clone(), known.value(tool, &key, &value));
        }
        return Ok(json(map));
    }
    bare(tool, map, text, known)
}

/// One value, meant for the argument that matters most.
pub(super) fn bare(
    tool: &str,
    mut map: Map<String, Value>,
    text: &str,
    known: &Known,
) -> Result<String, String> {
    let key = known
        .primary(tool)
        .ok_or_else(|| format!("its value can't be given to an argument of {tool}"))?;
    let value = known.value(tool, &key, unquoted(text.trim()));
    map.insert(key, value);
    Ok(json(map))
}

/// Arguments that stand beside an element with the tool's name.
pub(super) fn of_elements(
    tool: &str,
    found: Vec<Element<'_>>,
    known: &Known,
) -> Result<String, String> {
    from_elements(tool, Map::new(), found, known, 0)
}

fn from_elements(
    tool: &str,
    mut map: Map<String, Value>,
    found: Vec<Element<'_>>,
    known: &Known,
    depth: usize,
) -> Result<String, String> {
    let mut waiting: Option<String> = None;
    for element in found {
        let local = element.local();
        let own = known.has_property(tool, element.name);
        let key = || {
            let named = |(key, value): &(String, String)| {
                matches!(key.as_str(), "name" | "key").then(|| value.clone())
            };
            element.value.map(str::to_owned).or_else(|| element.attributes.iter().find_map(named))
        };
        match local.as_str() {
            "arg_key" if !own => waiting = Some(element.text().trim().to_owned()),
            "arg_value" if !own => {
                if let Some(key) = waiting.take() {
                    let value = known.value(tool, &key, element.text());
                    map.insert(key, value);
                }
            }
            "arguments" | "parameters" | "args" | "params" | "input"
                if !own && key().is_none() && depth < MAX_NESTED =>
            {
                let text = element.inner.trim();
                if text.starts_with('{') {
                    match serde_json::from_str::<Map<String, Value>>(text) {
                        Ok(inner) => map.extend(inner),
                        // Refused with the parser's complaint.
                        Err(_) => return Ok(text.to_owned()),
                    }
                } else if let Some(inner) = elements::read(text) {
                    return from_elements(tool, map, inner, known, depth + 1);
                } else {
                    return Err("its arguments can't be read".to_owned());
                }
            }
            "code" if !own => code(tool, &mut map, element.text(), known),
            _ => {
                let key = key().unwrap_or_else(|| element.name.to_owned());
                let value = known.value(tool, &key, element.text());
                map.insert(key, value);
            }
        }
    }
    Ok(json(map))
}

/// `key>value` lines (form 6).
fn code(tool: &str, map: &mut Map<String, Value>, text: &str, known: &Known) {
    let mut key: Option<(String, String)> = None;
    let mut keep = |pair: Option<(String, String)>| {
        if let Some((key, value)) = pair {
            let value = known.value(tool, &key, &value);
            map.insert(key, value);
        }
    };
    for line in text.lines() {
        let begins = line.split_once('>').filter(|(key, _)| is_key(key.trim()));
        match (begins, &mut key) {
            (Some((name, value)), _) => {
                let value = value.trim_end().to_owned();
                keep(key.replace((name.trim().to_owned(), value)));
            }
            (None, Some((_, value))) => {
                value.push('\n');
                value.push_str(line);
            }
            (None, None) => {}
        }
    }
    keep(key);
}

/// `key: value` lines whose keys are all taken; none if any line is something else.
pub(super) fn lines(text: &str, takes: impl Fn(&str) -> bool) -> Option<Vec<(String, String)>> {
    let mut found = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let (key, value) = line.split_once(':')?;
        let key = key.trim().trim_matches(['"', '\'']);
        if !is_key(key) || !takes(key) {
            return None;
        }
        found.push((key.to_owned(), unquoted(value.trim()).to_owned()));
    }
    (!found.is_empty()).then_some(found)
}

pub(super) fn is_key(key: &str) -> bool {
    (1..=64).contains(&key.len())
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}

/// Without the one pair of quotes around it.
pub(super) fn unquoted(text: &str) -> &str {
    for quote in ['"', '\''] {
        let inner = text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote));
        if let Some(inner) = inner.filter(|inner| !inner.contains(quote)) {
            return inner;
        }
    }
    text
}

pub(super) fn json(map: Map<String, Value>) -> String {
    Value::Object(map).to_string()
}
