//! Questions: each is answered within one read transaction.

use std::collections::HashMap;

use rookery_messages::ids::MemoryId;
use rookery_messages::memory::{ListQuery, MAX_ANSWER, MemoryEntry, RecallQuery, Recalled};
use rusqlite::{Connection, OptionalExtension, params};

use super::super::score::{relevance, weight};
use super::super::words::to_ask;
use super::rows::{Bound, COLUMNS, Result, admitted, entry, expression};

/// Most entries looked at for one word, the newest first: a word that more of them hold tells little.
const MOST_HOLDING: u32 = 4_000;

/// The entries that hold words of the question, scored.
///
/// Cost: one look into the index a word (at most [`super::super::words::MOST_WORDS`]), a count of what the
/// filter admits, and one row each of the answer.
pub(super) fn recall(conn: &mut Connection, query: &RecallQuery) -> Result<Vec<Recalled>> {
    let asked = to_ask(&query.text);
    if asked.is_empty() || query.limit == 0 {
        return Ok(Vec::new());
    }
    let tx = conn.transaction()?;
    let (bound, admitted) = (Bound::new(&query.filter), admitted(&query.filter));
    let Bound { agent, scopes, category, without, source, least } = &bound;
    let all: u64 = tx
        .prepare_cached(&format!(
            "SELECT count(*) FROM memories m WHERE m.superseded_by IS NULL AND {admitted}"
        ))?
        .query_row(params![agent, scopes, category, without, source, least], |row| {
            row.get::<_, i64>(0)
        })?
        .try_into()
        .unwrap_or(0);
    let mut weights: HashMap<i64, f64> = HashMap::new();
    {
        let mut find = tx.prepare_cached(&format!(
            "SELECT m.seq FROM memory_words JOIN memories m ON m.seq = memory_words.rowid \
             WHERE memory_words MATCH ?7 AND m.superseded_by IS NULL AND {admitted} \
             ORDER BY memory_words.rowid DESC LIMIT {MOST_HOLDING}"
        ))?;
        for word in &asked {
            let expression = expression(word, &query.filter);
            let holding = find
                .query_map(
                    params![agent, scopes, category, without, source, least, expression],
                    |row| row.get::<_, i64>(0),
                )?
                .collect::<rusqlite::Result<Vec<_>>>()?;
            let weight = weight(holding.len() as u64, all);
            for seq in holding {
                *weights.entry(seq).or_default() += weight;
            }
        }
    }
    let mut ranked: Vec<(i64, f64)> =
        weights.into_iter().map(|(seq, sum)| (seq, relevance(sum, asked.len()))).collect();
    ranked.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)));
    ranked.truncate(query.limit.min(MAX_ANSWER) as usize);
    let mut one =
        tx.prepare_cached(&format!("SELECT {COLUMNS} FROM memories m WHERE m.seq = ?1"))?;
    let mut found = Vec::with_capacity(ranked.len());
    for (seq, score) in ranked {
        found.push(Recalled { entry: one.query_row([seq], entry)?, score: Some(score) });
    }
    Ok(found)
}

/// Entries, the newest first. Ids sort by the time they were made.
pub(super) fn list(conn: &mut Connection, query: &ListQuery) -> Result<Vec<MemoryEntry>> {
    let bound = Bound::new(&query.filter);
    let sql = format!(
        "SELECT {COLUMNS} FROM memories m WHERE {} AND (?7 IS NULL OR m.key = ?7) \
         AND (?8 OR m.superseded_by IS NULL) AND (?9 IS NULL OR m.id < ?9) ORDER BY m.id DESC LIMIT ?10",
        admitted(&query.filter)
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let rows = statement.query_map(
        params![
            bound.agent,
            bound.scopes,
            bound.category,
            bound.without,
            bound.source,
            bound.least,
            query.key,
            query.superseded,
            query.before.map(|id| *id.0.as_bytes()),
            query.limit.min(MAX_ANSWER),
        ],
        entry,
    )?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn get(conn: &Connection, id: MemoryId) -> Result<Option<MemoryEntry>> {
    Ok(conn
        .prepare_cached(&format!("SELECT {COLUMNS} FROM memories m WHERE m.id = ?1"))?
        .query_row([id.0.as_bytes()], entry)
        .optional()?)
}
