//! `rookery backup`: the databases, copied while the service runs or not.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rookery_actors::store::sqlite::back_up;
use rookery_messages::settings::MemoryBackend;
use serde_json::json;

use crate::cli::Output;
use crate::config::Loaded;
use crate::exit::{Exit, Failure};
use crate::output::to_stdout;
use crate::render::{json_text, strict};
use crate::service::{memory, store_path};

/// Copies each database into the folder, under the name it has where it is used by default.
pub fn run(loaded: &Loaded, to: &Path, output: Output) -> Result<Exit, Failure> {
    let settings = &loaded.settings;
    let mut sources: Vec<(&str, PathBuf)> = vec![("rookery.db", store_path(settings))];
    if settings.memory.backend == MemoryBackend::Sqlite {
        sources.push(("memory.db", memory::path(settings)));
    }
    // One that nothing was written to is not there.
    sources.retain(|(_, path)| path.exists());
    if sources.is_empty() {
        return Err(Failure::failed(format!(
            "there is no database at {}; check data_dir and store.path, and that this is their machine",
            store_path(settings).display()
        )));
    }
    DirBuilder::new().recursive(true).mode(0o700).create(to).map_err(|error| {
        Failure::failed(format!("the folder {} can't be made: {error}", to.display()))
    })?;
    if let Some(there) = sources.iter().map(|(name, _)| to.join(name)).find(|path| path.exists()) {
        return Err(Failure::failed(format!(
            "{} is there already; name a folder without a backup",
            there.display()
        )));
    }
    let mut files = Vec::new();
    for (name, from) in &sources {
        let bytes = back_up(from, &to.join(name)).map_err(|error| {
            Failure::failed(format!("{} was not copied: {error}", from.display()))
        })?;
        files.push(json!({ "name": name, "from": from, "bytes": bytes }));
    }
    let text = if output.json {
        format!("{}\n", json_text(&json!({ "folder": to, "files": files })))
    } else {
        let lines: Vec<String> = files
            .iter()
            .map(|file| {
                format!(
                    "{}: {} bytes",
                    strict(file["name"].as_str().unwrap_or_default()),
                    file["bytes"]
                )
            })
            .collect();
        format!(
            "{}\nin {}; to restore, stop the service and put them in the place of its own\n",
            lines.join("\n"),
            strict(&to.display().to_string())
        )
    };
    to_stdout(&text)?;
    Ok(Exit::Ok)
}
