//! The store on SQLite: one file, one owner, one writing connection, readers beside it.
//!
//! Cost of a turn: accept, claim, a commit a step, the outbox; each is a handful of cached statements on
//! indexed rows, whatever the size of the tables.

mod approvals;
mod channels;
mod children;
mod claim;
mod codec;
mod commands;
mod commit;
mod copy;
mod error;
mod finish;
mod grants;
mod inbox;
mod lock;
mod merge;
mod outbox;
mod pairing;
mod place;
mod prompts;
mod reads;
mod records;
mod retention;
mod schema;
mod spend;

#[cfg(test)]
pub(super) mod tests;

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use rookery_messages::settings::Durability;
use rookery_messages::store::{Found, Read, Store, StoreError, StoreReader, Write, Written};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

pub use copy::back_up;
use error::{Fault, file_error};
use lock::OwnerLock;
use place::Place;

/// How long a statement waits for a foreign connection's lock before the request is `Unavailable`.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);
/// More than there are different statements.
const CACHED_STATEMENTS: usize = 128;
/// Pages in the write-ahead log before they are moved into the database: fewer, larger moves.
const CHECKPOINT_PAGES: i64 = 4_000;
/// What the write-ahead log is cut back to after a checkpoint, bytes.
const WAL_LIMIT: i64 = 16 * 1024 * 1024;

/// Where the database is, and what a commit survives.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// The file; it and its folder are made if they don't exist.
    pub path: PathBuf,
    /// What a commit survives.
    pub durability: Durability,
}

/// The writing half. It holds the lock file as long as it lives.
#[derive(Debug)]
pub struct SqliteStore {
    conn: Connection,
    path: PathBuf,
    place: Place,
    // Released after the connection is closed: fields drop in order.
    _lock: OwnerLock,
}

/// A reading half.
#[derive(Debug)]
pub struct SqliteReader {
    conn: Connection,
}

/// Takes the lock, opens the file, and brings its schema up to date.
pub fn open(options: &SqliteOptions) -> Result<SqliteStore, StoreError> {
    open_with(options, schema::STEPS)
}

fn open_with(options: &SqliteOptions, steps: &[&str]) -> Result<SqliteStore, StoreError> {
    let (path, file) = prepare_file(&options.path)?;
    let lock = OwnerLock::take(&path, file)?;
    let place = Place::new(&path);
    let conn = connect(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // Before anything is changed in a file that may not be ours to change.
    let found = schema::check(&conn, steps)?;
    configure(&conn, options.durability).map_err(StoreError::from)?;
    schema::migrate(&conn, &path, steps, found)?;
    Ok(SqliteStore { conn, path, place, _lock: lock })
}

/// Opens a reader of a database that [`open`] has prepared.
pub fn open_reader(path: &Path) -> Result<SqliteReader, StoreError> {
    let conn = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    schema::check(&conn, schema::STEPS)?;
    Ok(SqliteReader { conn })
}

/// Makes the folder and the file with modes that only we can read; gives the path without links, so that
/// two names of one file have one lock.
fn prepare_file(path: &Path) -> Result<(PathBuf, File), StoreError> {
    let fail = |error: std::io::Error| {
        file_error(&format!("opening the database {}", path.display()), &error)
    };
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(fail)?;
    }
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(fail)?;
    // The log and its index get the mode of the database.
    file.set_permissions(Permissions::from_mode(0o600)).map_err(fail)?;
    let path = std::fs::canonicalize(path).map_err(fail)?;
    Ok((path, file))
}

fn connect(path: &Path, mode: OpenFlags) -> Result<Connection, StoreError> {
    // One thread uses a connection, so SQLite needs no mutex of its own.
    let flags = mode | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || -> error::Result<Connection> {
        let conn = Connection::open_with_flags(path, flags)?;
        conn.busy_timeout(BUSY_TIMEOUT)?;
        conn.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
        // A plan does not depend on the values bound to it: otherwise SQLite prepares statements that touch
        // a partial index anew for every value.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        Ok(conn)
    };
    open().map_err(StoreError::from)
}

fn configure(conn: &Connection, durability: Durability) -> error::Result<()> {
    let mode: String =
        conn.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode != "wal" {
        let text =
            format!("its file system can't share memory (journal mode {mode}); move store.path");
        return Err(StoreError::Unavailable(text).into());
    }
    let synchronous = match durability {
        // WAL with FULL syncs the log at each commit; with NORMAL only before a checkpoint.
        Durability::Power => "FULL",
        Durability::Process => "NORMAL",
    };
    conn.pragma_update(None, "synchronous", synchronous)?;
    conn.pragma_update(None, "foreign_keys", true)?;
    conn.pragma_update(None, "journal_size_limit", WAL_LIMIT)?;
    conn.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    Ok(())
}

impl SqliteStore {
    /// The file, without links: what readers open.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Refusals come before a request's first change, almost always: then nothing has to be undone, and
    /// no savepoint is needed. One that comes later sends the batch through once more, with savepoints.
    fn transact(&self, writes: &[Write]) -> error::Result<Vec<Result<Written, StoreError>>> {
        run(&self.conn, "BEGIN IMMEDIATE")?;
        let mut answers = Vec::with_capacity(writes.len());
        for write in writes {
            let before = self.conn.total_changes();
            match apply_one(&self.conn, write) {
                Ok(written) => answers.push(Ok(written)),
                // SQLite gave the whole transaction up: so did every request in it.
                Err(fault) if self.conn.is_autocommit() => return Err(fault),
                Err(fault) if self.conn.total_changes() == before => {
                    answers.push(Err(fault.into()))
                }
                Err(_) => {
                    run(&self.conn, "ROLLBACK")?;
                    return self.transact_apart(writes);
                }
            }
        }
        self.commit()?;
        Ok(answers)
    }

    /// Nothing is acknowledged that went into a file which is not at its path any more.
    fn commit(&self) -> error::Result<()> {
        self.place.check()?;
        run(&self.conn, "COMMIT")
    }

    /// A savepoint a request, so that one that is refused half-way undoes itself only.
    fn transact_apart(&self, writes: &[Write]) -> error::Result<Vec<Result<Written, StoreError>>> {
        run(&self.conn, "BEGIN IMMEDIATE")?;
        let mut answers = Vec::with_capacity(writes.len());
        for write in writes {
            run(&self.conn, "SAVEPOINT request")?;
            match apply_one(&self.conn, write) {
                Ok(written) => answers.push(Ok(written)),
                Err(fault) if self.conn.is_autocommit() => return Err(fault),
                Err(fault) => {
                    run(&self.conn, "ROLLBACK TO request")?;
                    answers.push(Err(fault.into()));
                }
            }
            run(&self.conn, "RELEASE request")?;
        }
        self.commit()?;
        Ok(answers)
    }

    /// The error, with the place of the disk that is full.
    fn named(&self, fault: Fault) -> StoreError {
        match fault.into() {
            StoreError::Full(text) => {
                StoreError::Full(format!("{text}, at {}", self.path.display()))
            }
            other => other,
        }
    }

    /// Leaves no transaction open, whatever happened.
    fn roll_back(&self) {
        if !self.conn.is_autocommit()
            && let Err(error) = run(&self.conn, "ROLLBACK")
        {
            tracing::error!(?error, "a transaction can't be rolled back");
        }
    }
}

/// Runs a statement without parameters and rows.
fn run(conn: &Connection, sql: &str) -> error::Result<()> {
    conn.prepare_cached(sql)?.execute([])?;
    Ok(())
}

fn apply_one(conn: &Connection, write: &Write) -> error::Result<Written> {
    match write {
        Write::Accept(accept) => {
            return Ok(Written::Accepted(Box::new(inbox::accept(conn, accept)?)));
        }
        Write::Pairing(change) => {
            if let Some(knocked) = pairing::write(conn, change)? {
                return Ok(Written::Knocked(knocked));
            }
        }
        Write::Prune(prune) => {
            return Ok(Written::Pruned { next: retention::prune(conn, prune)? });
        }
        Write::Command(command) => {
            return Ok(Written::Accepted(Box::new(commands::take(conn, command)?)));
        }
        Write::Claim(claim) => return Ok(Written::Claimed(claim::claim(conn, claim)?)),
        Write::Commit(commit) => return Ok(Written::Committed(commit::commit(conn, commit)?)),
        Write::ReturnClaim { turn, conversation_id, fence } => {
            claim::give_back(conn, *turn, *conversation_id, *fence)?;
        }
        Write::ReleaseTurn { turn, conversation_id, fence } => {
            claim::release(conn, *turn, *conversation_id, *fence)?;
        }
        Write::CancelTurn { turn, at, by } => {
            return Ok(Written::Cancelled(inbox::cancel(conn, *turn, *at, by)?));
        }
        Write::DecideApproval(request) => {
            return Ok(Written::Decided(approvals::decide(conn, request)?));
        }
        Write::RevokeGrant { id, at, by } => {
            return Ok(Written::Revoked(grants::revoke(conn, *id, *at, by)?.map(Box::new)));
        }
        Write::ForgetConversation { id, at, by } => retention::forget(conn, *id, *at, by)?,
        Write::ClaimOutbox { channel, at, limit } => {
            return Ok(Written::Outbox(outbox::claim(conn, channel, *at, *limit)?));
        }
        Write::ReleaseOutbox { channel, at, on_unknown } => {
            outbox::release(conn, channel, *at, *on_unknown)?;
        }
        Write::MarkOutbox { id, at, result } => outbox::mark(conn, *id, *at, result)?,
        Write::DeadLetter { id, retry, at, by } => {
            outbox::dead_letter(conn, *id, *retry, *at, by)?;
        }
        Write::Channel(write) => return channels::write(conn, write),
        Write::ProcessStarted(record) => records::process_started(conn, record)?,
        Write::ProcessEnded { pgid, call } => records::process_ended(conn, *pgid, *call)?,
        Write::Crash(row) => records::crash(conn, row)?,
        Write::Audit(row) => records::audit(conn, row)?,
    }
    Ok(Written::Done)
}

impl Store for SqliteStore {
    fn apply(&mut self, writes: &[Write]) -> Vec<Result<Written, StoreError>> {
        self.transact(writes).unwrap_or_else(|fault| {
            self.roll_back();
            let error = self.named(fault);
            writes.iter().map(|_| Err(error.clone())).collect()
        })
    }

    fn begin_life(&mut self, _: Timestamp) -> Result<(), StoreError> {
        let begin = || -> Result<(), Fault> {
            run(&self.conn, "BEGIN IMMEDIATE")?;
            run(&self.conn, "UPDATE conversations SET lease_epoch = lease_epoch + 1")?;
            run(
                &self.conn,
                "INSERT INTO meta (key, value) VALUES ('lives', 1) \
                 ON CONFLICT (key) DO UPDATE SET value = value + 1",
            )?;
            run(&self.conn, "COMMIT")?;
            Ok(())
        };
        begin().map_err(|fault| {
            self.roll_back();
            fault.into()
        })
    }

    fn check(&mut self) -> Result<(), StoreError> {
        self.place.check()
    }

    fn probe(&mut self) -> Result<(), StoreError> {
        let try_it = || -> Result<(), Fault> {
            self.place.has_room()?;
            run(&self.conn, "BEGIN IMMEDIATE")?;
            run(
                &self.conn,
                "INSERT INTO meta (key, value) VALUES ('probes', 1) \
                 ON CONFLICT (key) DO UPDATE SET value = value + 1",
            )?;
            self.commit()
        };
        try_it().map_err(|fault| {
            self.roll_back();
            self.named(fault)
        })
    }
}

impl StoreReader for SqliteReader {
    fn read(&mut self, read: &Read) -> Result<Found, StoreError> {
        let answer = || -> error::Result<Found> {
            run(&self.conn, "BEGIN")?;
            let found = reads::read(&self.conn, read);
            // A reading transaction has nothing to undo.
            run(&self.conn, "COMMIT")?;
            found
        };
        answer().map_err(|fault| {
            if !self.conn.is_autocommit()
                && let Err(error) = run(&self.conn, "ROLLBACK")
            {
                tracing::error!(?error, "a reading transaction can't be ended");
            }
            fault.into()
        })
    }
}
