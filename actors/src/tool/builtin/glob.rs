//! `glob_search`: files by the pattern of their path.

use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::sync::Arc;

use globset::{GlobBuilder, GlobMatcher};
use rookery_messages::tool::{CallEffects, ToolResult, ToolSpec};
use serde_json::json;

use super::args::{self, Arguments};
use super::file_tool::FileTool;
use super::files::{self, FileWork};
use super::walk::Walk;
use crate::policy::display::visible;
use crate::policy::paths::Kind;

/// Most paths in one answer.
const MAX_SHOWN: usize = 1_000;
/// Longest pattern.
const MAX_PATTERN_BYTES: usize = 1_024;

/// The tool.
pub(super) struct GlobSearch;

impl FileTool for GlobSearch {
    type Wanted = Wanted;

    fn spec() -> Arc<ToolSpec> {
        super::spec(
            "glob_search",
            "Finds files of the workspace by a glob pattern, such as `src/**/*.rs`. A pattern without `/` is looked for in every folder. Leaves out .git and what .gitignore names.",
            json!({
                "pattern": {"type": "string", "description": "The pattern, relative to `path`."},
                "path": {"type": "string", "description": "The folder to look in. Default: the workspace itself."},
                "include_ignored": {"type": "boolean", "description": "Leave nothing out. Default: false."},
            }),
            &["pattern"],
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
        search(wanted, files)
    }
}

pub(super) struct Wanted {
    matcher: GlobMatcher,
    path: String,
    include_ignored: bool,
}

impl Wanted {
    fn of(arguments: &Arguments) -> Result<Self, ToolResult> {
        Ok(Self {
            matcher: matcher("pattern", args::required(arguments, "pattern")?)?,
            path: args::optional(arguments, "path")?.unwrap_or(".").to_owned(),
            include_ignored: args::flag(arguments, "include_ignored")?,
        })
    }
}

/// A matcher for paths. Without a `/` it stands for the file's name in any folder.
pub(super) fn matcher(field: &str, pattern: &str) -> Result<GlobMatcher, ToolResult> {
    if pattern.is_empty() || pattern.len() > MAX_PATTERN_BYTES {
        return Err(ToolResult::failed(format!(
            "`{field}` must have 1 to {MAX_PATTERN_BYTES} bytes"
        )));
    }
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    let anywhere = format!("**/{pattern}");
    let pattern = if pattern.contains('/') { pattern } else { &anywhere };
    let glob = GlobBuilder::new(pattern).literal_separator(true).build();
    glob.map(|glob| glob.compile_matcher()).map_err(|e| {
        ToolResult::failed(format!("`{field}` is no glob pattern: {}", visible(&e.to_string())))
    })
}

fn search(wanted: &Wanted, files: &FileWork) -> Result<ToolResult, ToolResult> {
    let gate = files.gate()?;
    let at = gate.resolve(&wanted.path).map_err(files::refused)?;
    let folder = at.open_folder().map_err(files::refused)?;
    let walk = Walk { gate: &gate, files, recursive: true, skip_ignored: !wanted.include_ignored };
    let mut lines = Vec::new();
    let mut cut = false;
    let left_out = walk.run(folder.as_fd(), at.relative(), &mut |entry| {
        if entry.kind == Kind::Folder || !wanted.matcher.is_match(entry.below) {
            return Ok(ControlFlow::Continue(()));
        }
        if lines.len() >= MAX_SHOWN {
            cut = true;
            return Ok(ControlFlow::Break(()));
        }
        lines.push(visible(&entry.relative.to_string_lossy()));
        Ok(ControlFlow::Continue(()))
    })?;
    if lines.is_empty() {
        lines.push("no file matches".to_owned());
    }
    if cut {
        lines.push(format!("[more than {MAX_SHOWN} files match; narrow the pattern]"));
    }
    lines.extend(left_out.note());
    Ok(ToolResult::ok(lines.join("\n")))
}
