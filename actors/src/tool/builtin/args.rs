//! Arguments read by name and type. What is missing or of another type becomes a failed result that names
//! the field and the type wanted. `null` counts as absent; keys a tool doesn't know are ignored.

use rookery_messages::tool::{ToolResult, text};
use serde_json::{Map, Value};

/// A call's arguments.
pub(super) type Arguments = Map<String, Value>;

/// A text that must be there.
pub(super) fn required<'a>(arguments: &'a Arguments, field: &str) -> Result<&'a str, ToolResult> {
    optional(arguments, field)?.ok_or_else(|| wrong(field, "a string", None))
}

/// A text that may be there.
pub(super) fn optional<'a>(
    arguments: &'a Arguments,
    field: &str,
) -> Result<Option<&'a str>, ToolResult> {
    match arguments.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(wrong(field, "a string", Some(other))),
    }
}

/// A yes or no; absent is no.
pub(super) fn flag(arguments: &Arguments, field: &str) -> Result<bool, ToolResult> {
    match arguments.get(field) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(other) => Err(wrong(field, "true or false", Some(other))),
    }
}

/// A whole number in a range, if there is one. Models write `5.0` for `5`.
pub(super) fn number(
    arguments: &Arguments,
    field: &str,
    range: std::ops::RangeInclusive<u64>,
) -> Result<Option<u64>, ToolResult> {
    let value = match arguments.get(field) {
        None | Some(Value::Null) => return Ok(None),
        Some(value) => value,
    };
    let whole = value.as_u64().or_else(|| {
        let float = value.as_f64().filter(|n| n.fract() == 0.0 && (0.0..9e15).contains(n))?;
        Some(float as u64)
    });
    match whole {
        Some(n) if range.contains(&n) => Ok(Some(n)),
        _ => {
            let wanted = format!("a whole number from {} to {}", range.start(), range.end());
            Err(wrong(field, &wanted, Some(value)))
        }
    }
}

/// A whole number that must be there.
pub(super) fn required_number(
    arguments: &Arguments,
    field: &str,
    range: std::ops::RangeInclusive<u64>,
) -> Result<u64, ToolResult> {
    let wanted = format!("a whole number from {} to {}", range.start(), range.end());
    number(arguments, field, range)?.ok_or_else(|| wrong(field, &wanted, None))
}

/// An argument that has the right type and can't be used all the same.
pub(super) fn invalid(field: &str, wanted: &str) -> ToolResult {
    ToolResult::failed(format!(
        "{}`{field}` can't be used; it must be {wanted}",
        text::INVALID_ARGUMENTS_PREFIX
    ))
}

fn wrong(field: &str, wanted: &str, found: Option<&Value>) -> ToolResult {
    let found = match found {
        None => "is missing".to_owned(),
        Some(Value::Number(n)) => format!("is {n}"),
        Some(Value::String(_)) => "is a string".to_owned(),
        Some(Value::Bool(_)) => "is true or false".to_owned(),
        Some(Value::Array(_)) => "is an array".to_owned(),
        Some(Value::Object(_)) => "is an object".to_owned(),
        Some(Value::Null) => "is null".to_owned(),
    };
    ToolResult::failed(format!(
        "{}`{field}` {found}; it must be {wanted}",
        text::INVALID_ARGUMENTS_PREFIX
    ))
}
