//! Paths that stay closed, known by what they are rather than by how they are spelled.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rustix::fs::Stat;

/// A file's identity on this machine: device and inode.
pub(super) type Identity = (u64, u64);

/// The identity of what was looked at.
pub(super) fn identity(stat: &Stat) -> Identity {
    (stat.st_dev, stat.st_ino)
}

/// The closed paths of one call.
#[derive(Debug)]
pub(super) struct Forbidden {
    /// What exists, by identity: holds through links, bind mounts and hard links of the file itself.
    ids: Vec<Identity>,
    /// Where it is, links resolved: holds for what doesn't exist yet, and for everything below.
    paths: Vec<PathBuf>,
}

impl Forbidden {
    /// Looks each path up. A relative one starts at `workspace`.
    pub(super) fn look_up(paths: &[PathBuf], workspace: &Path) -> Self {
        let mut forbidden = Self { ids: Vec::new(), paths: Vec::new() };
        for path in paths {
            let resolved = resolve_existing(&workspace.join(path));
            if let Ok(stat) = rustix::fs::stat(&resolved) {
                forbidden.ids.push(identity(&stat));
            }
            forbidden.paths.push(resolved);
        }
        forbidden
    }

    /// Whether the thing at `absolute` (links resolved) is closed. `found` is its identity, if it exists.
    pub(super) fn closes(&self, absolute: &Path, found: Option<Identity>) -> bool {
        found.is_some_and(|id| self.ids.contains(&id))
            || self.paths.iter().any(|closed| absolute.starts_with(closed))
    }

    /// Whether one of them is at or below `absolute` (links resolved).
    pub(super) fn lies_below(&self, absolute: &Path) -> bool {
        self.paths.iter().any(|closed| closed.starts_with(absolute))
    }
}

/// `path` with the links of its existing part resolved; what doesn't exist is kept as written.
pub(super) fn resolve_existing(path: &Path) -> PathBuf {
    let mut missing: Vec<OsString> = Vec::new();
    let mut existing = path.to_path_buf();
    loop {
        if let Ok(real) = existing.canonicalize() {
            return missing.iter().rev().fold(real, |whole, part| whole.join(part));
        }
        match (existing.file_name().map(OsString::from), existing.parent().map(Path::to_path_buf)) {
            (Some(name), Some(parent)) => {
                missing.push(name);
                existing = parent;
            }
            _ => return path.to_path_buf(),
        }
    }
}
