//! What has ended is kept for a time, and goes in small pieces (R3).

use rookery_messages::store::Prune;
use rookery_messages::turn::Outcome;
use rusqlite::{Connection, OptionalExtension, params};

use super::codec;
use super::error::Result;

/// Of turns that are gone, by outcome: the ledger counts them still.
const GONE: &str = "gone_";

/// A turn that was accepted before either limit.
struct Old {
    seq: i64,
    /// Without one it is open: its journal is still needed.
    end: Option<(i64, Outcome)>,
    /// Something about it is still to be sent, or for an operator to look at.
    waits: bool,
}

/// One piece, from the oldest on; gives where the next one begins. What may not go yet is passed over, so
/// that one turn that waits for somebody keeps nothing else.
pub(super) fn prune(conn: &Connection, prune: &Prune) -> Result<Option<i64>> {
    let journal = prune.journal_before.map(codec::nanos);
    let inbox = prune.inbox_before.map(codec::nanos);
    let Some(newest) = journal.max(inbox) else { return Ok(None) };
    let piece = piece(conn, prune, newest)?;
    for old in &piece {
        let Some((ended, outcome)) = old.end else { continue };
        if inbox.is_some_and(|before| ended < before) && !old.waits {
            remove(conn, old.seq, outcome)?;
        } else if journal.is_some_and(|before| ended < before) {
            conn.prepare_cached("DELETE FROM journal WHERE turn_seq = ?1")?.execute([old.seq])?;
        }
    }
    let full = piece.len() == prune.limit as usize;
    Ok(piece.last().filter(|_| full).map(|last| last.seq))
}

/// Arrival order is the order of their numbers: behind the first that is too young all are.
fn piece(conn: &Connection, prune: &Prune, newest: i64) -> Result<Vec<Old>> {
    let mut statement = conn.prepare_cached(
        "SELECT t.seq, t.ended_at, t.outcome, i.accepted_at < ?2, \
         EXISTS (SELECT 1 FROM outbox o WHERE o.turn_id = t.id AND o.state <> 'sent') \
         FROM turns t JOIN inbox i ON i.seq = t.seq WHERE t.seq > ?1 ORDER BY t.seq LIMIT ?3",
    )?;
    let mut rows = statement.query(params![prune.after, newest, prune.limit])?;
    let mut piece = Vec::new();
    while let Some(row) = rows.next()? {
        if !row.get::<_, bool>(3)? {
            break;
        }
        let end = row.get::<_, Option<i64>>(1)?.zip(codec::word_option(row, 2)?);
        piece.push(Old { seq: row.get(0)?, end, waits: row.get(4)? });
    }
    Ok(piece)
}

/// A turn goes with all that belongs to it: also the row by which a redelivery is recognised.
fn remove(conn: &Connection, seq: i64, outcome: Outcome) -> Result<()> {
    for sql in [
        "DELETE FROM outbox WHERE turn_id = (SELECT id FROM turns WHERE seq = ?1)",
        "DELETE FROM approvals WHERE turn_id = (SELECT id FROM turns WHERE seq = ?1)",
        "DELETE FROM journal WHERE turn_seq = ?1",
        "DELETE FROM calls WHERE turn_seq = ?1",
        "DELETE FROM turns WHERE seq = ?1",
        "DELETE FROM inbox WHERE seq = ?1",
    ] {
        conn.prepare_cached(sql)?.execute([seq])?;
    }
    let key = format!("{GONE}{}", outcome.as_str());
    set(conn, &key, meta(conn, &key)? + 1)
}

/// How many turns of an outcome are gone.
pub(super) fn gone(conn: &Connection, outcome: Outcome) -> Result<u64> {
    let count = meta(conn, &format!("{GONE}{}", outcome.as_str()))?;
    Ok(u64::try_from(count).unwrap_or(0))
}

fn meta(conn: &Connection, key: &str) -> Result<i64> {
    let found = conn
        .prepare_cached("SELECT value FROM meta WHERE key = ?1")?
        .query_row([key], |row| row.get(0))
        .optional()?;
    Ok(found.unwrap_or(0))
}

fn set(conn: &Connection, key: &str, value: i64) -> Result<()> {
    conn.prepare_cached(
        "INSERT INTO meta (key, value) VALUES (?1, ?2) \
         ON CONFLICT (key) DO UPDATE SET value = excluded.value",
    )?
    .execute(params![key, value])?;
    Ok(())
}
