//! `rookery policy check`: what the gate says of one call, by the configuration alone.

use rookery_messages::approval::Risk;
use rookery_messages::settings::Settings;
use serde::Serialize;
use serde_json::{Map, Value};

/// What the gate decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It runs.
    Allowed,
    /// A person has to decide.
    NeedsApproval,
    /// It can't run.
    Blocked,
}

/// A judged call, as it is printed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PolicyAnswer {
    /// The decision.
    pub decision: Verdict,
    /// How dangerous the call is.
    pub risk: Risk,
    /// Which rule decided.
    pub reason: String,
}

/// Judges a call of `tool` by `agent` with these arguments.
pub fn policy_check(
    settings: &Settings,
    agent: &str,
    tool: &str,
    arguments: &Map<String, Value>,
) -> Result<PolicyAnswer, PolicyCheckError> {
    if !settings.agents.contains_key(agent) {
        return Err(PolicyCheckError::NoAgent(agent.to_owned()));
    }
    let _ = (tool, arguments);
    Err(PolicyCheckError::NotWired)
}

/// Why a call can't be judged.
#[derive(Debug, thiserror::Error)]
pub enum PolicyCheckError {
    /// No such agent.
    #[error("there is no agent `{0}`; `rookery config show` lists them")]
    NoAgent(String),
    /// The gate is not part of this build.
    #[error("the gate is not wired yet")]
    NotWired,
}
