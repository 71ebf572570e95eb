//! Arguments in one spelling, and their hash: what an approval and a grant are bound to (I7).

use std::fmt::Write;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// The arguments as compact JSON with the keys of every object sorted. The order in which a model wrote
/// its keys doesn't show; `1` and `"1"` differ (V-J17).
pub fn canonical_arguments(arguments: &Map<String, Value>) -> String {
    let mut text = String::new();
    write_object(arguments, &mut text);
    text
}

/// SHA-256 of [`canonical_arguments`], in lower-case hex.
pub fn arguments_hash(arguments: &Map<String, Value>) -> String {
    hex(&Sha256::digest(canonical_arguments(arguments).as_bytes()))
}

/// Bytes in lower-case hex.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn write_object(object: &Map<String, Value>, text: &mut String) {
    let mut keys: Vec<&String> = object.keys().collect();
    keys.sort_unstable();
    text.push('{');
    for (n, key) in keys.into_iter().enumerate() {
        if n > 0 {
            text.push(',');
        }
        let _ = write!(text, "{}:", Value::String(key.clone()));
        write_value(&object[key], text);
    }
    text.push('}');
}

fn write_value(value: &Value, text: &mut String) {
    match value {
        Value::Object(object) => write_object(object, text),
        Value::Array(items) => {
            text.push('[');
            for (n, item) in items.iter().enumerate() {
                if n > 0 {
                    text.push(',');
                }
                write_value(item, text);
            }
            text.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            let _ = write!(text, "{value}");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(map) => map,
            other => panic!("not an object: {other}"),
        }
    }

    // V-J17, I7
    #[test]
    fn key_order_does_not_change_the_hash_and_a_type_does() {
        let one = object(json!({"b": {"y": 1, "x": [1, {"q": 2, "p": null}]}, "a": "\"é\n"}));
        let two = object(json!({"a": "\"é\n", "b": {"x": [1, {"p": null, "q": 2}], "y": 1}}));
        assert_eq!(
            canonical_arguments(&one),
            r#"{"a":"\"é\n","b":{"x":[1,{"p":null,"q":2}],"y":1}}"#
        );
        assert_eq!(arguments_hash(&one), arguments_hash(&two));
        assert_ne!(
            arguments_hash(&object(json!({"n": 1}))),
            arguments_hash(&object(json!({"n": "1"})))
        );
        assert_ne!(
            arguments_hash(&object(json!({"n": [1, 2]}))),
            arguments_hash(&object(json!({"n": [2, 1]})))
        );
        assert_eq!(
            arguments_hash(&Map::new()),
            "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
        );
    }
}
