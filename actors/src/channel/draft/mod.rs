//! Drafts: what a chat shows while an answer is written.
//!
//! [`Drafts`] is what sender and drafts share: for each turn the message that is changed in place. The
//! final takes it over by [`Drafts::settle`], which waits for an edit on its way: what is late never
//! overwrites what is final.

mod actor;
mod run;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rookery_messages::ids::TurnId;
use tokio::sync::Mutex as AsyncMutex;

pub use actor::{DraftActor, DraftArgs, DraftMsg};

/// What people have seen of a turn's answer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Seen {
    /// Nothing more may be shown: the final has it, or the platform does not want it.
    pub closed: bool,
    /// The message that is changed in place.
    pub message: Option<String>,
    /// What was sent for good, paragraph by paragraph, of the text in work.
    pub shown: String,
}

/// One turn's place. Held while something is sent.
pub type Slot = Arc<AsyncMutex<Seen>>;

/// The turns of a channel that are shown while they run.
#[derive(Default)]
pub struct Drafts {
    slots: Mutex<HashMap<TurnId, Slot>>,
}

impl Drafts {
    /// A turn's place, made if there is none.
    pub fn open(&self, turn: TurnId) -> Slot {
        Arc::clone(self.slots.lock().entry(turn).or_default())
    }

    /// Closes a turn's place, once nothing is on its way; says what was seen. None: there is none.
    pub async fn settle(&self, turn: TurnId) -> Option<Seen> {
        let slot = self.slots.lock().get(&turn).map(Arc::clone)?;
        let mut seen = slot.lock().await;
        seen.closed = true;
        Some(seen.clone())
    }

    /// The turn's answer has arrived, or never will.
    pub fn forget(&self, turn: TurnId) {
        self.slots.lock().remove(&turn);
    }

    /// How many turns have a place.
    pub fn len(&self) -> usize {
        self.slots.lock().len()
    }

    /// Whether none has.
    pub fn is_empty(&self) -> bool {
        self.slots.lock().is_empty()
    }
}

/// Which request each prompt message in a chat stands for, so that a reply to it can answer.
#[derive(Default)]
pub struct Prompts {
    open: Mutex<HashMap<(String, String), rookery_messages::ids::ApprovalId>>,
}

impl Prompts {
    /// A prompt stands in a conversation, as this message.
    pub fn add(&self, conversation: &str, message: &str, id: rookery_messages::ids::ApprovalId) {
        self.open.lock().insert((conversation.to_owned(), message.to_owned()), id);
    }

    /// It stands there no more.
    pub fn remove(&self, conversation: &str, message: &str) {
        self.open.lock().remove(&(conversation.to_owned(), message.to_owned()));
    }

    /// What a message asks for, if it is a prompt.
    pub fn find(
        &self,
        conversation: &str,
        message: &str,
    ) -> Option<rookery_messages::ids::ApprovalId> {
        self.open.lock().get(&(conversation.to_owned(), message.to_owned())).copied()
    }
}
