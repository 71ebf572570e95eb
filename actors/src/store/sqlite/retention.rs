//! What has ended is kept for a time, and goes in small pieces (R3).

use rookery_messages::store::Prune;
use rookery_messages::turn::Outcome;
use rusqlite::{Connection, OptionalExtension, params};

use super::codec;
use super::error::Result;

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
        more |= loose(conn, codec::nanos(before), prune.limit)?;
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
        for sql in
            ["DELETE FROM outbox WHERE turn_id = ?1", "DELETE FROM approvals WHERE turn_id = ?1"]
        {
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
        set(conn, &key, meta(conn, &key)? + 1)?;
        went += 1;
    }
    Ok(went > 0 && seqs.len() == limit as usize)
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
