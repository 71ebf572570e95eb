//! What a channel keeps besides inbox and outbox: drafts, parts already sent, messages whose
//! attachments are still on their way.

use jiff::Timestamp;

use super::{AuditRow, NewOutbox, OutboxStatus};
use crate::channel::Incoming;
use crate::ids::{ApprovalId, ChannelId, EnvelopeId, OutboxId, TurnId};

/// A request of a channel to the writer.
#[derive(Clone, Debug)]
pub enum ChannelWrite {
    /// Parts of an outbox row that the platform has, by its ids: they are not sent again.
    Progress {
        /// The row.
        id: OutboxId,
        /// All parts so far.
        sent: Vec<String>,
    },
    /// What people see of a turn's answer so far. Goes with the answer.
    Draft(DraftRow),
    /// Keep a message until its attachments are there. One that is known stays as it is.
    Spool(Box<SpoolRow>),
    /// Something to send that belongs to no turn's step, under an id that makes it one thing however often
    /// it is asked for. The same id for something else is a conflict.
    Post {
        /// What, and where to.
        message: Box<NewOutbox>,
        /// For the audit, if it is new.
        audit: Option<Box<AuditRow>>,
        /// Now.
        at: Timestamp,
    },
    /// Messages of the spool are accepted, or given up. Known for a week, so that they are not taken again.
    Unspool {
        /// The channel.
        channel: ChannelId,
        /// The platform's ids.
        external_ids: Vec<String>,
        /// Now.
        at: Timestamp,
    },
}

/// A question of a channel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChannelRead {
    /// A turn's draft.
    Draft(TurnId),
    /// The channel's spool, oldest first.
    Spool(ChannelId),
    /// An outbox row.
    Outbox(OutboxId),
    /// The platform's id of the message that a request stands in.
    Prompt {
        /// The channel.
        channel: ChannelId,
        /// The turn that asks.
        turn: TurnId,
        /// The request.
        approval: ApprovalId,
    },
    /// Requests nobody has decided that were posted in chats of a channel.
    Prompts(ChannelId),
    /// How many of the newest messages of a conversation are of bots, one after the other.
    Bots {
        /// The channel.
        channel: ChannelId,
        /// The platform's id of the conversation.
        conversation: String,
        /// The platform's id of the message that comes now.
        external_id: String,
        /// So many are looked at.
        limit: u32,
    },
}

/// The answer to a [`ChannelRead`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChannelFound {
    /// A draft.
    Draft(Option<DraftRow>),
    /// The spool.
    Spool(Vec<SpoolRow>),
    /// An outbox row.
    Outbox(Option<OutboxStatus>),
    /// The platform's id of a message.
    Prompt(Option<String>),
    /// Prompts.
    Prompts(Vec<PromptRow>),
    /// A chain of bots.
    Bots(BotChain),
}

/// Where a request stands in a chat.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PromptRow {
    /// The request.
    pub approval: ApprovalId,
    /// The platform's id of the conversation.
    pub conversation: String,
    /// The platform's id of the message.
    pub message: String,
}

/// The newest messages of a conversation, as far as bots wrote them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BotChain {
    /// How many, without a person's word between; at most what was looked at.
    pub length: u32,
    /// The newest of them.
    pub last: Option<EnvelopeId>,
    /// The message that comes now was taken in before.
    pub known: bool,
}

/// What people see of a turn's answer while it is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DraftRow {
    /// The turn.
    pub turn: TurnId,
    /// The platform's id of the message that is changed in place.
    pub message: Option<String>,
    /// The text of the answer that was sent for good, paragraph by paragraph.
    pub shown: String,
}

/// A message that waits for its attachments, or for one that does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpoolRow {
    /// The channel.
    pub channel: ChannelId,
    /// The message.
    pub incoming: Incoming,
    /// When it came.
    pub at: Timestamp,
}
