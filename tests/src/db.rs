//! The database as an operator could open it: read only, while the service runs or after its end.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

/// Opens the database of the service in `dir` for reading.
pub fn open(dir: &Path) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(dir.join("data/rookery.db"), flags).unwrap()
}

/// The kinds of a turn's journal entries, in order, over all attempts.
pub fn journal(dir: &Path, turn: &str) -> Vec<String> {
    let id = turn.replace('-', "").to_uppercase();
    let connection = open(dir);
    let mut query = connection
        .prepare(
            "SELECT journal.kind FROM journal JOIN turns ON turns.seq = journal.turn_seq \
             WHERE hex(turns.id) = ?1 ORDER BY journal.attempt, journal.seq",
        )
        .unwrap();
    let kinds = query.query_map([id], |row| row.get(0)).unwrap();
    kinds.collect::<Result<_, _>>().unwrap()
}
