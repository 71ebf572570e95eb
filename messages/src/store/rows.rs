//! The rows that come and go.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::chat::ChatMessage;
use crate::envelope::ReplyAddress;
use crate::ids::{ApprovalId, ChannelId, MessageId, OutboxId, TurnId};
use crate::turn::Outcome;

/// A message of the history, as stored.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StoredMessage {
    /// Our id; appending the same one twice changes nothing (A114).
    pub id: MessageId,
    /// The turn it belongs to.
    pub turn: TurnId,
    /// When it was appended.
    pub at: Timestamp,
    /// The message.
    pub message: ChatMessage,
}

/// A message to send.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NewOutbox {
    /// Its id: also the nonce, where a platform takes one.
    pub id: OutboxId,
    /// The channel.
    pub channel: ChannelId,
    /// Where to.
    pub address: ReplyAddress,
    /// What.
    pub payload: OutboxPayload,
}

/// What is sent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum OutboxPayload {
    /// A turn's end.
    Reply {
        /// The turn.
        turn: TurnId,
        /// How it ended.
        outcome: Outcome,
        /// The text to show.
        text: String,
    },
    /// A word to the sender: queue full, reply expired.
    Notice {
        /// The turn it is about, if any.
        turn: Option<TurnId>,
        /// The text to show.
        text: String,
    },
    /// A request for approval in a chat with buttons, as it stands when it is shown: the first such row of a
    /// request is its prompt, a later one changes that.
    Approval {
        /// The turn that asks.
        turn: TurnId,
        /// The request.
        approval: ApprovalId,
    },
}

impl OutboxPayload {
    /// The word in the database and the API.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Reply { .. } => "reply",
            Self::Notice { .. } => "notice",
            Self::Approval { .. } => "approval",
        }
    }

    /// The turn it is about, if any.
    pub fn turn(&self) -> Option<TurnId> {
        match self {
            Self::Reply { turn, .. } | Self::Approval { turn, .. } => Some(*turn),
            Self::Notice { turn, .. } => *turn,
        }
    }
}

/// Where an outbox row stands.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OutboxStatus {
    /// The row.
    pub id: OutboxId,
    /// The channel.
    pub channel: ChannelId,
    /// The platform's id of the conversation.
    pub conversation: String,
    /// `pending`, `sending`, `sent` or `dead`.
    pub state: String,
    /// How often it was tried.
    pub attempts: u32,
    /// Why the last try did not arrive, or why nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The platform's id of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
}

/// An outbox row in a sender's hands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutboxRow {
    /// What to send.
    pub message: NewOutbox,
    /// How often it was tried before.
    pub attempts: u32,
    /// An earlier try's outcome is unknown: this may be a copy.
    pub possibly_repeated: bool,
    /// The platform's ids of the parts that were sent already.
    pub progress: Vec<String>,
    /// When it was written.
    pub created_at: Timestamp,
}

/// A dead letter as the admin API shows it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DeadLetter {
    /// The row.
    pub id: OutboxId,
    /// `reply`, `notice`, `approval`; or `turn`: the envelope itself, after its last attempt (it can't be retried).
    pub kind: String,
    /// The channel.
    pub channel: ChannelId,
    /// The turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// Why.
    pub cause: String,
    /// `permanent` or `transient`.
    pub class: String,
    /// When.
    #[serde(with = "crate::time::millis")]
    pub at: Timestamp,
    /// How often it was tried.
    pub attempts: u32,
}

/// Whose spending of a day is added up.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SpendScope {
    /// One sender of a channel.
    Sender,
    /// One agent.
    Agent,
    /// All of the service.
    Service,
}

impl SpendScope {
    /// The word in the database and in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sender => "sender",
            Self::Agent => "agent",
            Self::Service => "service",
        }
    }
}

/// A day's sum.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SpendKey {
    /// Of what kind.
    pub scope: SpendScope,
    /// Whose: `channel/sender`, the agent's name, or nothing.
    pub name: String,
}

/// What was spent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spent {
    /// Tokens, sent and received.
    pub tokens: u64,
    /// Cost, in millionths.
    pub micros: u64,
}

impl Spent {
    /// Both together.
    pub fn and(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            micros: self.micros.saturating_add(other.micros),
        }
    }
}

/// An actor's crash, as stored and shown.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CrashRow {
    /// Row id; 0 until stored.
    #[serde(default)]
    pub id: i64,
    /// The actor's kind.
    pub kind: String,
    /// Its path.
    pub path: String,
    /// What happened.
    pub cause: String,
    /// `file:line:column` of a panic.
    pub location: Option<String>,
    /// When last.
    #[serde(with = "crate::time::millis")]
    pub at: Timestamp,
    /// How often the same kind crashed for the same cause at the same place.
    pub count: u64,
    /// The message it died in.
    pub message_in_hand: Option<String>,
}

/// A row of the audit.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AuditRow {
    /// When.
    #[serde(with = "crate::time::millis")]
    pub at: Timestamp,
    /// Who.
    pub who: String,
    /// By which surface.
    pub via: String,
    /// What: `approval.approve`, `actor.stop`, `turn.cancel` …
    pub action: String,
    /// On what: an id or path.
    pub target: String,
    /// More, secrets cleaned.
    pub detail: Value,
}
