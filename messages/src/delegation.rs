//! Turns that were handed on by another turn: where they hang, what they were granted, where they stand.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::envelope::ReplyAddress;
use crate::ids::{AgentName, CallId, ConversationId, TurnId};
use crate::settings::AutonomyLevel;
use crate::turn::{Outcome, TurnRecord, TurnState};

/// Codes of errors that say that a task could not be brought to an end: it is lost, not failed.
const LOST: [&str; 2] = ["crashed", "lost"];

/// Whether somebody waits for a child turn.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildMode {
    /// Its parent's call waits for it, and it ends with that call.
    Delegate,
    /// A task of its own: it outlives the turn that began it.
    Task,
}

impl ChildMode {
    /// The word in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delegate => "delegate",
            Self::Task => "task",
        }
    }
}

/// What a child turn was granted: all of it, so that it can't get more when it is resumed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ChildGrant {
    /// Its tools, by their resolved names.
    pub tools: BTreeSet<String>,
    /// Its autonomy level at most.
    pub level: AutonomyLevel,
    /// Only these commands, if there is a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_commands: Option<Vec<String>>,
    /// Paths that are closed to it, beside its agent's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forbidden_paths: Vec<PathBuf>,
    /// Most model calls that may ask for tools.
    pub max_iterations: u32,
    /// The tool that had brought content from outside into its parent, if one had: the task may hold some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tainted: Option<String>,
    /// What its parent had left to spend.
    #[serde(default)]
    pub allowance: Allowance,
    /// The agents above it: what it spends is theirs of the day too.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub payers: BTreeSet<AgentName>,
}

/// What may still be spent; none is no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Allowance {
    /// Tokens, sent and received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Cost, in millionths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micros: Option<u64>,
}

impl Allowance {
    /// The smaller of both, each.
    pub fn and(self, other: Self) -> Self {
        let smaller = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        Self {
            tokens: smaller(self.tokens, other.tokens),
            micros: smaller(self.micros, other.micros),
        }
    }
}

/// The place of a child turn, fixed when it was accepted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ChildOf {
    /// The turn that handed the task on.
    pub turn: TurnId,
    /// The call by which it did.
    pub call: CallId,
    /// The conversation above all parents: its people see the child's questions.
    pub root: ConversationId,
    /// The agent of the turn above all parents: its people are the child's.
    pub people_of: AgentName,
    /// How many turns stand above it.
    pub depth: u32,
    /// Whether somebody waits for it.
    pub mode: ChildMode,
    /// What it was granted.
    pub grant: ChildGrant,
    /// Where its people are told that a task has ended.
    pub reply_to: ReplyAddress,
}

/// A new child turn, with what its parent may start in all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewChild {
    /// Its place.
    pub of: ChildOf,
    /// Most children of one turn.
    pub max_children: u32,
    /// Most tasks of one conversation that have not ended.
    pub max_tasks: u32,
}

/// Which turns an approval is for, beside the one that asks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AskedFor {
    /// The parent of the turn that asks.
    pub turn: TurnId,
    /// The conversation above all parents.
    pub root: ConversationId,
    /// How many turns stand above the one that asks.
    pub depth: u32,
}

impl From<&ChildOf> for AskedFor {
    fn from(of: &ChildOf) -> Self {
        Self { turn: of.turn, root: of.root, depth: of.depth }
    }
}

/// Where a background task stands (T24).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// It has not ended. After a restart it goes on from its journal.
    Running,
    /// There is a result.
    Done,
    /// It ran, and failed.
    Failed,
    /// It could not be brought to an end; its error says why.
    Lost,
    /// Somebody stopped it.
    Cancelled,
}

impl TaskState {
    /// The word in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Lost => "lost",
            Self::Cancelled => "cancelled",
        }
    }

    /// Of a task's turn.
    pub fn of(state: TurnState, outcome: Option<Outcome>, error: Option<&str>) -> Self {
        match (state, outcome) {
            (TurnState::Ended, Some(Outcome::Answered | Outcome::Silent | Outcome::Merged)) => {
                Self::Done
            }
            (TurnState::Ended, Some(Outcome::Cancelled | Outcome::Expired)) => Self::Cancelled,
            (TurnState::Ended, _) if error.is_some_and(|code| LOST.contains(&code)) => Self::Lost,
            (TurnState::Ended, _) => Self::Failed,
            (TurnState::Queued | TurnState::Running | TurnState::WaitingApproval, _) => {
                Self::Running
            }
        }
    }
}

impl TurnRecord {
    /// Whether a call of another turn waits for it: then it is that call's to run, not a session's.
    pub fn is_delegate(&self) -> bool {
        self.parent.as_ref().is_some_and(|of| of.mode == ChildMode::Delegate)
    }
}
