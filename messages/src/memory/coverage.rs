//! How much of what is remembered can be found.

use serde::{Deserialize, Serialize};

/// How much of what is remembered can be found, and how.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Coverage {
    /// Entries, superseded ones not counted.
    pub entries: u64,
    /// Those that can be found by their meaning too; none: meanings are switched off.
    pub meanings: Option<Meanings>,
}

/// What is known of entries' meanings.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Meanings {
    /// The model that reads them.
    pub model: String,
    /// Entries it has read.
    pub read: u64,
    /// Entries it refuses; their words are all there is.
    pub refused: u64,
    /// Entries it has still to read.
    pub missing: u64,
    /// Why it can't be asked now, if it can't.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}
