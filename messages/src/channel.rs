//! Channels: the contract of an adapter, and the messages of a channel's actors.

mod adapter;

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::address::Message;
use crate::envelope::{Inbound, ReplyAddress};
use crate::ids::{ConversationId, OutboxId, TurnId};
use crate::store::{AcceptOutcome, OutboxRow, SendResult, StoreError};

pub use adapter::{
    AttachmentRef, Button, Capabilities, ChannelAdapter, ChannelEvent, DownloadFault, Incoming,
    Markup, Outgoing, Press, ReceiveFault, Received, SendAttempt, SendBudget, Streaming, Unit,
};

/// What happens to a message that arrives while the conversation's turn runs.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum QueuePolicy {
    /// It waits for its turn.
    #[default]
    Queue,
    /// The running turn takes it in before its next model call, if it is from the same sender.
    Steer,
    /// The running turn gives way to it.
    Interrupt,
    /// It waits a little for others of its sender, and is answered together with them.
    Coalesce,
}

/// Why an intake did not take a message. Nothing was accepted, unless the store's answer got lost.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum IntakeError {
    /// An operator paused the channel.
    #[error("the channel is paused by an operator; send the message again later")]
    Paused,
    /// The service ends.
    #[error("the service is ending and takes nothing new; send the message again when it is back")]
    Draining,
    /// The store did not take it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a channel's intake takes.
#[derive(Debug)]
pub enum IntakeMsg {
    /// A decoded message, allowed by the channel's list. Answered once it is durable.
    Receive {
        /// The message.
        inbound: Box<Inbound>,
        /// It is meant for the turn that runs, whatever the channel's policy.
        steer: bool,
        /// Where the answer goes.
        reply: oneshot::Sender<Result<AcceptOutcome, IntakeError>>,
    },
    /// A message was accepted, its sender and its session are told: count it.
    Accepted {
        /// What the store says.
        outcome: Box<AcceptOutcome>,
    },
}

impl Message for IntakeMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Receive { .. } => "Receive",
            Self::Accepted { .. } => "Accepted",
        }
    }
}

/// A turn that runs, as its channel's sender sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LiveTurn {
    /// The turn.
    pub turn: TurnId,
    /// Our id of its conversation.
    pub conversation_id: ConversationId,
    /// Where its answer goes.
    pub address: ReplyAddress,
    /// The seq of its conversation's next event when it began.
    pub next_seq: u64,
}

/// What a channel's sender takes.
#[derive(Debug)]
pub enum SenderMsg {
    /// There may be rows to send.
    Due,
    /// A turn begins whose answer goes by this channel: its people may see it being written.
    TurnBegan(Box<LiveTurn>),
    /// Rows from the outbox.
    Claimed(Result<Vec<OutboxRow>, StoreError>),
    /// One row was tried.
    Tried {
        /// The row.
        row: Box<OutboxRow>,
        /// How it went.
        attempt: SendAttempt,
    },
    /// The result is in the store, or could not be written.
    Marked {
        /// The row.
        id: OutboxId,
        /// What was written.
        result: Result<SendResult, StoreError>,
    },
    /// Rows that a former incarnation left sending are given back.
    Released(Result<(), StoreError>),
    /// When the next row is due.
    NextDue(Result<Option<jiff::Timestamp>, StoreError>),
    /// Time to look again.
    Timer {
        /// The timer's number; an older one is void.
        timer: u64,
    },
}

impl Message for SenderMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Due => "Due",
            Self::TurnBegan(_) => "TurnBegan",
            Self::Claimed(_) => "Claimed",
            Self::Tried { .. } => "Tried",
            Self::Marked { .. } => "Marked",
            Self::Released(_) => "Released",
            Self::NextDue(_) => "NextDue",
            Self::Timer { .. } => "Timer",
        }
    }
}
