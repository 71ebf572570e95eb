//! The schema's versions: forward steps only, each in its own transaction, after a backup.

use std::path::{Path, PathBuf};

use rookery_messages::store::StoreError;
use rusqlite::Connection;

use super::copy;
use super::error::Fault;
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

/// Copies the database to `<path>.v<version>.bak`.
fn back_up(conn: &Connection, path: &Path, version: u32) -> Result<PathBuf, StoreError> {
    let place = beside(path, &format!(".v{version}.bak"));
    copy::copy(conn, &place)?;
    Ok(place)
}
