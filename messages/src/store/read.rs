//! What the store is asked, and what it answers.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    AuditRow, ChannelFound, ChannelRead, CrashRow, DeadLetter, SpendKey, Spent, StoredMessage,
};
use crate::approval::{Approval, Grant};
use crate::chat::{ChatMessage, Usage};
use crate::ids::{AgentName, ApprovalId, CallId, ChannelId, ConversationId, TurnId};
use crate::journal::JournalEntry;
use crate::pairing::Pairing;
use crate::tool::ProcessRecord;
use crate::turn::{TurnRecord, TurnState};

/// A question to a reader.
#[derive(Clone, Debug)]
pub enum Read {
    /// One turn.
    Turn(TurnId),
    /// What journal and history say of one call of a turn.
    CallTrail {
        /// The turn.
        turn: TurnId,
        /// The call.
        call: CallId,
    },
    /// Turns, newest first.
    Turns {
        /// Of this platform conversation id.
        conversation: Option<String>,
        /// In this channel.
        channel: Option<ChannelId>,
        /// In this state.
        state: Option<TurnState>,
        /// At most so many.
        limit: u32,
    },
    /// Background tasks of a conversation, newest first.
    Tasks {
        /// The conversation above all parents.
        root: ConversationId,
        /// At most so many.
        limit: u32,
    },
    /// A conversation's history by channel and platform id, oldest first: the newest `limit`.
    Messages {
        /// The channel.
        channel: ChannelId,
        /// The platform's id of the conversation.
        conversation: String,
        /// At most so many.
        limit: u32,
    },
    /// Conversations with an open row that is a session's to run.
    OpenConversations,
    /// Whether a conversation has an open row.
    HasOpen(ConversationId),
    /// Approvals, oldest first.
    Approvals {
        /// Only pending ones.
        pending: bool,
        /// At most so many.
        limit: u32,
    },
    /// One approval.
    Approval(ApprovalId),
    /// A grant that covers a call now.
    Grant {
        /// The conversation.
        conversation_id: ConversationId,
        /// The agent.
        agent: AgentName,
        /// The tool's resolved name.
        tool: String,
        /// The key of what the call is.
        key: String,
        /// Now.
        at: Timestamp,
    },
    /// Grants, newest first.
    Grants {
        /// Ended and revoked ones too.
        all: bool,
        /// Now.
        at: Timestamp,
        /// At most so many.
        limit: u32,
    },
    /// How accepted envelopes ended.
    Ledger,
    /// What is under way, and what waits.
    Backlog,
    /// Dead letters, oldest first.
    DeadLetters,
    /// Crashes, newest first.
    Crashes {
        /// At most so many.
        limit: u32,
    },
    /// Process groups of former lives.
    Processes,
    /// The audit, newest first.
    Audit {
        /// Nothing older.
        since: Option<Timestamp>,
        /// At most so many.
        limit: u32,
    },
    /// When the next outbox row of a channel is due.
    OutboxDue(ChannelId),
    /// Something a channel keeps.
    Channel(ChannelRead),
    /// Conversations, newest first.
    Conversations {
        /// At most so many.
        limit: u32,
    },
    /// What was spent on the day of a time, by key.
    Spent {
        /// Now.
        at: Timestamp,
        /// Whose.
        keys: Vec<SpendKey>,
    },
    /// Who paired, with which channel.
    Pairings,
    /// What a command has to know of its conversation.
    Desk {
        /// The channel.
        channel: ChannelId,
        /// The platform's id of the conversation.
        conversation: String,
        /// The agent.
        agent: AgentName,
        /// The platform's id of the command's message.
        external_id: String,
    },
}

/// What is under way, and what waits: the numbers that tell a service that stands still from one that rests.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Backlog {
    /// Turns that have not ended, by state.
    pub open: Vec<(TurnState, u64)>,
    /// When the oldest message whose turn has not ended was accepted.
    pub oldest_open: Option<Timestamp>,
    /// Approvals nobody has decided.
    pub approvals: u64,
    /// Rows of the outbox that are to be sent.
    pub outbox: u64,
    /// Rows of the outbox that were given up.
    pub dead_letters: u64,
}

/// What a command has to know of its conversation.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Desk {
    /// The message is known already.
    pub known: bool,
    /// The turn that runs, or waits for a person.
    pub running: Option<Box<TurnRecord>>,
    /// Turns that have not begun, in order.
    pub waiting: Vec<TurnId>,
    /// The model its people chose: a provider profile.
    pub model: Option<String>,
    /// Tokens of all its turns.
    pub usage: Usage,
    /// What they cost, in millionths.
    pub cost_micros: u64,
}

/// How accepted envelopes ended: adds up to `accepted` (I1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Ledger {
    /// All of them.
    pub accepted: u64,
    /// With a reply.
    pub answered: u64,
    /// Without, by policy.
    pub silent: u64,
    /// Failed and notified.
    pub failed: u64,
    /// Stopped.
    pub cancelled: u64,
    /// Not taken and notified.
    pub rejected: u64,
    /// Too old.
    pub expired: u64,
    /// Answered with another.
    pub merged: u64,
    /// Not ended yet.
    pub open: u64,
}

impl Ledger {
    /// Whether the ends and the open ones add up.
    pub fn adds_up(&self) -> bool {
        self.accepted
            == self.answered
                + self.silent
                + self.failed
                + self.cancelled
                + self.rejected
                + self.expired
                + self.merged
                + self.open
    }
}

/// What a call left behind.
#[derive(Clone, PartialEq, Debug)]
pub struct CallTrail {
    /// The turn's journal, in order.
    pub journal: Vec<JournalEntry>,
    /// Its result in the conversation's history, once the round stands there.
    pub shown: Option<ChatMessage>,
}

/// A conversation as the API lists it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ConversationRow {
    /// Our id.
    pub id: ConversationId,
    /// The channel.
    pub channel: ChannelId,
    /// The platform's id.
    pub conversation: String,
    /// The agent.
    pub agent: String,
    /// Messages stored.
    pub messages: u64,
    /// When the last message was accepted.
    #[serde(with = "crate::time::millis")]
    pub last_at: Timestamp,
}

/// A reader's answer; its variant follows the question's.
#[derive(Clone, Debug)]
pub enum Found {
    /// A turn.
    Turn(Option<Box<TurnRecord>>),
    /// A call's traces; none if there is no such turn.
    CallTrail(Option<Box<CallTrail>>),
    /// Turns.
    Turns(Vec<TurnRecord>),
    /// Messages; none if there is no such conversation.
    Messages(Option<Vec<StoredMessage>>),
    /// Conversation ids.
    OpenConversations(Vec<ConversationId>),
    /// Yes or no.
    Flag(bool),
    /// Approvals.
    Approvals(Vec<Approval>),
    /// An approval.
    Approval(Option<Box<Approval>>),
    /// A grant.
    Grant(Option<Box<Grant>>),
    /// Grants.
    Grants(Vec<Grant>),
    /// The ledger.
    Ledger(Ledger),
    /// What is under way, and what waits.
    Backlog(Backlog),
    /// Dead letters.
    DeadLetters(Vec<DeadLetter>),
    /// Crashes.
    Crashes(Vec<CrashRow>),
    /// Process groups.
    Processes(Vec<ProcessRecord>),
    /// Audit rows.
    Audit(Vec<AuditRow>),
    /// A time.
    Due(Option<Timestamp>),
    /// Something a channel keeps.
    Channel(ChannelFound),
    /// Conversations.
    Conversations(Vec<ConversationRow>),
    /// Who paired.
    Pairings(Vec<Pairing>),
    /// What a command has to know.
    Desk(Box<Desk>),
    /// Sums, in the order they were asked for.
    Spent(Vec<Spent>),
}
