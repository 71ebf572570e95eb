//! The ends of a batch's calls: recorded, made durable, announced.

use std::collections::VecDeque;

use jiff::Timestamp;
use rookery_messages::exit::StopReason;
use rookery_messages::journal::JournalKind;
use rookery_messages::observe::Observation;
use rookery_messages::tool::{BatchMsg, SlotOutcome};
use rookery_messages::turn::CallState;

use super::{Batch, BatchActor, Stage};
use crate::runtime::Ctx;
use crate::store::commit_patiently;
use crate::tool::receipts::Executed;
use crate::tool::truncate::truncate_result;

/// Most ends of one commit: their texts are copied into it.
const MOST_ENDS: usize = 128;

/// Ends on their way to the store.
#[derive(Default)]
pub(super) struct Ends {
    /// Slots whose end is to be written, in the order they ended.
    waiting: VecDeque<usize>,
    /// A commit of others has no answer yet.
    in_flight: bool,
}

impl Batch {
    pub(super) fn tool_ended(
        &mut self,
        ctx: &mut Ctx<BatchActor>,
        slot: usize,
        outcome: SlotOutcome,
    ) {
        if !matches!(self.slots[slot].stage, Stage::Running) {
            return;
        }
        let permit = self.slots[slot].permit.take();
        if let Some(permit) = permit.filter(|_| outcome.state == CallState::Succeeded) {
            permit.used();
        }
        let outcome = self.recorded(slot, outcome, ctx.world().now());
        let cut = outcome.state == CallState::Interrupted;
        let leaves = |reason: &StopReason| (cut && !reason.ends_turn()) || !reason.may_write();
        if ctx.stopping().is_some_and(leaves) {
            // Nothing is written of it: a later life decides from `call_started` alone.
            self.slots[slot].stage = Stage::Done(outcome);
            return;
        }
        self.slots[slot].stage = Stage::Finishing(outcome);
        self.write_end(ctx, slot);
    }

    /// An end as it is recorded: cleaned of secrets, bounded, with its receipt if it succeeded (T17).
    fn recorded(&self, slot: usize, outcome: SlotOutcome, now: Timestamp) -> SlotOutcome {
        let full = self.args.redactor.scrub(&outcome.output);
        let output = truncate_result(&full, self.args.max_result_chars);
        let slot = &self.slots[slot];
        let receipt = match (&self.args.receipts, &slot.executed) {
            (Some(issuer), Some(arguments)) if outcome.state == CallState::Succeeded => {
                let tool = &slot.tool;
                let executed = Executed { call: slot.call.id, tool, arguments, kept: &output };
                issuer.issue(&executed, &full, now)
            }
            _ => None,
        };
        SlotOutcome { output, receipt, ..outcome }
    }

    /// Has a slot's end written, if it has one and its begin is durable. Called once for each of the two.
    pub(super) fn write_end(&mut self, ctx: &mut Ctx<BatchActor>, slot: usize) {
        if !matches!(self.slots[slot].stage, Stage::Finishing(_)) {
            return;
        }
        if self.slots[slot].begun {
            self.ends.waiting.push_back(slot);
            self.write_ends(ctx);
        }
    }

    /// One commit at a time: what ends while it is on its way goes with the next one.
    fn write_ends(&mut self, ctx: &mut Ctx<BatchActor>) {
        if self.ends.in_flight {
            return;
        }
        let now = ctx.world().now();
        let mut commit = self.args.commit(now);
        let mut slots = Vec::new();
        while slots.len() < MOST_ENDS
            && let Some(slot) = self.ends.waiting.pop_front()
        {
            // A stop after which nothing may be written has ended some of them.
            let Stage::Finishing(outcome) = &self.slots[slot].stage else { continue };
            let finished = JournalKind::CallFinished {
                call: self.slots[slot].call.id,
                state: outcome.state,
                output: outcome.output.clone(),
                receipt: outcome.receipt.clone(),
            };
            commit.calls.push(self.slots[slot].record(outcome.state, Some(now)));
            commit.entries.push(self.args.entry(finished));
            slots.push(slot);
        }
        if slots.is_empty() {
            return;
        }
        self.ends.in_flight = true;
        let store = self.args.store.clone();
        ctx.task(async move {
            let result = commit_patiently(&store, commit).await.map(|_| ());
            Some(BatchMsg::FinishCommitted { slots, result })
        });
    }

    /// These ends are durable.
    pub(super) fn ends_committed(&mut self, ctx: &mut Ctx<BatchActor>, slots: Vec<usize>) {
        self.ends.in_flight = false;
        for slot in slots {
            self.announce(slot);
        }
        self.write_ends(ctx);
    }

    /// The result is durable: clients and observers may know (T13, T18).
    fn announce(&mut self, slot: usize) {
        let Stage::Finishing(outcome) = &self.slots[slot].stage else { return };
        let outcome = outcome.clone();
        self.args.close(&self.slots[slot], &outcome);
        self.args.voice.observe(|scope| Observation::ToolCall {
            scope,
            call: self.slots[slot].call.id,
            provider_id: self.slots[slot].call.provider_id.clone(),
            tool: self.slots[slot].tool.clone(),
            arguments: self.args.shown_arguments(&self.slots[slot]),
            state: outcome.state,
            duration: std::time::Duration::from_millis(outcome.duration_ms),
            output: self.args.shown(&outcome),
        });
        self.slots[slot].stage = Stage::Done(outcome);
    }
}
