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
            || self
                .paths
                .iter()
                .any(|closed| absolute.starts_with(closed) || is_copy(absolute, closed))
    }

    /// Whether one of them is at or below `absolute` (links resolved).
    pub(super) fn lies_below(&self, absolute: &Path) -> bool {
        self.paths.iter().any(|closed| closed.starts_with(absolute))
    }
}

/// How the names of copies go on that editors and people leave beside a file.
const COPIES: [&str; 9] =
    [".bak", ".backup", ".old", ".orig", ".save", ".swp", ".swo", ".tmp", ".new"];

/// Whether `path` is, or is below, a copy of `closed` that was left beside it: it holds the same secrets.
fn is_copy(path: &Path, closed: &Path) -> bool {
    let (Some(folder), Some(name)) = (closed.parent(), closed.file_name()) else { return false };
    let Some(beside) = path.strip_prefix(folder).ok().and_then(|rest| rest.iter().next()) else {
        return false;
    };
    let (beside, name) = (beside.to_string_lossy(), name.to_string_lossy());
    let hidden = beside.trim_start_matches(['.', '#']);
    [&*beside, hidden].iter().filter_map(|copy| copy.strip_prefix(&*name)).any(|rest| {
        let rest = rest.to_ascii_lowercase();
        rest.starts_with(['~', '#']) || COPIES.iter().any(|ending| rest.starts_with(ending))
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    // A099
    #[test]
    fn copies_beside_a_closed_file_are_closed_and_its_neighbours_are_not() {
        let closed = Path::new("/etc/rookery/rookery.toml");
        for (path, is) in [
            ("/etc/rookery/rookery.toml.bak", true),
            ("/etc/rookery/rookery.toml.BAK.2", true),
            ("/etc/rookery/rookery.toml~", true),
            ("/etc/rookery/.rookery.toml.swp", true),
            ("/etc/rookery/#rookery.toml#", true),
            ("/etc/rookery/rookery.toml.old/deep/file", true),
            ("/etc/rookery/rookery.toml.md", false),
            ("/etc/rookery/rookery.tom", false),
            ("/etc/rookery/other.bak", false),
            ("/etc/rookery", false),
            ("/srv/rookery.toml.bak", false),
        ] {
            assert_eq!(is_copy(Path::new(path), closed), is, "{path}");
        }
        assert!(is_copy(Path::new("/x/.env.bak"), Path::new("/x/.env")));
    }
}
