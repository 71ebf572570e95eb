//! One owner: exclusive locks on the database itself and on a file beside it, for the life of the process.
//!
//! The kernel releases a lock when its holder ends, however it ends; what a dead process left in the file is
//! only text. The file is never removed by us: a third process could otherwise lock the old one. Somebody may
//! remove it all the same; then the lock on the database still refuses a second owner. That one is `flock(2)`,
//! which knows nothing of the record locks that SQLite takes on the same file.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rookery_messages::store::StoreError;
use rookery_messages::time::rfc3339_millis;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::error::file_error;
use super::place::Identity;

/// How often a file that is replaced while it is locked is opened anew.
const TRIES: u32 = 8;

/// The held locks. Dropping it releases them. To close any handle of the database takes SQLite's own locks
/// away from the process, so that this has to outlive its connections.
#[derive(Debug)]
pub(super) struct OwnerLock {
    database: File,
    file: File,
}

impl Drop for OwnerLock {
    /// Said, not left to the closing: a child that was forked just now still holds the files until it runs its
    /// program.
    fn drop(&mut self) {
        for file in [&self.file, &self.database] {
            let _ = flock(file, FlockOperation::Unlock);
        }
    }
}

impl OwnerLock {
    /// Takes the locks of the database at `path`, which is open as `database`, or says who holds them.
    pub(super) fn take(path: &Path, database: File) -> Result<Self, StoreError> {
        let lock_path = beside(path, ".lock");
        let fail = |error: std::io::Error| {
            file_error(&format!("taking the lock of {}", path.display()), &error)
        };
        if !lock(&database).map_err(fail)? {
            let text =
                File::open(&lock_path).ok().and_then(|mut file| owner_text(&mut file, &lock_path));
            let owner = text.unwrap_or_else(|| format!("it holds {} itself", path.display()));
            return Err(StoreError::InUse { owner });
        }
        if Identity::of(path) != Identity::of_file(&database) {
            let text = format!("{} was replaced while it was opened; start again", path.display());
            return Err(StoreError::Unavailable(text));
        }
        for _ in 0..TRIES {
            let mut file = open(&lock_path).map_err(fail)?;
            if !lock(&file).map_err(fail)? {
                let text = owner_text(&mut file, &lock_path);
                let owner = text.unwrap_or_else(|| format!("see {}", lock_path.display()));
                return Err(StoreError::InUse { owner });
            }
            // Removed since it was opened: whoever comes next would lock another one.
            if Identity::of(&lock_path) == Identity::of_file(&file) {
                write_owner(&mut file).map_err(fail)?;
                return Ok(Self { database, file });
            }
        }
        let text = format!("{} is removed again and again", lock_path.display());
        Err(StoreError::Unavailable(text))
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Whether nobody else holds it.
fn lock(file: &File) -> std::io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Writes who holds the lock. The start time is the file system's, so that no clock is read here.
fn write_owner(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    write!(file, "pid {}", std::process::id())?;
    let since = Timestamp::try_from(file.metadata()?.modified()?)
        .map_err(|error| std::io::Error::other(error.to_string()))?;
    writeln!(file, ", since {}", rfc3339_millis(since))
}

/// None: it says nothing. The owner may be writing its text just now; the refusal stands without it.
fn owner_text(file: &mut File, lock_path: &Path) -> Option<String> {
    let mut text = String::new();
    file.take(200).read_to_string(&mut text).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| format!("{text}, by {}", lock_path.display()))
}

/// The path with `suffix` appended to its file name.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}
