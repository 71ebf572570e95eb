//! Rows that only record: audit, crashes, the process groups of tools.

use rookery_messages::ids::CallId;
use rookery_messages::store::{AuditRow, CrashRow};
use rookery_messages::tool::ProcessRecord;
use rusqlite::{Connection, params};

use super::codec;
use super::error::Result;

/// Kinds of crash that are kept; a cause that carries an id could make them endless (B5).
const CRASHES_KEPT: u32 = 1_000;

/// Appends to the audit.
pub(super) fn audit(conn: &Connection, row: &AuditRow) -> Result<()> {
    conn.prepare_cached(
        "INSERT INTO audit (at, who, via, action, target, detail) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![
        codec::nanos(row.at),
        row.who,
        row.via,
        row.action,
        row.target,
        serde_json::to_string(&row.detail)?,
    ])?;
    Ok(())
}

/// Counts a crash up if its like is known, else adds it.
pub(super) fn crash(conn: &Connection, row: &CrashRow) -> Result<()> {
    conn.prepare_cached(
        "INSERT INTO crashes (kind, path, cause, location, at, count, message_in_hand) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (kind, cause, location) DO UPDATE SET \
         path = excluded.path, at = excluded.at, count = count + excluded.count, \
         message_in_hand = excluded.message_in_hand",
    )?
    .execute(params![
        row.kind,
        row.path,
        row.cause,
        row.location.as_deref().unwrap_or_default(),
        codec::nanos(row.at),
        codec::count(row.count.max(1)),
        row.message_in_hand,
    ])?;
    conn.prepare_cached(
        "DELETE FROM crashes WHERE id NOT IN ( \
             SELECT id FROM crashes ORDER BY at DESC, id DESC LIMIT ?1)",
    )?
    .execute([CRASHES_KEPT])?;
    Ok(())
}

/// Records a process group.
pub(super) fn process_started(conn: &Connection, record: &ProcessRecord) -> Result<()> {
    conn.prepare_cached(
        "INSERT INTO processes (call_id, pgid, boot_id, start_ticks) VALUES (?1, ?2, ?3, ?4) \
         ON CONFLICT (call_id, pgid) DO UPDATE SET boot_id = excluded.boot_id, \
         start_ticks = excluded.start_ticks",
    )?
    .execute(params![
        record.call.0.as_bytes(),
        record.pgid,
        record.boot_id,
        codec::count(record.start_ticks),
    ])?;
    Ok(())
}

/// Forgets a process group; one not known is gone already.
pub(super) fn process_ended(conn: &Connection, pgid: i32, call: CallId) -> Result<()> {
    conn.prepare_cached("DELETE FROM processes WHERE call_id = ?1 AND pgid = ?2")?
        .execute(params![call.0.as_bytes(), pgid])?;
    Ok(())
}
