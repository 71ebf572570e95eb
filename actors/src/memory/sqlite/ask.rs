//! Questions: each is answered within one read transaction.

use std::cmp::Ordering;
use std::collections::HashMap;

use rookery_messages::ids::MemoryId;
use rookery_messages::memory::{ListQuery, MAX_ANSWER, MemoryEntry, RecallQuery, Recalled};
use rusqlite::{Connection, OptionalExtension, params};

use super::super::meaning::Question;
use super::super::score::{relevance, weight};
use super::super::words::to_ask;
use super::rows::{Bound, COLUMNS, Result, admitted, entry, expression};
use super::vectors::compare;

/// Most entries looked at for one word, the newest first: a word that more of them hold tells little.
const MOST_HOLDING: u32 = 2_000;

/// The entries that hold words of the question, or mean what it means, scored by what says more: both are
/// absolute, so that neither lifts what the other finds poor.
///
/// Cost: one look into the index a word (at most [`super::super::words::MOST_WORDS`]), a count of what the
/// filter admits, and one row each of the answer: some 8 ms in a memory of 10 000 entries, and some 60 ms if
/// every word asked for is in thousands of them. With meanings, what [`compare`] says.
pub(super) fn recall(
    conn: &mut Connection,
    query: &RecallQuery,
    question: Option<&Question>,
) -> Result<Vec<Recalled>> {
    let asked = to_ask(&query.text);
    if (asked.is_empty() && question.is_none()) || query.limit == 0 {
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
    let mut scores: HashMap<i64, Score> = HashMap::new();
    for (seq, sum) in weights {
        scores.entry(seq).or_default().words = relevance(sum, asked.len());
    }
    if let Some(question) = question {
        for (seq, meaning) in compare(&tx, &query.filter, question)? {
            scores.entry(seq).or_default().meaning = meaning;
        }
    }
    let mut ranked: Vec<(i64, Score)> = scores.into_iter().collect();
    ranked.sort_unstable_by(|(a, x), (b, y)| y.order(x).then(b.cmp(a)));
    ranked.truncate(query.limit.min(MAX_ANSWER) as usize);
    let mut one =
        tx.prepare_cached(&format!("SELECT {COLUMNS} FROM memories m WHERE m.seq = ?1"))?;
    let mut found = Vec::with_capacity(ranked.len());
    for (seq, score) in ranked {
        found
            .push(Recalled { entry: one.query_row([seq], entry)?, score: Some(score.relevance()) });
    }
    Ok(found)
}

/// What speaks for an entry.
#[derive(Clone, Copy, Default)]
struct Score {
    words: f64,
    meaning: f64,
}

impl Score {
    fn relevance(self) -> f64 {
        self.words.max(self.meaning)
    }

    /// Among equals the one that has both is the better.
    fn order(&self, other: &Self) -> Ordering {
        let second = |score: &Self| score.words.min(score.meaning);
        self.relevance()
            .total_cmp(&other.relevance())
            .then_with(|| second(self).total_cmp(&second(other)))
    }
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
