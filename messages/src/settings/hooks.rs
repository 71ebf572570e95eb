//! Hooks outside the process.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Secret;
use crate::hook::HookEvent;

/// A hook: a command or an HTTP address that is shown calls or model requests, as JSON.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HookSettings {
    /// When it is asked: `before_tool_call`, `after_tool_call` or `before_model_call`.
    pub event: HookEvent,
    /// A program and its arguments: the question on standard input, the answer on standard output.
    #[serde(default)]
    pub command: Option<Vec<String>>,
    /// An address the question is posted to.
    #[serde(default)]
    pub url: Option<String>,
    /// Sent to `url` as a bearer token.
    #[serde(default)]
    pub token: Option<Secret>,
    /// It is shown calls of these tools only. Default: all.
    #[serde(default)]
    pub tools: Option<Vec<String>>,
    /// How long it may take, in milliseconds.
    #[serde(default = "timeout_ms")]
    pub timeout_ms: u64,
}

fn timeout_ms() -> u64 {
    5_000
}
