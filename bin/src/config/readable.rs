//! What can be read of a configuration that has mistakes, so that one kind of mistake doesn't hide the next.

use std::collections::BTreeMap;

use super::document::{Item, Node, Origin};
use super::error::ConfigError;
use super::schema::Shape;

/// A configuration without what can't be read.
pub(super) struct Readable {
    /// Every value has its key's type; required keys are there.
    pub(super) root: Node,
    /// The keys whose values were left out, or stand for something that is missing.
    left_out: Vec<String>,
}

impl Readable {
    pub(super) fn of(root: &Node, shape: &Shape) -> Self {
        let mut left_out = Vec::new();
        let root = kept("", root, shape, &mut left_out).unwrap_or_else(|| stand_in(shape));
        Self { root, left_out }
    }

    /// Whether a mistake found in what was kept is one, whatever was left out. A key is told of once.
    pub(super) fn is_sure(&self, error: &ConfigError, known: &[ConfigError]) -> bool {
        let Some(key) = error.key.as_deref() else { return true };
        let within = |inner: &str, outer: &str| {
            inner
                .strip_prefix(outer)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let touches = |other: &str| within(key, other) || within(other, key);
        if known.iter().filter_map(|known| known.key.as_deref()).any(touches) {
            return false;
        }
        // What refers to something, or is owned by somebody, may be right once that can be read.
        let says = |text: &str| error.message.contains(text);
        let (refers, owned) =
            (says("there is no"), says("no agent owns") || says("than one owner"));

        !self.left_out.iter().any(|out| {
            (refers && is_section(out))
                || (owned && (is_section(out) || out.ends_with(".channels")))
                || parent(out) == parent(key)
        })
    }
}

/// Whether a key stands for a whole group of things that others refer to, or for one of them.
fn is_section(key: &str) -> bool {
    let (first, depth) = (key.split('.').next().unwrap_or_default(), key.matches('.').count());
    match first {
        "providers" | "agents" | "risk_profiles" | "runtime_profiles" | "hooks" | "mcp_bundles" => {
            depth <= 1
        }
        "channels" | "mcp" => depth <= 2,
        _ => false,
    }
}

fn parent(key: &str) -> &str {
    key.rsplit_once('.').map_or("", |(parent, _)| parent)
}

fn kept(key: &str, node: &Node, shape: &Shape, left_out: &mut Vec<String>) -> Option<Node> {
    let below = |name: &str| if key.is_empty() { name.to_owned() } else { format!("{key}.{name}") };
    let item = match (shape, &node.item) {
        (Shape::Table(fields), Item::Table(table)) => {
            let mut nodes = BTreeMap::new();
            for field in fields {
                let place = below(&field.name);
                let given = table.get(&field.name);
                let read = given.and_then(|node| kept(&place, node, &field.shape, left_out));
                match read {
                    Some(read) => {
                        nodes.insert(field.name.clone(), read);
                    }
                    None if field.required => {
                        left_out.push(place);
                        nodes.insert(field.name.clone(), stand_in(&field.shape));
                    }
                    None => {}
                }
            }
            Item::Table(nodes)
        }
        (Shape::Map(inner), Item::Table(table)) => Item::Table(
            table
                .iter()
                .filter_map(|(name, node)| {
                    Some((name.clone(), kept(&below(name), node, inner, left_out)?))
                })
                .collect(),
        ),
        (Shape::List(inner), Item::List(list)) => Item::List(
            list.iter()
                .enumerate()
                .filter_map(|(at, node)| kept(&format!("{key}[{at}]"), node, inner, left_out))
                .collect(),
        ),
        (Shape::Text | Shape::Secret, Item::Text(_)) | (Shape::Boolean, Item::Boolean(_)) => {
            return Some(node.clone());
        }
        (Shape::Integer { max }, Item::Integer(number)) if (0..=*max).contains(number) => {
            return Some(node.clone());
        }
        (Shape::Number, Item::Integer(number)) if *number >= 0 => return Some(node.clone()),
        (Shape::Number, Item::Float(number)) if *number >= 0.0 => return Some(node.clone()),
        (Shape::Word(words), Item::Text(text)) if words.contains(text) => {
            return Some(node.clone());
        }
        _ => {
            left_out.push(key.to_owned());
            return None;
        }
    };
    Some(Node { origin: node.origin.clone(), item, resolved: node.resolved })
}

/// Something of the right type.
fn stand_in(shape: &Shape) -> Node {
    let item = match shape {
        Shape::Table(fields) => Item::Table(
            fields
                .iter()
                .filter(|field| field.required)
                .map(|field| (field.name.clone(), stand_in(&field.shape)))
                .collect(),
        ),
        Shape::Map(_) => Item::Table(BTreeMap::new()),
        Shape::List(_) => Item::List(Vec::new()),
        Shape::Text | Shape::Secret => Item::Text(String::new()),
        Shape::Integer { .. } | Shape::Number => Item::Integer(0),
        Shape::Boolean => Item::Boolean(false),
        Shape::Word(words) => Item::Text(words.first().cloned().unwrap_or_default()),
    };
    Node::new(Origin::Nowhere, item)
}
