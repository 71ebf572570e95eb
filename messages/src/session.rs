//! Conversations: the router's and the sessions' messages. Messages are hints; the inbox is the queue.

use crate::address::Message;
use crate::ids::{ApprovalId, ConversationId, TurnId};
use crate::store::{ClaimOutcome, StoreError};

/// What the router takes.
#[derive(Debug)]
pub enum RouterMsg {
    /// A row was accepted for this conversation.
    Hint {
        /// The conversation.
        conversation: ConversationId,
        /// The channel's policy is `interrupt`: a running turn gives way.
        interrupt: bool,
    },
    /// Look for rows that no session owns.
    Sweep,
    /// The sweep's answer.
    Swept(Result<Vec<ConversationId>, StoreError>),
    /// A session has nothing to do.
    Idle {
        /// Its conversation.
        conversation: ConversationId,
    },
    /// The recheck after unmapping: whether there is an open row after all.
    IdleChecked {
        /// The conversation.
        conversation: ConversationId,
        /// Whether there is work.
        open: Result<bool, StoreError>,
    },
    /// A decision is in the store.
    ApprovalHint {
        /// The conversation.
        conversation: ConversationId,
        /// The turn that asked.
        turn: TurnId,
        /// The request.
        approval: ApprovalId,
    },
    /// Words for a running turn.
    Steer {
        /// The conversation.
        conversation: ConversationId,
        /// The text.
        text: String,
    },
    /// A turn that has begun is marked as cancelled in the store, and its actor was not found.
    Cancel {
        /// The conversation.
        conversation: ConversationId,
        /// The turn.
        turn: TurnId,
    },
}

impl Message for RouterMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Hint { .. } => "Hint",
            Self::Sweep => "Sweep",
            Self::Swept(_) => "Swept",
            Self::Idle { .. } => "Idle",
            Self::IdleChecked { .. } => "IdleChecked",
            Self::ApprovalHint { .. } => "ApprovalHint",
            Self::Steer { .. } => "Steer",
            Self::Cancel { .. } => "Cancel",
        }
    }
}

/// What a session takes.
#[derive(Debug)]
pub enum SessionMsg {
    /// There may be a row.
    Hint {
        /// A running turn gives way to it.
        interrupt: bool,
    },
    /// The claim's answer.
    Claimed(Result<ClaimOutcome, StoreError>),
    /// A decision is in the store.
    ApprovalHint {
        /// The turn that asked.
        turn: TurnId,
        /// The request.
        approval: ApprovalId,
    },
    /// Words for the running turn.
    Steer(String),
    /// A turn is marked as cancelled: the one that runs, or the one whose claim is under way.
    Cancel(TurnId),
    /// Time to look again after a failed claim.
    Retry,
    /// Nothing happened for the idle time.
    IdleTimeout {
        /// The timer's number; an older one is void.
        timer: u64,
    },
}

impl Message for SessionMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Hint { .. } => "Hint",
            Self::Claimed(_) => "Claimed",
            Self::ApprovalHint { .. } => "ApprovalHint",
            Self::Steer(_) => "Steer",
            Self::Cancel(_) => "Cancel",
            Self::Retry => "Retry",
            Self::IdleTimeout { .. } => "IdleTimeout",
        }
    }
}
