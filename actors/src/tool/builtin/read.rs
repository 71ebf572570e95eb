//! `file_read`: lines of a text file.

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

use rookery_messages::tool::{CallEffects, ToolResult, ToolSpec};
use serde_json::json;

use super::args::{self, Arguments};
use super::file_tool::FileTool;
use super::files::{self, FileWork};

/// Lines given if no limit is.
const DEFAULT_LINES: u64 = 2_000;
/// Most lines a call may ask for.
const MAX_LINES: u64 = 100_000;
/// Most bytes of one answer.
const MAX_BYTES: usize = 512 * 1_024;

/// The tool.
pub(super) struct FileRead;

impl FileTool for FileRead {
    type Wanted = Wanted;

    fn spec() -> Arc<ToolSpec> {
        super::spec(
            "file_read",
            "Reads lines of a text file in the workspace. Long files are read in parts: the answer says where to go on.",
            json!({
                "path": {"type": "string", "description": "The file, relative to the workspace."},
                "offset": {"type": "integer", "minimum": 1, "description": "First line to read, from 1. Default: 1."},
                "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LINES, "description": "Most lines to read. Default: 2000."},
            }),
            &["path"],
        )
    }

    fn effects(arguments: &Arguments) -> CallEffects {
        let path = args::required(arguments, "path").map(str::to_owned);
        CallEffects { reads: path.into_iter().collect(), ..CallEffects::read_only() }
    }

    fn wanted(arguments: &Arguments) -> Result<Wanted, ToolResult> {
        Wanted::of(arguments)
    }

    fn work(wanted: &Wanted, files: &FileWork) -> Result<ToolResult, ToolResult> {
        read(wanted, files)
    }
}

pub(super) struct Wanted {
    path: String,
    offset: u64,
    limit: u64,
}

impl Wanted {
    fn of(arguments: &Arguments) -> Result<Self, ToolResult> {
        Ok(Self {
            path: args::required(arguments, "path")?.to_owned(),
            offset: args::number(arguments, "offset", 1..=u64::MAX)?.unwrap_or(1),
            limit: args::number(arguments, "limit", 1..=MAX_LINES)?.unwrap_or(DEFAULT_LINES),
        })
    }
}

fn read(wanted: &Wanted, files: &FileWork) -> Result<ToolResult, ToolResult> {
    let at = files.gate()?.resolve(&wanted.path).map_err(files::refused)?;
    let file = at.open_file().map_err(files::refused)?;
    let mut reader = BufReader::with_capacity(64 * 1_024, file);
    let mut lines = Lines { wanted, line: 1, part: Vec::new(), full: false, open: false };
    loop {
        files.go_on()?;
        let chunk = reader.fill_buf().map_err(|e| files::broken(&at, &e))?;
        if chunk.is_empty() {
            break;
        }
        if chunk.contains(&0) {
            return Err(ToolResult::failed(format!(
                "path `{}` is a binary file; file_read reads text",
                files::shown(&at)
            )));
        }
        let used = chunk.len();
        lines.take(chunk);
        reader.consume(used);
        if lines.done() {
            break;
        }
    }
    let more =
        lines.full || lines.done() && has_more(&mut reader).map_err(|e| files::broken(&at, &e))?;
    lines.answer(&at, more)
}

fn has_more(reader: &mut impl Read) -> std::io::Result<bool> {
    Ok(reader.read(&mut [0])? > 0)
}

/// The wanted lines, gathered from chunks as they come.
struct Lines<'a> {
    wanted: &'a Wanted,
    /// The line the next byte belongs to, from 1.
    line: u64,
    part: Vec<u8>,
    /// Wanted bytes were left out.
    full: bool,
    /// The last line has no newline yet.
    open: bool,
}

impl Lines<'_> {
    fn end(&self) -> u64 {
        self.wanted.offset.saturating_add(self.wanted.limit)
    }

    fn done(&self) -> bool {
        self.full || self.line >= self.end()
    }

    fn take(&mut self, mut chunk: &[u8]) {
        while !chunk.is_empty() {
            let len = chunk.iter().position(|byte| *byte == b'\n').map_or(chunk.len(), |at| at + 1);
            let (line, rest) = chunk.split_at(len);
            if self.line >= self.end() {
                // More of the file came with the last wanted line.
                self.full = true;
                return;
            }
            if self.line >= self.wanted.offset {
                let room = MAX_BYTES - self.part.len();
                self.part.extend_from_slice(&line[..line.len().min(room)]);
                if line.len() > room {
                    self.full = true;
                    return;
                }
            }
            self.open = !line.ends_with(b"\n");
            if !self.open {
                self.line += 1;
            }
            chunk = rest;
        }
    }

    fn answer(
        self,
        at: &crate::policy::paths::Resolved,
        more: bool,
    ) -> Result<ToolResult, ToolResult> {
        let first = self.wanted.offset;
        if self.part.is_empty() && first > 1 {
            return Err(ToolResult::failed(format!(
                "`offset` {first} is past the end of `{}`, which has {} lines",
                files::shown(at),
                self.line - u64::from(!self.open)
            )));
        }
        let mut text = match String::from_utf8(self.part) {
            Ok(text) => text,
            // A cut at the size limit may have split a character; anything else is named.
            Err(e) if e.utf8_error().error_len().is_none() && self.full => {
                let valid = e.utf8_error().valid_up_to();
                let mut bytes = e.into_bytes();
                bytes.truncate(valid);
                String::from_utf8_lossy(&bytes).into_owned()
            }
            Err(e) => {
                let text = String::from_utf8_lossy(e.as_bytes()).into_owned();
                format!("{text}\n[some bytes are not UTF-8 and are shown as \u{fffd}]")
            }
        };
        if more {
            let note = if self.line == first {
                format!(
                    "[line {first} is longer than {MAX_BYTES} bytes; the rest of it is left out]"
                )
            } else if self.line >= self.wanted.offset.saturating_add(self.wanted.limit) {
                format!("[lines {first} to {}; go on with `offset` {}]", self.line - 1, self.line)
            } else {
                // The last line is a part: it is read again.
                format!(
                    "[cut at {MAX_BYTES} bytes within line {}; go on with `offset` {}]",
                    self.line, self.line
                )
            };
            if !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(&note);
        }
        Ok(ToolResult::ok(text))
    }
}
