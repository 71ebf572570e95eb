//! Loop detection.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When a turn that gets nowhere is told so, held up and ended. Each number is that of the note to the
/// model; at one more the next such call is refused, at two more the turn ends.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LoopDetection {
    /// Whether turns are watched at all.
    pub enabled: bool,
    /// Tools whose calls don't count.
    pub ignore: Vec<String>,
    /// How many of a turn's last model calls are looked at.
    pub window: u32,
    /// The same call with the same result, so many times in a row.
    pub repeats: u32,
    /// Two calls in turn, each with the same result, so many times. Longer cycles count for more.
    pub cycles: u32,
    /// One read-only tool with different arguments and the same result, in so many model calls in a row.
    pub no_progress: u32,
}

impl Default for LoopDetection {
    fn default() -> Self {
        Self {
            enabled: true,
            ignore: Vec::new(),
            window: 40,
            repeats: 3,
            cycles: 4,
            no_progress: 5,
        }
    }
}
