//! What has ended is kept for a time, and goes in small pieces (R3).

use jiff::Timestamp;
use rookery_messages::approval::Decider;
use rookery_messages::ids::ConversationId;
use rookery_messages::store::{AuditRow, Prune, StoreError};
use rookery_messages::turn::Outcome;
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::json;

use super::error::Result;
use super::{codec, records};

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
    if let Some(last) = piece.last().filter(|_| piece.len() == prune.limit as usize) {
        return Ok(Some(last.seq));
    }
    let more = inbox.map_or(Ok(false), |before| loose(conn, before, prune.limit))?;
    Ok(more.then(|| piece.last().map_or(prune.after, |last| last.seq)))
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
        "DELETE FROM drafts WHERE turn_id = (SELECT id FROM turns WHERE seq = ?1)",
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

/// A conversation goes: what was said, its turns, its grants. Nothing of it may still be going on. A message of
/// it that its platform sends again is a new one.
pub(super) fn forget(
    conn: &Connection,
    id: ConversationId,
    at: Timestamp,
    by: &Decider,
) -> Result<()> {
    let key = id.0.as_bytes();
    let named: Option<(String, String)> = conn
        .prepare_cached("SELECT channel, conversation FROM conversations WHERE id = ?1")?
        .query_row([key], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((channel, conversation)) = named else { return Err(StoreError::NotFound.into()) };
    let mut statement = conn.prepare_cached(
        "SELECT seq, id, outcome FROM turns WHERE conversation_id = ?1 ORDER BY seq",
    )?;
    let turns = statement
        .query_map([key], |row| Ok((row.get(0)?, row.get(1)?, codec::word_option(row, 2)?)))?
        .collect::<rusqlite::Result<Vec<(i64, [u8; 16], Option<Outcome>)>>>()?;
    for (_, turn, outcome) in &turns {
        let unsent: bool = conn
            .prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM outbox WHERE turn_id = ?1 AND state IN ('pending', 'sending'))",
            )?
            .query_row([&turn[..]], |row| row.get(0))?;
        let why = match outcome {
            None => "a turn of it is not over; cancel that first",
            Some(_) if unsent => {
                "a reply of it is still to be sent; wait for that, or purge its dead letter"
            }
            Some(_) => continue,
        };
        return Err(StoreError::Conflict(why.to_owned()).into());
    }
    for (seq, _, outcome) in &turns {
        if let Some(outcome) = outcome {
            remove(conn, *seq, *outcome)?;
        }
    }
    for sql in [
        "DELETE FROM messages WHERE conversation_id = ?1",
        "DELETE FROM approvals WHERE conversation_id = ?1",
        "DELETE FROM grants WHERE conversation_id = ?1 AND scope = 'conversation'",
        "DELETE FROM conversations WHERE id = ?1",
    ] {
        conn.prepare_cached(sql)?.execute([key])?;
    }
    let row = AuditRow {
        at,
        who: by.who.clone(),
        via: by.via.clone(),
        action: "conversation.delete".to_owned(),
        target: id.to_string(),
        detail: json!({ "channel": channel, "conversation": conversation, "turns": turns.len() }),
    };
    records::audit(conn, &row)
}

/// What was sent for no turn. What was not sent stays for an operator to look at.
fn loose(conn: &Connection, before: i64, limit: u32) -> Result<bool> {
    let gone = conn
        .prepare_cached(
            "DELETE FROM outbox WHERE seq IN (SELECT seq FROM outbox \
             WHERE turn_id IS NULL AND updated_at < ?1 AND state = 'sent' LIMIT ?2)",
        )?
        .execute(params![before, limit])?;
    Ok(gone == limit as usize)
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
