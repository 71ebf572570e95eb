//! The live tree as clients see it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::exit::ExitReason;
use crate::ids::ActorId;

/// Where an actor stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActorStatus {
    /// Being built.
    Starting,
    /// Waiting for a message.
    Idle,
    /// A message is in hand.
    Busy,
    /// Told to stop, finishing its bookkeeping.
    Stopping,
    /// Ended, waiting for its restart.
    Restarting,
    /// Failed too often, or for a cause that a restart can't mend.
    Parked,
    /// Takes no new work until it is resumed.
    Paused,
    /// Ended; stays on show for a while if it failed.
    Ended,
}

/// One actor.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TreeNode {
    /// Path from the root: `root/service/sessions/<conversation>/turn/<id>`.
    pub path: String,
    /// Its kind: `turn`, `tool`, `store` …
    pub kind: String,
    /// Incarnation id.
    pub id: ActorId,
    /// Where it stands.
    pub status: ActorStatus,
    /// Incarnations so far.
    pub generation: u64,
    /// When this incarnation started.
    #[serde(with = "crate::time::millis")]
    pub started_at: Timestamp,
    /// Its mailbox.
    pub mailbox: MailboxView,
    /// The message in hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_hand: Option<InHand>,
    /// What it waits for: `model`, `approval <id>`, `store` …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_on: Option<String>,
    /// For how long it has been waiting for that, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_ms: Option<u64>,
    /// Messages handled by this incarnation.
    pub handled: u64,
    /// Tasks it owns now.
    pub tasks: usize,
    /// Restarts so far.
    pub restarts: u64,
    /// How the last incarnation ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_exit: Option<LastExit>,
    /// The actor's own redacted view of its state.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub detail: Value,
    /// Those below it, in order of start.
    pub children: Vec<TreeNode>,
}

/// A mailbox's depths.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MailboxView {
    /// Waiting now.
    pub depth: usize,
    /// At most.
    pub capacity: usize,
    /// The most so far.
    pub high_water: usize,
}

/// The message in hand.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InHand {
    /// Its kind.
    pub message: String,
    /// For how long, in milliseconds.
    pub since_ms: u64,
}

/// An end.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LastExit {
    /// When.
    #[serde(with = "crate::time::millis")]
    pub at: Timestamp,
    /// How.
    pub reason: ExitReason,
    /// Its text.
    pub text: String,
    /// The message it died in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_hand: Option<String>,
}

/// The whole tree at one moment.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TreeSnapshot {
    /// Version of this form.
    pub version: u32,
    /// Rises with every change of the set of actors.
    pub seq: u64,
    /// When it was taken.
    #[serde(with = "crate::time::millis")]
    pub captured_at: Timestamp,
    /// The root.
    pub root: TreeNode,
}
