//! `file_edit`: one passage of a file replaced by another.

use std::io::Read;
use std::sync::Arc;

use rookery_messages::tool::{CallEffects, Effects, Reach, ToolResult, ToolSpec};
use serde_json::json;

use super::args::{self, Arguments};
use super::file_tool::FileTool;
use super::files::{self, FileWork};

/// Largest file that is edited.
const MAX_FILE_BYTES: u64 = 16 * 1_024 * 1_024;

/// The tool.
pub(super) struct FileEdit;

impl FileTool for FileEdit {
    type Wanted = Wanted;

    fn spec() -> Arc<ToolSpec> {
        super::spec(
            "file_edit",
            "Replaces a passage of a text file in the workspace. `old` must stand in the file exactly once, unless `replace_all` is set.",
            json!({
                "path": {"type": "string", "description": "The file, relative to the workspace."},
                "old": {"type": "string", "description": "The passage, exactly as it stands in the file."},
                "new": {"type": "string", "description": "What to put in its place."},
                "replace_all": {"type": "boolean", "description": "Replace every occurrence. Default: false."},
            }),
            &["path", "old", "new"],
        )
    }

    /// The new passage may hold the old one, so a second run may not be the same as one.
    fn effects(arguments: &Arguments) -> CallEffects {
        let path = args::required(arguments, "path").map(str::to_owned);
        CallEffects {
            effects: Effects::Once,
            reach: Reach::Workspace,
            writes: path.into_iter().collect(),
            ..CallEffects::read_only()
        }
    }

    fn wanted(arguments: &Arguments) -> Result<Wanted, ToolResult> {
        Wanted::of(arguments)
    }

    fn work(wanted: &Wanted, files: &FileWork) -> Result<ToolResult, ToolResult> {
        edit(wanted, files)
    }
}

pub(super) struct Wanted {
    path: String,
    old: String,
    new: String,
    replace_all: bool,
}

impl Wanted {
    fn of(arguments: &Arguments) -> Result<Self, ToolResult> {
        let wanted = Self {
            path: args::required(arguments, "path")?.to_owned(),
            old: args::required(arguments, "old")?.to_owned(),
            new: args::required(arguments, "new")?.to_owned(),
            replace_all: args::flag(arguments, "replace_all")?,
        };
        if wanted.old.is_empty() {
            return Err(ToolResult::failed(
                "`old` is empty; give the passage to replace, or use file_write for a whole file",
            ));
        }
        if wanted.old == wanted.new {
            return Err(ToolResult::failed("`old` and `new` are the same; nothing to change"));
        }
        Ok(wanted)
    }
}

fn edit(wanted: &Wanted, files: &FileWork) -> Result<ToolResult, ToolResult> {
    let gate = files.gate()?;
    let _alone = files::exclusively(&gate.resolve(&wanted.path).map_err(files::refused)?);
    let at = gate.resolve(&wanted.path).map_err(files::refused)?;
    files.go_on()?;
    let file = at.open_file().map_err(files::refused)?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|e| files::broken(&at, &e))?;
    let path = files::shown(&at);
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(ToolResult::failed(format!(
            "path `{path}` is larger than {MAX_FILE_BYTES} bytes, too large to edit"
        )));
    }
    let Ok(text) = String::from_utf8(bytes) else {
        return Err(ToolResult::failed(format!(
            "path `{path}` is not UTF-8 text; it can't be edited"
        )));
    };
    let count = text.matches(&wanted.old).count();
    match count {
        0 => {
            return Err(ToolResult::failed(format!(
                "`old` does not stand in `{path}`; read the file and give the passage exactly"
            )));
        }
        1 => {}
        n if !wanted.replace_all => {
            return Err(ToolResult::failed(format!(
                "`old` stands {n} times in `{path}`; give more of the text around it, or set `replace_all`"
            )));
        }
        _ => {}
    }
    let edited = text.replace(&wanted.old, &wanted.new);
    files::replace(&at, edited.as_bytes(), false, files)?;
    let times = if count == 1 { "1 passage".to_owned() } else { format!("{count} passages") };
    Ok(ToolResult::ok(format!("replaced {times} in `{path}`")))
}
