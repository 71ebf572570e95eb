//! `${env:NAME}` and `${file:/path}` inside any string; `$${` is a plain `${`.

use std::path::PathBuf;

use rookery_actors::policy::redact::is_secret_key;
use rookery_messages::settings::Secret;

use super::document::{Item, Node};
use super::environment::Environment;
use super::error::ConfigError;

/// A longer text, or one of several lines, is no secret but a text that was put into a file of its own.
const LONGEST_SECRET: usize = 4_096;

/// What references led to.
#[derive(Debug, Default)]
pub(super) struct References {
    /// Files that were read.
    pub(super) files: Vec<PathBuf>,
    /// What stood in them, and what the environment calls a secret.
    pub(super) secrets: Vec<Secret>,
}

impl References {
    fn keep(&mut self, value: &str) {
        if !value.is_empty() && value.len() <= LONGEST_SECRET && !value.contains('\n') {
            self.secrets.push(Secret::new(value));
        }
    }
}

/// Resolves every text of the tree.
pub(super) fn apply(
    root: &mut Node,
    environment: &Environment,
    found: &mut References,
    errors: &mut Vec<ConfigError>,
) {
    walk(root, "", environment, found, errors);
}

fn walk(
    node: &mut Node,
    key: &str,
    environment: &Environment,
    found: &mut References,
    errors: &mut Vec<ConfigError>,
) {
    match &mut node.item {
        Item::Text(text) if text.contains("${") => match resolve(text, environment, found) {
            Ok(resolved) => {
                *text = resolved;
                node.resolved = true;
            }
            Err(message) => errors.push(ConfigError::at(key, node, message)),
        },
        Item::List(list) => {
            for (index, entry) in list.iter_mut().enumerate() {
                walk(entry, &format!("{key}[{index}]"), environment, found, errors);
            }
        }
        Item::Table(table) => {
            for (name, entry) in table {
                let below = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                walk(entry, &below, environment, found, errors);
            }
        }
        _ => {}
    }
}

/// One text. What is put in is not looked at again.
fn resolve(
    text: &str,
    environment: &Environment,
    found: &mut References,
) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, after) = (&rest[..at], &rest[at + 2..]);
        if let Some(before) = before.strip_suffix('$') {
            out.push_str(before);
            out.push_str("${");
            rest = after;
            continue;
        }
        out.push_str(before);
        let end = after
            .find('}')
            .ok_or("`${` has no closing `}`; write `$${` for a plain `${`".to_owned())?;
        out.push_str(&look_up(&after[..end], environment, found)?);
        rest = &after[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

fn look_up(
    reference: &str,
    environment: &Environment,
    found: &mut References,
) -> Result<String, String> {
    match reference.split_once(':') {
        Some(("env", name)) => {
            let value = environment.get_set(name).ok_or_else(|| {
                format!(
                    "the environment variable {name} is not set; set it, or change the reference"
                )
            })?;
            if is_secret_key(name) {
                found.keep(value);
            }
            Ok(value.to_owned())
        }
        Some(("file", path)) => {
            let content = std::fs::read_to_string(path).map_err(|error| {
                format!("can't read the file {path}: {error}; create it, or change the reference")
            })?;
            found.files.push(PathBuf::from(path));
            let content = content.strip_suffix('\n').unwrap_or(&content);
            let content = content.strip_suffix('\r').unwrap_or(content);
            found.keep(content);
            Ok(content.to_owned())
        }
        _ => {
            Err("`${…}` is neither `${env:NAME}` nor `${file:/path}`; write `$${` for a plain `${`"
                .to_owned())
        }
    }
}
