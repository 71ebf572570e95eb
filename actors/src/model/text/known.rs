//! The tools a reply may call, found whatever the case of the name (V-F27).

use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::Arc;

use rookery_messages::tool::ToolSpec;
use serde_json::Value;

#[derive(Clone, Debug)]
pub(super) struct Known {
    tools: Vec<Arc<ToolSpec>>,
    /// By name in lower case; several where names differ in case alone. Made when it is first asked for: few
    /// replies hold what looks like a call.
    by_name: OnceCell<HashMap<String, Vec<Arc<ToolSpec>>>>,
}

impl Known {
    pub(super) fn new(tools: &[Arc<ToolSpec>]) -> Self {
        Self { tools: tools.to_vec(), by_name: OnceCell::new() }
    }

    fn by_name(&self) -> &HashMap<String, Vec<Arc<ToolSpec>>> {
        self.by_name.get_or_init(|| {
            let mut by_name: HashMap<String, Vec<Arc<ToolSpec>>> = HashMap::new();
            for tool in &self.tools {
                by_name.entry(tool.name.to_ascii_lowercase()).or_default().push(Arc::clone(tool));
            }
            by_name
        })
    }

    /// The tool a name means: exactly it, else the only one that differs in case alone.
    pub(super) fn find(&self, name: &str) -> Option<&ToolSpec> {
        let alike = self.by_name().get(&name.trim().to_ascii_lowercase())?;
        match alike.as_slice() {
            [only] => Some(only),
            several => several.iter().find(|tool| tool.name == name.trim()).map(Arc::as_ref),
        }
    }

    /// The tool's own spelling, or the name as written.
    pub(super) fn spelled(&self, name: &str) -> String {
        self.find(name).map_or_else(|| name.trim().to_owned(), |tool| tool.name.clone())
    }

    pub(super) fn has_property(&self, tool: &str, key: &str) -> bool {
        self.property(tool, key).is_some()
    }

    fn property(&self, tool: &str, key: &str) -> Option<&Value> {
        self.find(tool)?.parameters.get("properties")?.get(key)
    }

    /// The argument a single bare value is meant for: the only required one, else the first required,
    /// else the only one there is.
    pub(super) fn primary(&self, tool: &str) -> Option<String> {
        let parameters = &self.find(tool)?.parameters;
        let required = parameters.get("required").and_then(Value::as_array);
        if let Some(first) = required.and_then(|names| names.first()).and_then(Value::as_str) {
            return Some(first.to_owned());
        }
        let properties = parameters.get("properties")?.as_object()?;
        (properties.len() == 1).then(|| properties.keys().next().cloned()).flatten()
    }

    /// What a text written for an argument means: itself where the schema wants a text, else the JSON it
    /// is, if it is any.
    pub(super) fn value(&self, tool: &str, key: &str, text: &str) -> Value {
        if self.property(tool, key).is_some_and(wants_text) {
            return Value::String(text.to_owned());
        }
        serde_json::from_str(text.trim()).unwrap_or_else(|_| Value::String(text.to_owned()))
    }
}

fn wants_text(schema: &Value) -> bool {
    match schema.get("type") {
        Some(Value::String(kind)) => kind == "string",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "string"),
        _ => schema.get("enum").is_some_and(|values| {
            values.as_array().is_some_and(|values| values.iter().all(Value::is_string))
        }),
    }
}
