//! What all slots of a batch share: how their steps are written and told.

use std::sync::Arc;

use jiff::Timestamp;
use rookery_messages::event::TurnEventKind;
use rookery_messages::ids::{ConversationId, TurnId};
use rookery_messages::journal::{JournalEntry, JournalKind};
use rookery_messages::store::TurnCommit;
use rookery_messages::tool::SlotOutcome;
use rookery_messages::turn::Fence;
use serde_json::Value;

use super::Slot;
use crate::observe::TurnVoice;
use crate::policy::rate::SenderRates;
use crate::policy::redact::Redactor;
use crate::store::StoreClient;
use crate::tool::receipts::ReceiptIssuer;
use crate::tool::truncate::truncate_result;
use crate::turn::delegate::Delegator;

/// Longest result shown in events and observations, in characters.
const SHOWN_CHARS: usize = 4_000;

/// See the module's documentation.
pub(super) struct BatchFacts {
    pub(super) batch: u32,
    pub(super) next_seq: u64,
    pub(super) turn: TurnId,
    pub(super) conversation_id: ConversationId,
    pub(super) fence: Fence,
    pub(super) parallel: bool,
    pub(super) delegator: Option<Arc<Delegator>>,
    pub(super) max_result_chars: usize,
    pub(super) store: StoreClient,
    pub(super) voice: TurnVoice,
    pub(super) redactor: Arc<Redactor>,
    pub(super) receipts: Option<ReceiptIssuer>,
    pub(super) rates: SenderRates,
}

impl BatchFacts {
    pub(super) fn commit(&self, now: Timestamp) -> TurnCommit {
        TurnCommit::new(self.turn, self.conversation_id, self.fence, now)
    }

    pub(super) fn entry(&mut self, kind: JournalKind) -> JournalEntry {
        let seq = self.next_seq;
        self.next_seq += 1;
        JournalEntry { attempt: self.fence.attempt, seq, kind }
    }

    pub(super) fn open(&self, slot: &Slot) {
        self.voice.tell(TurnEventKind::ToolCall {
            call: slot.call.id,
            tool: slot.tool.clone(),
            arguments: self.shown_arguments(slot),
        });
    }

    pub(super) fn close(&self, slot: &Slot, outcome: &SlotOutcome) {
        self.voice.tell(TurnEventKind::ToolResult {
            call: slot.call.id,
            state: outcome.state,
            output: self.shown(outcome),
        });
    }

    /// A result for display. Its receipt is neither cut nor mistaken for a secret.
    pub(super) fn shown(&self, outcome: &SlotOutcome) -> String {
        let output = truncate_result(&self.redactor.clean(&outcome.output), SHOWN_CHARS);
        SlotOutcome { output, ..outcome.clone() }.with_receipt()
    }

    pub(super) fn shown_arguments(&self, slot: &Slot) -> Value {
        self.redactor.clean_value(&slot.call.arguments.to_value())
    }
}
