//! Why an actor was told to stop, and how it ended. Policies match on these, never on text.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why somebody asked an actor to stop. The first reason wins.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "by")]
pub enum StopReason {
    /// The user asked: `/stop`, Ctrl-C, a cancel over the API.
    User,
    /// A newer message took its place (policy `interrupt`).
    Replaced,
    /// Its own deadline passed.
    Deadline,
    /// The service is shutting down.
    Shutdown,
    /// Another node owns the conversation now.
    LeaseLost,
    /// The store is gone: nothing may be written.
    StoreLost,
    /// An operator asked, by name.
    Operator(String),
    /// The actor above it ended.
    ParentEnded,
    /// It has been idle long enough; its state is in the store.
    Idle,
}

impl StopReason {
    /// Short stable word for logs, metrics and the API.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Replaced => "replaced",
            Self::Deadline => "deadline",
            Self::Shutdown => "shutdown",
            Self::LeaseLost => "lease_lost",
            Self::StoreLost => "store_lost",
            Self::Operator(_) => "operator",
            Self::ParentEnded => "parent_ended",
            Self::Idle => "idle",
        }
    }

    /// Whether what has finished may still be written (DESIGN.md, section 5): somebody else owns the record
    /// now, or there is nowhere to write it, and waiting for a commit would be waiting for nothing.
    pub fn may_write(&self) -> bool {
        !matches!(self, Self::LeaseLost | Self::StoreLost)
    }

    /// Whether a turn stopped for this reason may write its end (DESIGN.md, section 5).
    pub fn ends_turn(&self) -> bool {
        matches!(self, Self::User | Self::Replaced | Self::Deadline | Self::Operator(_))
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operator(name) => write!(f, "operator {name}"),
            other => f.write_str(other.as_str()),
        }
    }
}

/// How an actor ended. Exactly one for every incarnation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum ExitReason {
    /// It did what it was there for.
    Finished,
    /// It was told to stop, and did.
    Stopped {
        /// Who asked, and why.
        reason: StopReason,
    },
    /// A handler returned an error: "I am broken".
    Failed {
        /// The error's text.
        error: String,
        /// Restarting can't help: bad configuration, revoked token.
        permanent: bool,
    },
    /// A handler or one of its tasks panicked.
    Panicked {
        /// The panic's message.
        message: String,
        /// `file:line:column`, where known.
        location: String,
    },
    /// It was killed: it did not end within its grace, or an operator wanted it gone at once.
    Killed,
    /// It never ran.
    StartFailed {
        /// The error's text.
        error: String,
        /// Restarting can't help.
        permanent: bool,
    },
}

impl ExitReason {
    /// Short stable word for logs, metrics and the API.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Stopped { .. } => "stopped",
            Self::Failed { .. } => "failed",
            Self::Panicked { .. } => "panicked",
            Self::Killed => "killed",
            Self::StartFailed { .. } => "start_failed",
        }
    }

    /// Whether this is an end nobody asked for.
    pub fn is_abnormal(&self) -> bool {
        !matches!(self, Self::Finished | Self::Stopped { .. })
    }

    /// Whether a restart can't help.
    pub fn is_permanent(&self) -> bool {
        matches!(
            self,
            Self::Failed { permanent: true, .. } | Self::StartFailed { permanent: true, .. }
        )
    }
}

impl fmt::Display for ExitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finished => f.write_str("finished"),
            Self::Stopped { reason } => write!(f, "stopped: {reason}"),
            Self::Failed { error, .. } => write!(f, "failed: {error}"),
            Self::Panicked { message, location } => write!(f, "panicked: {message} at {location}"),
            Self::Killed => f.write_str("killed"),
            Self::StartFailed { error, .. } => write!(f, "start failed: {error}"),
        }
    }
}

/// What a handler returns when its actor can't go on. A domain failure is a value, not this.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ActorError {
    /// What broke, and what to do.
    pub message: String,
    /// Restarting can't help.
    pub permanent: bool,
}

impl ActorError {
    /// A failure that a restart may mend.
    pub fn transient(message: impl Into<String>) -> Self {
        Self { message: message.into(), permanent: false }
    }

    /// A failure that a restart can't mend.
    pub fn permanent(message: impl Into<String>) -> Self {
        Self { message: message.into(), permanent: true }
    }
}
