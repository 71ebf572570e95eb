//! Compares a configuration with the known keys: every unknown key, missing key and wrong type.

use std::collections::BTreeMap;

use super::document::{Item, Node};
use super::error::ConfigError;
use super::schema::{Field, Shape};

pub(crate) use rookery_actors::policy::nearest;

/// Checks the whole tree.
pub(super) fn check(root: &Node, shape: &Shape, errors: &mut Vec<ConfigError>) {
    check_node("", root, shape, errors);
}

fn check_node(key: &str, node: &Node, shape: &Shape, errors: &mut Vec<ConfigError>) {
    match (shape, &node.item) {
        (Shape::Table(fields), Item::Table(table)) => {
            check_table(key, node, fields, table, errors);
        }
        (Shape::Map(inner), Item::Table(table)) => {
            for (name, entry) in table {
                check_node(&join(key, name), entry, inner, errors);
            }
        }
        (Shape::List(inner), Item::List(list)) => {
            for (index, entry) in list.iter().enumerate() {
                check_node(&format!("{key}[{index}]"), entry, inner, errors);
            }
        }
        (Shape::Text | Shape::Secret, Item::Text(_)) | (Shape::Boolean, Item::Boolean(_)) => {}
        (Shape::Integer { max }, Item::Integer(number)) => {
            if *number < 0 {
                errors.push(ConfigError::at(key, node, "must not be negative"));
            } else if number > max {
                errors.push(ConfigError::at(key, node, format!("must be at most {max}")));
            }
        }
        (Shape::Number, Item::Integer(number)) if *number >= 0 => {}
        (Shape::Number, Item::Float(number)) if *number >= 0.0 => {}
        (Shape::Number, Item::Integer(_) | Item::Float(_)) => {
            errors.push(ConfigError::at(key, node, "must not be negative"));
        }
        (Shape::Word(words), Item::Text(text)) => check_word(key, node, words, text, errors),
        (shape, item) => errors.push(ConfigError::at(
            key,
            node,
            format!("must be {}, but is {}", shape.kind(), item.kind()),
        )),
    }
}

fn check_table(
    key: &str,
    node: &Node,
    fields: &[Field],
    table: &BTreeMap<String, Node>,
    errors: &mut Vec<ConfigError>,
) {
    for (name, entry) in table {
        match fields.iter().find(|field| field.name == *name) {
            Some(field) => check_node(&join(key, name), entry, &field.shape, errors),
            None => errors.push(ConfigError::at(
                join(key, name),
                entry,
                match nearest(name, fields.iter().map(|field| field.name.as_str())) {
                    Some(known) => {
                        format!("unknown key; the nearest known key is `{}`", join(key, known))
                    }
                    None => "unknown key".to_owned(),
                },
            )),
        }
    }
    for field in fields.iter().filter(|field| field.required && !table.contains_key(&field.name)) {
        errors.push(ConfigError::at(
            join(key, &field.name),
            node,
            format!("is missing; set it to {}", field.shape.kind()),
        ));
    }
}

fn check_word(key: &str, node: &Node, words: &[String], text: &str, errors: &mut Vec<ConfigError>) {
    if words.iter().any(|word| word == text) {
        return;
    }
    let mut message = format!("must be one of {}", Shape::Word(words.to_vec()).kind());
    // A resolved text may be a secret in the wrong place: not even its likeness is shown.
    if !node.resolved
        && let Some(word) = nearest(text, words.iter().map(String::as_str))
        // All words are listed already: one is pointed out only if it may be meant.
        && strsim::normalized_damerau_levenshtein(text, word) >= LIKELY
    {
        message.push_str(&format!("; the nearest is \"{word}\""));
    }
    errors.push(ConfigError::at(key, node, message));
}

/// From this likeness on a word is taken for a slip of the pen.
const LIKELY: f64 = 0.5;

fn join(key: &str, name: &str) -> String {
    if key.is_empty() { name.to_owned() } else { format!("{key}.{name}") }
}
