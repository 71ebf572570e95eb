//! The database as an operator could open it: read only, while the service runs or after its end.

use std::path::Path;

use rookery_messages::journal::JournalEntry;
use rusqlite::{Connection, OpenFlags};

/// Opens the database of the service in `dir` for reading.
pub fn open(dir: &Path) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(dir.join("data/rookery.db"), flags).unwrap()
}

/// A turn's journal, in order, over all attempts.
pub fn journal(dir: &Path, turn: &str) -> Vec<JournalEntry> {
    let id = turn.replace('-', "").to_uppercase();
    let connection = open(dir);
    let mut query = connection
        .prepare(
            "SELECT journal.attempt, journal.seq, journal.body FROM journal \
             JOIN turns ON turns.seq = journal.turn_seq \
             WHERE hex(turns.id) = ?1 ORDER BY journal.attempt, journal.seq",
        )
        .unwrap();
    let entries = query.query_map([id], |row| {
        let body: String = row.get(2)?;
        let kind = serde_json::from_str(&body).unwrap();
        Ok(JournalEntry { attempt: row.get(0)?, seq: row.get::<_, i64>(1)?.unsigned_abs(), kind })
    });
    entries.unwrap().collect::<Result<_, _>>().unwrap()
}

/// The kinds of a journal's entries.
pub fn kinds(journal: &[JournalEntry]) -> Vec<&'static str> {
    journal.iter().map(|entry| entry.kind.as_str()).collect()
}
