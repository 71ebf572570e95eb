//! A copy of a database, whole or not at all, while others write to it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rookery_messages::store::StoreError;
use rusqlite::{Connection, OpenFlags};

use super::error::{Fault, file_error};
use super::lock::beside;
use super::{BUSY_TIMEOUT, connect};

/// Copies a database of ours to a file that is not there yet, and checks the copy; gives its size in bytes.
///
/// The copy is one moment of it: what was committed before, whatever is written meanwhile. Nobody waits for
/// it, and it needs no lock of the owner.
pub fn back_up(from: &Path, to: &Path) -> Result<u64, StoreError> {
    if to.exists() {
        let text = format!("{} exists already; name another place", to.display());
        return Err(StoreError::Conflict(text));
    }
    let found = from
        .metadata()
        .map_err(|error| file_error(&format!("opening the database {}", from.display()), &error))?;
    if found.len() == 0 {
        return Err(StoreError::Failed(format!(
            "{} is empty; there is nothing to copy",
            from.display()
        )));
    }
    let conn = connect(from, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    copy(&conn, to)?;
    check(to)?;
    let size = to.metadata().map_err(|error| file_error("looking at the copy", &error))?;
    Ok(size.len())
}

/// Writes what a connection sees to a file, by way of one beside it.
pub(super) fn copy(conn: &Connection, to: &Path) -> Result<(), StoreError> {
    let part = beside(to, ".part");
    let fail =
        |error: std::io::Error| file_error(&format!("writing the backup {}", to.display()), &error);
    // VACUUM INTO takes an empty file, which so has our mode and not the process's umask.
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&part)
        .map_err(fail)?;
    let target = part.to_str().ok_or_else(|| {
        StoreError::Failed(format!("the path {} is not UTF-8; rename it", part.display()))
    })?;
    let copied = conn.execute("VACUUM INTO ?1", [target]);
    if let Err(error) = copied {
        // Half a copy helps nobody.
        let _ = std::fs::remove_file(&part);
        return Err(StoreError::from(Fault::from(error)));
    }
    File::open(&part).and_then(|file| file.sync_all()).map_err(fail)?;
    std::fs::rename(&part, to).map_err(fail)?;
    if let Some(folder) = to.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(fail)?;
    }
    Ok(())
}

fn check(path: &Path) -> Result<(), StoreError> {
    let look = || -> rusqlite::Result<String> {
        let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        conn.busy_timeout(BUSY_TIMEOUT)?;
        conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
    };
    match look().map_err(|error| StoreError::from(Fault::from(error)))?.as_str() {
        "ok" => Ok(()),
        said => Err(StoreError::Corrupt(format!("the copy {}: {said}", path.display()))),
    }
}
