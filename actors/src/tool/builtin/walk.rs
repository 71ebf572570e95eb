//! A bounded walk through a folder, on handles, following no link: it can't leave where it began.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rookery_messages::tool::ToolResult;
use rustix::fs::{AtFlags, Dir, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::files::FileWork;
use crate::policy::paths::{Kind, PathGate, open_regular, readable};

/// Most entries looked at in one call.
const MAX_ENTRIES: u64 = 200_000;
/// Deepest folder below the start.
const MAX_DEPTH: usize = 64;
/// Longest `.gitignore` that is read.
const MAX_IGNORE_BYTES: u64 = 256 * 1_024;

/// How to walk.
pub(super) struct Walk<'a> {
    pub(super) gate: &'a PathGate,
    pub(super) files: &'a FileWork,
    /// Go into folders.
    pub(super) recursive: bool,
    /// Leave out `.git` folders and what the `.gitignore` files met on the way name.
    pub(super) skip_ignored: bool,
}

/// One entry, with the open folder that holds it.
pub(super) struct Entry<'a> {
    pub(super) folder: BorrowedFd<'a>,
    pub(super) name: &'a OsStr,
    /// Relative to the folder the walk began in.
    pub(super) below: &'a Path,
    /// Relative to the workspace.
    pub(super) relative: &'a Path,
    pub(super) kind: Kind,
    pub(super) size: u64,
}

/// What a walk left out.
#[derive(Default)]
pub(super) struct LeftOut {
    /// Entries that ignore rules name; a folder counts once.
    pub(super) ignored: u64,
    /// Folders that could not be read, or lie too deep.
    pub(super) unread: u64,
    /// The walk ended at its bound.
    pub(super) bounded: bool,
}

impl LeftOut {
    /// What to tell, if anything.
    pub(super) fn note(&self) -> Option<String> {
        let mut parts = Vec::new();
        if self.bounded {
            parts.push(format!("stopped after {MAX_ENTRIES} entries"));
        }
        if self.ignored > 0 {
            parts.push(format!(
                "{} ignored by .gitignore or in .git; set `include_ignored` to see them",
                self.ignored
            ));
        }
        if self.unread > 0 {
            parts.push(format!("{} folders could not be read", self.unread));
        }
        (!parts.is_empty()).then(|| format!("[{}]", parts.join("; ")))
    }
}

/// What a visitor of entries says: go on, or enough.
pub(super) type Visit<'v> = dyn FnMut(&Entry<'_>) -> Result<ControlFlow<()>, ToolResult> + 'v;

struct State<'v> {
    visit: &'v mut Visit<'v>,
    seen: u64,
    left_out: LeftOut,
    /// The ignore rules from the start down to the folder at hand, each with its folder's depth.
    rules: Vec<(PathBuf, Gitignore)>,
}

impl Walk<'_> {
    /// Visits everything below `start` in the order of names. `relative` is its place in the workspace.
    pub(super) fn run<'v>(
        &self,
        start: BorrowedFd<'_>,
        relative: &Path,
        visit: &'v mut Visit<'v>,
    ) -> Result<LeftOut, ToolResult> {
        let mut state = State { visit, seen: 0, left_out: LeftOut::default(), rules: Vec::new() };
        let relative = if relative == Path::new(".") { Path::new("") } else { relative };
        let _enough = self.folder(start, Path::new(""), relative, 0, &mut state)?;
        Ok(state.left_out)
    }

    fn folder(
        &self,
        folder: BorrowedFd<'_>,
        below: &Path,
        relative: &Path,
        depth: usize,
        state: &mut State<'_>,
    ) -> Result<ControlFlow<()>, ToolResult> {
        let Ok(names) = self.names(folder, &mut state.left_out) else {
            state.left_out.unread += 1;
            return Ok(ControlFlow::Continue(()));
        };
        self.files.go_on()?;
        let own_rules = self.skip_ignored && self.read_rules(folder, below, state);
        for name in names {
            self.files.go_on()?;
            if state.seen >= MAX_ENTRIES {
                state.left_out.bounded = true;
                return Ok(ControlFlow::Break(()));
            }
            state.seen += 1;
            // What went away, or is closed, is not there.
            let Ok(stat) = rustix::fs::statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            let (below, relative) = (below.join(&name), relative.join(&name));
            if self.gate.closes(&relative, &stat) {
                continue;
            }
            let kind = Kind::of(&stat);
            if self.skip_ignored && ignored(&state.rules, &name, &below, kind) {
                state.left_out.ignored += 1;
                continue;
            }
            let size = u64::try_from(stat.st_size).unwrap_or(0);
            let entry =
                Entry { folder, name: &name, below: &below, relative: &relative, kind, size };
            if (state.visit)(&entry)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            if kind != Kind::Folder || !self.recursive {
                continue;
            }
            if depth >= MAX_DEPTH {
                state.left_out.unread += 1;
                continue;
            }
            match enter(folder, &name, &stat) {
                Ok(next) => {
                    if self.folder(next.as_fd(), &below, &relative, depth + 1, state)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                Err(_) => state.left_out.unread += 1,
            }
        }
        if own_rules {
            state.rules.pop();
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The names in a folder, sorted. At most as many as a walk may look at.
    fn names(
        &self,
        folder: BorrowedFd<'_>,
        left_out: &mut LeftOut,
    ) -> Result<Vec<OsString>, Errno> {
        let mut names = Vec::new();
        for entry in Dir::new(readable(folder)?)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            if names.len() as u64 >= MAX_ENTRIES {
                left_out.bounded = true;
                break;
            }
            names.push(OsStr::from_bytes(name).to_os_string());
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Takes a folder's `.gitignore` into the rules, if it has one.
    fn read_rules(&self, folder: BorrowedFd<'_>, below: &Path, state: &mut State<'_>) -> bool {
        let Ok(file) = open_regular(folder, OsStr::new(".gitignore")) else { return false };
        // A pipe of that name would give nothing, or never end.
        if !file.metadata().is_ok_and(|meta| meta.is_file()) {
            return false;
        }
        let mut text = Vec::new();
        if file.take(MAX_IGNORE_BYTES).read_to_end(&mut text).is_err() {
            return false;
        }
        let mut rules = GitignoreBuilder::new("");
        let mut seen = HashSet::new();
        for line in String::from_utf8_lossy(&text).lines() {
            // A line that is no pattern is left out, as git does.
            if seen.insert(line.to_owned()) {
                let _ = rules.add_line(None, line);
            }
        }
        match rules.build() {
            Ok(rules) => {
                state.rules.push((below.to_path_buf(), rules));
                true
            }
            Err(_) => false,
        }
    }
}

/// The nearest rule that speaks of an entry decides.
fn ignored(rules: &[(PathBuf, Gitignore)], name: &OsStr, below: &Path, kind: Kind) -> bool {
    if name == ".git" {
        return true;
    }
    for (folder, rules) in rules.iter().rev() {
        let path = below.strip_prefix(folder).unwrap_or(below);
        let verdict = rules.matched(path, kind == Kind::Folder);
        if verdict.is_ignore() {
            return true;
        }
        if verdict.is_whitelist() {
            return false;
        }
    }
    false
}

/// Opens a folder that was looked at, never through a link.
fn enter(folder: BorrowedFd<'_>, name: &OsStr, seen: &Stat) -> Result<std::os::fd::OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let next = rustix::fs::openat(folder, name, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&next)?;
    // Swapped since it was judged: another folder may be a closed one.
    if (stat.st_dev, stat.st_ino) == (seen.st_dev, seen.st_ino) {
        Ok(next)
    } else {
        Err(Errno::STALE)
    }
}
