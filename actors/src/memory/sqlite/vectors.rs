//! What entries mean: their vectors, beside their rows.

use std::collections::HashMap;

use rookery_messages::ids::MemoryId;
use rookery_messages::memory::{Coverage, Meanings, MemoryFilter};
use rusqlite::{Connection, params};

use super::super::meaning::Question;
use super::rows::{Bound, Result, admitted, id};

/// Most entries a question is compared with, the newest first.
const MOST_COMPARED: u32 = 10_000;

/// An entry that has no vector of the model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::memory) struct Unread {
    /// Its row, whose number another entry may have by now.
    seq: i64,
    id: MemoryId,
    /// What is to be read.
    pub(in crate::memory) text: String,
}

/// A vector as it is stored: of no bytes if the model refused the entry.
pub(in crate::memory) type Stored = (Unread, Vec<u8>);

/// The relevance of the admitted entries by what they mean; those without any are left out.
///
/// Cost: one vector read and multiplied for each of them: 10 000 of 1536 numbers are 60 MB.
pub(super) fn compare(
    conn: &Connection,
    filter: &MemoryFilter,
    question: &Question,
) -> Result<HashMap<i64, f64>> {
    let mut all = conn.prepare_cached(&format!(
        "SELECT m.seq, v.vector FROM memories m JOIN memory_vectors v ON v.seq = m.seq \
         WHERE v.model = ?7 AND m.superseded_by IS NULL AND {} ORDER BY m.seq DESC LIMIT {MOST_COMPARED}",
        admitted(filter)
    ))?;
    let Bound { agent, scopes, category, without, source, least } = &Bound::new(filter);
    let mut rows =
        all.query(params![agent, scopes, category, without, source, least, question.model])?;
    let mut found = HashMap::new();
    while let Some(row) = rows.next()? {
        let vector = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
        if let Some(relevance) = question.relevance(vector).filter(|relevance| *relevance > 0.0) {
            found.insert(row.get(0)?, relevance);
        }
    }
    Ok(found)
}

/// The condition that a live row `m` has a vector `v` of the model ?1, of ?2 bytes if that is known.
const IS_READ: &str =
    "v.model = ?1 AND length(v.vector) > 0 AND (?2 IS NULL OR length(v.vector) = ?2)";
const IS_REFUSED: &str = "v.model = ?1 AND length(v.vector) = 0";

/// Entries that are still to be read, the newest first.
pub(super) fn unread(
    conn: &Connection,
    model: &str,
    bytes: Option<usize>,
    most: u32,
) -> Result<Vec<Unread>> {
    let mut find = conn.prepare_cached(&format!(
        "SELECT m.seq, m.id, m.key, m.content FROM memories m LEFT JOIN memory_vectors v ON v.seq = m.seq \
         WHERE m.superseded_by IS NULL AND NOT coalesce(({IS_READ}) OR ({IS_REFUSED}), 0) \
         ORDER BY m.seq DESC LIMIT ?3"
    ))?;
    let found = find.query_map(params![model, bytes.map(|bytes| bytes as i64), most], |row| {
        let (key, content): (String, String) = (row.get(2)?, row.get(3)?);
        let text = format!("{key}: {content}");
        Ok(Unread { seq: row.get(0)?, id: MemoryId(id(row, 1)?), text })
    })?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

/// Keeps vectors of entries that are still there.
pub(super) fn keep(conn: &mut Connection, model: &str, vectors: &[Stored]) -> Result<()> {
    let tx = conn.transaction()?;
    {
        let mut put = tx.prepare_cached(
            "INSERT OR REPLACE INTO memory_vectors (seq, model, vector) \
             SELECT seq, ?3, ?4 FROM memories WHERE seq = ?1 AND id = ?2 AND superseded_by IS NULL",
        )?;
        for (entry, vector) in vectors {
            put.execute(params![entry.seq, entry.id.0.as_bytes(), model, vector])?;
        }
    }
    Ok(tx.commit()?)
}

/// How many entries there are, and how many of them `model` has read.
pub(super) fn coverage(
    conn: &Connection,
    model: Option<(&str, Option<usize>)>,
) -> Result<Coverage> {
    let count = |row: &rusqlite::Row<'_>, column| -> rusqlite::Result<u64> {
        Ok(row.get::<_, i64>(column)?.try_into().unwrap_or(0))
    };
    let (name, bytes) = model.unwrap_or(("", None));
    let sql = format!(
        "SELECT count(*), coalesce(sum({IS_READ}), 0), coalesce(sum({IS_REFUSED}), 0) \
         FROM memories m LEFT JOIN memory_vectors v ON v.seq = m.seq WHERE m.superseded_by IS NULL"
    );
    let bytes = bytes.map(|bytes| bytes as i64);
    let (entries, read, refused) = conn.query_row(&sql, params![name, bytes], |row| {
        Ok((count(row, 0)?, count(row, 1)?, count(row, 2)?))
    })?;
    let meanings = model.map(|(model, _)| Meanings {
        model: model.to_owned(),
        read,
        refused,
        missing: entries.saturating_sub(read + refused),
        trouble: None,
    });
    Ok(Coverage { entries, meanings })
}
