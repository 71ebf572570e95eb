//! `ROOKERY__A__B=value` overrides `a.b`.

use std::collections::BTreeMap;

use super::document::{self, Item, Node, Origin};
use super::environment::Environment;
use super::error::ConfigError;
use super::schema::Shape;

const PREFIX: &str = "ROOKERY__";

/// Puts the environment's overrides into the tree. Keys nobody knows are put there too: the shape check
/// reports them with the variable's name.
pub(super) fn apply(
    root: &mut Node,
    shape: &Shape,
    environment: &Environment,
    errors: &mut Vec<ConfigError>,
) {
    for (variable, rest, value) in environment.with_prefix(PREFIX) {
        let origin = Origin::Variable(variable.to_owned());
        let keys: Vec<String> = rest.split("__").map(str::to_lowercase).collect();
        if keys.iter().any(String::is_empty) {
            errors.push(ConfigError {
                key: None,
                origin,
                message: "names no key; write it like ROOKERY__GATEWAY__LISTEN".to_owned(),
            });
            continue;
        }
        if let Err(error) = set(root, shape, &keys, value, &origin) {
            errors.push(error);
        }
    }
}

fn set(
    root: &mut Node,
    shape: &Shape,
    keys: &[String],
    value: &str,
    origin: &Origin,
) -> Result<(), ConfigError> {
    let mut node = root;
    let mut expected = Some(shape);
    for (depth, wanted) in keys.iter().enumerate() {
        let Item::Table(table) = &mut node.item else {
            return Err(ConfigError {
                key: Some(keys[..depth].join(".")),
                origin: origin.clone(),
                message: format!("is not a table, it has no key `{wanted}`"),
            });
        };
        let key = matching(table, wanted);
        expected = expected.and_then(|shape| shape.child(&key));
        if depth + 1 == keys.len() {
            table.insert(key, parse(value, expected, origin));
            return Ok(());
        }
        node = table
            .entry(key)
            .or_insert_with(|| Node::new(origin.clone(), Item::Table(BTreeMap::new())));
    }
    Ok(())
}

/// The table's own spelling of a key, since a variable's name can't hold lower case or dashes.
fn matching(table: &BTreeMap<String, Node>, wanted: &str) -> String {
    if table.contains_key(wanted) {
        return wanted.to_owned();
    }
    let same = |key: &&String| key.to_lowercase().replace('-', "_") == wanted;
    table.keys().find(same).cloned().unwrap_or_else(|| wanted.to_owned())
}

/// The value as TOML, unless the key wants text and it isn't quoted: a token of digits stays text.
fn parse(value: &str, expected: Option<&Shape>, origin: &Origin) -> Node {
    let text = || Node::new(origin.clone(), Item::Text(value.to_owned()));
    let wants_text = matches!(expected, Some(Shape::Text | Shape::Secret | Shape::Word(_)));
    match document::parse_value(value, origin) {
        Some(node) if !wants_text || matches!(node.item, Item::Text(_)) => node,
        _ => text(),
    }
}
