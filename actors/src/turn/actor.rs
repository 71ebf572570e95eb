//! The turn's actor: `turn/<id>` below its session. It performs what [`Machine`] says.
//!
//! It owns the turn's children (model call, approvals, batch) and its progress limit. It sends facts to
//! nobody but the store, the clients' streams and the observer; its session learns of its end from its
//! exit. It ends when the outcome is durable and announced, or without a word when a later life is to go
//! on (DESIGN.md, section 5).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rookery_messages::address::Address;
use rookery_messages::approval::{Approval, ApprovalMsg};
use rookery_messages::channel::SenderMsg;
use rookery_messages::event::TurnEventKind;
use rookery_messages::exit::{ActorError, ExitReason, StopReason};
use rookery_messages::ids::{ActorId, ApprovalId};
use rookery_messages::model::{ModelEnd, ModelError, ModelErrorClass, ModelReport, ModelRequest};
use rookery_messages::observe::{Observation, TurnScope};
use rookery_messages::store::TurnCommit;
use rookery_messages::tool::{PlannedCall, RunnableCall, SlotPlan, ToolContext, Verdict};
use rookery_messages::turn::{Outcome, TurnClaim, TurnFinish, TurnMsg};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::bundle::{AgentBundle, ChannelFacts, StoredProcesses, TurnDeps};
use super::machine::{BatchPlan, Effect, Facts, Input, Machine, RoundCall};
use super::prepare::Judge;
use super::recover::resume;
use super::relay::remainder;
use super::window::window;
use crate::approval::{ApprovalActor, ApprovalArgs};
use crate::model::{ModelActor, ModelArgs, wire_check};
use crate::observe::TurnVoice;
use crate::policy::arguments::arguments_hash;
use crate::runtime::{ChildExit, Ctx, SpawnSpec, Supervised, TaskKey};
use crate::store::commit_patiently;
use crate::tool::collector::{BatchActor, BatchArgs};

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
}

/// What it knows.
pub struct Turn {
    machine: Machine,
    claim: Box<TurnClaim>,
    judge: Judge,
    voice: TurnVoice,
    began: Instant,
    model: Option<(ActorId, u32)>,
    /// Visible text of the model call in work.
    shown: Arc<Mutex<String>>,
    /// How much of it the progress limit has counted.
    seen_bytes: usize,
    batch: Option<ActorId>,
    approvals: HashMap<ApprovalId, (ActorId, Address<ApprovalMsg>)>,
    progress: (u64, Option<TaskKey>),
}

impl Supervised for TurnActor {
    const KIND: &'static str = "turn";
    type Msg = TurnMsg;
    type Args = TurnArgs;
    type State = Turn;

    fn start(ctx: &mut Ctx<Self>, args: TurnArgs) -> Result<Turn, ActorError> {
        let TurnArgs { claim, bundle, channel, deps } = args;
        let record = &claim.record;
        let scope = TurnScope {
            turn: record.id,
            conversation_id: record.conversation_id,
            channel: record.channel.clone(),
            agent: record.agent.clone(),
        };
        let voice = TurnVoice::new(scope, Arc::clone(&deps.hub), deps.observer.clone());
        let facts = Facts {
            turn: record.id,
            conversation_id: record.conversation_id,
            fence: claim.fence,
            reply_address: claim.reply_address.clone(),
            posts_replies: channel.posts_replies,
            runtime: bundle.runtime.clone(),
        };
        let machine =
            Machine::new(facts, resume(&claim.journal, &claim.history, claim.record.usage));
        let judge = Judge {
            deps,
            bundle,
            channel,
            turn: record.id,
            conversation_id: record.conversation_id,
            channel_id: record.channel.clone(),
            origin: record.origin,
            sender: claim.sender.clone(),
            approvals: claim.approvals.clone(),
            voice: voice.clone(),
            world: ctx.world().clone(),
        };
        let attempt = claim.fence.attempt;
        voice.observe(|scope| Observation::TurnStarted { scope, attempt });
        ctx.task(async { Some(TurnMsg::Begin) });
        Ok(Turn {
            machine,
            claim,
            judge,
            voice,
            began: Instant::now(),
            model: None,
            shown: Arc::default(),
            seen_bytes: 0,
            batch: None,
            approvals: HashMap::new(),
            progress: (0, None),
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
            TurnMsg::Committed { seq, result } => Input::Committed { seq, result },
            TurnMsg::ModelEnded(report) => {
                state.model = None;
                Input::Model(report)
            }
            TurnMsg::BatchEnded(report) => {
                state.batch = None;
                Input::Batch(report.outcomes)
            }
            TurnMsg::ApprovalDecided(decided) => {
                state.approvals.remove(&decided.approval.id);
                state.decision_made(&decided.approval);
                Input::Decided(Box::new(decided.approval))
            }
            TurnMsg::ApprovalHint(approval) => {
                if let Some((_, address)) = state.approvals.get(&approval) {
                    // A full mailbox holds a hint already.
                    let _ = address.try_send(ApprovalMsg::Hint);
                }
                return Ok(());
            }
            TurnMsg::Steer(text) => Input::Steer(text),
            TurnMsg::Released => {
                ctx.end();
                return Ok(());
            }
            TurnMsg::NoProgress { timer } => {
                if timer != state.progress.0 {
                    return Ok(());
                }
                let shown = state.shown.lock().len();
                if shown > state.seen_bytes {
                    // An active stream is progress.
                    state.seen_bytes = shown;
                    state.rewind_progress(ctx);
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
            "pending_approvals": state.approvals.keys().collect::<Vec<_>>(),
        })
    }
}

impl Turn {
    /// One input, and all that follows from it without waiting.
    async fn step(&mut self, ctx: &mut Ctx<TurnActor>, input: Input) -> Result<(), ActorError> {
        let world = ctx.world().clone();
        for effect in self.machine.step(input, &world) {
            self.perform(ctx, effect).await?;
        }
        self.rewind_progress(ctx);
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
                }
            }
            Effect::StopBatch(reason) => {
                if let Some(id) = self.batch {
                    ctx.stop_child(id, reason);
                }
            }
            Effect::StopApprovals(reason) => {
                for (id, _) in self.approvals.values() {
                    ctx.stop_child(*id, reason.clone());
                }
            }
            Effect::Tell(event) => self.voice.tell(event),
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

    async fn call_model(
        &mut self,
        ctx: &mut Ctx<TurnActor>,
        iteration: u32,
        tools: bool,
    ) -> Result<(), ActorError> {
        let bundle = Arc::clone(&self.judge.bundle);
        let fitted = window(
            &bundle.system_prompt,
            self.machine.history(),
            bundle.runtime.max_context_tokens,
            self.claim.history_cut,
        );
        if fitted.dropped > 0 || fitted.shortened > 0 {
            let dropped = fitted.dropped;
            self.voice.observe(|scope| Observation::Trimmed { scope, dropped });
        }
        let (messages, changes) = match wire_check::prepared(fitted.messages) {
            Ok(prepared) => prepared,
            Err(fault) => {
                // V-A15: nothing that a provider would refuse is ever sent.
                let error = ModelError::new(ModelErrorClass::InvalidRequest, fault.to_string());
                let end = ModelEnd::Failed { error, partial: String::new() };
                let report = ModelReport { iteration, end, spent: Default::default() };
                ctx.task(async move { Some(TurnMsg::ModelEnded(report)) });
                return Ok(());
            }
        };
        if changes > 0 {
            self.voice.observe(|scope| Observation::Repaired { scope, changes });
        }
        let specs = if tools { bundle.specs() } else { Vec::new() };
        self.shown = Arc::default();
        self.seen_bytes = 0;
        let report = reserve(ctx)?;
        let args = ModelArgs {
            iteration,
            request: ModelRequest { messages: Arc::new(messages), tools: Arc::new(specs) },
            chain: Arc::clone(&bundle.chain),
            voice: self.voice.clone(),
            redactor: Arc::clone(&self.judge.deps.redactor),
            shown: Arc::clone(&self.shown),
            report,
        };
        let spec = SpawnSpec::new(format!("model/{iteration}"))
            .mailbox(4)
            .grace(Duration::from_millis(500));
        let child = ctx.spawn::<ModelActor>(spec, args).await.map_err(start_failed)?;
        self.model = Some((child.handle.id, iteration));
        Ok(())
    }

    fn commit(&self, ctx: &mut Ctx<TurnActor>, seq: u64, commit: TurnCommit, again: bool) {
        let store = self.judge.deps.store.clone();
        ctx.task(async move {
            if again {
                tokio::time::sleep(COMMIT_PAUSE).await;
            }
            let result = commit_patiently(&store, commit).await;
            Some(TurnMsg::Committed { seq, result })
        });
    }

    async fn ask(
        &mut self,
        ctx: &mut Ctx<TurnActor>,
        approval: Approval,
    ) -> Result<(), ActorError> {
        let report = reserve(ctx)?;
        let id = approval.id;
        let event = TurnEventKind::Approval { approval: Box::new(approval.clone()) };
        let args = ApprovalArgs { approval, store: self.judge.deps.store.clone(), report };
        let spec = SpawnSpec::new(format!("approval/{id}")).mailbox(8);
        let child = ctx.spawn::<ApprovalActor>(spec, args).await.map_err(start_failed)?;
        self.approvals.insert(id, (child.handle.id, child.address));
        self.voice.tell(event);
        Ok(())
    }

    async fn run(&mut self, ctx: &mut Ctx<TurnActor>, plan: BatchPlan) -> Result<(), ActorError> {
        let report = reserve(ctx)?;
        let runtime = &self.judge.bundle.runtime;
        let grace = Duration::from_millis(runtime.stop_grace_ms);
        // T14: at once only if it may be, there are several, and none had to be asked about.
        let runnable = plan.calls.iter().filter(|call| call.authority.is_some()).count();
        let asked = plan.calls.iter().any(RoundCall::was_asked);
        let parallel = runtime.parallel_tools && runnable > 1 && !asked;
        let capacity = plan.calls.len() * 3 + 16;
        let slots = plan.calls.into_iter().map(|call| self.planned(call, grace)).collect();
        let args = BatchArgs {
            batch: plan.batch,
            first_seq: plan.first_seq,
            turn: self.claim.record.id,
            conversation_id: self.claim.record.conversation_id,
            fence: self.claim.fence,
            slots,
            parallel,
            max_result_chars: runtime.max_tool_result_chars,
            store: self.judge.deps.store.clone(),
            voice: self.voice.clone(),
            redactor: Arc::clone(&self.judge.deps.redactor),
            report,
        };
        let spec = SpawnSpec::new(format!("batch/{}", plan.batch))
            .mailbox(capacity)
            .grace(grace + BATCH_MARGIN);
        let child = ctx.spawn::<BatchActor>(spec, args).await.map_err(start_failed)?;
        self.batch = Some(child.handle.id);
        Ok(())
    }

    /// A slot's plan. The gate is asked once more: what changed since the call was prepared counts.
    fn planned(&self, call: RoundCall, grace: Duration) -> PlannedCall {
        let plan = match (call.outcome, call.same_as, call.authority) {
            (Some(outcome), _, _) if call.told => SlotPlan::Kept(outcome),
            (Some(outcome), _, _) => SlotPlan::Filled(outcome),
            (None, Some(other), _) => SlotPlan::SameAs(other),
            (None, None, authority) => self.runnable(&call.call, &call.tool, authority, grace),
        };
        PlannedCall { call: call.call, tool: call.tool, plan }
    }

    fn runnable(
        &self,
        call: &rookery_messages::chat::ToolCall,
        name: &str,
        authority: Option<rookery_messages::tool::Authority>,
        grace: Duration,
    ) -> SlotPlan {
        use rookery_messages::chat::Arguments;
        use rookery_messages::tool::{Authority, SlotOutcome, text};
        use rookery_messages::turn::CallState;

        let blocked = |why: String| {
            SlotPlan::Filled(SlotOutcome::unrun(
                CallState::Blocked,
                format!("{}{why}", text::BLOCKED_PREFIX),
            ))
        };
        // I7: what has no authority does not run.
        let Some(authority) = authority else {
            return blocked("the call has no authority to run".to_owned());
        };
        let (Some((_, tool)), Arguments::Object(arguments)) =
            (self.judge.bundle.tools.resolve(name), &call.arguments)
        else {
            return blocked(format!("tool {name} is not available"));
        };
        let effects = tool.effects(arguments);
        let approval = match &authority {
            Authority::Approved { approval } => Some(*approval),
            Authority::Policy | Authority::Granted { .. } => None,
        };
        let hash = arguments_hash(arguments);
        // A grant was looked up moments ago and covers exactly these arguments; a block is looked for.
        if !matches!(authority, Authority::Granted { .. })
            && let Verdict::Filled(outcome) = self.judge.recheck(name, &effects, &hash, approval)
        {
            return SlotPlan::Filled(outcome);
        }
        let voice = self.voice.clone();
        SlotPlan::Run(Box::new(RunnableCall {
            tool: Arc::clone(tool),
            arguments: arguments.clone(),
            effects: effects.effects,
            context: ToolContext {
                turn: self.claim.record.id,
                call: call.id,
                conversation_id: self.claim.record.conversation_id,
                channel: self.claim.record.channel.clone(),
                agent: self.claim.record.agent.clone(),
                origin: self.claim.record.origin,
                workspace: self.judge.bundle.gate.workspace().to_path_buf(),
                forbidden_paths: self.judge.bundle.gate.forbidden_paths(),
                authority,
                cancel: tokio_util::sync::CancellationToken::new(),
                grace,
                processes: Arc::new(StoredProcesses(self.judge.deps.store.clone())),
                progress: Arc::new(move |text| voice.tell(TurnEventKind::Notice { text })),
            },
        }))
    }

    fn decision_made(&self, approval: &Approval) {
        let decision = approval.decision.as_ref().map_or("none", |decision| decision.as_str());
        self.voice.observe(|scope| Observation::Approval { scope, decision });
    }

    fn crashed_call(&self, iteration: u32, exit: &ChildExit) -> ModelReport {
        let message = format!("the model call ended without a report: {}", exit.reason);
        let error = ModelError::new(ModelErrorClass::Network, message);
        let partial = self.shown.lock().clone();
        let end = ModelEnd::Failed { error, partial };
        ModelReport { iteration, end, spent: Default::default() }
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
        let TurnFinish { outcome, reply, error, usage } = finish;
        let code = error.as_ref().map(|error| error.code.clone());
        self.voice.tell(TurnEventKind::Ended { outcome, reply, usage, error });
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

    /// The limit is tied to progress: every input starts it anew. Waiting for a person has its own.
    fn rewind_progress(&mut self, ctx: &mut Ctx<TurnActor>) {
        let limit = self.judge.bundle.runtime.progress_timeout_secs;
        if let Some(key) = self.progress.1.take() {
            ctx.abort(key);
        }
        self.progress.0 += 1;
        if limit > 0 && self.approvals.is_empty() {
            let timer = self.progress.0;
            let message = TurnMsg::NoProgress { timer };
            self.progress.1 = ctx.after(Duration::from_secs(limit), message);
        }
    }
}

fn reserve(
    ctx: &Ctx<TurnActor>,
) -> Result<rookery_messages::address::Reserved<TurnMsg>, ActorError> {
    ctx.address()
        .reserve()
        .ok_or_else(|| ActorError::transient("no place is left in the turn's mailbox for a report"))
}

fn start_failed(error: crate::runtime::SpawnError) -> ActorError {
    ActorError::transient(error.to_string())
}
