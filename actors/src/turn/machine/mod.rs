//! The turn as a pure state machine: `step(state, input) -> effects`.
//!
//! `Fresh → Calling → Judging → Asking → Running → Recording → (Calling | Finishing)`, and a stop from
//! each. The actor performs the effects; every commit has its own waiting input, so that nothing that
//! matters happens before it is durable: commit → committed → act.

mod circles;
mod finish;
mod pay;
mod reject;
mod round;
mod steer;
mod stop;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use rookery_messages::approval::Approval;
use rookery_messages::chat::{ChatMessage, Usage};
use rookery_messages::envelope::ReplyAddress;
use rookery_messages::event::TurnEventKind;
use rookery_messages::exit::StopReason;
use rookery_messages::ids::{ChannelId, ConversationId, MessageId, TurnId};
use rookery_messages::journal::{JournalEntry, JournalKind};
use rookery_messages::model::{FinishReason, ModelEnd, ModelReport, ModelResponse};
use rookery_messages::receipt::ReceiptRecord;
use rookery_messages::session::Steering;
use rookery_messages::settings::RuntimeProfile;
use rookery_messages::store::{CommitAck, Spent, StoreError, StoredMessage, TurnCommit};
use rookery_messages::time::World;
use rookery_messages::tool::{JudgedCall, SlotOutcome};
use rookery_messages::turn::{Fence, TurnError, TurnFinish};

use self::steer::Said;
use super::budget::{Prices, Purse};
use super::loops::{Found, Loops};

pub use round::{OpenCall, Round, RoundCall};
pub(crate) use round::{settle, unusable};

/// What the machine is told once.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The turn.
    pub turn: TurnId,
    /// Its conversation.
    pub conversation_id: ConversationId,
    /// Its fence.
    pub fence: Fence,
    /// Where the answer goes.
    pub reply_address: ReplyAddress,
    /// Whether ends are posted by the channel's sender: they get an outbox row.
    pub posts_replies: bool,
    /// How turns of this agent run.
    pub runtime: RuntimeProfile,
    /// The receipts are listed below the reply.
    pub show_receipts: bool,
    /// What may be spent.
    pub purse: Arc<Purse>,
    /// What tokens cost.
    pub prices: Prices,
    /// What former attempts cost, in millionths.
    pub cost_micros: u64,
}

/// What happened.
#[derive(Debug)]
pub enum Input {
    /// The actor is up.
    Begin,
    /// A model call ended.
    Model(ModelReport),
    /// The calls were judged, in order.
    Judged(Vec<JudgedCall>),
    /// An approval has its decision.
    Decided(Box<Approval>),
    /// The batch ended: one outcome a slot that ran, in order of the slots.
    Batch(Vec<SlotOutcome>),
    /// The store's answer.
    Committed {
        /// Which commit.
        seq: u64,
        /// Done, or why not.
        result: Result<CommitAck, StoreError>,
    },
    /// The person said something.
    Steer(Steering),
    /// A budget does not allow the model call in work; it has not begun.
    Unpaid(TurnError),
    /// The model call takes longer than it may.
    StepTimeout(u32),
    /// Somebody wants it stopped.
    Stop(StopReason),
}

/// What the actor is to do.
#[derive(Debug)]
pub enum Effect {
    /// Spawn a model call over [`Machine::history`].
    CallModel {
        /// Which call of the turn, from 1.
        iteration: u32,
        /// Whether tools are on offer.
        tools: bool,
    },
    /// Judge these calls and answer [`Input::Judged`].
    Judge {
        /// The calls.
        calls: Vec<OpenCall>,
        /// Why the response ended; a capped response's last call is not to be trusted (A036).
        finish: FinishReason,
    },
    /// Write this, then answer [`Input::Committed`] with `seq`.
    Commit {
        /// The commit's number.
        seq: u64,
        /// What to write.
        commit: Box<TurnCommit>,
        /// It failed before for a passing reason: wait a moment first.
        again: bool,
    },
    /// Spawn an approval actor each, and tell the clients.
    Ask(Vec<Approval>),
    /// Spawn the batch.
    Run(BatchPlan),
    /// Stop the model call; its report follows.
    StopModel(StopReason),
    /// Stop the batch; its report follows.
    StopBatch(StopReason),
    /// Approval actors are not needed any more.
    StopApprovals(StopReason),
    /// A budget ends the turn.
    OverBudget,
    /// Tell the clients.
    Tell(TurnEventKind),
    /// These waiting messages are part of this turn now: whoever sent them is told.
    Merged(Vec<TurnId>),
    /// The turn goes round in circles: tell clients and observer.
    Circling(Found),
    /// Rows wait for these senders.
    HintSenders(Vec<ChannelId>),
    /// The end is durable: announce it, then end the actor.
    Announce(Box<TurnFinish>),
    /// End the actor without a word; the record stays open for a later life.
    Leave,
    /// The store refused in a way that can't be repaired here.
    Broken(StoreError),
}

/// A batch to run.
#[derive(Clone, Debug)]
pub struct BatchPlan {
    /// Which batch of the turn: its model call's number.
    pub batch: u32,
    /// The first journal number it may use.
    pub first_seq: u64,
    /// All calls of the response, in order; those with an end are filled slots.
    pub calls: Vec<RoundCall>,
}

/// Where the machine stands.
#[derive(Debug)]
enum Phase {
    Fresh,
    Calling,
    Judging,
    Committing(Next),
    Asking,
    Running,
    Gone,
}

/// What follows a commit.
#[derive(Debug)]
enum Next {
    Ask,
    Run,
    Call,
    Announce(Box<TurnFinish>),
}

/// The machine.
#[derive(Debug)]
pub struct Machine {
    facts: Facts,
    phase: Phase,
    seq: u64,
    iteration: u32,
    usage: Usage,
    cost_micros: u64,
    history: Vec<ChatMessage>,
    round: Option<Round>,
    said: Said,
    /// The last words of the model were an answer, until more was said.
    said_final: bool,
    stop: Option<StopReason>,
    /// The commit in flight, kept to send the same again.
    in_flight: Option<(u64, Box<TurnCommit>)>,
    /// The model is asked for a closing answer without tools.
    summarising: bool,
    /// The model call in work was ended because it took too long.
    timed_out: bool,
    loops: Loops,
    /// Said once the commit in flight is durable.
    circling: Option<Found>,
    /// Tools and receipts of the rounds in the history.
    receipts: Vec<(String, ReceiptRecord)>,
}

impl Machine {
    /// A machine that goes on from what the journal says.
    pub fn new(facts: Facts, from: super::recover::Resume) -> Self {
        let loops = Loops::replay(facts.runtime.loop_detection.clone(), from.past);
        let usage = from.usage;
        facts.purse.set_own(Spent { tokens: usage.total(), micros: facts.cost_micros });
        Self {
            phase: Phase::Fresh,
            seq: 1,
            iteration: from.iteration,
            usage: from.usage,
            cost_micros: facts.cost_micros,
            history: from.history,
            round: from.round,
            said: Said::default(),
            said_final: false,
            stop: None,
            in_flight: None,
            summarising: false,
            loops,
            circling: None,
            receipts: from.receipts,
            facts,
            timed_out: false,
        }
    }

    /// The conversation, this turn's recorded rounds included.
    pub fn history(&self) -> &[ChatMessage] {
        &self.history
    }

    /// Tokens so far.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// The round in work.
    pub fn round(&self) -> Option<&Round> {
        self.round.as_ref()
    }

    /// Which model call is or was the last.
    pub fn iteration(&self) -> u32 {
        self.iteration
    }

    /// The state's name, for operators.
    pub fn phase_name(&self) -> &'static str {
        match &self.phase {
            Phase::Fresh => "preparing",
            Phase::Calling => "calling",
            Phase::Judging => "gating",
            Phase::Committing(_) => "committing",
            Phase::Asking => "waiting_approval",
            Phase::Running => "running",
            Phase::Gone => "ended",
        }
    }

    /// The tool that brought content from outside into what the model reads, if one did. The mark is in the
    /// history itself: it outlives a crash, and the turn.
    pub fn tainted(&self) -> Option<&str> {
        self.history.iter().find_map(|message| match message {
            ChatMessage::Tool { name, outside: true, .. } => Some(name.as_str()),
            _ => None,
        })
    }

    /// Whether it waits for decisions.
    pub fn is_asking(&self) -> bool {
        matches!(self.phase, Phase::Asking)
    }

    /// Takes one input. An input that does not fit the state changes nothing: it is late.
    pub fn step(&mut self, input: Input, world: &World) -> Vec<Effect> {
        match input {
            Input::Begin => self.begin(world),
            Input::Model(report) => self.model_ended(report, world),
            Input::Judged(calls) => self.judged(calls, world),
            Input::Decided(approval) => self.decided(&approval, world),
            Input::Batch(outcomes) => self.batch_ended(outcomes, world),
            Input::Committed { seq, result } => self.committed(seq, result, world),
            Input::Steer(steering) => self.steer(steering),
            Input::Unpaid(error) => self.unpaid(error, world),
            Input::StepTimeout(iteration) => self.step_timed_out(iteration),
            Input::Stop(reason) => self.stop(reason, world),
        }
    }

    fn begin(&mut self, world: &World) -> Vec<Effect> {
        if !matches!(self.phase, Phase::Fresh) {
            return Vec::new();
        }
        match &self.round {
            None => self.call_model(world),
            Some(round) => {
                let calls = round.open_calls();
                self.phase = Phase::Judging;
                vec![Effect::Judge { calls, finish: FinishReason::ToolCalls }]
            }
        }
    }

    fn call_model(&mut self, world: &World) -> Vec<Effect> {
        let cap = self.facts.runtime.max_tool_iterations;
        // Replies that could not be read have a limit of their own.
        let rounds = self.iteration.saturating_sub(self.rejections());
        if rounds >= cap && !self.summarising {
            return self.cap_reached(world);
        }
        if let Some(error) = self.facts.purse.exhausted() {
            return self.over_budget(error, world);
        }
        self.iteration += 1;
        self.said_final = false;
        self.phase = Phase::Calling;
        vec![Effect::CallModel { iteration: self.iteration, tools: !self.summarising }]
    }

    fn model_ended(&mut self, report: ModelReport, world: &World) -> Vec<Effect> {
        if !matches!(self.phase, Phase::Calling) || report.iteration != self.iteration {
            return Vec::new();
        }
        self.pay(report.spent, None);
        match report.end {
            ModelEnd::Completed(response) => self.response(response, world),
            ModelEnd::Rejected { why, partial, usage } => {
                self.rejected(&why, &partial, usage, world)
            }
            ModelEnd::Failed { error, partial } => self.model_failed(&error, &partial, world),
            ModelEnd::Cancelled { hook, reason } => self.hook_cancelled(&hook, &reason, world),
            ModelEnd::Stopped { partial, .. }
                if std::mem::take(&mut self.timed_out) && self.stop.is_none() =>
            {
                self.step_took_too_long(&partial, world)
            }
            ModelEnd::Stopped { reason, partial } => {
                let reason = self.stop.clone().unwrap_or(reason);
                self.stopped_while_calling(&reason, &partial, world)
            }
        }
    }

    fn response(&mut self, response: ModelResponse, world: &World) -> Vec<Effect> {
        self.pay(response.usage, Some(&response.served_by));
        if response.calls.is_empty() || self.summarising {
            return self.final_text(response, world);
        }
        let mut finish = response.finish.clone();
        let mut round = Round::new(self.iteration, response);
        self.refuse_circles(&mut round, world);
        if round.calls.last().is_some_and(|last| last.outcome.is_some()) {
            // The call that may be cut is not among those to be judged.
            finish = FinishReason::ToolCalls;
        }
        let calls = round.open_calls();
        self.round = Some(round);
        if let Some(reason) = self.stop.clone() {
            return self.stop_now(&reason, world);
        }
        self.phase = Phase::Judging;
        vec![Effect::Judge { calls, finish }]
    }

    fn committed(
        &mut self,
        seq: u64,
        result: Result<CommitAck, StoreError>,
        world: &World,
    ) -> Vec<Effect> {
        let Some((expected, commit)) = self.in_flight.take() else { return Vec::new() };
        if expected != seq {
            self.in_flight = Some((expected, commit));
            return Vec::new();
        }
        let ack = match result {
            Ok(ack) => ack,
            Err(error) => return self.commit_failed(seq, commit, error),
        };
        let mut effects: Vec<Effect> =
            self.circling.take().map(Effect::Circling).into_iter().collect();
        effects.extend(self.taken_in(&ack.unmerged));
        if !ack.outbox.is_empty() {
            let channels = ack.outbox.into_iter().map(|(_, channel)| channel).collect();
            effects.push(Effect::HintSenders(channels));
        }
        let Phase::Committing(next) = std::mem::replace(&mut self.phase, Phase::Gone) else {
            return effects;
        };
        effects.extend(match (next, self.stop.clone()) {
            // What is durable stands, even if a stop came meanwhile (V-I22).
            (Next::Announce(finish), _) => vec![Effect::Announce(finish)],
            (_, Some(reason)) => self.stop_now(&reason, world),
            (Next::Call, None) => self.go_on(world),
            (Next::Ask, None) => self.ask(),
            (Next::Run, None) => self.run(world),
        });
        effects
    }

    fn commit_failed(
        &mut self,
        seq: u64,
        commit: Box<TurnCommit>,
        error: StoreError,
    ) -> Vec<Effect> {
        if error.is_transient() {
            // Whether it was written may be unknown: the same key again, no other branch.
            self.in_flight = Some((seq, commit.clone()));
            return vec![Effect::Commit { seq, commit, again: true }];
        }
        self.phase = Phase::Gone;
        match error {
            // I3: somebody else owns the turn now.
            StoreError::Stale => vec![Effect::Leave],
            error => vec![Effect::Broken(error)],
        }
    }

    // ---- building commits ----

    fn blank(&self, world: &World) -> TurnCommit {
        TurnCommit::new(self.facts.turn, self.facts.conversation_id, self.facts.fence, world.now())
    }

    fn entry(&mut self, kind: JournalKind) -> JournalEntry {
        let seq = self.seq;
        self.seq += 1;
        JournalEntry { attempt: self.facts.fence.attempt, seq, kind }
    }

    fn stored(&self, message: ChatMessage, world: &World) -> StoredMessage {
        StoredMessage {
            id: MessageId(world.ids.next()),
            turn: self.facts.turn,
            at: world.now(),
            message,
        }
    }

    /// Appends to the history: in memory now, durable with the commit it goes into.
    fn append(&mut self, commit: &mut TurnCommit, message: ChatMessage, world: &World) {
        commit.messages.push(self.stored(message.clone(), world));
        self.history.push(message);
    }

    fn send(&mut self, commit: TurnCommit, next: Next) -> Vec<Effect> {
        // The commit's number is that of its last entry: unique, and known before it is sent.
        let seq = self.seq - 1;
        let commit = Box::new(commit);
        self.in_flight = Some((seq, commit.clone()));
        self.phase = Phase::Committing(next);
        vec![Effect::Commit { seq, commit, again: false }]
    }
}
