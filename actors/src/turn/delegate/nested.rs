//! Turns that no session runs: how a hint finds them.

use std::collections::HashMap;

use parking_lot::Mutex;
use rookery_messages::address::Address;
use rookery_messages::ids::{ApprovalId, ConversationId};
use rookery_messages::turn::TurnMsg;

/// The delegates that run now, by conversation.
#[derive(Default)]
pub struct Nested(Mutex<HashMap<ConversationId, Address<TurnMsg>>>);

impl Nested {
    /// A delegate runs.
    pub(super) fn insert(&self, conversation: ConversationId, turn: Address<TurnMsg>) {
        self.0.lock().insert(conversation, turn);
    }

    /// It has ended.
    pub(super) fn remove(&self, conversation: ConversationId) {
        self.0.lock().remove(&conversation);
    }

    /// A decision is in the store. A lost hint costs time only: the approval's actor looks by itself.
    pub fn hint(&self, conversation: ConversationId, approval: ApprovalId) {
        if let Some(turn) = self.0.lock().get(&conversation) {
            let _ = turn.try_send(TurnMsg::ApprovalHint(approval));
        }
    }
}
