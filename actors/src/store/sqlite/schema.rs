//! The schema's versions: forward steps only, each in its own transaction, after a backup.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rookery_messages::store::StoreError;
use rusqlite::Connection;

use super::error::{Fault, file_error};
use super::lock::beside;

/// Step `n` makes version `n + 1` of version `n`. A released step is never edited.
pub(super) const STEPS: &[&str] = &[
    include_str!("schema.sql"),
    include_str!("schema_2.sql"),
    include_str!("schema_children.sql"),
    include_str!("schema_ingress.sql"),
    include_str!("schema_outbound.sql"),
    include_str!("schema_spend.sql"),
    include_str!("schema_pairing.sql"),
    include_str!("schema_posts.sql"),
];

/// The version after all `steps`.
fn version_after(steps: &[&str]) -> u32 {
    u32::try_from(steps.len()).unwrap_or(u32::MAX)
}

/// Refuses a file that is newer than `steps`, or not ours. Writes nothing; gives the file's version.
pub(super) fn check(conn: &Connection, steps: &[&str]) -> Result<u32, StoreError> {
    let (found, tables) = state_of(conn).map_err(StoreError::from)?;
    let known = version_after(steps);
    if found > known {
        return Err(StoreError::SchemaNewer { found, known });
    }
    if found == 0 && tables > 0 {
        return Err(StoreError::Failed(
            "the file is a database of another program; give store.path a file of its own"
                .to_owned(),
        ));
    }
    Ok(found)
}

fn state_of(conn: &Connection) -> Result<(u32, i64), Fault> {
    let found = conn.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let tables = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok((found, tables))
}

/// Brings the file at `path` from version `found` to the newest of `steps`.
pub(super) fn migrate(
    conn: &Connection,
    path: &Path,
    steps: &[&str],
    found: u32,
) -> Result<(), StoreError> {
    let known = version_after(steps);
    if found == known {
        return Ok(());
    }
    if found > 0 {
        let copy = back_up(conn, path, found)?;
        tracing::info!(from = found, to = known, backup = %copy.display(), "upgrading the database");
    }
    for (step, version) in steps.iter().zip(1_u32..).skip(found as usize) {
        apply(conn, step, version).map_err(StoreError::from)?;
    }
    Ok(())
}

fn apply(conn: &Connection, step: &str, version: u32) -> Result<(), Fault> {
    // `user_version` is part of the transaction: a step is done whole, or not at all.
    let transaction = conn.unchecked_transaction()?;
    transaction.execute_batch(step)?;
    transaction.pragma_update(None, "user_version", version)?;
    Ok(transaction.commit()?)
}

/// Copies the database to `<path>.v<version>.bak`, whole or not at all.
fn back_up(conn: &Connection, path: &Path, version: u32) -> Result<PathBuf, StoreError> {
    let copy = beside(path, &format!(".v{version}.bak"));
    let part = beside(path, &format!(".v{version}.bak.part"));
    let fail = |error: std::io::Error| {
        file_error(&format!("writing the backup {}", copy.display()), &error)
    };
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
    conn.execute("VACUUM INTO ?1", [target])
        .map_err(|error| StoreError::from(Fault::from(error)))?;
    File::open(&part).and_then(|file| file.sync_all()).map_err(fail)?;
    std::fs::rename(&part, &copy).map_err(fail)?;
    if let Some(folder) = copy.parent() {
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(fail)?;
    }
    Ok(copy)
}
