//! Handing work on to child turns.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How far a turn may hand work on. A child can only narrow these: they are those of its parent.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DelegationSettings {
    /// How many turns may stand below a person's, one below the other; 0 turns delegation off.
    pub max_depth: u32,
    /// Most children of one turn.
    pub max_children: u32,
    /// Most background tasks of a conversation that have not ended.
    pub max_tasks: u32,
    /// Most model calls of a child that may ask for tools, unless its parent grants fewer.
    pub max_iterations: u32,
}

impl Default for DelegationSettings {
    fn default() -> Self {
        Self { max_depth: 2, max_children: 8, max_tasks: 8, max_iterations: 10 }
    }
}
