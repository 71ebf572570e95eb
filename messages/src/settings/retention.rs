//! How long what has ended is kept.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How long what has ended is kept. Messages of conversations and the audit stay.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RetentionSettings {
    /// Journals of turns, in days; 0 keeps them.
    pub journal_days: u32,
    /// Turns and the envelopes they answered, in days; 0 keeps them. A message that a platform delivers
    /// again after that is a new one.
    pub inbox_days: u32,
}

impl Default for RetentionSettings {
    fn default() -> Self {
        Self { journal_days: 14, inbox_days: 90 }
    }
}
