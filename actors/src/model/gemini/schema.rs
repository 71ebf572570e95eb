//! Schemas of arguments as Gemini takes them in `parametersJsonSchema`: JSON Schema, of which its page
//! "Structured outputs" lists the keywords. What is not listed is expressed otherwise or loosened (A104).

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::model::schema::{self, Lowered};

const TAKEN: [&str; 14] = [
    "type",
    "format",
    "title",
    "description",
    "enum",
    "items",
    "minItems",
    "maxItems",
    "minimum",
    "maximum",
    "anyOf",
    "properties",
    "additionalProperties",
    "required",
];

/// As every provider gets it, and then without what this one does not know.
pub(super) fn lower(original: &Value) -> Lowered {
    let Lowered { mut schema, mut loosened } = schema::lower(original);
    reduce(&mut schema, &mut loosened);
    Lowered { schema, loosened }
}

fn reduce(schema: &mut Value, loosened: &mut BTreeSet<String>) {
    let Some(map) = schema.as_object_mut() else { return };
    if let Some(value) = map.remove("const") {
        map.insert("enum".to_owned(), Value::Array(vec![value]));
    }
    // Texts and numbers only.
    let odd = map.get("enum").and_then(Value::as_array).is_some_and(|values| {
        values.is_empty() || !values.iter().all(|value| value.is_string() || value.is_number())
    });
    if odd {
        map.remove("enum");
        loosened.insert("an `enum` of other values than texts and numbers".to_owned());
    }
    if let Some(choices) = map.remove("oneOf") {
        loosened.insert("`oneOf` to `anyOf`".to_owned());
        map.entry("anyOf").or_insert(choices);
    }
    if let Some(Value::Array(parts)) = map.remove("allOf") {
        merge(map, parts, loosened);
    }
    map.retain(|key, _| {
        let taken = TAKEN.contains(&key.as_str());
        if !taken && !matches!(key.as_str(), "default" | "examples") {
            loosened.insert(format!("`{key}`"));
        }
        taken
    });
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = map.get_mut(key) {
            reduce(inner, loosened);
        }
    }
    let properties = map.get_mut("properties").and_then(Value::as_object_mut);
    properties.into_iter().flat_map(Map::values_mut).for_each(|inner| reduce(inner, loosened));
    let choices = map.get_mut("anyOf").and_then(Value::as_array_mut);
    choices.into_iter().flatten().for_each(|inner| reduce(inner, loosened));
}

/// What all parts say together, as far as one schema can say it: the first word on each keyword counts,
/// properties are joined.
fn merge(map: &mut Map<String, Value>, parts: Vec<Value>, loosened: &mut BTreeSet<String>) {
    for part in parts {
        let Value::Object(part) = part else { continue };
        for (key, value) in part {
            match (map.get_mut(&key), value) {
                (None, value) => drop(map.insert(key, value)),
                (Some(Value::Object(known)), Value::Object(more)) if key == "properties" => {
                    for (name, schema) in more {
                        known.entry(name).or_insert(schema);
                    }
                }
                (Some(Value::Array(known)), Value::Array(more)) if key == "required" => {
                    let fresh = more.into_iter().filter(|name| !known.contains(name));
                    let fresh: Vec<Value> = fresh.collect();
                    known.extend(fresh);
                }
                (Some(known), value) if *known == value => {}
                (Some(_), _) => drop(loosened.insert("`allOf`".to_owned())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // A104
    #[test]
    fn keywords_gemini_does_not_know_are_expressed_otherwise_or_loosened() {
        let original = json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
            "additionalProperties": false,
            "properties": {
                "maybe": {"type": ["object", "null"], "properties": {"a": true}},
                "any": true,
                "list": {"type": "array", "uniqueItems": true},
                "one": {"const": "x", "default": "x"},
                "flag": {"enum": [true]},
                "code": {"type": "string", "pattern": "^a", "maxLength": 3},
                "either": {"oneOf": [{"type": "string"}, {"type": "number", "exclusiveMinimum": 0}]},
                "both": {"allOf": [
                    {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
                    {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]},
                ]},
                "list_of": {"$ref": "#/$defs/node"},
            },
            "required": ["code"],
        });
        let lowered = lower(&original);
        assert_eq!(
            lowered.schema,
            json!({"type": "object", "additionalProperties": false, "properties": {
                "maybe": {"anyOf": [{"type": "object", "properties": {"a": {}}}, {"type": "null"}]},
                "any": {},
                "list": {"type": "array", "items": {}},
                "one": {"enum": ["x"]},
                "flag": {},
                "code": {"type": "string"},
                "either": {"anyOf": [{"type": "string"}, {"type": "number"}]},
                "both": {
                    "type": "object",
                    "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                    "required": ["a", "b"],
                },
                "list_of": {"type": "object", "properties": {"next": {}}},
            }, "required": ["code"]})
        );
        let loosened: Vec<&str> = lowered.loosened.iter().map(String::as_str).collect();
        assert_eq!(
            loosened,
            [
                "`exclusiveMinimum`",
                "`maxLength`",
                "`oneOf` to `anyOf`",
                "`pattern`",
                "`uniqueItems`",
                "an `enum` of other values than texts and numbers",
                "the recursion of #/$defs/node",
            ]
        );
    }
}
