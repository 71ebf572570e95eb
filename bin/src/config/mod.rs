//! The configuration: file, environment and defaults become one checked [`Settings`].
//!
//! Steps, each a module: `document` reads the file into nodes that know their line; `overlay` puts the
//! environment's overrides on top; `interpolate` resolves `${env:…}` and `${file:…}`; `shape` compares
//! with the keys of the `schema`; `defaults` adds what is not configured; `semantic` checks what belongs
//! together, as far as it is `readable`. Errors are collected as far as a step can go on; no error or display holds a secret (I12).

mod defaults;
mod document;
mod environment;
mod error;
mod interpolate;
mod overlay;
mod paths;
mod readable;
mod route;
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
pub(crate) use route::ChatRoute;
pub use schema::{KeyRow, key_table};
pub use secrets::secrets;
pub(crate) use shape::nearest;
pub use show::{redact_url, to_json, to_toml};

use document::{Item, Node};
use interpolate::References;

/// The file that is read when none is named.
pub const USUAL_FILE: &str = "rookery.toml";

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
    /// What holds, and may not be meant.
    pub warnings: Vec<ConfigError>,
}

impl Loaded {
    /// One line a warning.
    pub fn warning_lines(&self) -> Vec<String> {
        error::lines(&self.warnings, self.file.as_deref())
    }

    /// The warnings for programs.
    pub fn warnings_json(&self) -> Vec<serde_json::Value> {
        error::to_json(&self.warnings)
    }
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

/// What a client of the service needs to know of its configuration: where it listens, who may come in, where
/// its data is. References to what only the service's own environment has are not its concern, unless they
/// stand in one of the `needed` keys.
pub fn load_for_client(
    named: Option<&Path>,
    environment: &Environment,
    needed: &[&str],
) -> Result<Settings, ConfigErrors> {
    let errors = match load(named, environment) {
        Ok(loaded) => return Ok(loaded.settings),
        Err(errors) => errors,
    };
    let text = errors.file.as_deref().map_or(Ok(String::new()), std::fs::read_to_string);
    let root = text.ok().and_then(|text| document::parse(&text).ok());
    let Some(mut root) = root else { return Err(errors) };
    let (shape, mut unresolved) = (schema::settings_shape(), Vec::new());
    overlay::apply(&mut root, &shape, environment, &mut Vec::new());
    interpolate::apply(&mut root, environment, &mut References::default(), &mut unresolved);
    let is_needed = |key: &str| needed.iter().any(|needed| key.starts_with(needed));
    let is_elsewhere = |error: &ConfigError| {
        unresolved.contains(error) && !error.key.as_deref().is_some_and(is_needed)
    };
    if !errors.errors.iter().all(is_elsewhere) {
        return Err(errors);
    }
    let Ok(mut settings) = deserialize(&readable::Readable::of(&root, &shape).root) else {
        return Err(errors);
    };
    defaults::fill(&mut settings, environment);
    Ok(settings)
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
    let mut found = References::default();
    interpolate::apply(&mut root, environment, &mut found, &mut errors);
    shape::check(&root, &shape, &mut errors);
    if !errors.is_empty() {
        // What is of the wrong type is left out, so that the other mistakes are told too.
        let readable = readable::Readable::of(&root, &shape);
        if let Ok(mut settings) = deserialize(&readable.root) {
            defaults::fill(&mut settings, environment);
            let more = semantic::check(&settings, &readable.root).errors;
            let more: Vec<_> = more.into_iter().filter(|e| readable.is_sure(e, &errors)).collect();
            errors.extend(more);
        }
        return Err(fail(errors));
    }

    let mut settings = deserialize(&root).map_err(|error| fail(vec![error]))?;
    defaults::fill(&mut settings, environment);
    let semantic::Findings { errors, warnings, .. } = semantic::check(&settings, &root);
    if !errors.is_empty() {
        return Err(fail(errors));
    }
    settings.referenced = found.secrets;
    let own_files = file.iter().cloned().chain(found.files).collect();
    Ok(Loaded { settings, file, own_files, warnings })
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
