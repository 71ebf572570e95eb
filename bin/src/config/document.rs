//! A configuration as nodes that know where they were set.

use std::collections::BTreeMap;

use toml::de::{DeTable, DeValue};

use super::error::ConfigError;

/// Where a value was set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// In the file, at this line, from 1.
    Line(usize),
    /// By this environment variable.
    Variable(String),
    /// Nowhere: a default, or absent.
    Nowhere,
}

/// A value and where it was set. Has no `Debug`: it may hold secrets.
#[derive(Clone)]
pub(super) struct Node {
    pub(super) origin: Origin,
    pub(super) item: Item,
    /// Part of the text came from `${env:…}` or `${file:…}`: no message may show it.
    pub(super) resolved: bool,
}

/// A value.
#[derive(Clone)]
pub(super) enum Item {
    Text(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    Date(toml::value::Datetime),
    List(Vec<Node>),
    Table(BTreeMap<String, Node>),
}

impl Item {
    /// What it is, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Integer(_) => "a whole number",
            Self::Float(_) => "a fraction",
            Self::Boolean(_) => "true or false",
            Self::Date(_) => "a date",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }
}

impl Node {
    pub(super) fn new(origin: Origin, item: Item) -> Self {
        Self { origin, item, resolved: false }
    }

    /// The node at a path of keys.
    pub(super) fn get(&self, path: &[&str]) -> Option<&Node> {
        path.iter().try_fold(self, |node, key| match &node.item {
            Item::Table(table) => table.get(*key),
            _ => None,
        })
    }

    /// Where a key was set, or the nearest table around it.
    pub(super) fn origin_near(&self, path: &[&str]) -> Origin {
        let mut origin = Origin::Nowhere;
        let mut node = self;
        for key in path {
            let Some(child) = node.get(&[key]) else { break };
            node = child;
            origin = node.origin.clone();
        }
        origin
    }

    /// As plain TOML.
    pub(super) fn to_value(&self) -> toml::Value {
        match &self.item {
            Item::Text(text) => toml::Value::String(text.clone()),
            Item::Integer(number) => toml::Value::Integer(*number),
            Item::Float(number) => toml::Value::Float(*number),
            Item::Boolean(flag) => toml::Value::Boolean(*flag),
            Item::Date(date) => toml::Value::Datetime(*date),
            Item::List(list) => toml::Value::Array(list.iter().map(Self::to_value).collect()),
            Item::Table(table) => toml::Value::Table(
                table.iter().map(|(key, node)| (key.clone(), node.to_value())).collect(),
            ),
        }
    }
}

/// Reads a file's text. Every syntax error is reported, by line alone: its context may be a secret.
pub(super) fn parse(text: &str) -> Result<Node, Vec<ConfigError>> {
    let lines = Lines::of(text);
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut errors: Vec<ConfigError> = errors
        .iter()
        .map(|error| {
            let line = error.span().map_or(1, |span| lines.line(span.start));
            ConfigError {
                key: None,
                origin: Origin::Line(line),
                message: format!("not valid TOML: {}", error.message()),
            }
        })
        .collect();
    if errors.is_empty() {
        let origin = |at: usize| Origin::Line(lines.line(at));
        match table_item(table.get_ref(), &origin) {
            Ok(item) => return Ok(Node::new(Origin::Nowhere, item)),
            Err(error) => errors.push(error),
        }
    }
    Err(errors)
}

/// Reads one value as TOML; `None` when it is none.
pub(super) fn parse_value(text: &str, origin: &Origin) -> Option<Node> {
    let value = DeValue::parse(text).ok()?;
    value_item(value.get_ref(), origin.clone(), &|_| origin.clone())
        .ok()
        .map(|item| Node::new(origin.clone(), item))
}

fn table_item(table: &DeTable<'_>, origin: &dyn Fn(usize) -> Origin) -> Result<Item, ConfigError> {
    let mut nodes = BTreeMap::new();
    for (key, value) in table {
        let at = origin(key.span().start);
        let item = value_item(value.get_ref(), at.clone(), origin)?;
        nodes.insert(key.get_ref().to_string(), Node::new(at, item));
    }
    Ok(Item::Table(nodes))
}

fn value_item(
    value: &DeValue<'_>,
    at: Origin,
    origin: &dyn Fn(usize) -> Origin,
) -> Result<Item, ConfigError> {
    let refused =
        |message: &str| ConfigError { key: None, origin: at.clone(), message: message.to_owned() };
    Ok(match value {
        DeValue::String(text) => Item::Text(text.to_string()),
        DeValue::Integer(number) => Item::Integer(
            i64::from_str_radix(number.as_str(), number.radix())
                .map_err(|_| refused("the number is too large"))?,
        ),
        DeValue::Float(number) => {
            Item::Float(number.as_str().parse().map_err(|_| refused("not a number"))?)
        }
        DeValue::Boolean(flag) => Item::Boolean(*flag),
        DeValue::Datetime(date) => Item::Date(*date),
        DeValue::Array(list) => Item::List(
            list.iter()
                .map(|entry| {
                    let at = origin(entry.span().start);
                    value_item(entry.get_ref(), at.clone(), origin).map(|item| Node::new(at, item))
                })
                .collect::<Result<_, _>>()?,
        ),
        DeValue::Table(table) => table_item(table, origin)?,
    })
}

/// Byte offsets to line numbers.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(at, _)| at).collect())
    }

    /// The line of a byte, from 1.
    fn line(&self, at: usize) -> usize {
        self.0.partition_point(|end| *end < at) + 1
    }
}
