//! The results collector of one batch: `batch/<n>` below its turn.
//!
//! It knows its slots before anything starts, runs one `tool/<call>` sibling a runnable slot, and fills
//! each slot exactly once: from the report, or from the child's exit (I4). A `Once` call begins only
//! after its `call_started` is durable (I5); a result is announced only after its `call_finished` is. It
//! ends when every slot is filled and the turn has its report.

mod ends;
mod facts;

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use rookery_messages::address::Reserved;
use rookery_messages::exit::{ActorError, ExitReason, StopReason};
use rookery_messages::ids::{ActorId, ConversationId, TurnId};
use rookery_messages::journal::JournalKind;
use rookery_messages::observe::Observation;
use rookery_messages::store::StoreError;
use rookery_messages::tool::{
    BatchMsg, BatchReport, Effects, PlannedCall, RunnableCall, SlotOutcome, SlotPlan, text,
};
use rookery_messages::turn::{CallRecord, CallState, Fence, TurnMsg};
use serde_json::{Value, json};

use self::ends::Ends;
use self::facts::BatchFacts;
use super::actor::{ToolActor, ToolArgs};
use super::receipts::ReceiptIssuer;
use crate::observe::TurnVoice;
use crate::policy::arguments::canonical_arguments;
use crate::policy::rate::{RatePermit, SenderRates};
use crate::policy::redact::Redactor;
use crate::runtime::{ChildExit, Ctx, SpawnSpec, Supervised};
use crate::store::{StoreClient, commit_patiently};
use crate::turn::delegate::{DELEGATE, DelegateActor, DelegateArgs, Delegator};

/// See the module's documentation.
pub struct BatchActor;

/// What it is built from.
pub struct BatchArgs {
    /// Which batch of the turn.
    pub batch: u32,
    /// The first journal number it may use: two a slot.
    pub first_seq: u64,
    /// The turn.
    pub turn: TurnId,
    /// Its conversation.
    pub conversation_id: ConversationId,
    /// Its fence.
    pub fence: Fence,
    /// All calls of the response, in order.
    pub slots: Vec<PlannedCall>,
    /// Runnable calls run at once, or one after the other (T14).
    pub parallel: bool,
    /// What runs calls that wait for a child turn; none: there is no turn that could wait.
    pub delegator: Option<Arc<Delegator>>,
    /// Longest result that enters the history.
    pub max_result_chars: usize,
    /// The store.
    pub store: StoreClient,
    /// The turn's voice.
    pub voice: TurnVoice,
    /// Cleans what is shown.
    pub redactor: Arc<Redactor>,
    /// Gives receipts to what succeeds, if the agent has them.
    pub receipts: Option<ReceiptIssuer>,
    /// The budgets of the turn's sender.
    pub rates: SenderRates,
    /// The place of its one report.
    pub report: Reserved<TurnMsg>,
}

/// What it knows.
pub struct Batch {
    args: BatchFacts,
    slots: Vec<Slot>,
    by_child: HashMap<ActorId, usize>,
    ends: Ends,
    /// So many slots from the first on are filled.
    filled: usize,
    report: Option<Reserved<TurnMsg>>,
}

struct Slot {
    call: rookery_messages::chat::ToolCall,
    tool: String,
    stage: Stage,
    started_at: Option<Timestamp>,
    /// Its place in the sender's budget, while it runs.
    permit: Option<RatePermit>,
    /// The canonical arguments it ran with, if its result may get a receipt.
    executed: Option<String>,
    /// Its end was announced by a former attempt.
    told: bool,
    /// Its `call_started` is durable. Two commits on their way may overtake each other, and no end may
    /// be written before its begin (I4).
    begun: bool,
    /// Its tool was started in this attempt.
    ran: bool,
}

enum Stage {
    /// It may run, and has not begun.
    Ready(Box<RunnableCall>),
    /// Its `call_started` is on the way to the store; it begins with the answer.
    Starting(Box<RunnableCall>),
    Running,
    /// Its `call_finished` is on the way to the store, or waits for its `call_started` to be there.
    Finishing(SlotOutcome),
    SameAs(usize),
    Done(SlotOutcome),
}

impl Supervised for BatchActor {
    const KIND: &'static str = "batch";
    type Msg = BatchMsg;
    type Args = BatchArgs;
    type State = Batch;

    fn start(ctx: &mut Ctx<Self>, args: BatchArgs) -> Result<Batch, ActorError> {
        let slots = args
            .slots
            .into_iter()
            .map(|planned| Slot {
                call: planned.call,
                tool: planned.tool,
                started_at: None,
                permit: None,
                executed: None,
                told: matches!(planned.plan, SlotPlan::Kept(_)),
                begun: false,
                ran: false,
                stage: match planned.plan {
                    SlotPlan::Filled(outcome) | SlotPlan::Kept(outcome) => Stage::Done(outcome),
                    SlotPlan::SameAs(other) => Stage::SameAs(other),
                    SlotPlan::Run(call) => Stage::Ready(call),
                },
            })
            .collect();
        let facts = BatchFacts {
            batch: args.batch,
            next_seq: args.first_seq,
            turn: args.turn,
            conversation_id: args.conversation_id,
            fence: args.fence,
            parallel: args.parallel,
            delegator: args.delegator,
            max_result_chars: args.max_result_chars,
            store: args.store,
            voice: args.voice,
            redactor: args.redactor,
            receipts: args.receipts,
            rates: args.rates,
        };
        ctx.note_to_self(BatchMsg::Begin);
        Ok(Batch {
            args: facts,
            slots,
            by_child: HashMap::new(),
            ends: Ends::default(),
            filled: 0,
            report: Some(args.report),
        })
    }

    async fn handle(
        ctx: &mut Ctx<Self>,
        state: &mut Batch,
        message: BatchMsg,
    ) -> Result<(), ActorError> {
        match message {
            BatchMsg::Begin => {
                state.show_filled(ctx);
                state.start_more(ctx).await?;
            }
            BatchMsg::ToolEnded { slot, outcome } => state.tool_ended(ctx, slot, outcome),
            BatchMsg::StartCommitted { slots, result } => {
                state.start_committed(ctx, slots, result).await?;
            }
            BatchMsg::FinishCommitted { slots, result } => {
                result.map_err(|error| store_broke(&error))?;
                state.ends_committed(ctx, slots);
                state.start_more(ctx).await?;
            }
        }
        state.report_if_done(ctx);
        Ok(())
    }

    async fn child_exited(
        ctx: &mut Ctx<Self>,
        state: &mut Batch,
        exit: ChildExit,
    ) -> Result<(), ActorError> {
        // Its report, if it sent one, was handled before this.
        if let Some(slot) = state.by_child.remove(&exit.id)
            && matches!(state.slots[slot].stage, Stage::Running)
        {
            let outcome = if ctx.stopping().is_some() {
                SlotOutcome::unrun(CallState::Interrupted, text::INTERRUPTED_RUNNING)
            } else {
                let why =
                    if exit.reason == ExitReason::Killed { text::KILLED } else { text::CRASHED };
                SlotOutcome::unrun(CallState::Failed, format!("error: {why}"))
            };
            state.tool_ended(ctx, slot, outcome);
        }
        state.report_if_done(ctx);
        Ok(())
    }

    async fn stop_requested(
        ctx: &mut Ctx<Self>,
        state: &mut Batch,
        reason: &StopReason,
    ) -> Result<(), ActorError> {
        for slot in &mut state.slots {
            if !reason.may_write()
                && let Stage::Finishing(outcome) = &slot.stage
            {
                // Its commit has no answer to wait for, and nobody is told what may not be durable.
                slot.stage = Stage::Done(outcome.clone());
            }
            if matches!(slot.stage, Stage::Ready(_) | Stage::Starting(_)) {
                slot.permit = None;
                slot.stage = Stage::Done(SlotOutcome::unrun(
                    CallState::Interrupted,
                    text::INTERRUPTED_NOT_STARTED,
                ));
            }
        }
        ctx.stop_children(reason);
        state.report_if_done(ctx);
        Ok(())
    }

    fn observe(state: &Batch) -> Value {
        let slots: Vec<Value> = state
            .slots
            .iter()
            .map(|slot| json!({ "call": slot.call.id, "tool": slot.tool, "stage": slot.stage.name() }))
            .collect();
        json!({ "batch": state.args.batch, "parallel": state.args.parallel, "slots": slots })
    }
}

impl Stage {
    fn name(&self) -> &'static str {
        match self {
            Self::Ready(_) => "ready",
            Self::Starting(_) => "starting",
            Self::Running => "running",
            Self::Finishing(_) => "finishing",
            Self::SameAs(_) => "same",
            Self::Done(outcome) => outcome.state.as_str(),
        }
    }
}

impl Batch {
    /// Calls that have their end without a run get their pair of events too, but not those that were
    /// never opened (V-I14), nor those of which a former attempt told (V-N6).
    fn show_filled(&mut self, ctx: &mut Ctx<BatchActor>) {
        for index in 0..self.slots.len() {
            let slot = &self.slots[index];
            let Stage::Done(outcome) = &slot.stage else { continue };
            if slot.told || outcome.state == CallState::Interrupted {
                continue;
            }
            self.args.open(slot);
            if outcome.state == CallState::Unknown {
                // It began in a former life: its end is written and observed like any other's.
                let outcome = outcome.clone();
                self.slots[index].begun = true;
                self.slots[index].stage = Stage::Running;
                self.tool_ended(ctx, index, outcome);
            } else {
                self.args.close(slot, outcome);
            }
        }
    }

    /// Starts all that may start now: everything, or the next one if nothing is under way.
    async fn start_more(&mut self, ctx: &mut Ctx<BatchActor>) -> Result<(), ActorError> {
        if ctx.stopping().is_some() {
            return Ok(());
        }
        let busy = self.slots.iter().any(|slot| {
            matches!(slot.stage, Stage::Starting(_) | Stage::Running | Stage::Finishing(_))
        });
        if busy && !self.args.parallel {
            return Ok(());
        }
        let ready = self.admitted();
        if ready.is_empty() {
            return Ok(());
        }
        let now = ctx.world().now();
        let mut commit = self.args.commit(now);
        for &slot in &ready {
            self.slots[slot].started_at = Some(now);
            let started = JournalKind::CallStarted { call: self.slots[slot].call.id };
            commit.entries.push(self.args.entry(started));
            commit.calls.push(self.slots[slot].record(CallState::Running, None));
        }
        let mut now_running = Vec::new();
        for &slot in &ready {
            let stage = std::mem::replace(&mut self.slots[slot].stage, Stage::Running);
            match stage {
                // I5: what must not be repeated waits until its start is durable.
                Stage::Ready(call) if call.effects == Effects::Once => {
                    self.slots[slot].stage = Stage::Starting(call);
                }
                Stage::Ready(call) => now_running.push((slot, call)),
                other => self.slots[slot].stage = other,
            }
        }
        let store = self.args.store.clone();
        ctx.task(async move {
            let result = commit_patiently(&store, commit).await.map(|_| ());
            Some(BatchMsg::StartCommitted { slots: ready, result })
        });
        for (slot, call) in now_running {
            self.run(ctx, slot, call).await?;
        }
        Ok(())
    }

    /// The slots that may start now, each with its place in the sender's budget. One that finds no place is
    /// blocked (V-M24).
    fn admitted(&mut self) -> Vec<usize> {
        let mut ready = Vec::new();
        for index in 0..self.slots.len() {
            let slot = &mut self.slots[index];
            if !matches!(slot.stage, Stage::Ready(_)) {
                continue;
            }
            match self.args.rates.take(&slot.tool) {
                Ok(permit) => {
                    slot.permit = permit;
                    ready.push(index);
                }
                Err(why) => {
                    let output = format!("{}{why}", text::BLOCKED_PREFIX);
                    let outcome = SlotOutcome::unrun(CallState::Blocked, output);
                    slot.stage = Stage::Done(outcome.clone());
                    let slot = &self.slots[index];
                    self.args.open(slot);
                    self.args.close(slot, &outcome);
                    let (tool, decision) = (slot.tool.clone(), "blocked");
                    self.args.voice.observe(|scope| Observation::Gate { scope, tool, decision });
                }
            }
            if !self.args.parallel && !ready.is_empty() {
                break;
            }
        }
        ready
    }

    async fn start_committed(
        &mut self,
        ctx: &mut Ctx<BatchActor>,
        slots: Vec<usize>,
        result: Result<(), StoreError>,
    ) -> Result<(), ActorError> {
        result.map_err(|error| store_broke(&error))?;
        for slot in slots {
            self.slots[slot].begun = true;
            self.write_end(ctx, slot);
            if matches!(self.slots[slot].stage, Stage::Starting(_))
                && let Stage::Starting(call) =
                    std::mem::replace(&mut self.slots[slot].stage, Stage::Running)
            {
                self.run(ctx, slot, call).await?;
            }
        }
        Ok(())
    }

    async fn run(
        &mut self,
        ctx: &mut Ctx<BatchActor>,
        slot: usize,
        call: Box<RunnableCall>,
    ) -> Result<(), ActorError> {
        let Some(report) = ctx.address().reserve() else {
            return Err(ActorError::transient("no place is left for a tool's report"));
        };
        // Right before execution (T13).
        self.args.open(&self.slots[slot]);
        self.args.voice.observe(|scope| Observation::ToolCallStart {
            scope,
            call: self.slots[slot].call.id,
            provider_id: self.slots[slot].call.provider_id.clone(),
            tool: self.slots[slot].tool.clone(),
            arguments: self.args.shown_arguments(&self.slots[slot]),
        });
        if self.args.receipts.is_some() {
            self.slots[slot].executed = Some(canonical_arguments(&call.arguments));
        }
        let grace = call.context.grace;
        let segment = format!("tool/{}", self.slots[slot].call.id);
        let name = self.slots[slot].tool.clone();
        let spec = SpawnSpec::new(segment).mailbox(4).grace(grace * 2);
        let delegator = self.args.delegator.as_ref().filter(|_| name == DELEGATE);
        let started = match delegator.map(Arc::clone) {
            Some(delegator) => {
                let args = DelegateArgs { slot, call, delegator, report };
                ctx.spawn::<DelegateActor>(spec, args).await.map(|child| child.handle.id)
            }
            None => {
                let args = ToolArgs { slot, name, call, report };
                ctx.spawn::<ToolActor>(spec, args).await.map(|child| child.handle.id)
            }
        };
        match started {
            Ok(child) => {
                self.slots[slot].ran = true;
                self.by_child.insert(child, slot);
            }
            Err(error) => {
                let outcome = SlotOutcome::unrun(CallState::Failed, format!("error: {error}"));
                self.tool_ended(ctx, slot, outcome);
            }
        }
        Ok(())
    }

    fn report_if_done(&mut self, ctx: &mut Ctx<BatchActor>) {
        let is_filled = |slot: &Slot| matches!(slot.stage, Stage::Done(_) | Stage::SameAs(_));
        self.filled += self.slots[self.filled..].iter().take_while(|slot| is_filled(slot)).count();
        if self.filled < self.slots.len() {
            return;
        }
        let Some(report) = self.report.take() else { return };
        let outcomes = (0..self.slots.len()).map(|slot| self.outcome(slot)).collect();
        let ran = (0..self.slots.len()).filter(|&slot| self.slots[slot].ran).collect();
        // An error means that the turn has ended; its journal has all that finished.
        let report =
            report.send(TurnMsg::BatchEnded(BatchReport { batch: self.args.batch, outcomes, ran }));
        let _ = report;
        ctx.end();
    }

    fn outcome(&self, slot: usize) -> SlotOutcome {
        match &self.slots[slot].stage {
            Stage::Done(outcome) => outcome.clone(),
            Stage::SameAs(other) => match &self.slots[*other].stage {
                Stage::Done(twin) if twin.state != CallState::Interrupted => {
                    let outcome = SlotOutcome::unrun(
                        CallState::Duplicate,
                        format!("{}{}", text::DUPLICATE_PREFIX, twin.output),
                    );
                    self.args.open(&self.slots[slot]);
                    self.args.close(&self.slots[slot], &outcome);
                    outcome
                }
                _ => SlotOutcome::unrun(CallState::Interrupted, text::INTERRUPTED_NOT_STARTED),
            },
            _ => SlotOutcome::unrun(CallState::Interrupted, text::INTERRUPTED_NOT_STARTED),
        }
    }
}

impl Slot {
    fn record(&self, state: CallState, ended_at: Option<Timestamp>) -> CallRecord {
        CallRecord {
            id: self.call.id,
            tool: self.tool.clone(),
            state,
            started_at: self.started_at,
            ended_at,
        }
    }
}

fn store_broke(error: &StoreError) -> ActorError {
    ActorError::transient(format!("a call's record could not be written: {error}"))
}
