//! `rookery config …`.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde_json::json;

use crate::cli::Output;
use crate::config::{self, EXAMPLE, Environment, Loaded};
use crate::exit::{Exit, Failure};
use crate::output::{to_stderr, to_stdout};
use crate::render::{json_text, prose, strict, table};

/// Says `ok`, or all that is wrong.
pub fn check(
    named: Option<&Path>,
    environment: &Environment,
    output: Output,
) -> Result<Exit, Failure> {
    match config::load(named, environment) {
        Ok(loaded) => {
            let file = loaded.file.as_ref();
            let warnings = loaded.warning_lines();
            if !output.json {
                for warning in &warnings {
                    to_stderr(&format!("warning: {}\n", prose(warning)));
                }
            }
            to_stdout(&if output.json {
                let warnings = loaded.warnings_json();
                let value = json!({ "ok": true, "file": file, "errors": [], "warnings": warnings });
                format!("{}\n", json_text(&value))
            } else {
                let what = file.map_or("no file, defaults".to_owned(), |file| {
                    strict(&file.display().to_string())
                });
                format!("ok ({what})\n")
            })?;
            Ok(Exit::Ok)
        }
        Err(errors) => {
            if output.json {
                to_stdout(&format!("{}\n", json_text(&errors.to_json())))?;
            } else {
                to_stderr(&format!("error: {}\n", prose(&errors.to_string())));
            }
            Ok(Exit::Failed)
        }
    }
}

/// Prints what the service would run with.
pub fn show(loaded: &Loaded, output: Output) -> Result<Exit, Failure> {
    let failed = |error: String| Failure::failed(format!("can't show the configuration: {error}"));
    let text = if output.json {
        let value = config::to_json(&loaded.settings).map_err(|error| failed(error.to_string()))?;
        format!("{}\n", json_text(&value))
    } else {
        // TOML writes control characters as escapes itself; the rest is made visible here.
        prose(&config::to_toml(&loaded.settings).map_err(|error| failed(error.to_string()))?)
    };
    to_stdout(&text)?;
    Ok(Exit::Ok)
}

/// Prints every key.
pub fn schema(output: Output) -> Result<Exit, Failure> {
    let rows = config::key_table();
    let text = if output.json {
        let value = serde_json::to_value(&rows)
            .map_err(|error| Failure::failed(format!("can't print the keys: {error}")))?;
        format!("{}\n", json_text(&value))
    } else {
        let rows: Vec<Vec<String>> = rows
            .into_iter()
            .map(|row| {
                let default = row.default_text().unwrap_or_else(|| {
                    if row.required { "(required)" } else { "(none)" }.to_owned()
                });
                vec![row.name, row.kind, default, row.meaning]
            })
            .collect();
        table(&["KEY", "TYPE", "DEFAULT", "MEANING"], &rows)
    };
    to_stdout(&text)?;
    Ok(Exit::Ok)
}

/// Writes the example, readable by its owner alone: secrets are put there. Never overwrites.
pub fn init(path: &Path) -> Result<Exit, Failure> {
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(EXAMPLE.as_bytes()));
    match written {
        Ok(()) => {
            to_stdout(&format!("wrote {}\n", path.display()))?;
            Ok(Exit::Ok)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(Failure::failed(format!(
            "{} is there already and is not overwritten; move it away first",
            path.display()
        ))),
        Err(error) => Err(Failure::failed(format!("can't write {}: {error}", path.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn init_writes_a_file_that_passes_the_check_and_never_overwrites() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rookery.toml");
        assert_eq!(init(&path).unwrap(), Exit::Ok);
        config::load(Some(&path), &Environment::default()).unwrap();
        std::fs::write(&path, "mine").unwrap();
        assert_eq!(init(&path).unwrap_err().exit, Exit::Failed);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    }
}
