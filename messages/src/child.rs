//! Child specifications: data a supervisor decides with.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// When a child is started again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Restart {
    /// Always, unless it was stopped on purpose.
    Permanent,
    /// Only after an abnormal end.
    Transient,
    /// Never.
    Temporary,
}

/// Who else is restarted when a child ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// Only the child itself.
    OneForOne,
    /// All children.
    OneForAll,
    /// The child and those started after it.
    RestForOne,
}

/// What happens when a child ends more often than its intensity allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exhausted {
    /// It stays failed, with its cause on show; siblings are untouched.
    Park,
    /// The supervisor ends as failed.
    Escalate,
}

/// How many restarts in how long a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Intensity {
    /// At most so many restarts …
    pub restarts: u32,
    /// … within this window.
    pub window: Duration,
}

impl Default for Intensity {
    fn default() -> Self {
        Self { restarts: 5, window: Duration::from_secs(60) }
    }
}

/// Delay before a restart: exponential, full jitter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Backoff {
    /// The first ceiling.
    pub initial: Duration,
    /// The highest ceiling.
    pub max: Duration,
    /// A child that lived this long starts over at `initial`.
    pub healthy_after: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            initial: Duration::from_millis(100),
            max: Duration::from_secs(30),
            healthy_after: Duration::from_secs(60),
        }
    }
}

/// What a supervisor knows of a child beside how to start it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChildPolicy {
    /// When it is started again.
    pub restart: Restart,
    /// How long a stop may take before it is killed.
    pub grace: Duration,
    /// Its planned end ends the supervisor too.
    pub significant: bool,
    /// How often it may be restarted.
    pub intensity: Intensity,
    /// What happens past that.
    pub exhausted: Exhausted,
    /// Delay before a restart.
    pub backoff: Backoff,
}

impl Default for ChildPolicy {
    fn default() -> Self {
        Self {
            restart: Restart::Permanent,
            grace: Duration::from_secs(5),
            significant: false,
            intensity: Intensity::default(),
            exhausted: Exhausted::Park,
            backoff: Backoff::default(),
        }
    }
}
