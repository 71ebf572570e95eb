//! Arguments against their tool's JSON Schema (T8).
//!
//! A schema is compiled once and kept as long as the tool shows the same one. Nothing is fetched: a
//! reference that leads out of the schema makes it unusable. Calls of a tool whose schema can't be used
//! are not checked here, which costs the tool nothing but the early refusal.

use std::sync::Arc;

use dashmap::DashMap;
use jsonschema::Validator;
use jsonschema::error::ValidationErrorKind;
use rookery_messages::tool::{ToolSpec, head};
use serde_json::{Map, Value};

/// Most faults that are named.
const MAX_FAULTS: usize = 4;
/// Longest description of one, in bytes.
const MAX_FAULT_BYTES: usize = 300;

/// Compiled schemas, by tool.
#[derive(Default)]
pub struct Schemas {
    compiled: DashMap<String, Compiled>,
}

#[derive(Clone)]
struct Compiled {
    spec: Arc<ToolSpec>,
    /// None: it can't be used.
    validator: Option<Arc<Validator>>,
}

impl Schemas {
    /// What is wrong with the arguments, by field. The text holds none of their values.
    pub fn check(
        &self,
        spec: &Arc<ToolSpec>,
        arguments: &Map<String, Value>,
    ) -> Result<(), String> {
        let Some(validator) = self.validator(spec) else { return Ok(()) };
        let given = given(spec, arguments);
        let mut faults = validator.iter_errors(&given).map(describe).peekable();
        if faults.peek().is_none() {
            return Ok(());
        }
        let mut text = faults.by_ref().take(MAX_FAULTS).collect::<Vec<_>>().join("; ");
        if faults.next().is_some() {
            text.push_str("; and more");
        }
        Err(text)
    }

    fn validator(&self, spec: &Arc<ToolSpec>) -> Option<Arc<Validator>> {
        if let Some(known) = self.compiled.get(&spec.name)
            && (Arc::ptr_eq(&known.spec, spec) || known.spec.parameters == spec.parameters)
        {
            return known.validator.clone();
        }
        let built = jsonschema::options().offline().build(&spec.parameters);
        let validator = match built {
            Ok(validator) => Some(Arc::new(validator)),
            Err(error) => {
                let (tool, error) = (&spec.name, error.to_string());
                let error = head(&error, MAX_FAULT_BYTES);
                tracing::warn!(
                    tool,
                    error,
                    "a tool's schema can't be used; its calls are not checked"
                );
                None
            }
        };
        let compiled = Compiled { spec: Arc::clone(spec), validator: validator.clone() };
        self.compiled.insert(spec.name.clone(), compiled);
        validator
    }
}

/// The arguments as tools read them: `null` for what need not be there is as good as nothing.
fn given(spec: &ToolSpec, arguments: &Map<String, Value>) -> Value {
    let required = spec.parameters.get("required").and_then(Value::as_array);
    let is_required = |key: &str| required.is_some_and(|names| names.iter().any(|n| n == key));
    let kept = arguments.iter().filter(|(key, value)| !value.is_null() || is_required(key));
    Value::Object(kept.map(|(key, value)| (key.clone(), value.clone())).collect())
}

fn describe(error: jsonschema::ValidationError<'_>) -> String {
    let at = error.instance_path().to_string();
    let below = |name: &str| format!("{at}/{name}");
    let text = match error.kind() {
        ValidationErrorKind::Required { property } => {
            format!("{} is missing", field(&below(property.as_str().unwrap_or_default())))
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let names: Vec<String> = unexpected.iter().map(|name| field(&below(name))).collect();
            format!("{} is not known", names.join(", "))
        }
        _ => format!("{}: {}", field(&at), error.masked_with("what was given")),
    };
    head(&text, MAX_FAULT_BYTES).to_owned()
}

/// A JSON pointer (RFC 6901) as people write it.
fn field(pointer: &str) -> String {
    match pointer.strip_prefix('/') {
        None => "the arguments".to_owned(),
        Some(rest) => {
            let parts = rest.split('/').map(|part| part.replace("~1", "/").replace("~0", "~"));
            format!("field `{}`", parts.collect::<Vec<_>>().join("."))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(parameters: Value) -> Arc<ToolSpec> {
        Arc::new(ToolSpec { name: "tool".into(), description: String::new(), parameters })
    }

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap_or_default()
    }

    // T8
    #[test]
    fn a_fault_names_its_field_and_shows_no_value() {
        let schema = spec(json!({
            "type": "object",
            "properties": {
                "path": { "type": "string" },
                "mode": { "enum": ["read", "write"] },
                "lines": { "type": "array", "items": { "type": "integer", "minimum": 1 } },
            },
            "required": ["path"],
            "additionalProperties": false,
        }));
        let schemas = Schemas::default();
        let fault = |value: Value| schemas.check(&schema, &map(value)).unwrap_err();
        assert_eq!(fault(json!({})), "field `path` is missing");
        assert!(fault(json!({ "path": 17 })).starts_with("field `path`: what was given is not"));
        assert_eq!(fault(json!({ "path": "a", "pfad": 1 })), "field `pfad` is not known");
        let deep = fault(json!({ "path": "a", "lines": [1, "hunter2", 0] }));
        assert!(deep.contains("field `lines.1`") && deep.contains("field `lines.2`"), "{deep}");
        assert!(!deep.contains("hunter2"), "{deep}");
        let word = fault(json!({ "path": "a", "mode": "hunter2" }));
        assert!(word.contains("`mode`") && !word.contains("hunter2"), "{word}");
        let many = fault(json!({ "path": "a", "lines": vec![0; 10_000] }));
        assert!(many.ends_with("; and more") && many.len() < 1_500, "{}", many.len());
        for fine in [json!({ "path": "a", "mode": null }), json!({ "path": "a", "lines": [3.0] })] {
            assert_eq!(schemas.check(&schema, &map(fine)), Ok(()));
        }
    }

    #[test]
    fn a_schema_that_cannot_be_used_leaves_its_tool_usable_and_fetches_nothing() {
        let schemas = Schemas::default();
        for broken in [
            json!({ "type": "no such type" }),
            json!({ "properties": { "a": { "$ref": "http://127.0.0.1:1/schema.json" } } }),
            json!({ "properties": { "a": { "$ref": "file:///etc/passwd" } } }),
            json!({ "properties": { "a": { "pattern": "(" } } }),
        ] {
            assert_eq!(schemas.check(&spec(broken), &map(json!({ "a": 1 }))), Ok(()));
        }
    }

    #[test]
    fn a_tool_that_shows_another_schema_is_held_to_the_new_one() {
        let schemas = Schemas::default();
        let one = spec(json!({ "required": ["a"] }));
        let two = spec(json!({ "required": ["b"] }));
        assert!(schemas.check(&one, &map(json!({ "b": 1 }))).is_err());
        assert_eq!(schemas.check(&two, &map(json!({ "b": 1 }))), Ok(()));
        assert!(schemas.check(&two, &map(json!({ "a": 1 }))).is_err());
        assert_eq!(schemas.compiled.len(), 1);
    }
}
