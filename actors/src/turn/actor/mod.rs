//! The turn's actor: `turn/<id>` below its session. It performs what [`Machine`] says.
//!
//! It owns the turn's children (model call, approvals, batch) and its progress limit. It sends facts to
//! nobody but the store, the clients' streams and the observer; its session learns of its end from its
//! exit. It ends when the outcome is durable and announced, or without a word when a later life is to go
//! on (DESIGN.md, section 5).

mod children;
mod fitting;
mod hooks;
mod paying;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rookery_messages::address::Address;
use rookery_messages::approval::{Approval, ApprovalMsg};
use rookery_messages::channel::{LiveTurn, SenderMsg};
use rookery_messages::delegation::TaskState;
use rookery_messages::event::TurnEventKind;
use rookery_messages::exit::{ActorError, ExitReason, StopReason};
use rookery_messages::ids::{ActorId, ApprovalId, OutboxId};
use rookery_messages::model::{ModelEnd, ModelError, ModelErrorClass, ModelReport, ModelRequest};
use rookery_messages::observe::{Observation, TurnScope};
use rookery_messages::session::{RouterMsg, Steering};
use rookery_messages::store::{NewOutbox, OutboxPayload, TurnCommit};
use rookery_messages::tool::{
    BatchReport, PlannedCall, RunnableCall, SlotPlan, ToolContext, Verdict,
};
use rookery_messages::turn::{Outcome, TurnClaim, TurnFinish, TurnMsg, TurnState};
use serde_json::{Value, json};
use tokio::time::Instant;

use self::paying::Unpaid;
use super::budget::DayLimits;
use super::bundle::{AgentBundle, ChannelFacts, StoredProcesses, TurnDeps};
use super::delegate::{Delegator, notice};
use super::fit::Fit;
use super::machine::{BatchPlan, Effect, Facts, Input, Machine, RoundCall};
use super::prepare::Judge;
use super::recall::Recollection;
use super::recover::resume;
use super::relay::remainder;
use super::tools::TurnTools;
use super::window::window;
use crate::approval::{ApprovalActor, ApprovalArgs};
use crate::model::{ModelActor, ModelArgs, wire_check};
use crate::observe::TurnVoice;
use crate::runtime::{ChildExit, Ctx, SpawnSpec, Supervised};
use crate::store::commit_patiently;
use crate::tool::collector::{BatchActor, BatchArgs};
use crate::tool::mcp::SEARCH_TOOL;

/// Pause before a commit that failed for a passing reason is sent again.
const COMMIT_PAUSE: Duration = Duration::from_secs(1);
/// What a batch gets beyond its tools' grace.
const BATCH_MARGIN: Duration = Duration::from_secs(2);

/// See the module's documentation.
pub struct TurnActor;

/// What it is built from.
pub struct TurnArgs {
    /// The claimed row, under its fence.
    pub claim: Box<TurnClaim>,
    /// The agent.
    pub bundle: Arc<AgentBundle>,
    /// The channel.
    pub channel: ChannelFacts,
    /// The service's shared parts.
    pub deps: Arc<TurnDeps>,
    /// Set once the turn's end is durable and nothing else of the conversation is open: its session need
    /// not look.
    pub nothing_waits: Arc<AtomicBool>,
}

/// What it knows.
pub struct Turn {
    machine: Machine,
    claim: Box<TurnClaim>,
    judge: Judge,
    voice: TurnVoice,
    began: Instant,
    model: Option<(ActorId, u32)>,
    /// How large its requests may be.
    fit: Fit,
    /// Whether the last model call had tools on offer.
    offered: bool,
    /// What memory has to say before the message.
    recall: Recollection,
    /// The model call that waits for memory, or whose messages the hooks look at; whether tools are on offer.
    preparing: Option<(u32, bool)>,
    /// Limits of the day that hold for this turn.
    days: DayLimits,
    /// The model call that waits for the day's sums.
    unpaid: Option<Unpaid>,
    /// The batch whose calls the hooks are shown.
    shown_to_hooks: Option<BatchReport>,
    /// Visible text of the model call in work.
    shown: Arc<Mutex<String>>,
    /// How much of it the progress limit has counted.
    seen_bytes: usize,
    batch: Option<ActorId>,
    /// What it hands work on with.
    delegator: Arc<Delegator>,
    approvals: HashMap<ApprovalId, (ActorId, Address<ApprovalMsg>)>,
    /// When something happened last.
    progress_at: Instant,
    nothing_waits: Arc<AtomicBool>,
}

impl Supervised for TurnActor {
    const KIND: &'static str = "turn";
    type Msg = TurnMsg;
    type Args = TurnArgs;
    type State = Turn;

    fn start(ctx: &mut Ctx<Self>, args: TurnArgs) -> Result<Turn, ActorError> {
        let TurnArgs { claim, bundle, channel, deps, nothing_waits } = args;
        let record = &claim.record;
        let scope = TurnScope {
            turn: record.id,
            conversation_id: record.conversation_id,
            channel: record.channel.clone(),
            agent: record.agent.clone(),
        };
        let voice = TurnVoice::new(scope, Arc::clone(&deps.hub), deps.observer.clone())
            .asking_at(record.parent.as_ref().map(|of| of.root));
        let world = ctx.world().clone();
        let delegator =
            Delegator::new(&claim, Arc::clone(&bundle), channel.clone(), Arc::clone(&deps), world);
        let bundle = delegator.equip();
        let facts = Facts {
            turn: record.id,
            conversation_id: record.conversation_id,
            fence: claim.fence,
            reply_address: claim.reply_address.clone(),
            // A child's answer is its parent's to read.
            posts_replies: channel.posts_replies && record.parent.is_none(),
            runtime: bundle.runtime.clone(),
            show_receipts: bundle.receipts.show_in_response,
            purse: Arc::clone(delegator.purse()),
            prices: deps.prices.clone(),
            cost_micros: record.cost_micros,
        };
        let day = |agent: &AgentBundle| {
            DayLimits::new(
                &agent.runtime.budget,
                &deps.budget,
                (record.channel.as_str(), claim.sender.as_str()),
                agent.name.as_str(),
            )
        };
        // B11: what is handed on is paid for by those who handed it on, too.
        let payers = record.parent.iter().flat_map(|of| &of.grant.payers);
        let payers = payers.filter_map(|name| deps.agents.get(name));
        let days = payers.fold(day(&bundle), |days, payer| days.and(day(payer)));
        let machine =
            Machine::new(facts, resume(&claim.journal, &claim.history, claim.record.usage));
        let tools = TurnTools::new(Arc::clone(&bundle), &claim.text, &claim.journal);
        delegator.with_tools(&tools);
        let judge = Judge {
            deps,
            bundle,
            tools,
            channel,
            turn: record.id,
            conversation_id: record.conversation_id,
            conversation: record.conversation.clone(),
            channel_id: record.channel.clone(),
            sender: claim.sender.clone(),
            child_of: record.parent.as_deref().cloned(),
            approvals: claim.approvals.clone(),
            grants: Arc::default(),
            tainted: None,
            voice: voice.clone(),
            world: ctx.world().clone(),
        };
        let attempt = claim.fence.attempt;
        voice.observe(|scope| Observation::TurnStarted { scope, attempt });
        let recall = Recollection::begin(ctx, &judge, &claim);
        ctx.note_to_self(TurnMsg::Begin);
        show_on_channel(&judge, &claim);
        if judge.bundle.runtime.progress_timeout_secs > 0 {
            let limit = Duration::from_secs(judge.bundle.runtime.progress_timeout_secs);
            ctx.after(limit, TurnMsg::ProgressCheck);
        }
        Ok(Turn {
            machine,
            claim,
            judge,
            voice,
            began: Instant::now(),
            model: None,
            fit: Fit::default(),
            offered: true,
            recall,
            preparing: None,
            shown_to_hooks: None,
            days,
            unpaid: None,
            shown: Arc::default(),
            seen_bytes: 0,
            batch: None,
            delegator,
            approvals: HashMap::new(),
            progress_at: Instant::now(),
            nothing_waits,
        })
    }

    async fn handle(
        ctx: &mut Ctx<Self>,
        state: &mut Turn,
        message: TurnMsg,
    ) -> Result<(), ActorError> {
        let input = match message {
            TurnMsg::Begin => Input::Begin,
            TurnMsg::Judged(calls) => Input::Judged(calls),
            TurnMsg::Committed { seq, result } => {
                if result.as_ref().is_ok_and(|ack| ack.nothing_waits) {
                    state.nothing_waits.store(true, Ordering::Release);
                }
                for (conversation, turn) in result.iter().flat_map(|ack| ack.stops.iter().copied())
                {
                    // The mark is in the store: a lost hint means that the task ends at its next start.
                    let cancel = RouterMsg::Cancel { conversation, turn };
                    if let Err(refused) = state.judge.deps.router.try_send(cancel) {
                        tracing::warn!(%turn, why = refused.as_str(), "a task was not told of its cancel");
                    }
                }
                Input::Committed { seq, result }
            }
            TurnMsg::ModelEnded(report) => {
                state.model = None;
                let Some(report) = state.sized_up(ctx, report).await? else { return Ok(()) };
                state.tell_cost(&report);
                Input::Model(report)
            }
            TurnMsg::BatchEnded(report) => {
                state.batch = None;
                let Some(report) = state.show_to_hooks(ctx, report) else { return Ok(()) };
                Input::Batch(report.outcomes)
            }
            TurnMsg::HooksTold => {
                let Some(report) = state.shown_to_hooks.take() else { return Ok(()) };
                Input::Batch(report.outcomes)
            }
            TurnMsg::Recalled(block) => {
                state.recall = Recollection::Told(block);
                // None if nothing waits for it yet, or the turn was stopped meanwhile.
                let Some((iteration, tools)) = state.preparing.take() else { return Ok(()) };
                return state.call_model(ctx, iteration, tools).await;
            }
            TurnMsg::ModelPrepared { iteration, messages } => {
                return state.model_prepared(ctx, iteration, messages).await;
            }
            TurnMsg::ApprovalDecided(decided) => {
                state.approvals.remove(&decided.approval.id);
                state.decision_made(&decided.approval);
                state.judge.remember(&decided.approval);
                Input::Decided(Box::new(decided.approval))
            }
            TurnMsg::ApprovalHint(approval) => {
                if let Some((_, address)) = state.approvals.get(&approval) {
                    // A full mailbox holds a hint already.
                    let _ = address.try_send(ApprovalMsg::Hint);
                }
                return Ok(());
            }
            TurnMsg::Steer(steering) => {
                // Somebody else's words are not this sender's: they wait for a turn of their own.
                if !state.is_of_this_sender(&steering) {
                    return Ok(());
                }
                Input::Steer(*steering)
            }
            TurnMsg::Spending(found) => return state.paid(ctx, found).await,
            TurnMsg::StepTimeout { iteration } => Input::StepTimeout(iteration),
            TurnMsg::Released => {
                ctx.end();
                return Ok(());
            }
            TurnMsg::ProgressCheck => {
                if state.gets_on(ctx) {
                    return Ok(());
                }
                Input::Stop(StopReason::Deadline)
            }
        };
        state.step(ctx, input).await
    }

    async fn child_exited(
        ctx: &mut Ctx<Self>,
        state: &mut Turn,
        exit: ChildExit,
    ) -> Result<(), ActorError> {
        // Whoever reported is not in these any more: reports come before exits.
        if let Some((id, iteration)) = state.model
            && id == exit.id
        {
            state.model = None;
            return state.step(ctx, Input::Model(state.crashed_call(iteration, &exit))).await;
        }
        if state.batch == Some(exit.id) {
            // The journal has what its calls did; a new attempt goes on from there.
            return Err(ActorError::transient(format!(
                "the batch ended without a report: {}",
                exit.reason
            )));
        }
        let asked = state.approvals.iter().find(|(_, (id, _))| *id == exit.id).map(|(a, _)| *a);
        if let Some(approval) = asked
            && state.machine.is_asking()
        {
            // However it ended, an operator's stop included: nobody waits for the decision any more. A
            // new attempt asks for it where it stands.
            return Err(ActorError::transient(format!(
                "approval {approval} ended without a decision: {}",
                exit.reason
            )));
        }
        Ok(())
    }

    async fn stop_requested(
        ctx: &mut Ctx<Self>,
        state: &mut Turn,
        reason: &StopReason,
    ) -> Result<(), ActorError> {
        state.step(ctx, Input::Stop(reason.clone())).await
    }

    async fn ended(_: &mut Ctx<Self>, state: &mut Turn, reason: &ExitReason) {
        tracing::debug!(turn = %state.claim.record.id, %reason, "turn actor ended");
    }

    fn observe(state: &Turn) -> Value {
        json!({
            "turn": state.claim.record.id,
            "conversation": state.claim.record.conversation,
            "phase": state.machine.phase_name(),
            "attempt": state.claim.fence.attempt,
            "iteration": state.machine.iteration(),
            "usage": state.machine.usage(),
            "cost_micros": state.machine.cost_micros(),
            "pending_approvals": state.approvals.keys().collect::<Vec<_>>(),
        })
    }
}

/// The channel may show its people what the turn does. A full sender costs them that, not the answer.
fn show_on_channel(judge: &Judge, claim: &TurnClaim) {
    let shown = judge.channel.posts_replies && claim.record.parent.is_none();
    if let Some(sender) = judge.channel.sender.as_ref().filter(|_| shown) {
        let conversation_id = claim.record.conversation_id;
        let live = LiveTurn {
            turn: claim.record.id,
            conversation_id,
            address: claim.reply_address.clone(),
            next_seq: judge.deps.hub.next_seq(conversation_id),
        };
        let _ = sender.try_send(SenderMsg::TurnBegan(Box::new(live)));
    }
}

impl Turn {
    /// One input, and all that follows from it without waiting.
    async fn step(&mut self, ctx: &mut Ctx<TurnActor>, input: Input) -> Result<(), ActorError> {
        let world = ctx.world().clone();
        for effect in self.machine.step(input, &world) {
            self.perform(ctx, effect).await?;
        }
        self.progress_at = Instant::now();
        ctx.set_waiting_on(Some(self.machine.phase_name().to_owned()));
        Ok(())
    }

    async fn perform(
        &mut self,
        ctx: &mut Ctx<TurnActor>,
        effect: Effect,
    ) -> Result<(), ActorError> {
        match effect {
            Effect::CallModel { iteration, tools } => {
                self.call_model(ctx, iteration, tools).await?
            }
            Effect::Judge { calls, finish } => {
                self.judge.tainted = self.delegator.taint(self.machine.tainted());
                let judge = self.judge.clone();
                ctx.task(async move { Some(TurnMsg::Judged(judge.judge(calls, &finish).await)) });
            }
            Effect::Commit { seq, commit, again } => self.commit(ctx, seq, *commit, again),
            Effect::Ask(requests) => {
                for request in requests {
                    self.ask(ctx, request).await?;
                }
            }
            Effect::Run(plan) => self.run(ctx, plan).await?,
            // Without a child its report is on the way already.
            Effect::StopModel(reason) => {
                if let Some((id, _)) = self.model {
                    ctx.stop_child(id, reason);
                } else {
                    self.stop_preparing(ctx, reason);
                }
            }
            Effect::StopBatch(reason) => {
                if let Some(id) = self.batch {
                    ctx.stop_child(id, reason);
                } else if self.shown_to_hooks.is_some() {
                    // Its outcomes are durable; the hooks are not waited for.
                    ctx.note_to_self(TurnMsg::HooksTold);
                }
            }
            Effect::StopApprovals(reason) => {
                for (id, _) in self.approvals.values() {
                    ctx.stop_child(*id, reason.clone());
                }
            }
            Effect::Tell(event) => self.voice.tell(event),
            Effect::OverBudget => self.voice.observe(|scope| Observation::OverBudget { scope }),
            Effect::Merged(rows) => {
                let record = &self.claim.record;
                for row in rows {
                    let merged = TurnEventKind::merged(record.id);
                    self.judge.deps.hub.publish(record.conversation_id, row, merged);
                }
            }
            Effect::Circling(found) => {
                self.voice.tell(TurnEventKind::Notice { text: found.told() });
                let (pattern, verdict) = (found.pattern.as_str(), found.level.as_str());
                self.voice.observe(|scope| Observation::Loop { scope, pattern, verdict });
            }
            Effect::HintSenders(channels) => {
                for channel in channels {
                    let facts = self.judge.deps.channels.get(&channel);
                    if let Some(sender) = facts.and_then(|facts| facts.sender.as_ref()) {
                        // A sender that is full or restarting looks at the outbox by itself.
                        let _ = sender.try_send(SenderMsg::Due);
                    }
                }
            }
            Effect::Announce(finish) => {
                self.announce(*finish);
                ctx.end();
            }
            Effect::Leave => self.leave(ctx),
            Effect::Broken(error) => {
                return Err(ActorError::transient(format!("a step could not be written: {error}")));
            }
        }
        Ok(())
    }

    /// A later life goes on. The record says that it was no crash, unless nothing may be written.
    fn leave(&self, ctx: &mut Ctx<TurnActor>) {
        let text = match ctx.stopping() {
            Some(StopReason::Shutdown) => {
                "the service is stopping; this turn resumes when it is back"
            }
            Some(reason) if reason.may_write() => {
                "this turn is interrupted; it resumes in a moment"
            }
            _ => {
                ctx.end();
                return;
            }
        };
        self.voice.tell(TurnEventKind::Notice { text: text.to_owned() });
        let store = self.judge.deps.store.clone();
        let (turn, conversation) = (self.claim.record.id, self.claim.record.conversation_id);
        let fence = self.claim.fence;
        ctx.task(async move {
            if let Err(error) = store.release_turn(turn, conversation, fence).await {
                tracing::warn!(%turn, %error, "a turn was left without a word in its record");
            }
            Some(TurnMsg::Released)
        });
    }

    fn commit(&self, ctx: &mut Ctx<TurnActor>, seq: u64, mut commit: TurnCommit, again: bool) {
        self.post_task_notice(&mut commit);
        if commit.usage.is_some() {
            commit.spend = self.days.keys();
        }
        let store = self.judge.deps.store.clone();
        ctx.task(async move {
            if again {
                tokio::time::sleep(COMMIT_PAUSE).await;
            }
            let result = commit_patiently(&store, commit).await;
            Some(TurnMsg::Committed { seq, result })
        });
    }

    fn is_of_this_sender(&self, steering: &Steering) -> bool {
        let inbound = &steering.inbound;
        inbound.sender.id == self.claim.sender && inbound.thread == self.claim.reply_address.thread
    }

    fn decision_made(&self, approval: &Approval) {
        let decision = approval.decision.as_ref().map_or("none", |decision| decision.as_str());
        self.voice.observe(|scope| Observation::Approval { scope, decision });
        // Whoever else was asked sees what stands and who decided it.
        self.voice.tell(TurnEventKind::Approval { approval: Box::new(approval.clone()) });
        self.show_routed(approval);
    }

    /// The end is durable. Clients that add up the deltas get what the reply has beyond them first.
    fn announce(&self, finish: TurnFinish) {
        if let Some(reply) = &finish.reply {
            let shown = self.shown.lock().clone();
            let rest = remainder(&shown, reply);
            if !rest.is_empty() {
                self.voice.tell(TurnEventKind::Delta { text: rest.to_owned() });
            }
        }
        self.tell_of_task(&finish);
        let TurnFinish { outcome, reply, error, usage } = finish;
        let code = error.as_ref().map(|error| error.code.clone());
        self.voice.tell(TurnEventKind::Ended { outcome, reply, usage, error, into: None });
        let duration = self.began.elapsed();
        let error = if outcome == Outcome::Failed { code } else { None };
        self.voice.observe(|scope| Observation::TurnEnded {
            scope,
            outcome,
            duration,
            usage,
            error,
        });
    }

    /// What its people are told of a background task's end; none if this is no task.
    fn task_notice(&self, finish: &TurnFinish) -> Option<String> {
        self.claim.record.task?;
        let code = finish.error.as_ref().map(|error| error.code.as_str());
        let state = TaskState::of(TurnState::Ended, Some(finish.outcome), code);
        let reply = finish.reply.as_deref();
        let said = reply.or(finish.error.as_ref().map(|error| error.message.as_str()));
        Some(notice(self.claim.record.id, state, said.unwrap_or_default()))
    }

    /// The conversation a task was begun for hears of its end, on the stream of the turn that began it.
    fn tell_of_task(&self, finish: &TurnFinish) {
        if let (Some(text), Some(of)) = (self.task_notice(finish), &self.claim.record.parent) {
            self.judge.deps.hub.publish(of.root, of.turn, TurnEventKind::Notice { text });
        }
    }

    /// With a task's end, in one transaction: the notice for a channel that posts. Its id is the turn's own,
    /// so that a commit that is sent again says the same.
    fn post_task_notice(&self, commit: &mut TurnCommit) {
        if let Some(text) = commit.finish.as_ref().and_then(|finish| self.task_notice(finish))
            && self.judge.channel.posts_replies
        {
            let turn = self.claim.record.id;
            commit.outbox.push(NewOutbox {
                id: OutboxId(turn.0),
                channel: self.claim.reply_address.channel.clone(),
                address: self.claim.reply_address.clone(),
                payload: OutboxPayload::Notice { turn: Some(turn), text },
            });
        }
    }

    fn progress_limit(&self) -> Duration {
        Duration::from_secs(self.judge.bundle.runtime.progress_timeout_secs)
    }

    /// The limit is tied to progress: every input starts it anew, and so does an active stream. Waiting
    /// for a person, or for a delegate, has its own. Looks again when the time would be over.
    fn gets_on(&mut self, ctx: &mut Ctx<TurnActor>) -> bool {
        let shown = self.shown.lock().len();
        if shown > self.seen_bytes || !self.approvals.is_empty() || self.delegator.waits() {
            self.seen_bytes = shown;
            self.progress_at = Instant::now();
        }
        let left = self.progress_limit().saturating_sub(self.progress_at.elapsed());
        if !left.is_zero() {
            ctx.after(left, TurnMsg::ProgressCheck);
        }
        !left.is_zero()
    }
}
