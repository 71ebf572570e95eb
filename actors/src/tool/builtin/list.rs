//! `file_list`: what is in a folder.

use std::ops::ControlFlow;
use std::sync::Arc;

use rookery_messages::tool::{CallEffects, ToolResult, ToolSpec};
use serde_json::json;

use super::args::{self, Arguments};
use super::file_tool::FileTool;
use super::files::{self, FileWork};
use super::walk::{Entry, Walk};
use crate::policy::display::visible;
use crate::policy::paths::Kind;

/// Most entries in one answer.
const MAX_SHOWN: usize = 2_000;

/// The tool.
pub(super) struct FileList;

impl FileTool for FileList {
    type Wanted = Wanted;

    fn spec() -> Arc<ToolSpec> {
        super::spec(
            "file_list",
            "Lists a folder of the workspace: folders end with `/`, files have their size in bytes, links show where they lead.",
            json!({
                "path": {"type": "string", "description": "The folder, relative to the workspace. Default: the workspace itself."},
                "recursive": {"type": "boolean", "description": "List what is below, too. Leaves out .git and what .gitignore names. Default: false."},
                "include_ignored": {"type": "boolean", "description": "With `recursive`: leave nothing out. Default: false."},
            }),
            &[],
        )
    }

    fn effects(arguments: &Arguments) -> CallEffects {
        let path = args::optional(arguments, "path").ok().flatten().map(str::to_owned);
        CallEffects { reads: path.into_iter().collect(), ..CallEffects::read_only() }
    }

    fn wanted(arguments: &Arguments) -> Result<Wanted, ToolResult> {
        Wanted::of(arguments)
    }

    fn work(wanted: &Wanted, files: &FileWork) -> Result<ToolResult, ToolResult> {
        list(wanted, files)
    }
}

pub(super) struct Wanted {
    path: String,
    recursive: bool,
    include_ignored: bool,
}

impl Wanted {
    fn of(arguments: &Arguments) -> Result<Self, ToolResult> {
        Ok(Self {
            path: args::optional(arguments, "path")?.unwrap_or(".").to_owned(),
            recursive: args::flag(arguments, "recursive")?,
            include_ignored: args::flag(arguments, "include_ignored")?,
        })
    }
}

fn list(wanted: &Wanted, files: &FileWork) -> Result<ToolResult, ToolResult> {
    let gate = files.gate()?;
    let at = gate.resolve(&wanted.path).map_err(files::refused)?;
    let folder = at.open_folder().map_err(files::refused)?;
    let walk = Walk {
        gate: &gate,
        files,
        recursive: wanted.recursive,
        skip_ignored: wanted.recursive && !wanted.include_ignored,
    };
    let mut lines = Vec::new();
    let mut cut = false;
    let left_out = walk.run(std::os::fd::AsFd::as_fd(&folder), at.relative(), &mut |entry| {
        if lines.len() >= MAX_SHOWN {
            cut = true;
            return Ok(ControlFlow::Break(()));
        }
        lines.push(line(entry));
        Ok(ControlFlow::Continue(()))
    })?;
    if cut {
        lines.push(format!("[more than {MAX_SHOWN} entries; list a folder below]"));
    }
    lines.extend(left_out.note());
    Ok(ToolResult::ok(lines.join("\n")))
}

fn line(entry: &Entry<'_>) -> String {
    let path = visible(&entry.below.to_string_lossy());
    match entry.kind {
        Kind::Folder => format!("{path}/"),
        Kind::File => format!("{path} ({} bytes)", entry.size),
        Kind::Link => match rustix::fs::readlinkat(entry.folder, entry.name, Vec::new()) {
            Ok(target) => format!("{path} -> {}", visible(&target.to_string_lossy())),
            Err(_) => format!("{path} -> ?"),
        },
        Kind::Other => format!("{path} (pipe, socket or device)"),
    }
}
