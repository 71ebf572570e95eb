//! `${env:NAME}` and `${file:/path}` inside any string; `$${` is a plain `${`.

use std::path::PathBuf;

use super::document::{Item, Node};
use super::environment::Environment;
use super::error::ConfigError;

/// Resolves every text of the tree. Files that were read are added to `files`.
pub(super) fn apply(
    root: &mut Node,
    environment: &Environment,
    files: &mut Vec<PathBuf>,
    errors: &mut Vec<ConfigError>,
) {
    walk(root, "", environment, files, errors);
}

fn walk(
    node: &mut Node,
    key: &str,
    environment: &Environment,
    files: &mut Vec<PathBuf>,
    errors: &mut Vec<ConfigError>,
) {
    match &mut node.item {
        Item::Text(text) if text.contains("${") => match resolve(text, environment, files) {
            Ok(resolved) => {
                *text = resolved;
                node.resolved = true;
            }
            Err(message) => errors.push(ConfigError::at(key, node, message)),
        },
        Item::List(list) => {
            for (index, entry) in list.iter_mut().enumerate() {
                walk(entry, &format!("{key}[{index}]"), environment, files, errors);
            }
        }
        Item::Table(table) => {
            for (name, entry) in table {
                let below = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                walk(entry, &below, environment, files, errors);
            }
        }
        _ => {}
    }
}

/// One text. What is put in is not looked at again.
fn resolve(
    text: &str,
    environment: &Environment,
    files: &mut Vec<PathBuf>,
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
        out.push_str(&look_up(&after[..end], environment, files)?);
        rest = &after[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

fn look_up(
    reference: &str,
    environment: &Environment,
    files: &mut Vec<PathBuf>,
) -> Result<String, String> {
    match reference.split_once(':') {
        Some(("env", name)) => environment.get_set(name).map(str::to_owned).ok_or_else(|| {
            format!("the environment variable {name} is not set; set it, or change the reference")
        }),
        Some(("file", path)) => {
            let content = std::fs::read_to_string(path).map_err(|error| {
                format!("can't read the file {path}: {error}; create it, or change the reference")
            })?;
            files.push(PathBuf::from(path));
            let content = content.strip_suffix('\n').unwrap_or(&content);
            Ok(content.strip_suffix('\r').unwrap_or(content).to_owned())
        }
        _ => {
            Err("`${…}` is neither `${env:NAME}` nor `${file:/path}`; write `$${` for a plain `${`"
                .to_owned())
        }
    }
}
