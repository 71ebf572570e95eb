//! Schemas of arguments as the API takes them (A104).
//!
//! JSON Schema allows more than the API does. What it would refuse is expressed otherwise, or loosened:
//! never narrowed. The original is what arguments are validated against; here it only tells the model
//! what to write.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// Most sub-schemas of one schema; references are inlined, which can multiply them.
const MOST_NODES: usize = 5_000;
/// Deepest nesting.
const DEEPEST: usize = 32;

/// Keywords that are kept as they are.
const PLAIN: [&str; 21] = [
    "description",
    "title",
    "default",
    "examples",
    "enum",
    "const",
    "format",
    "pattern",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "required",
];
/// Keywords that say nothing about what is valid.
const NOTES: [&str; 10] = [
    "$schema",
    "$id",
    "$anchor",
    "$comment",
    "$defs",
    "definitions",
    "$vocabulary",
    "readOnly",
    "writeOnly",
    "deprecated",
];
/// Lists of schemas.
const CHOICES: [&str; 3] = ["anyOf", "oneOf", "allOf"];
/// Keywords of objects, and of arrays: they mean nothing beside another type.
const OF_OBJECTS: [&str; 5] =
    ["properties", "required", "additionalProperties", "minProperties", "maxProperties"];
const OF_ARRAYS: [&str; 4] = ["items", "minItems", "maxItems", "uniqueItems"];

/// A schema the API takes.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Lowered {
    pub(super) schema: Value,
    /// What it admits beyond the original, in words.
    pub(super) loosened: BTreeSet<String>,
}

/// Lowers a tool's schema. The result is an object's schema with `properties`, without references.
pub(super) fn lower(original: &Value) -> Lowered {
    let mut work =
        Work { root: original, loosened: BTreeSet::new(), nodes: 0, followed: Vec::new() };
    let schema = work.schema(original, 0);
    let schema = work.top(schema);
    Lowered { schema, loosened: work.loosened }
}

struct Work<'a> {
    root: &'a Value,
    loosened: BTreeSet<String>,
    nodes: usize,
    /// References that are being inlined, outermost first.
    followed: Vec<String>,
}

impl Work<'_> {
    fn loosen(&mut self, what: impl Into<String>) {
        self.loosened.insert(what.into());
    }

    fn schema(&mut self, schema: &Value, depth: usize) -> Value {
        self.nodes += 1;
        if depth > DEEPEST || self.nodes > MOST_NODES {
            self.loosen("what lies too deep");
            return json!({});
        }
        match schema {
            Value::Object(map) => match map.get("$ref").and_then(Value::as_str) {
                Some(reference) => self.reference(reference, map, depth),
                None => self.object(map, depth),
            },
            Value::Bool(true) => json!({}),
            _ => {
                self.loosen("a schema that admits nothing");
                json!({})
            }
        }
    }

    /// Inlines what a reference names. One that leads back to itself is cut there.
    fn reference(&mut self, reference: &str, beside: &Map<String, Value>, depth: usize) -> Value {
        if self.followed.iter().any(|known| known == reference) {
            self.loosen(format!("the recursion of {reference}"));
            return json!({});
        }
        let root = self.root;
        let target = match reference.strip_prefix('#') {
            Some("") => Some(root),
            Some(pointer) => root.pointer(&pointer.replace("%25", "%")),
            None => None,
        };
        let Some(target) = target else {
            self.loosen(format!("the unknown reference {reference}"));
            return json!({});
        };
        self.followed.push(reference.to_owned());
        let mut schema = self.schema(target, depth + 1);
        self.followed.pop();
        // What stands beside a reference holds too.
        let beside: Map<String, Value> =
            beside.iter().filter(|(key, _)| *key != "$ref").map(own).collect();
        if let (Value::Object(inlined), Value::Object(more)) =
            (&mut schema, self.object(&beside, depth))
        {
            for (key, value) in more {
                inlined.insert(key, value);
            }
        }
        schema
    }

    fn object(&mut self, map: &Map<String, Value>, depth: usize) -> Value {
        let mut out = Map::new();
        for (key, value) in map {
            match key.as_str() {
                "type" | "$ref" => {}
                "properties" => {
                    let properties = value.as_object().into_iter().flatten();
                    let lowered =
                        properties.map(|(name, one)| (name.clone(), self.schema(one, depth + 1)));
                    let lowered: Map<String, Value> = lowered.collect();
                    out.insert(key.clone(), Value::Object(lowered));
                }
                "additionalProperties" => {
                    let value = match value {
                        Value::Bool(_) => value.clone(),
                        schema => self.schema(schema, depth + 1),
                    };
                    out.insert(key.clone(), value);
                }
                "items" => {
                    let items = match value {
                        Value::Array(tuple) => self.any_of(tuple, depth),
                        schema => self.schema(schema, depth + 1),
                    };
                    out.insert(key.clone(), items);
                }
                "prefixItems" => {
                    let tuple = value.as_array().cloned().unwrap_or_default();
                    let items = self.any_of(&tuple, depth);
                    out.insert("items".to_owned(), items);
                }
                key if CHOICES.contains(&key) => {
                    let choices = value.as_array().into_iter().flatten();
                    let choices: Vec<Value> =
                        choices.map(|one| self.schema(one, depth + 1)).collect();
                    if !choices.is_empty() {
                        out.insert(key.to_owned(), Value::Array(choices));
                    }
                }
                "required" if !value.is_array() => {}
                key if PLAIN.contains(&key) => {
                    out.insert(key.to_owned(), value.clone());
                }
                key if NOTES.contains(&key) => {}
                key => self.loosen(format!("`{key}`")),
            }
        }
        self.typed(map.get("type"), out)
    }

    /// A tuple: each place may hold what any place may.
    fn any_of(&mut self, tuple: &[Value], depth: usize) -> Value {
        self.loosen("the places of a tuple");
        let choices: Vec<Value> = tuple.iter().map(|one| self.schema(one, depth + 1)).collect();
        if choices.is_empty() { json!({}) } else { json!({ "anyOf": choices }) }
    }

    /// Gives a schema its type, in the one form that is taken everywhere: a single word.
    fn typed(&mut self, kind: Option<&Value>, mut out: Map<String, Value>) -> Value {
        let kinds: Vec<&str> = match kind {
            Some(Value::String(kind)) => vec![kind],
            Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
            _ if out.contains_key("properties") => vec!["object"],
            _ => Vec::new(),
        };
        match kinds.as_slice() {
            [] => Value::Object(out),
            [kind] => Value::Object(of_kind(kind, out)),
            kinds
                if CHOICES.iter().any(|key| out.contains_key(*key))
                    || out.contains_key("enum")
                    || out.contains_key("const") =>
            {
                // The values themselves say it.
                if !out.contains_key("enum") && !out.contains_key("const") {
                    self.loosen(format!("the types {}", kinds.join(", ")));
                }
                Value::Object(out)
            }
            kinds => {
                let mut outer = Map::new();
                for note in ["description", "title", "default", "examples"] {
                    if let Some(value) = out.remove(note) {
                        outer.insert(note.to_owned(), value);
                    }
                }
                let choices: Vec<Value> =
                    kinds.iter().map(|kind| Value::Object(of_kind(kind, out.clone()))).collect();
                outer.insert("anyOf".to_owned(), Value::Array(choices));
                Value::Object(outer)
            }
        }
    }

    /// The outermost schema is a plain object's: no choice between several is taken there.
    fn top(&mut self, schema: Value) -> Value {
        let Value::Object(mut top) = schema else {
            return json!({"type": "object", "properties": {}});
        };
        let mut properties = match top.remove("properties") {
            Some(Value::Object(properties)) => properties,
            _ => Map::new(),
        };
        let mut required: Vec<Value> =
            top.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        for key in CHOICES {
            let Some(Value::Array(choices)) = top.remove(key) else { continue };
            if key != "allOf" {
                self.loosen(format!("the outermost `{key}`"));
            }
            for choice in &choices {
                let more = choice.get("properties").and_then(Value::as_object);
                for (name, schema) in more.into_iter().flatten() {
                    properties.entry(name.clone()).or_insert_with(|| schema.clone());
                }
                let more = choice.get("required").and_then(Value::as_array);
                if key == "allOf" {
                    required.extend(more.into_iter().flatten().cloned());
                }
            }
        }
        for key in ["enum", "const"] {
            if top.remove(key).is_some() {
                self.loosen(format!("the outermost `{key}`"));
            }
        }
        let mut top = of_kind("object", top);
        let mut seen = BTreeSet::new();
        required.retain(|name| name.as_str().is_some_and(|name| seen.insert(name.to_owned())));
        if required.is_empty() {
            top.remove("required");
        } else {
            top.insert("required".to_owned(), Value::Array(required));
        }
        top.insert("properties".to_owned(), Value::Object(properties));
        Value::Object(top)
    }
}

/// A schema of one type, with the keywords that mean something there.
fn of_kind(kind: &str, mut out: Map<String, Value>) -> Map<String, Value> {
    if kind != "object" {
        OF_OBJECTS.iter().for_each(|key| drop(out.remove(*key)));
    }
    if kind != "array" {
        OF_ARRAYS.iter().for_each(|key| drop(out.remove(*key)));
    } else if !out.contains_key("items") {
        out.insert("items".to_owned(), json!({}));
    }
    out.remove("type");
    let mut typed = Map::new();
    typed.insert("type".to_owned(), Value::from(kind));
    typed.extend(out);
    typed
}

fn own((key, value): (&String, &Value)) -> (String, Value) {
    (key.clone(), value.clone())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lowered(original: Value) -> Value {
        lower(&original).schema
    }

    fn loosened(original: Value) -> Vec<String> {
        lower(&original).loosened.into_iter().collect()
    }

    // A104
    #[test]
    fn a_plain_schema_stays_as_it_is_and_nothing_is_loosened() {
        let plain = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "d"},
                "lines": {"type": "array", "items": {"type": "integer", "minimum": 1}},
                "how": {"enum": ["a", "b"]},
            },
            "required": ["path"],
            "additionalProperties": false,
        });
        assert_eq!(lower(&plain), Lowered { schema: plain.clone(), loosened: BTreeSet::new() });
    }

    // A104
    #[test]
    fn references_are_inlined_and_a_recursion_is_cut() {
        let original = json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "$defs": {
                "point": {"type": "object", "properties": {"x": {"type": "number"}}},
                "node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}},
            },
            "properties": {
                "at": {"$ref": "#/$defs/point", "description": "where"},
                "list": {"$ref": "#/$defs/node"},
                "far": {"$ref": "https://example.org/schema"},
            },
        });
        assert_eq!(
            lowered(original.clone()),
            json!({"type": "object", "properties": {
                "at": {"type": "object", "properties": {"x": {"type": "number"}}, "description": "where"},
                "list": {"type": "object", "properties": {"next": {}}},
                "far": {},
            }})
        );
        assert_eq!(
            loosened(original),
            ["the recursion of #/$defs/node", "the unknown reference https://example.org/schema",]
        );
    }

    // A104
    #[test]
    fn forms_a_provider_refuses_become_forms_it_takes() {
        let original = json!({
            "type": ["object", "null"],
            "properties": {
                "maybe": {"type": ["object", "null"], "properties": {"a": true}, "description": "m"},
                "any": true,
                "none": false,
                "list": {"type": "array"},
                "pair": {"type": "array", "items": [{"type": "string"}, {"type": "number"}]},
                "odd": {"type": "string", "properties": {"x": {}}},
                "bare": {"properties": {"y": {"type": "string"}}},
                "choice": {"type": ["string", "null"], "enum": ["a", null]},
                "keyed": {"type": "object", "patternProperties": {"^x": {"type": "string"}}},
            },
        });
        assert_eq!(
            lowered(original.clone()),
            json!({"type": "object", "properties": {
                "maybe": {"description": "m", "anyOf": [
                    {"type": "object", "properties": {"a": {}}},
                    {"type": "null"},
                ]},
                "any": {},
                "none": {},
                "list": {"type": "array", "items": {}},
                "pair": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "number"}]}},
                "odd": {"type": "string"},
                "bare": {"type": "object", "properties": {"y": {"type": "string"}}},
                "choice": {"enum": ["a", null]},
                "keyed": {"type": "object"},
            }})
        );
        assert_eq!(
            loosened(original),
            [
                "`patternProperties`",
                "a schema that admits nothing",
                "the outermost `anyOf`",
                "the places of a tuple"
            ]
        );
    }

    // A104
    #[test]
    fn outermost_choices_become_properties_of_one_object() {
        let variant = |name: &str| json!({"type": "object", "properties": {name: {"type": "string"}}, "required": [name]});
        let choice = json!({"oneOf": [variant("a"), variant("b")]});
        assert_eq!(
            lowered(choice),
            json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}})
        );
        let all = json!({"allOf": [variant("a"), variant("b")], "required": ["a"]});
        assert_eq!(lowered(all)["required"], json!(["a", "b"]));
        for empty in [json!({}), json!(true), json!(null), json!({"type": "string"})] {
            assert_eq!(lowered(empty), json!({"type": "object", "properties": {}}));
        }
    }

    fn any_schema() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!(true)),
            Just(json!(false)),
            Just(json!({"type": "string"})),
            Just(json!({"type": ["array", "null"]})),
            Just(json!({"$ref": "#/$defs/d"})),
            Just(json!({"$ref": "#"})),
        ];
        leaf.prop_recursive(4, 40, 4, |inner| {
            prop_oneof![
                proptest::collection::btree_map("[a-c]", inner.clone(), 0..4)
                    .prop_map(|p| json!({"type": "object", "properties": p})),
                inner.clone().prop_map(|i| json!({"type": "array", "items": i})),
                proptest::collection::vec(inner.clone(), 1..4).prop_map(|c| json!({"anyOf": c})),
                proptest::collection::vec(inner.clone(), 0..3).prop_map(|c| json!({"items": c})),
                inner.prop_map(|d| json!({"$defs": {"d": d}, "$ref": "#/$defs/d"})),
            ]
        })
    }

    fn check(schema: &Value) {
        let Value::Object(map) = schema else { panic!("a boolean schema is left: {schema}") };
        assert!(!map.contains_key("$ref") && !map.contains_key("$defs"), "{schema}");
        assert!(!map.get("type").is_some_and(Value::is_array), "{schema}");
        if map.get("type") == Some(&json!("array")) {
            assert!(map.contains_key("items"), "{schema}");
        }
        let below = map.get("properties").and_then(Value::as_object);
        below.into_iter().flatten().for_each(|(_, one)| check(one));
        map.get("items").into_iter().for_each(check);
        for key in CHOICES {
            map.get(key).and_then(Value::as_array).into_iter().flatten().for_each(check);
        }
    }

    proptest! {
        // A104
        #[test]
        fn every_schema_is_lowered_to_one_without_what_providers_refuse(schema in any_schema()) {
            let once = lower(&schema).schema;
            check(&once);
            prop_assert_eq!(&once["type"], "object");
            let again = lower(&once);
            prop_assert_eq!(again.schema, once);
        }
    }
}
