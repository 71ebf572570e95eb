//! A model can't approve its own calls: what looks like an approval in its arguments is taken out (T9, V-G5).

use rookery_messages::tool::ToolSpec;
use serde_json::{Map, Value};

const MARKER: &str = "approved";

/// Removes the marker, unless the tool has a parameter of that name: then it is a plain argument. Whether
/// a call was approved is a typed field of its context, never an argument (V-G6).
pub(super) fn strip(spec: &ToolSpec, arguments: &mut Map<String, Value>) {
    let declared = spec.parameters.get("properties").and_then(|all| all.get(MARKER)).is_some();
    if !declared {
        arguments.shift_remove(MARKER);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // V-G5
    #[test]
    fn the_marker_is_removed_and_a_parameter_of_that_name_is_not() {
        let stripped = |parameters: Value| {
            let (name, description) = ("tool".to_owned(), String::new());
            let mut arguments = Map::new();
            for (key, value) in [("b", json!(1)), ("approved", json!(true)), ("a", json!(2))] {
                arguments.insert(key.to_owned(), value);
            }
            strip(&ToolSpec { name, description, parameters }, &mut arguments);
            Value::Object(arguments).to_string()
        };
        assert_eq!(stripped(json!({ "type": "object" })), r#"{"b":1,"a":2}"#);
        let declared = json!({ "properties": { "approved": { "type": "boolean" } } });
        assert_eq!(stripped(declared), r#"{"b":1,"approved":true,"a":2}"#);
    }
}
