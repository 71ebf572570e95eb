//! What a channel keeps besides inbox and outbox: drafts, parts already sent, messages whose
//! attachments are still on their way.

use jiff::Timestamp;

use crate::channel::Incoming;
use crate::ids::{ChannelId, OutboxId, TurnId};

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
}

/// The answer to a [`ChannelRead`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChannelFound {
    /// A draft.
    Draft(Option<DraftRow>),
    /// The spool.
    Spool(Vec<SpoolRow>),
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
