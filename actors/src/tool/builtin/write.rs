//! `file_write`: a whole file, put in place at once.

use std::sync::Arc;

use rookery_messages::tool::{CallEffects, Effects, Reach, ToolResult, ToolSpec};
use serde_json::json;

use super::args::{self, Arguments};
use super::file_tool::FileTool;
use super::files::{self, FileWork};

/// The tool.
pub(super) struct FileWrite;

impl FileTool for FileWrite {
    type Wanted = Wanted;

    fn spec() -> Arc<ToolSpec> {
        super::spec(
            "file_write",
            "Writes a text file in the workspace, replacing what is there.",
            json!({
                "path": {"type": "string", "description": "The file, relative to the workspace."},
                "content": {"type": "string", "description": "All of the file's new text."},
                "create_dirs": {"type": "boolean", "description": "Make missing folders. Default: false."},
            }),
            &["path", "content"],
        )
    }

    /// Writing the same text twice is the same as writing it once.
    fn effects(arguments: &Arguments) -> CallEffects {
        let path = args::required(arguments, "path").map(str::to_owned);
        CallEffects {
            effects: Effects::Idempotent,
            reach: Reach::Workspace,
            writes: path.into_iter().collect(),
            ..CallEffects::read_only()
        }
    }

    fn wanted(arguments: &Arguments) -> Result<Wanted, ToolResult> {
        Wanted::of(arguments)
    }

    fn work(wanted: &Wanted, files: &FileWork) -> Result<ToolResult, ToolResult> {
        write(wanted, files)
    }
}

pub(super) struct Wanted {
    path: String,
    content: String,
    create_dirs: bool,
}

impl Wanted {
    fn of(arguments: &Arguments) -> Result<Self, ToolResult> {
        Ok(Self {
            path: args::required(arguments, "path")?.to_owned(),
            content: args::required(arguments, "content")?.to_owned(),
            create_dirs: args::flag(arguments, "create_dirs")?,
        })
    }
}

fn write(wanted: &Wanted, files: &FileWork) -> Result<ToolResult, ToolResult> {
    let gate = files.gate()?;
    let _alone = files::exclusively(&gate.resolve(&wanted.path).map_err(files::refused)?);
    // Looked up again once alone: another call may have written it meanwhile.
    let at = gate.resolve(&wanted.path).map_err(files::refused)?;
    files.go_on()?;
    files::replace(&at, wanted.content.as_bytes(), wanted.create_dirs, files)?;
    let what = if at.found().is_some() { "replaced" } else { "made" };
    Ok(ToolResult::ok(format!("{what} `{}` ({} bytes)", files::shown(&at), wanted.content.len())))
}
