//! A turn: its record, its outcome, its calls, and the messages its actor takes.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::address::Message;
use crate::approval::Decided;
use crate::chat::Usage;
use crate::delegation::{ChildOf, TaskState};
use crate::envelope::{ReplyAddress, TurnOrigin};
use crate::ids::{AgentName, ApprovalId, CallId, ChannelId, ConversationId, EnvelopeId, TurnId};
use crate::model::ModelReport;
use crate::session::Steering;
use crate::store::{CommitAck, Spent, StoreError};
use crate::tool::{BatchReport, JudgedCall};

/// Where a turn stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnState {
    /// Accepted, not begun.
    Queued,
    /// Begun.
    Running,
    /// A person has to decide.
    WaitingApproval,
    /// It has its outcome.
    Ended,
}

impl TurnState {
    /// The word in the database and the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::WaitingApproval => "waiting_approval",
            Self::Ended => "ended",
        }
    }
}

/// How an accepted envelope ended. Exactly one each (I1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// There is a reply.
    Answered,
    /// No reply, by policy.
    Silent,
    /// It failed, and the sender was told.
    Failed,
    /// Somebody stopped it.
    Cancelled,
    /// It was not taken (queue full), and the sender was told.
    Rejected,
    /// Nobody came for it in time.
    Expired,
    /// Another message's turn answered it too.
    Merged,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Answered,
        Self::Silent,
        Self::Failed,
        Self::Cancelled,
        Self::Rejected,
        Self::Expired,
        Self::Merged,
    ];

    /// The word in the database and the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Silent => "silent",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Rejected => "rejected",
            Self::Expired => "expired",
            Self::Merged => "merged",
        }
    }
}

/// Where a call stands. The last seven are ends; each call of a response gets exactly one (I4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// Known, not begun.
    Planned,
    /// Waiting for a person.
    Waiting,
    /// Its tool runs.
    Running,
    /// The tool reported success.
    Succeeded,
    /// The tool reported failure, timed out, or crashed.
    Failed,
    /// An approval was refused, or could not be had.
    Denied,
    /// Policy forbids it.
    Blocked,
    /// The approver gave a result in its place.
    Replaced,
    /// The same call stands in the same response; it has that one's result.
    Duplicate,
    /// The turn was stopped before it ended.
    Interrupted,
    /// It began in a former life and may have had its effect.
    Unknown,
}

impl CallState {
    /// The word in the database and the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Denied => "denied",
            Self::Blocked => "blocked",
            Self::Replaced => "replaced",
            Self::Duplicate => "duplicate",
            Self::Interrupted => "interrupted",
            Self::Unknown => "unknown",
        }
    }

    /// Whether this is an end.
    pub fn is_end(self) -> bool {
        !matches!(self, Self::Planned | Self::Waiting | Self::Running)
    }
}

/// A call as the API shows it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CallRecord {
    /// The call.
    pub id: CallId,
    /// The tool's resolved name.
    pub tool: String,
    /// Where it stands.
    pub state: CallState,
    /// When the tool began.
    #[serde(
        default,
        with = "crate::time::millis::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub started_at: Option<Timestamp>,
    /// When the call ended.
    #[serde(
        default,
        with = "crate::time::millis::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub ended_at: Option<Timestamp>,
}

/// A turn as stored and as the API shows it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TurnRecord {
    /// The turn.
    pub id: TurnId,
    /// The envelope it answers.
    pub envelope: EnvelopeId,
    /// The platform's id of the conversation.
    pub conversation: String,
    /// Our id of the conversation.
    pub conversation_id: ConversationId,
    /// The agent.
    pub agent: AgentName,
    /// The channel.
    pub channel: ChannelId,
    /// Where it comes from.
    pub origin: TurnOrigin,
    /// The turn that handed it on, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Box<ChildOf>>,
    /// Where it stands as a task, if it is one (T24).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskState>,
    /// Where it stands.
    pub state: TurnState,
    /// How it ended; null until then.
    pub outcome: Option<Outcome>,
    /// The turn that answers its message too, if it is merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub into: Option<TurnId>,
    /// The final text; null until answered.
    pub reply: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<TurnError>,
    /// How often it was begun.
    pub attempts: u32,
    /// When it was begun first.
    #[serde(with = "crate::time::millis::option")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(with = "crate::time::millis::option")]
    pub ended_at: Option<Timestamp>,
    /// Tokens so far.
    pub usage: Usage,
    /// What they cost, in millionths; an amount in the API.
    #[serde(
        default,
        rename = "cost",
        with = "crate::settings::budget::micros",
        skip_serializing_if = "crate::settings::budget::micros::is_zero"
    )]
    pub cost_micros: u64,
    /// Its calls, in order.
    pub calls: Vec<CallRecord>,
}

/// Why a turn failed: for the sender, the API and the record. Cleaned and bounded.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TurnError {
    /// Stable word, such as `provider_auth`, `iteration_cap`, `crashed`.
    pub code: String,
    /// What was tried and what to do.
    pub message: String,
}

impl TurnError {
    /// From its parts.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into() }
    }
}

/// How a turn ends, as committed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TurnFinish {
    /// The outcome.
    pub outcome: Outcome,
    /// The final text, if there is one.
    pub reply: Option<String>,
    /// Why it failed.
    pub error: Option<TurnError>,
    /// Tokens in all.
    pub usage: Usage,
}

/// What a session gets to run: the claimed row, under its fence.
#[derive(Clone, PartialEq, Debug)]
pub struct TurnClaim {
    /// The turn's record.
    pub record: TurnRecord,
    /// What its people have said in it so far: its own message, and those that were merged with it.
    pub text: String,
    /// The model its people chose for the conversation: a provider profile's name.
    pub model: Option<String>,
    /// Turns whose messages were merged with it by this claim.
    pub merged: Vec<TurnId>,
    /// What its delegates have spent in former attempts.
    pub children_spent: Vec<(TurnId, Spent)>,
    /// The sender's platform id, who may decide approvals by default.
    pub sender: String,
    /// Where the answer goes.
    pub reply_address: ReplyAddress,
    /// The fence: writes of an older (epoch, attempt) are refused (I3).
    pub fence: Fence,
    /// Somebody asked to cancel it before it began.
    pub cancel_requested: bool,
    /// The journal of former attempts, in order.
    pub journal: Vec<crate::journal::JournalEntry>,
    /// The conversation's history, oldest first, this turn's own messages included.
    pub history: Vec<crate::store::StoredMessage>,
    /// Older turns of the conversation did not fit and were left out of `history`.
    pub history_cut: bool,
    /// Approvals of this turn, whatever their state.
    pub approvals: Vec<crate::approval::Approval>,
}

/// The fence of a running turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Fence {
    /// The conversation's lease epoch.
    pub epoch: u64,
    /// The attempt, from 1.
    pub attempt: u32,
}

/// What a turn's actor takes.
#[derive(Debug)]
pub enum TurnMsg {
    /// It is up: go on from what the journal says.
    Begin,
    /// The calls of a response were judged.
    Judged(Vec<JudgedCall>),
    /// The store's answer to the commit with this number.
    Committed {
        /// The commit's number within this attempt.
        seq: u64,
        /// Done, or why not.
        result: Result<CommitAck, StoreError>,
    },
    /// The model call ended.
    ModelEnded(ModelReport),
    /// Memory has answered, or its time is over: what the model is told before the message; may be empty.
    Recalled(String),
    /// The hooks have seen the messages of a model call, or one is against it.
    ModelPrepared {
        /// Which model call of the turn.
        iteration: u32,
        /// The messages as they are to be sent; or the hook that is against it, and its reason.
        messages: Result<Vec<crate::chat::ChatMessage>, (String, String)>,
    },
    /// The hooks have seen the calls that ran.
    HooksTold,
    /// The batch ended: every slot is filled.
    BatchEnded(BatchReport),
    /// A decision on an approval is in the store.
    ApprovalDecided(Box<Decided>),
    /// A hint that a decision was made somewhere else; the approval's actor looks.
    ApprovalHint(ApprovalId),
    /// The person said something while the turn runs.
    Steer(Box<Steering>),
    /// What was spent today, for those who have a limit; a model call waits for it.
    Spending(Result<Vec<Spent>, StoreError>),
    /// A model call takes longer than it may.
    StepTimeout {
        /// Which.
        iteration: u32,
    },
    /// The store knows that the turn is left in good order, or could not be told.
    Released,
    /// Time to look whether the turn gets on.
    ProgressCheck,
}

impl Message for TurnMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Begin => "Begin",
            Self::Judged(_) => "Judged",
            Self::ProgressCheck => "ProgressCheck",
            Self::Committed { .. } => "Committed",
            Self::ModelEnded(_) => "ModelEnded",
            Self::Recalled(_) => "Recalled",
            Self::ModelPrepared { .. } => "ModelPrepared",
            Self::HooksTold => "HooksTold",
            Self::BatchEnded(_) => "BatchEnded",
            Self::ApprovalDecided(_) => "ApprovalDecided",
            Self::ApprovalHint(_) => "ApprovalHint",
            Self::Steer(_) => "Steer",
            Self::Spending(_) => "Spending",
            Self::StepTimeout { .. } => "StepTimeout",
            Self::Released => "Released",
        }
    }
}
