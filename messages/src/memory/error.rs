//! Why memory did not do it.

/// Why memory did not do it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MemoryError {
    /// It can't be stored as it is.
    #[error("{0}")]
    Invalid(String),
    /// The agent's memory holds all it may.
    #[error(
        "the memory of this agent is full ({limit} entries); forget something first, or raise memory.max_entries"
    )]
    Full {
        /// What it may hold.
        limit: u64,
    },
    /// Too much is asked at once.
    #[error("memory has too much to do; try again")]
    Busy,
    /// No answer came in time. Whether something was stored is unknown: send the same id again.
    #[error("memory did not answer in time")]
    Timeout,
    /// The backend can't be reached, or its disk does not answer.
    #[error("memory can't be used now: {0}")]
    Unavailable(String),
    /// Memory has stopped.
    #[error("memory has stopped")]
    Closed,
    /// What is stored can't be read.
    #[error("the memory's file is damaged: {0}; restore a backup, or move the file away")]
    Corrupt(String),
    /// The file is of a newer version.
    #[error(
        "the memory's file has version {found}, this program knows {known}; use a newer program"
    )]
    Newer {
        /// The file's.
        found: u32,
        /// Ours.
        known: u32,
    },
    /// Anything else the backend says.
    #[error("memory failed: {0}")]
    Failed(String),
}

impl MemoryError {
    /// Short stable word for metrics and the API.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "memory_invalid",
            Self::Full { .. } => "memory_full",
            Self::Busy => "memory_busy",
            Self::Timeout => "memory_timeout",
            Self::Unavailable(_) => "memory_unavailable",
            Self::Closed => "memory_closed",
            Self::Corrupt(_) => "memory_corrupt",
            Self::Newer { .. } => "memory_newer",
            Self::Failed(_) => "memory_failed",
        }
    }
}
