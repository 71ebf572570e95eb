//! The keys a configuration may have, taken from the types themselves so that the list can't go stale.

use rookery_messages::settings::Settings;
use serde::Serialize;
use serde_json::Value;

/// What may stand at a place.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Shape {
    /// Named keys.
    Table(Vec<Field>),
    /// Names of the operator's choice, each with the same shape below.
    Map(Box<Shape>),
    /// A list of one shape.
    List(Box<Shape>),
    Text,
    Secret,
    Integer {
        max: i64,
    },
    /// Not negative; whole or not.
    Number,
    Boolean,
    /// One of these words.
    Word(Vec<String>),
}

/// A key of a table.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) meaning: String,
    pub(super) required: bool,
    /// None when absence is the default.
    pub(super) default: Option<Value>,
    pub(super) shape: Shape,
}

impl Shape {
    /// The shape below a key.
    pub(super) fn child(&self, key: &str) -> Option<&Shape> {
        match self {
            Self::Table(fields) => {
                fields.iter().find(|field| field.name == key).map(|field| &field.shape)
            }
            Self::Map(inner) => Some(inner),
            _ => None,
        }
    }

    /// What is expected, for messages and the key table.
    pub(super) fn kind(&self) -> String {
        match self {
            Self::Table(_) | Self::Map(_) => "a table".to_owned(),
            Self::List(inner) => match **inner {
                Self::Text | Self::Secret => "a list of texts".to_owned(),
                Self::Integer { .. } => "a list of whole numbers".to_owned(),
                _ => "a list of tables".to_owned(),
            },
            Self::Text => "text".to_owned(),
            Self::Secret => "secret text".to_owned(),
            Self::Integer { .. } => "a whole number".to_owned(),
            Self::Number => "a number".to_owned(),
            Self::Boolean => "true or false".to_owned(),
            Self::Word(words) => {
                words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" | ")
            }
        }
    }
}

/// The shape of the whole configuration.
pub(super) fn settings_shape() -> Shape {
    let schema = schemars::schema_for!(Settings).to_value();
    let definitions = schema.get("$defs").cloned().unwrap_or_default();
    shape_of(&schema, &definitions)
}

/// Reads a JSON Schema of the forms schemars writes for these types.
fn shape_of(schema: &Value, definitions: &Value) -> Shape {
    if let Some(name) = reference(schema) {
        return shape_of(&definitions[name], definitions);
    }
    let choices = schema.get("oneOf").or_else(|| schema.get("anyOf")).and_then(Value::as_array);
    if let Some(choices) = choices {
        let words: Vec<String> = choices
            .iter()
            .filter_map(|choice| choice.get("const").and_then(Value::as_str))
            .map(str::to_owned)
            .collect();
        if !words.is_empty() {
            return Shape::Word(words);
        }
        // An optional value: the schema beside null.
        let inner = choices.iter().find(|choice| choice.get("type") != Some(&Value::from("null")));
        return inner.map_or(Shape::Text, |inner| shape_of(inner, definitions));
    }
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        return Shape::Word(words.iter().filter_map(Value::as_str).map(str::to_owned).collect());
    }
    match type_of(schema) {
        "object" => table_shape(schema, definitions),
        "array" => Shape::List(Box::new(shape_of(&schema["items"], definitions))),
        "integer" => {
            let max = match schema.get("format").and_then(Value::as_str) {
                Some("uint16") => i64::from(u16::MAX),
                Some("uint32") => i64::from(u32::MAX),
                _ => i64::MAX,
            };
            Shape::Integer { max }
        }
        "number" => Shape::Number,
        "boolean" => Shape::Boolean,
        _ if schema.get("writeOnly") == Some(&Value::Bool(true)) => Shape::Secret,
        _ => Shape::Text,
    }
}

fn table_shape(schema: &Value, definitions: &Value) -> Shape {
    if let Some(inner) = schema.get("additionalProperties").filter(|inner| inner.is_object()) {
        return Shape::Map(Box::new(shape_of(inner, definitions)));
    }
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let fields = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    Shape::Table(
        fields
            .map(|(name, field)| Field {
                name: name.clone(),
                meaning: meaning_of(field),
                required: required.contains(&name.as_str()),
                default: field.get("default").filter(|value| !value.is_null()).cloned(),
                shape: shape_of(field, definitions),
            })
            .collect(),
    )
}

fn reference(schema: &Value) -> Option<&str> {
    schema.get("$ref")?.as_str()?.strip_prefix("#/$defs/")
}

/// The type beside null.
fn type_of(schema: &Value) -> &str {
    match schema.get("type") {
        Some(Value::String(name)) => name,
        Some(Value::Array(names)) => {
            names.iter().filter_map(Value::as_str).find(|name| *name != "null").unwrap_or("string")
        }
        _ => "string",
    }
}

fn meaning_of(field: &Value) -> String {
    let text = field.get("description").and_then(Value::as_str).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A row of the key table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct KeyRow {
    /// The full name; `<name>` stands for a name of the operator's choice.
    pub name: String,
    /// What may stand there.
    #[serde(rename = "type")]
    pub kind: String,
    /// What holds when it is absent; null for nothing.
    pub default: Option<Value>,
    /// Whether its table can't do without it.
    pub required: bool,
    /// What it means.
    pub meaning: String,
}

impl KeyRow {
    /// The default as it would stand in a file.
    pub fn default_text(&self) -> Option<String> {
        toml::Value::try_from(self.default.as_ref()?).ok().map(|value| value.to_string())
    }
}

/// The complete key table, in the order of the types.
pub fn key_table() -> Vec<KeyRow> {
    let mut rows = Vec::new();
    collect_rows("", &settings_shape(), &mut rows);
    rows
}

fn collect_rows(prefix: &str, shape: &Shape, rows: &mut Vec<KeyRow>) {
    match shape {
        Shape::Table(fields) => {
            for field in fields {
                let name = if prefix.is_empty() {
                    field.name.clone()
                } else {
                    format!("{prefix}.{}", field.name)
                };
                collect_field(name, field, rows);
            }
        }
        Shape::Map(inner) => {
            let hole = if prefix.starts_with("channels.") { "<alias>" } else { "<name>" };
            collect_rows(&format!("{prefix}.{hole}"), inner, rows);
        }
        Shape::List(inner) => collect_rows(&format!("{prefix}[]"), inner, rows),
        _ => {}
    }
}

fn collect_field(name: String, field: &Field, rows: &mut Vec<KeyRow>) {
    if let Shape::Map(inner) = &field.shape
        && matches!(**inner, Shape::Text | Shape::Secret)
    {
        rows.push(KeyRow {
            name: format!("{name}.<name>"),
            kind: inner.kind(),
            default: None,
            required: false,
            meaning: field.meaning.clone(),
        });
        return;
    }
    let nested = match &field.shape {
        Shape::Table(_) | Shape::Map(_) => true,
        Shape::List(inner) => matches!(**inner, Shape::Table(_)),
        _ => false,
    };
    if nested {
        collect_rows(&name, &field.shape, rows);
        return;
    }
    rows.push(KeyRow {
        name,
        kind: field.shape.kind(),
        default: field.default.clone(),
        required: field.required,
        meaning: field.meaning.clone(),
    });
}
