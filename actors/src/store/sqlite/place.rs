//! Whether the open database is still the one at its path: what is written to a file without a name is lost
//! with the process.

use std::cell::Cell;
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rookery_messages::store::StoreError;

use super::lock::beside;

/// What has to be free after a write that failed until the store counts as writable again, in bytes: some
/// messages, and what becomes of them.
const ROOM: u64 = 512 * 1_024;

/// A file, whatever its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// The file at a path.
    pub(super) fn of(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().map(Self::from)
    }

    /// An open file.
    pub(super) fn of_file(file: &File) -> Option<Self> {
        file.metadata().ok().map(Self::from)
    }
}

impl From<Metadata> for Identity {
    fn from(found: Metadata) -> Self {
        Self { device: found.dev(), inode: found.ino() }
    }
}

/// The database's files as they were first seen. Its log is made by the first write, and stays as long as
/// somebody has the database open.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    log: PathBuf,
    database: Option<Identity>,
    log_seen: Cell<Option<Identity>>,
}

impl Place {
    pub(super) fn new(path: &Path) -> Self {
        let log = beside(path, "-wal");
        let log_seen = Cell::new(Identity::of(&log));
        Self { path: path.to_owned(), log, database: Identity::of(path), log_seen }
    }

    /// Whether there is room for more than a few small writes. Where that can't be told, the write tells.
    pub(super) fn has_room(&self) -> Result<(), StoreError> {
        let Ok(disk) = rustix::fs::statvfs(&self.path) else { return Ok(()) };
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        match free < ROOM {
            true => Err(StoreError::Full(format!(
                "{} KiB are free, at {}",
                free / 1_024,
                self.path.display()
            ))),
            false => Ok(()),
        }
    }

    /// Two look-ups of names: small beside a commit.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        let log = Identity::of(&self.log);
        if self.log_seen.get().is_none() {
            self.log_seen.set(log);
        }
        let lost = match Identity::of(&self.path) == self.database {
            true if self.log_seen.get() == log => return Ok(()),
            true => &self.log,
            false => &self.path,
        };
        Err(StoreError::Unavailable(format!(
            "{} was moved, replaced or deleted while the service runs; nothing is accepted until it is back, or \
             the service is started again on what is there",
            lost.display()
        )))
    }
}
