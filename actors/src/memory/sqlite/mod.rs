//! The built-in backend: SQLite with FTS5, in a file of its own.
//!
//! Its own file, and not the store's: a question or a damaged index costs the turns' journal nothing, and
//! the store keeps its one writer. One thread writes, two read beside it; nothing blocks whoever asks.

mod ask;
mod rows;
#[cfg(test)]
mod tests;
mod threads;
mod vectors;
mod write;

use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rookery_messages::BoxFuture;
use rookery_messages::ids::MemoryId;
use rookery_messages::memory::{
    Coverage, Forget, ListQuery, Memory, MemoryEntry, MemoryError, NewMemory, RecallQuery,
    Recalled, Stored,
};
use rookery_messages::settings::Durability;
use rusqlite::{Connection, OpenFlags};

pub(super) use vectors::Unread;

use super::meaning::Question;
use rows::Fault;
use threads::Threads;

/// How long a statement waits for another connection's lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);
/// Version of the schema.
const VERSION: u32 = 2;
/// Connections that read.
const READERS: usize = 2;

/// Where the file is, and what it may hold.
#[derive(Clone, Debug)]
pub struct SqliteMemoryOptions {
    /// The file; it and its folder are made if they don't exist.
    pub path: PathBuf,
    /// What a write survives.
    pub durability: Durability,
    /// Most entries an agent.
    pub max_entries: u64,
}

/// The backend.
#[derive(Debug)]
pub struct SqliteMemory {
    threads: Mutex<Option<Both>>,
    /// Nothing is stored, and nothing was since the file was opened.
    empty: Arc<AtomicBool>,
    max_entries: u64,
}

#[derive(Debug)]
struct Both {
    writer: Threads,
    readers: Threads,
}

impl SqliteMemory {
    /// Opens the file and brings its schema up to date. A few milliseconds of file work.
    pub fn open(options: &SqliteMemoryOptions) -> Result<Self, MemoryError> {
        make_file(&options.path)?;
        let open = || -> rows::Result<(Connection, Vec<Connection>, bool)> {
            let mut writer = connect(&options.path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
            prepare(&mut writer, options.durability)?;
            let holds = "SELECT EXISTS (SELECT 1 FROM memories WHERE superseded_by IS NULL)";
            let holds: bool = writer.query_row(holds, [], |row| row.get(0))?;
            let readers = (0..READERS)
                .map(|_| connect(&options.path, OpenFlags::SQLITE_OPEN_READ_ONLY))
                .collect::<rows::Result<_>>()?;
            Ok((writer, readers, !holds))
        };
        let (writer, readers, empty) = open().map_err(MemoryError::from)?;
        let both = Both {
            writer: Threads::start("memory-writer", vec![writer])?,
            readers: Threads::start("memory-reader", readers)?,
        };
        Ok(Self {
            threads: Mutex::new(Some(both)),
            empty: Arc::new(AtomicBool::new(empty)),
            max_entries: options.max_entries,
        })
    }

    fn write<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> rows::Result<T> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, MemoryError>> {
        match &*self.threads.lock() {
            Some(both) => both.writer.ask(job),
            None => Box::pin(std::future::ready(Err(MemoryError::Closed))),
        }
    }

    fn read<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> rows::Result<T> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, MemoryError>> {
        match &*self.threads.lock() {
            Some(both) => both.readers.ask(job),
            None => Box::pin(std::future::ready(Err(MemoryError::Closed))),
        }
    }
}

/// What entries mean, for whoever reads them.
impl SqliteMemory {
    /// As [`Memory::recall`], by what the question means too.
    pub(super) fn recall_by(
        &self,
        query: RecallQuery,
        question: Option<Question>,
    ) -> BoxFuture<'static, Result<Vec<Recalled>, MemoryError>> {
        self.read(move |conn| ask::recall(conn, &query, question.as_ref()))
    }

    /// At most so many entries without a vector of `model`, or with one of another number of bytes.
    pub(super) fn unread(
        &self,
        model: &str,
        bytes: Option<usize>,
        most: u32,
    ) -> BoxFuture<'static, Result<Vec<Unread>, MemoryError>> {
        let model = model.to_owned();
        self.read(move |conn| vectors::unread(conn, &model, bytes, most))
    }

    /// Keeps vectors of `model`.
    pub(super) fn keep(
        &self,
        model: &str,
        read: Vec<(Unread, Vec<u8>)>,
    ) -> BoxFuture<'static, Result<(), MemoryError>> {
        let model = model.to_owned();
        self.write(move |conn| vectors::keep(conn, &model, &read))
    }

    /// How much of it `model` has read.
    pub(super) fn coverage_of(
        &self,
        model: &str,
        bytes: Option<usize>,
    ) -> BoxFuture<'static, Result<Coverage, MemoryError>> {
        let model = model.to_owned();
        self.read(move |conn| vectors::coverage(conn, Some((&model, bytes))))
    }
}

impl Memory for SqliteMemory {
    fn store(&self, new: NewMemory) -> BoxFuture<'_, Result<Stored, MemoryError>> {
        // Before it is there: whoever asks after the answer finds it.
        self.empty.store(false, Ordering::Release);
        let most = self.max_entries;
        self.write(move |conn| write::store(conn, &new, most))
    }

    fn recall(&self, query: RecallQuery) -> BoxFuture<'_, Result<Vec<Recalled>, MemoryError>> {
        self.recall_by(query, None)
    }

    fn list(&self, query: ListQuery) -> BoxFuture<'_, Result<Vec<MemoryEntry>, MemoryError>> {
        self.read(move |conn| ask::list(conn, &query))
    }

    fn get(&self, id: MemoryId) -> BoxFuture<'_, Result<Option<MemoryEntry>, MemoryError>> {
        self.read(move |conn| ask::get(conn, id))
    }

    fn forget(&self, what: Forget) -> BoxFuture<'_, Result<u64, MemoryError>> {
        self.write(move |conn| write::forget(conn, &what))
    }

    fn coverage(&self) -> BoxFuture<'_, Result<Option<Coverage>, MemoryError>> {
        self.read(|conn| vectors::coverage(conn, None).map(Some))
    }

    fn is_empty(&self) -> bool {
        self.empty.load(Ordering::Acquire)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        let both = self.threads.lock().take();
        Box::pin(async move {
            let end = move || {
                if let Some(Both { writer, readers }) = both {
                    // The writer goes last: the last connection that can write moves the log into the file.
                    readers.shutdown();
                    writer.shutdown();
                }
            };
            // Joining blocks, so it is done beside; it does not panic.
            let _ = tokio::task::spawn_blocking(end).await;
        })
    }
}

/// Makes folder and file with modes that only we can read.
fn make_file(path: &Path) -> Result<(), MemoryError> {
    let fail = |error: std::io::Error| {
        MemoryError::Unavailable(format!("opening {}: {error}; check memory.path", path.display()))
    };
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(fail)?;
    }
    let mut file = OpenOptions::new();
    file.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = file.open(path).map_err(fail)?;
    file.set_permissions(Permissions::from_mode(0o600)).map_err(fail)
}

fn connect(path: &Path, mode: OpenFlags) -> rows::Result<Connection> {
    let conn = Connection::open_with_flags(path, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    conn.set_prepared_statement_cache_capacity(32);
    Ok(conn)
}

/// Refuses a file that is not ours or newer; makes what is missing.
fn prepare(conn: &mut Connection, durability: Durability) -> rows::Result<()> {
    let found: u32 = conn.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let tables: i64 = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if found > VERSION {
        return Err(MemoryError::Newer { found, known: VERSION }.into());
    }
    if found == 0 && tables > 0 {
        let text = "the file is a database of another program; give memory.path a file of its own";
        return Err(MemoryError::Corrupt(text.to_owned()).into());
    }
    let mode: String =
        conn.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode != "wal" {
        let text =
            format!("its file system can't share memory (journal mode {mode}); move memory.path");
        return Err(MemoryError::Unavailable(text).into());
    }
    let synchronous = match durability {
        Durability::Power => "FULL",
        Durability::Process => "NORMAL",
    };
    conn.pragma_update(None, "synchronous", synchronous)?;
    // What is forgotten is overwritten.
    conn.pragma_update(None, "secure_delete", true)?;
    if found < VERSION {
        let tx = conn.transaction()?;
        let steps = [include_str!("schema.sql"), include_str!("schema_2.sql")];
        for step in steps.into_iter().skip(found as usize) {
            tx.execute_batch(step).map_err(Fault::from)?;
        }
        tx.pragma_update(None, "user_version", VERSION)?;
        tx.commit()?;
    }
    Ok(())
}
