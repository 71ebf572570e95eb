//! One owner: an exclusive lock on a file beside the database, for the life of the process.
//!
//! The kernel releases the lock when its holder ends, however it ends; what a dead process left in the
//! file is only text. The file is never removed: a third process could otherwise lock the old one.

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

/// The held lock. Dropping it releases it.
#[derive(Debug)]
pub(super) struct OwnerLock {
    _file: File,
}

impl OwnerLock {
    /// Takes the lock of the database at `path`, or says who holds it.
    pub(super) fn take(path: &Path) -> Result<Self, StoreError> {
        let lock_path = beside(path, ".lock");
        let fail = |error: std::io::Error| {
            file_error(&format!("taking the lock file {}", lock_path.display()), &error)
        };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&lock_path)
            .map_err(fail)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(StoreError::InUse { owner: owner_text(&mut file, &lock_path) });
            }
            Err(errno) => return Err(fail(errno.into())),
        }
        write_owner(&mut file).map_err(fail)?;
        Ok(Self { _file: file })
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

fn owner_text(file: &mut File, lock_path: &Path) -> String {
    let mut text = String::new();
    // The owner may be writing its text just now; the refusal stands without it.
    let read = file.take(200).read_to_string(&mut text);
    let text = text.trim();
    if read.is_err() || text.is_empty() {
        format!("see {}", lock_path.display())
    } else {
        format!("{text}, by {}", lock_path.display())
    }
}

/// The path with `suffix` appended to its file name.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}
