//! Why the store did not do it.

/// Why the store did not do it. All but `Stale`, `Conflict` and `NotFound` mean: nothing was written.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process holds the database.
    #[error(
        "the database is in use by another process ({owner}); stop that one, or give this one another store.path"
    )]
    InUse {
        /// What the lock file says of the owner.
        owner: String,
    },
    /// The file's schema is newer than this binary.
    #[error(
        "the database has schema version {found}, this binary knows {known}; use a newer binary, or restore the backup made before the upgrade"
    )]
    SchemaNewer {
        /// The file's.
        found: u32,
        /// Ours.
        known: u32,
    },
    /// The disk is full.
    #[error(
        "the disk that holds the database is full: {0}; free space: a service that runs goes on by itself, one that did not start has to be started again"
    )]
    Full(String),
    /// The database is locked, or the disk does not answer.
    #[error("the database can't be written now: {0}")]
    Unavailable(String),
    /// The file is damaged.
    #[error("the database is damaged: {0}; restore a backup, or move the file away")]
    Corrupt(String),
    /// The writer's queue is full.
    #[error("the store's queue is full; try again")]
    Busy,
    /// The store has stopped.
    #[error("the store has stopped")]
    Closed,
    /// The write came from a former owner or attempt (I3).
    #[error("a stale attempt tried to write")]
    Stale,
    /// The thing has already ended, or is in a state that does not allow this.
    #[error("conflict: {0}")]
    Conflict(String),
    /// There is no such thing.
    #[error("not found")]
    NotFound,
    /// No answer came in time. Whether it was written is unknown: send the same key again.
    #[error("the store did not answer in time")]
    Timeout,
    /// Anything else the backend says.
    #[error("the store failed: {0}")]
    Failed(String),
}

impl StoreError {
    /// Whether the disk or the file is the cause, not the request.
    pub fn is_of_the_disk(&self) -> bool {
        matches!(self, Self::Full(_) | Self::Unavailable(_) | Self::Corrupt(_))
    }

    /// Short stable word for metrics and the API.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InUse { .. } => "store_in_use",
            Self::SchemaNewer { .. } => "store_schema_newer",
            Self::Full(_) => "store_full",
            Self::Unavailable(_) => "store_unavailable",
            Self::Corrupt(_) => "store_corrupt",
            Self::Busy => "store_busy",
            Self::Closed => "store_closed",
            Self::Stale => "store_stale",
            Self::Conflict(_) => "store_conflict",
            Self::NotFound => "not_found",
            Self::Timeout => "store_timeout",
            Self::Failed(_) => "store_failed",
        }
    }

    /// Whether the same write may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Full(_) | Self::Unavailable(_) | Self::Busy | Self::Timeout)
    }
}
