//! The store: a synchronous backend contract, its requests and answers, its typed errors.
//!
//! One writer applies batches of [`Write`]s, each batch one transaction with a savepoint per request,
//! so that one refusal doesn't fail the rest. Readers answer [`Read`]s beside it.

mod channel;
mod error;
mod read;
mod rows;
mod write;

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use tokio::sync::oneshot;

use crate::address::Message;

pub use channel::{
    BotChain, ChannelFound, ChannelRead, ChannelWrite, DraftRow, PromptRow, SpoolRow,
};
pub use error::StoreError;
pub use read::{Backlog, CallTrail, ConversationRow, Desk, Found, Ledger, Read};
pub use rows::{
    AuditRow, CrashRow, DeadLetter, NewOutbox, OutboxPayload, OutboxRow, OutboxStatus, SpendKey,
    SpendScope, Spent, StoredMessage,
};
pub use write::{
    Accept, AcceptOutcome, CancelOutcome, Claim, ClaimOutcome, ClaimTerms, CommandAct, CommitAck,
    DecideApproval, DecideOutcome, NewCommand, NewGrant, Prune, SendResult, TurnCommit, Write,
    Written,
};

/// The writing half of a backend: used by one thread.
pub trait Store: Send + 'static {
    /// Applies a batch in one transaction, a savepoint each, synced as the durability setting says.
    /// Gives exactly one answer a request, in order. If the transaction itself fails, every answer is that error.
    fn apply(&mut self, writes: &[Write]) -> Vec<Result<Written, StoreError>>;

    /// At start, holding the lock: bumps every epoch. What a former life left sending stays so until its
    /// channel's sender says what is to become of it ([`Write::ReleaseOutbox`]).
    fn begin_life(&mut self, at: Timestamp) -> Result<(), StoreError>;

    /// Now and then while nothing is written: whether what is held open is still the store. Cheap.
    fn check(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// After a failure, while nothing is written: tries a write that says nothing, so that it is known when the
    /// store can be written again.
    fn probe(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A reading half of a backend: several may be used beside the writer.
pub trait StoreReader: Send + 'static {
    /// Answers one question from a consistent snapshot.
    fn read(&mut self, read: &Read) -> Result<Found, StoreError>;
}

/// What the store's actor takes. Used through its typed client, not by hand.
pub enum StoreMsg {
    /// For the writer.
    Write {
        /// The request.
        write: Write,
        /// Where the answer goes.
        reply: oneshot::Sender<Result<Written, StoreError>>,
    },
    /// For a reader.
    Read {
        /// The question.
        read: Read,
        /// Where the answer goes.
        reply: oneshot::Sender<Result<Found, StoreError>>,
    },
    /// The writer's thread has ended.
    WriterEnded {
        /// Why.
        cause: String,
    },
}

impl fmt::Debug for StoreMsg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())
    }
}

impl Message for StoreMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Write { .. } => "Write",
            Self::Read { .. } => "Read",
            Self::WriterEnded { .. } => "WriterEnded",
        }
    }
}

/// Rows by table, for tests and `doctor`.
pub type RowCounts = BTreeMap<String, u64>;
