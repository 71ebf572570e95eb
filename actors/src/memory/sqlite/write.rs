//! Changes: each is one transaction.

use rookery_messages::memory::{
    Forget, Forgotten, MemoryEntry, MemoryError, NewMemory, Stored, StoredAs,
};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::super::words::to_index;
use super::ask;
use super::rows::{
    Bound, COLUMNS, Fault, Result, admitted, entry, nanos, scope_word, session, trust,
};

/// Most older versions of an entry that are kept.
const VERSIONS: u32 = 5;

fn begin(conn: &mut Connection) -> Result<Transaction<'_>> {
    Ok(conn.transaction_with_behavior(TransactionBehavior::Immediate)?)
}

/// Stores an entry: new, in another's place, or as a refresh of the same.
pub(super) fn store(conn: &mut Connection, new: &NewMemory, most: u64) -> Result<Stored> {
    new.check()?;
    let tx = begin(conn)?;
    // The same id again: what was stored then stands.
    if let Some(entry) = ask::get(&tx, new.id)? {
        return Ok(Stored { entry, how: StoredAs::New });
    }
    let session = session(&new.scope);
    let there = tx
        .prepare_cached(&format!(
            "SELECT {COLUMNS}, m.seq FROM memories m WHERE m.agent = ?1 AND coalesce(m.session, x'') = \
             coalesce(?2, x'') AND m.key = ?3 AND m.superseded_by IS NULL"
        ))?
        .query_row(params![new.agent.as_str(), session, new.key], |row| {
            Ok((entry(row)?, row.get::<_, i64>(12)?))
        })
        .optional()?;
    // Trust never rises along the versions of an entry (A100).
    let source = there.as_ref().map_or(new.source, |(old, _)| old.source.min(new.source));
    let via = match &there {
        Some((old, _)) if old.source < new.source => old.via.clone(),
        _ => new.via.clone(),
    };
    if let Some((old, seq)) = &there
        && old.content == new.content
        && old.category == new.category
        && old.source == source
    {
        tx.prepare_cached("UPDATE memories SET updated_at = ?2 WHERE seq = ?1")?
            .execute(params![seq, nanos(new.at)])?;
        tx.commit()?;
        let entry = MemoryEntry { updated_at: new.at, ..old.clone() };
        return Ok(Stored { entry, how: StoredAs::Refreshed });
    }
    match &there {
        Some((_, seq)) => {
            tx.prepare_cached("UPDATE memories SET superseded_by = ?2 WHERE seq = ?1")?
                .execute(params![seq, new.id.0.as_bytes()])?;
            tx.prepare_cached("DELETE FROM memory_words WHERE rowid = ?1")?.execute([seq])?;
        }
        None => {
            let held: i64 = tx
                .prepare_cached(
                    "SELECT count(*) FROM memories WHERE agent = ?1 AND superseded_by IS NULL",
                )?
                .query_row([new.agent.as_str()], |row| row.get(0))?;
            if u64::try_from(held).unwrap_or(0) >= most {
                return Err(MemoryError::Full { limit: most }.into());
            }
        }
    }
    tx.prepare_cached(
        "INSERT INTO memories (id, agent, session, key, content, category, source, via, turn, created_at, \
         updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?10)",
    )?
    .execute(params![
        new.id.0.as_bytes(),
        new.agent.as_str(),
        session,
        new.key,
        new.content,
        new.category.as_str(),
        trust(source),
        via,
        new.turn.map(|turn| *turn.0.as_bytes()),
        nanos(new.at),
    ])?;
    let words = format!("{} {}", to_index(&new.key), to_index(&new.content));
    tx.prepare_cached("INSERT INTO memory_words (rowid, words, scope) VALUES (?1, ?2, ?3)")?
        .execute(params![tx.last_insert_rowid(), words, scope_word(&new.agent, &new.scope)])?;
    tx.prepare_cached(
        "DELETE FROM memories WHERE seq IN (SELECT seq FROM memories WHERE agent = ?1 \
         AND coalesce(session, x'') = coalesce(?2, x'') AND key = ?3 AND superseded_by IS NOT NULL \
         ORDER BY seq DESC LIMIT -1 OFFSET ?4)",
    )?
    .execute(params![new.agent.as_str(), session, new.key, VERSIONS])?;
    let entry = ask::get(&tx, new.id)?.ok_or_else(|| {
        MemoryError::Failed("an entry was not there after it was written".to_owned())
    })?;
    tx.commit()?;
    let how = if there.is_some() { StoredAs::Superseding } else { StoredAs::New };
    Ok(Stored { entry, how })
}

/// Forgets entries and all versions of their places; gives how many rows are gone.
pub(super) fn forget(conn: &mut Connection, forget: &Forget) -> Result<u64> {
    let tx = begin(conn)?;
    let bound = Bound::new(&forget.filter);
    let (id, key) = match &forget.what {
        Forgotten::Id(id) => (Some(*id.0.as_bytes()), None),
        Forgotten::Key(key) => (None, Some(key.as_str())),
        Forgotten::All => (None, None),
    };
    let places = {
        let mut find = tx.prepare_cached(&format!(
            "SELECT DISTINCT m.agent, m.session, m.key FROM memories m WHERE {} \
             AND (?7 IS NULL OR m.id = ?7) AND (?8 IS NULL OR m.key = ?8)",
            admitted(&forget.filter)
        ))?;
        let params = params![
            bound.agent,
            bound.scopes,
            bound.category,
            bound.without,
            bound.source,
            bound.least,
            id,
            key
        ];
        let place = |row: &rusqlite::Row<'_>| {
            Ok((
                row.get::<_, String>(0)?,
                row.get::<_, Option<[u8; 16]>>(1)?,
                row.get::<_, String>(2)?,
            ))
        };
        find.query_map(params, place)?.collect::<rusqlite::Result<Vec<_>>>()?
    };
    let mut gone = 0;
    for (agent, session, key) in &places {
        let there = "agent = ?1 AND coalesce(session, x'') = coalesce(?2, x'') AND key = ?3";
        tx.prepare_cached(&format!(
            "DELETE FROM memory_words WHERE rowid IN \
             (SELECT seq FROM memories WHERE {there} AND superseded_by IS NULL)"
        ))?
        .execute(params![agent, session, key])?;
        gone += tx
            .prepare_cached(&format!("DELETE FROM memories WHERE {there}"))?
            .execute(params![agent, session, key])?;
    }
    tx.commit()?;
    if gone > 0 {
        // What is gone from the file is gone from its log too; a reader that is in the way leaves that to
        // the next checkpoint.
        let checked: Result<()> =
            conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(Fault::from);
        if let Err(fault) = checked {
            let error = MemoryError::from(fault);
            tracing::warn!(%error, "the memory's log could not be emptied after a forget");
        }
    }
    Ok(gone as u64)
}
