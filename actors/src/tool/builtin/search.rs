//! `content_search`: lines of files by a regular expression.

use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use globset::GlobMatcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use rookery_messages::tool::{CallEffects, ToolResult, ToolSpec, head};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::args::{self, Arguments};
use super::file_tool::FileTool;
use super::files::{self, FileWork};
use super::glob::matcher;
use super::walk::Walk;
use crate::policy::display::visible;
use crate::policy::paths::{Kind, PathGate, Resolved, open_regular};

/// Lines given if no other number is asked for.
const DEFAULT_RESULTS: u64 = 200;
/// Most lines a call may ask for.
const MAX_RESULTS: u64 = 5_000;
/// Longest part of a line that is shown, in bytes.
const MAX_LINE_BYTES: usize = 400;
/// Longest line that is searched; a file with a longer one is skipped and counted.
const MAX_HEAP_BYTES: usize = 8 * 1_024 * 1_024;
/// Largest compiled expression.
const MAX_REGEX_BYTES: usize = 8 * 1_024 * 1_024;

/// The tool.
pub(super) struct ContentSearch;

impl FileTool for ContentSearch {
    type Wanted = Wanted;

    fn spec() -> Arc<ToolSpec> {
        super::spec(
            "content_search",
            "Searches the text files of the workspace for lines that match a regular expression, as path:line: text. Leaves out binary files, .git, and what .gitignore names.",
            json!({
                "pattern": {"type": "string", "description": "The regular expression (Rust syntax, no look-around)."},
                "path": {"type": "string", "description": "The folder or file to search. Default: the workspace itself."},
                "glob": {"type": "string", "description": "Only files whose path matches, such as *.rs."},
                "case_insensitive": {"type": "boolean", "description": "Default: false."},
                "max_results": {"type": "integer", "minimum": 1, "maximum": MAX_RESULTS, "description": "Most lines to give. Default: 200."},
                "include_ignored": {"type": "boolean", "description": "Search ignored files, too. Default: false."},
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
    regex: RegexMatcher,
    glob: Option<GlobMatcher>,
    path: String,
    max_results: u64,
    include_ignored: bool,
}

impl Wanted {
    fn of(arguments: &Arguments) -> Result<Self, ToolResult> {
        let regex = RegexMatcherBuilder::new()
            .case_insensitive(args::flag(arguments, "case_insensitive")?)
            .line_terminator(Some(b'\n'))
            .size_limit(MAX_REGEX_BYTES)
            .dfa_size_limit(MAX_REGEX_BYTES)
            .build(args::required(arguments, "pattern")?)
            .map_err(|e| {
                let why = head(&visible(&e.to_string()), 500).to_owned();
                ToolResult::failed(format!("`pattern` is no regular expression: {why}"))
            })?;
        Ok(Self {
            regex,
            glob: args::optional(arguments, "glob")?
                .map(|glob| matcher("glob", glob))
                .transpose()?,
            path: args::optional(arguments, "path")?.unwrap_or(".").to_owned(),
            max_results: args::number(arguments, "max_results", 1..=MAX_RESULTS)?
                .unwrap_or(DEFAULT_RESULTS),
            include_ignored: args::flag(arguments, "include_ignored")?,
        })
    }
}

/// What was found so far.
struct Found<'a> {
    wanted: &'a Wanted,
    cancel: &'a CancellationToken,
    searcher: Searcher,
    lines: Vec<String>,
    /// There is more than was asked for.
    cut: bool,
    /// Files that could not be searched.
    skipped: u64,
}

fn search(wanted: &Wanted, files: &FileWork) -> Result<ToolResult, ToolResult> {
    let gate = files.gate()?;
    let at = gate.resolve(&wanted.path).map_err(files::refused)?;
    let searcher = SearcherBuilder::new()
        .line_number(true)
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(MAX_HEAP_BYTES))
        .build();
    let mut found = Found {
        wanted,
        cancel: &files.cancel,
        searcher,
        lines: Vec::new(),
        cut: false,
        skipped: 0,
    };
    let note = if at.kind() == Some(Kind::File) {
        found.file(at.open_file().map_err(files::refused)?, at.relative());
        None
    } else {
        found.folder(&gate, &at, files)?
    };
    files.go_on()?;
    let Found { mut lines, cut, skipped, .. } = found;
    if lines.is_empty() {
        lines.push("no line matches".to_owned());
    }
    if cut {
        lines.push(format!("[more than {} lines match; narrow the search]", wanted.max_results));
    }
    if skipped > 0 {
        lines.push(format!("[{skipped} files could not be searched]"));
    }
    lines.extend(note);
    Ok(ToolResult::ok(lines.join("\n")))
}

impl Found<'_> {
    fn folder(
        &mut self,
        gate: &PathGate,
        at: &Resolved,
        files: &FileWork,
    ) -> Result<Option<String>, ToolResult> {
        let folder = at.open_folder().map_err(files::refused)?;
        let skip_ignored = !self.wanted.include_ignored;
        let walk = Walk { gate, files, recursive: true, skip_ignored };
        let left_out = walk.run(folder.as_fd(), at.relative(), &mut |entry| {
            let named = self.wanted.glob.as_ref().is_none_or(|glob| glob.is_match(entry.below));
            if entry.kind == Kind::File && named {
                match open_regular(entry.folder, entry.name) {
                    // Swapped for something else since it was looked at: not what was judged.
                    Ok(file) if !gate.closes_file(&file, entry.relative) => {
                        self.file(file, entry.relative);
                    }
                    _ => self.skipped += 1,
                }
            }
            Ok(if self.cut { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(left_out.note())
    }

    fn file(&mut self, file: File, path: &Path) {
        let path = visible(&path.to_string_lossy());
        let reader = Stoppable { file, cancel: self.cancel };
        let mut sink = Lines {
            path: &path,
            lines: &mut self.lines,
            max: self.wanted.max_results,
            cut: &mut self.cut,
        };
        if self.searcher.search_reader(&self.wanted.regex, reader, &mut sink).is_err() {
            self.skipped += 1;
        }
    }
}

/// A file that ends with an error once the call is cancelled.
struct Stoppable<'a> {
    file: File,
    cancel: &'a CancellationToken,
}

impl Read for Stoppable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() {
            return Err(io::Error::other("the call was stopped"));
        }
        self.file.read(buffer)
    }
}

/// Takes matching lines until there are enough.
struct Lines<'a> {
    path: &'a str,
    lines: &'a mut Vec<String>,
    max: u64,
    cut: &'a mut bool,
}

impl Sink for Lines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        if self.lines.len() as u64 >= self.max {
            *self.cut = true;
            return Ok(false);
        }
        let text = String::from_utf8_lossy(found.bytes());
        let text = text.trim_end_matches(['\n', '\r']);
        let shown = head(text, MAX_LINE_BYTES);
        let cut = if shown.len() < text.len() { "…" } else { "" };
        let line = found.line_number().unwrap_or(0);
        self.lines.push(format!("{}:{line}: {shown}{cut}", self.path));
        Ok(true)
    }
}
