//! The one path gate of all file tools (A093, A094, A099).
//!
//! A path is walked component by component on directory handles that never follow a link by themselves;
//! each link is read and walked here. So what was judged is what is opened: swapping a folder for a link
//! between the look and the use leads nowhere. Links that stay inside the workspace work, absolute ones
//! too; whatever leads out is refused before anything is created.

mod error;
mod forbidden;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat};
use rustix::io::Errno;

pub use error::PathError;
use forbidden::{Forbidden, Identity, identity, resolve_existing};

/// As many links as Linux itself follows (`path_resolution(7)`).
const MAX_LINKS: u32 = 40;
/// `PATH_MAX` of Linux.
const MAX_PATH_BYTES: usize = 4_096;

/// A folder handle that only serves to look things up.
const LOOK_UP: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The workspace of one call, held by its handle, and what is closed in it.
///
/// Making one and resolving with it costs a few system calls a component; neither waits for anything but
/// the file system.
#[derive(Debug)]
pub struct PathGate {
    root: Arc<OwnedFd>,
    root_id: Identity,
    /// As configured; may be reached through links.
    given: PathBuf,
    /// With its links resolved.
    real: PathBuf,
    forbidden: Forbidden,
}

/// What stands at a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A link. Only a walk meets one; [`PathGate::resolve`] follows them.
    Link,
    /// A pipe, socket or device.
    Other,
}

impl Kind {
    /// Of a file's mode.
    pub(crate) fn of(stat: &Stat) -> Self {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Folder,
            FileType::Symlink => Self::Link,
            _ => Self::Other,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::File => "a file",
            Self::Folder => "a folder",
            Self::Link => "a link",
            Self::Other => "a pipe, socket or device",
        }
    }
}

/// A path that was judged: the folder that holds it, open, and its name there.
#[derive(Debug)]
pub struct Resolved {
    /// As written, for texts.
    written: String,
    /// The deepest folder that exists and holds (or would hold) the rest.
    parent: Arc<OwnedFd>,
    /// Folders below `parent` that don't exist yet.
    missing: Vec<OsString>,
    /// The last component; none is the workspace itself.
    name: Option<OsString>,
    /// The handle, if it is a folder.
    folder: Option<Arc<OwnedFd>>,
    /// What stands there; none is nothing.
    found: Option<Stat>,
    /// Relative to the workspace, links resolved.
    relative: PathBuf,
}

impl PathGate {
    /// Opens `workspace` and looks `forbidden` up. The workspace itself may be a link.
    pub fn open(workspace: &Path, forbidden: &[PathBuf]) -> Result<Self, PathError> {
        let broken = |source: std::io::Error| PathError::Workspace {
            workspace: workspace.display().to_string(),
            source,
        };
        let given = std::path::absolute(workspace).map_err(broken)?;
        let real = workspace.canonicalize().map_err(broken)?;
        let root = rustix::fs::open(&real, LOOK_UP, Mode::empty()).map_err(|e| broken(e.into()))?;
        let root_id = identity(&rustix::fs::fstat(&root).map_err(|e| broken(e.into()))?);
        let forbidden = Forbidden::look_up(forbidden, &real);
        Ok(Self { root: Arc::new(root), root_id, given, real, forbidden })
    }

    /// The workspace with its links resolved.
    pub fn workspace(&self) -> &Path {
        &self.real
    }

    /// Judges a path as a model wrote it. Follows links as far as they stay inside.
    pub fn resolve(&self, written: &str) -> Result<Resolved, PathError> {
        let relative = self.relative(written)?;
        let mut walk = Walk { gate: self, written, folders: Vec::new(), links: 0 };
        walk.go(components(&relative))
    }

    /// Whether something below an open folder is closed. `relative` is its place in the workspace.
    pub(crate) fn closes(&self, relative: &Path, stat: &Stat) -> bool {
        self.forbidden.closes(&self.real.join(relative), Some(identity(stat)))
    }

    /// Whether an open file is not one to be read: closed, or no regular file after all.
    pub(crate) fn closes_file(&self, file: &File, relative: &Path) -> bool {
        match rustix::fs::fstat(file) {
            Ok(stat) => Kind::of(&stat) != Kind::File || self.closes(relative, &stat),
            Err(_) => true,
        }
    }

    /// Whether a path outside the workspace is one of the closed ones.
    pub(crate) fn closes_outside(&self, path: &str) -> bool {
        let resolved = resolve_existing(&self.real.join(path));
        let found = rustix::fs::stat(&resolved).ok();
        self.forbidden.closes(&resolved, found.as_ref().map(identity))
    }

    /// Whether something closed lies at or below a path, inside the workspace or not.
    pub(crate) fn holds_closed(&self, path: &str) -> bool {
        self.forbidden.lies_below(&resolve_existing(&self.real.join(path)))
    }

    /// Refuses what is no path, and makes an absolute path inside the workspace relative.
    fn relative(&self, written: &str) -> Result<PathBuf, PathError> {
        let malformed = |why| Err(PathError::Malformed { path: written.to_owned(), why });
        if written.is_empty() {
            return malformed("it is empty; write `.` for the workspace itself");
        }
        if written.len() > MAX_PATH_BYTES {
            return malformed("it is longer than 4096 bytes");
        }
        if written.contains('\0') {
            return malformed("it contains a NUL byte");
        }
        if written.starts_with('~') {
            return malformed("`~` is not expanded; write the path relative to the workspace");
        }
        let bytes = written.as_bytes();
        let drive = bytes.len() >= 2 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':';
        if (drive && bytes.get(2).is_none_or(|c| matches!(c, b'\\' | b'/')))
            || written.starts_with(r"\\")
        {
            return malformed("it is a Windows path; write it relative to the workspace, with `/`");
        }
        let lower = written.to_ascii_lowercase();
        if ["..%2f", "..%5c", "%2e%2e"].iter().any(|trick| lower.contains(trick)) {
            return malformed("percent escapes are not decoded; write the path plainly");
        }
        let path = Path::new(written);
        if !path.is_absolute() {
            return Ok(path.to_path_buf());
        }
        self.strip(path).ok_or_else(|| PathError::Outside {
            path: written.to_owned(),
            how: "it is absolute and lies elsewhere",
        })
    }

    /// The rest of an absolute path below the workspace. Only says where to start: the walk confines.
    fn strip(&self, path: &Path) -> Option<PathBuf> {
        for root in [&self.given, &self.real] {
            if let Ok(rest) = path.strip_prefix(root) {
                return Some(rest.to_path_buf());
            }
        }
        // The same place may be reached by another name, through a link above the workspace.
        let real = match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => resolve_existing(parent).join(name),
            _ => return None,
        };
        real.strip_prefix(&self.real).ok().map(Path::to_path_buf)
    }
}

/// The components still to be walked. The root and `.` mean nothing here.
fn components(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_os_string()),
            Component::ParentDir => Some(OsString::from("..")),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
        })
        .collect()
}

/// One walk from the workspace downwards.
struct Walk<'a> {
    gate: &'a PathGate,
    written: &'a str,
    /// The open folders below the workspace, each with its name.
    folders: Vec<(Arc<OwnedFd>, OsString)>,
    links: u32,
}

impl Walk<'_> {
    fn go(&mut self, mut pending: VecDeque<OsString>) -> Result<Resolved, PathError> {
        self.check(&self.place(None), Some(self.gate.root_id))?;
        while let Some(name) = pending.pop_front() {
            if name == ".." {
                if self.folders.pop().is_none() {
                    return Err(self.outside("by `..`"));
                }
                continue;
            }
            let stat = match rustix::fs::statat(self.here(), &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::NOENT) => return self.nothing(name, pending),
                Err(e) => return Err(self.io(e)),
            };
            match Kind::of(&stat) {
                Kind::Link => self.follow(&name, &mut pending)?,
                Kind::Folder => self.enter(name)?,
                Kind::File | Kind::Other if pending.is_empty() => {
                    let relative = self.place(Some(&name));
                    self.check(&relative, Some(identity(&stat)))?;
                    return Ok(self.end(Some(name), Vec::new(), Some(stat), None, relative));
                }
                other => return Err(self.wrong_kind(other, "a folder")),
            }
        }
        self.at_folder()
    }

    fn here(&self) -> BorrowedFd<'_> {
        self.folders.last().map_or(self.gate.root.as_fd(), |(folder, _)| folder.as_fd())
    }

    /// Where `name` in the folder at hand is, relative to the workspace.
    fn place(&self, name: Option<&OsStr>) -> PathBuf {
        self.folders.iter().map(|(_, name)| name.as_os_str()).chain(name).collect()
    }

    fn check(&self, relative: &Path, found: Option<Identity>) -> Result<(), PathError> {
        if self.gate.forbidden.closes(&self.gate.real.join(relative), found) {
            return Err(PathError::Forbidden { path: self.written.to_owned() });
        }
        Ok(())
    }

    fn enter(&mut self, name: OsString) -> Result<(), PathError> {
        let folder = rustix::fs::openat(self.here(), &name, LOOK_UP, Mode::empty())
            .map_err(|e| self.io(e))?;
        // The handle is what counts from here on, so it is what gets judged.
        let stat = rustix::fs::fstat(&folder).map_err(|e| self.io(e))?;
        self.check(&self.place(Some(&name)), Some(identity(&stat)))?;
        if stat.st_dev != self.gate.root_id.0 {
            let system = rustix::fs::fstatfs(&folder).map_err(|e| self.io(e))?;
            // Its links are not what they read as, and its files show the service's own secrets (A099).
            if system.f_type == PROC_SUPER_MAGIC {
                return Err(PathError::Forbidden { path: self.written.to_owned() });
            }
        }
        self.folders.push((Arc::new(folder), name));
        Ok(())
    }

    fn follow(&mut self, name: &OsStr, pending: &mut VecDeque<OsString>) -> Result<(), PathError> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(PathError::TooManyLinks { path: self.written.to_owned() });
        }
        let target =
            rustix::fs::readlinkat(self.here(), name, Vec::new()).map_err(|e| self.io(e))?;
        let mut target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        if target.is_absolute() {
            target = self.gate.strip(&target).ok_or_else(|| self.outside("by a link"))?;
            self.folders.clear();
        }
        for part in components(&target).into_iter().rev() {
            pending.push_front(part);
        }
        Ok(())
    }

    /// The walk ended at a component that isn't there.
    fn nothing(&self, name: OsString, pending: VecDeque<OsString>) -> Result<Resolved, PathError> {
        let mut names = vec![name];
        names.extend(pending);
        if names.iter().any(|name| name == "..") {
            return Err(PathError::NotFound { path: self.written.to_owned() });
        }
        let relative = names.iter().fold(self.place(None), |path, name| path.join(name));
        self.check(&relative, None)?;
        let last = names.pop();
        Ok(self.end(last, names, None, None, relative))
    }

    /// The walk ended at a folder.
    fn at_folder(&mut self) -> Result<Resolved, PathError> {
        let relative = self.place(None);
        let (folder, name) = match self.folders.pop() {
            Some((folder, name)) => (folder, Some(name)),
            None => (Arc::clone(&self.gate.root), None),
        };
        let stat = rustix::fs::fstat(&folder).map_err(|e| self.io(e))?;
        Ok(self.end(name, Vec::new(), Some(stat), Some(folder), relative))
    }

    fn end(
        &self,
        name: Option<OsString>,
        missing: Vec<OsString>,
        found: Option<Stat>,
        folder: Option<Arc<OwnedFd>>,
        relative: PathBuf,
    ) -> Resolved {
        let parent = self.folders.last().map_or(&self.gate.root, |(folder, _)| folder);
        let parent = Arc::clone(parent);
        Resolved {
            written: self.written.to_owned(),
            parent,
            missing,
            name,
            folder,
            found,
            relative,
        }
    }

    fn outside(&self, how: &'static str) -> PathError {
        PathError::Outside { path: self.written.to_owned(), how }
    }

    fn wrong_kind(&self, found: Kind, wanted: &'static str) -> PathError {
        PathError::WrongKind { path: self.written.to_owned(), found: found.text(), wanted }
    }

    fn io(&self, e: Errno) -> PathError {
        PathError::Io { path: self.written.to_owned(), source: e.into() }
    }
}

impl Resolved {
    /// Relative to the workspace, links resolved; `.` for the workspace itself.
    pub fn relative(&self) -> &Path {
        if self.relative.as_os_str().is_empty() { Path::new(".") } else { &self.relative }
    }

    /// What stands there; none is nothing.
    pub fn kind(&self) -> Option<Kind> {
        self.found.as_ref().map(Kind::of)
    }

    /// Size, mode and times of what stands there.
    pub(crate) fn found(&self) -> Option<&Stat> {
        self.found.as_ref()
    }

    /// Opens the regular file that was judged, for reading. Never waits for a pipe's other end.
    pub fn open_file(&self) -> Result<File, PathError> {
        let Some(found) = &self.found else {
            return Err(PathError::NotFound { path: self.written.clone() });
        };
        let name = match (&self.name, Kind::of(found)) {
            (Some(name), Kind::File) => name,
            (_, other) => {
                let path = self.written.clone();
                return Err(PathError::WrongKind { path, found: other.text(), wanted: "a file" });
            }
        };
        let file = open_regular(self.parent.as_fd(), name).map_err(|e| self.io(e))?;
        let stat = rustix::fs::fstat(&file).map_err(|e| self.io(e))?;
        if identity(&stat) != identity(found) {
            return Err(PathError::Changed { path: self.written.clone() });
        }
        Ok(file)
    }

    /// The folder that was judged.
    pub fn open_folder(&self) -> Result<Arc<OwnedFd>, PathError> {
        match (&self.folder, &self.found) {
            (Some(folder), _) => Ok(Arc::clone(folder)),
            (None, Some(found)) => Err(PathError::WrongKind {
                path: self.written.clone(),
                found: Kind::of(found).text(),
                wanted: "a folder",
            }),
            (None, None) => Err(PathError::NotFound { path: self.written.clone() }),
        }
    }

    /// The folder a file is to be put into, and the file's name there. Makes missing folders if asked.
    pub fn place_for_file(&self, make_folders: bool) -> Result<(Arc<OwnedFd>, &OsStr), PathError> {
        let name = match (&self.name, self.kind()) {
            (Some(name), None | Some(Kind::File)) => name,
            (_, found) => {
                return Err(PathError::WrongKind {
                    path: self.written.clone(),
                    found: found.unwrap_or(Kind::Folder).text(),
                    wanted: "a file",
                });
            }
        };
        let mut folder = Arc::clone(&self.parent);
        for part in &self.missing {
            if !make_folders {
                return Err(PathError::Io {
                    path: self.written.clone(),
                    source: std::io::Error::new(
                        std::io::ErrorKind::NotFound,
                        "its folder does not exist; pass `create_dirs`: true to make it",
                    ),
                });
            }
            match rustix::fs::mkdirat(&folder, part, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(e) => return Err(self.io(e)),
            }
            let next = rustix::fs::openat(&folder, part, LOOK_UP, Mode::empty());
            folder = Arc::new(next.map_err(|e| self.io(e))?);
        }
        Ok((folder, name))
    }

    /// Wraps a system's refusal with this path.
    pub(crate) fn io(&self, e: Errno) -> PathError {
        PathError::Io { path: self.written.clone(), source: e.into() }
    }

    /// Says that somebody else changed it.
    pub(crate) fn changed(&self) -> PathError {
        PathError::Changed { path: self.written.clone() }
    }
}

/// Opens `name` in an open folder for reading, never through a link and never waiting.
pub(crate) fn open_regular(folder: BorrowedFd<'_>, name: &OsStr) -> Result<File, Errno> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::openat(folder, name.as_bytes(), flags, Mode::empty()).map(File::from)
}

/// A handle of the same folder whose entries can be read.
pub(crate) fn readable(folder: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(folder, c".", flags, Mode::empty())
}
