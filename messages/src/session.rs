//! Conversations: the router's and the sessions' messages. Messages are hints; the inbox is the queue.

use std::time::Duration;

use crate::address::Message;
use crate::envelope::Inbound;
use crate::ids::{ApprovalId, ConversationId, TurnId};
use crate::store::{ClaimOutcome, StoreError};
use crate::turn::TurnClaim;

/// How an accepted message meets a turn that runs. Its row waits in the inbox whatever becomes of this.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Arrival {
    /// It waits for its turn.
    #[default]
    Waits,
    /// Nothing else of its conversation was open: its turn is claimed already.
    Claimed(Box<TurnClaim>),
    /// The running turn gives way to this one.
    Interrupts(TurnId),
    /// The running turn may take it in.
    Steers(Box<Steering>),
    /// It waits a little for others, and goes together with them.
    Gathers {
        /// So long without another one.
        quiet: Duration,
        /// So long in all.
        most: Duration,
    },
}

impl Arrival {
    /// The claim it carries, for whoever can't pass it on.
    pub fn into_claim(self) -> Option<Box<TurnClaim>> {
        if let Self::Claimed(claim) = self { Some(claim) } else { None }
    }
}

/// A waiting row whose words a running turn may take in at its next step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Steering {
    /// The turn that answers it otherwise.
    pub turn: TurnId,
    /// What was received.
    pub inbound: Inbound,
}

/// What the router takes.
#[derive(Debug)]
pub enum RouterMsg {
    /// A row was accepted for this conversation.
    Hint {
        /// The conversation.
        conversation: ConversationId,
        /// How it meets a turn that runs.
        arrival: Arrival,
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
    /// A turn that has begun is marked as cancelled in the store, and its actor was not found.
    Cancel {
        /// The conversation.
        conversation: ConversationId,
        /// The turn.
        turn: TurnId,
    },
}

impl RouterMsg {
    /// There may be a row of this conversation.
    pub fn hint(conversation: ConversationId) -> Self {
        Self::Hint { conversation, arrival: Arrival::Waits }
    }

    /// The claim it carries, for whoever can't pass it on.
    pub fn into_claim(self) -> Option<Box<TurnClaim>> {
        if let Self::Hint { arrival, .. } = self { arrival.into_claim() } else { None }
    }
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
            Self::Cancel { .. } => "Cancel",
        }
    }
}

/// What a session takes.
#[derive(Debug)]
pub enum SessionMsg {
    /// There may be a row.
    Hint(Arrival),
    /// What was waited for has come, or will not.
    Gathered {
        /// The timer's number; an older one is void.
        timer: u64,
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
    /// A turn is marked as cancelled: the one that runs, or the one whose claim is under way.
    Cancel(TurnId),
    /// Time to look again after a failed claim.
    Retry,
    /// Others wait for a place: go to rest as soon as there is nothing to do.
    MakeRoom,
    /// Nothing happened for the idle time.
    IdleTimeout {
        /// The timer's number; an older one is void.
        timer: u64,
    },
}

impl SessionMsg {
    /// The claim it carries, for whoever can't pass it on.
    pub fn into_claim(self) -> Option<Box<TurnClaim>> {
        if let Self::Hint(arrival) = self { arrival.into_claim() } else { None }
    }
}

impl Message for SessionMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Hint(_) => "Hint",
            Self::Gathered { .. } => "Gathered",
            Self::Claimed(_) => "Claimed",
            Self::ApprovalHint { .. } => "ApprovalHint",
            Self::Cancel(_) => "Cancel",
            Self::Retry => "Retry",
            Self::MakeRoom => "MakeRoom",
            Self::IdleTimeout { .. } => "IdleTimeout",
        }
    }
}
