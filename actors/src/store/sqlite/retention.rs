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

/// Turns up to this one have no journal any more.
const JOURNAL_AT: &str = "journal_pruned_to";
/// Of turns that are gone, by outcome: the ledger counts them still.
const GONE: &str = "gone_";

/// One piece; tells whether there is more to do now.
pub(super) fn prune(conn: &Connection, prune: &Prune) -> Result<bool> {
    let mut more = false;
    if let Some(before) = prune.journal_before {
        more |= journal(conn, codec::nanos(before), prune.limit)?;
    }
    if let Some(before) = prune.inbox_before {
        more |= inbox(conn, codec::nanos(before), prune.limit)?;
    }
    Ok(more)
}

/// Oldest first, up to the first turn that is open or too young: its journal may still be needed.
fn old(conn: &Connection, after: i64, before: i64, limit: u32) -> Result<Vec<i64>> {
    let mut statement = conn.prepare_cached(
        "SELECT seq, outcome IS NOT NULL AND ended_at < ?2 FROM turns WHERE seq > ?1 \
         ORDER BY seq LIMIT ?3",
    )?;
    let rows = statement
        .query_map(params![after, before, limit], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<Vec<(i64, bool)>>>()?;
    Ok(rows.into_iter().take_while(|(_, old)| *old).map(|(seq, _)| seq).collect())
}

fn journal(conn: &Connection, before: i64, limit: u32) -> Result<bool> {
    let at = meta(conn, JOURNAL_AT)?;
    let seqs = old(conn, at, before, limit)?;
    let Some(last) = seqs.last() else { return Ok(false) };
    conn.prepare_cached("DELETE FROM journal WHERE turn_seq > ?1 AND turn_seq <= ?2")?
        .execute(params![at, last])?;
    set(conn, JOURNAL_AT, *last)?;
    Ok(seqs.len() == limit as usize)
}

/// The rows by which a redelivery is recognised: the window of the duplicates' guard.
fn inbox(conn: &Connection, before: i64, limit: u32) -> Result<bool> {
    let seqs = old(conn, 0, before, limit)?;
    let mut went = 0;
    for seq in &seqs {
        let (id, outcome): ([u8; 16], Outcome) = conn
            .prepare_cached("SELECT id, outcome FROM turns WHERE seq = ?1")?
            .query_row([seq], |row| Ok((row.get(0)?, codec::word(row, 1)?)))?;
        let waits: bool = conn
            .prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM outbox WHERE turn_id = ?1 AND state <> 'sent')",
            )?
            .query_row([&id[..]], |row| row.get(0))?;
        if waits {
            // Something about it is still to be sent, or for an operator to look at: it stays.
            continue;
        }
        remove(conn, *seq, &id, outcome)?;
        went += 1;
    }
    Ok(went > 0 && seqs.len() == limit as usize)
}

/// A turn that has ended, with all that is its own. The ledger counts it still.
fn remove(conn: &Connection, seq: i64, id: &[u8; 16], outcome: Outcome) -> Result<()> {
    for sql in [
        "DELETE FROM outbox WHERE turn_id = ?1",
        "DELETE FROM approvals WHERE turn_id = ?1",
        "DELETE FROM drafts WHERE turn_id = ?1",
    ] {
        conn.prepare_cached(sql)?.execute([&id[..]])?;
    }
    for sql in [
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
    for (seq, turn, outcome) in &turns {
        if let Some(outcome) = outcome {
            remove(conn, *seq, turn, *outcome)?;
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
