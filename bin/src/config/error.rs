//! What is wrong with a configuration: where, which key, what to do. Never a value that may be secret.

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::document::{Node, Origin};

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError {
    /// The key's full name, such as `gateway.listen`; none for the file as a whole.
    pub key: Option<String>,
    /// Where it was set; none for a default or something absent.
    pub origin: Origin,
    /// What is wrong and what to do.
    pub message: String,
}

impl ConfigError {
    /// About the configuration as a whole.
    pub(super) fn general(message: impl Into<String>) -> Self {
        Self { key: None, origin: Origin::Nowhere, message: message.into() }
    }

    /// About a key, at its place.
    pub(super) fn at(key: impl Into<String>, node: &Node, message: impl Into<String>) -> Self {
        Self { key: Some(key.into()), origin: node.origin.clone(), message: message.into() }
    }

    /// The line, when it was set in the file.
    pub fn line(&self) -> Option<usize> {
        match self.origin {
            Origin::Line(line) => Some(line),
            Origin::Variable(_) | Origin::Nowhere => None,
        }
    }
}

/// All that is wrong. Never empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigErrors {
    /// The file that was read.
    pub file: Option<PathBuf>,
    /// In the order of the file; those of the environment and of nowhere after it.
    pub errors: Vec<ConfigError>,
}

impl ConfigErrors {
    pub(super) fn new(file: Option<PathBuf>, mut errors: Vec<ConfigError>) -> Self {
        errors.sort_by_key(|error| error.line().unwrap_or(usize::MAX));
        Self { file, errors }
    }

    pub(super) fn one(file: Option<PathBuf>, error: ConfigError) -> Self {
        Self { file, errors: vec![error] }
    }

    /// One line an error, as `config check` prints them.
    pub fn lines(&self) -> Vec<String> {
        lines(&self.errors, self.file.as_deref())
    }

    /// The same for programs.
    pub fn to_json(&self) -> Value {
        let errors = to_json(&self.errors);
        json!({ "ok": false, "file": self.file, "errors": errors })
    }
}

/// One line each, with its place.
pub(super) fn lines(errors: &[ConfigError], file: Option<&Path>) -> Vec<String> {
    errors
        .iter()
        .map(|error| {
            let place = match (&error.origin, file) {
                (Origin::Line(line), Some(file)) => format!("{}: line {line}: ", file.display()),
                (Origin::Line(line), None) => format!("line {line}: "),
                (Origin::Variable(name), _) => format!("environment variable {name}: "),
                (Origin::Nowhere, _) => String::new(),
            };
            let key = error.key.as_ref().map(|key| format!("{key}: ")).unwrap_or_default();
            format!("{place}{key}{}", error.message)
        })
        .collect()
}

/// Errors or warnings for programs.
pub(super) fn to_json(errors: &[ConfigError]) -> Vec<Value> {
    errors
        .iter()
        .map(|error| {
            let variable = match &error.origin {
                Origin::Variable(name) => Some(name),
                Origin::Line(_) | Origin::Nowhere => None,
            };
            json!({
                "key": error.key,
                "line": error.line(),
                "variable": variable,
                "message": error.message,
            })
        })
        .collect()
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.errors.len() {
            1 => f.write_str("the configuration has an error:")?,
            count => write!(f, "the configuration has {count} errors:")?,
        }
        for line in self.lines() {
            write!(f, "\n  {line}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}
