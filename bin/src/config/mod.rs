//! The configuration: file, environment and defaults become one checked [`Settings`].
//!
//! Steps, each a module: `document` reads the file into nodes that know their line; `overlay` puts the
//! environment's overrides on top; `interpolate` resolves `${env:…}` and `${file:…}`; `shape` compares
//! with the keys of the `schema`; `defaults` adds what is not configured; `semantic` checks what belongs
//! together. Errors are collected as far as a step can go on; no error or display holds a secret (I12).

mod defaults;
mod document;
mod environment;
mod error;
mod interpolate;
mod overlay;
mod paths;
mod schema;
mod secrets;
mod semantic;
mod shape;
mod show;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use rookery_messages::settings::Settings;
use serde::Deserialize;

pub use environment::Environment;
pub use error::{ConfigError, ConfigErrors};
pub use schema::{KeyRow, key_table};
pub use secrets::secrets;
pub use show::{redact_url, to_json, to_toml};

use document::{Item, Node};

/// The file that is read when none is named.
const USUAL_FILE: &str = "rookery.toml";

/// The example with every key, as `config init` writes it.
pub const EXAMPLE: &str = include_str!("../../../deploy/rookery.example.toml");

/// A configuration that passed every check.
#[derive(Debug)]
pub struct Loaded {
    /// What the service runs with: nothing left to fill in.
    pub settings: Settings,
    /// The file it came from, if there was one.
    pub file: Option<PathBuf>,
    /// The configuration's own files, secrets it refers to included. Tools may not touch them (A099).
    pub own_files: Vec<PathBuf>,
}

/// Reads and checks the configuration: `named` (from `--config` or `ROOKERY_CONFIG`), else
/// `./rookery.toml` if it is there, else defaults.
pub fn load(named: Option<&Path>, environment: &Environment) -> Result<Loaded, ConfigErrors> {
    let file = match named {
        Some(path) => Some(path.to_owned()),
        None => Path::new(USUAL_FILE).exists().then(|| PathBuf::from(USUAL_FILE)),
    };
    let text = match &file {
        Some(path) => std::fs::read_to_string(path).map_err(|error| {
            ConfigErrors::one(
                file.clone(),
                ConfigError::general(format!(
                    "can't read {}: {error}; name another file with --config or ROOKERY_CONFIG, or write one with `rookery config init`",
                    path.display()
                )),
            )
        })?,
        None => String::new(),
    };
    load_text(file, &text, environment)
}

/// The same for a text already read from `file`.
pub fn load_text(
    file: Option<PathBuf>,
    text: &str,
    environment: &Environment,
) -> Result<Loaded, ConfigErrors> {
    let fail = |errors| ConfigErrors::new(file.clone(), errors);
    let mut root = document::parse(text).map_err(fail)?;
    let shape = schema::settings_shape();
    let mut errors = Vec::new();

    overlay::apply(&mut root, &shape, environment, &mut errors);
    // A file of another version has other keys: naming those as unknown would mislead.
    check_version(&root).map_err(|error| fail(vec![error]))?;
    let mut own_files: Vec<PathBuf> = file.iter().cloned().collect();
    interpolate::apply(&mut root, environment, &mut own_files, &mut errors);
    shape::check(&root, &shape, &mut errors);
    if !errors.is_empty() {
        return Err(fail(errors));
    }

    let mut settings = deserialize(&root).map_err(|error| fail(vec![error]))?;
    defaults::fill(&mut settings, environment);
    let errors = semantic::check(&settings, &root);
    if !errors.is_empty() {
        return Err(fail(errors));
    }
    Ok(Loaded { settings, file, own_files })
}

/// Refuses a form this binary doesn't know (B12).
fn check_version(root: &Node) -> Result<(), ConfigError> {
    match root.get(&["config_version"]) {
        Some(node) if !matches!(node.item, Item::Integer(1)) => Err(ConfigError::at(
            "config_version",
            node,
            "this binary knows config_version = 1 only; set it to 1, or use the binary this file was written for",
        )),
        _ => Ok(()),
    }
}

/// From nodes of the right shape. What `shape` lets through and serde does not is a fault of ours;
/// serde's own text may quote a value, so it is not shown.
fn deserialize(root: &Node) -> Result<Settings, ConfigError> {
    Settings::deserialize(root.to_value()).map_err(|_| {
        ConfigError::general(
            "the configuration passed the key check but can't be read; compare its values with `rookery config schema`",
        )
    })
}
