//! What a turn's actor starts: model calls, questions, batches.

use rookery_messages::chat::ChatMessage;

use super::super::vision;
use super::*;
use crate::model::gallery::ImageFolder;
use crate::policy::rate::SenderRates;
use crate::tool::receipts::{KeyScope, ReceiptIssuer};

impl Turn {
    pub(super) async fn call_model(
        &mut self,
        ctx: &mut Ctx<TurnActor>,
        iteration: u32,
        tools: bool,
    ) -> Result<(), ActorError> {
        if self.recall.is_awaited() {
            self.preparing = Some((iteration, tools));
            return Ok(());
        }
        self.judge.tools.advance();
        let fitted = self.fitted();
        self.fit.sending(fitted.total);
        self.tell_of_trim(&fitted);
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
        self.pay_for(ctx, iteration, tools, messages).await
    }

    pub(super) async fn start_model(
        &mut self,
        ctx: &mut Ctx<TurnActor>,
        iteration: u32,
        tools: bool,
        messages: Vec<ChatMessage>,
    ) -> Result<(), ActorError> {
        let bundle = Arc::clone(&self.judge.bundle);
        let known = Arc::new(self.judge.tools.specs());
        let offered = if tools { Arc::clone(&known) } else { Arc::default() };
        self.shown = Arc::default();
        self.seen_bytes = 0;
        self.offered = tools;
        let report = reserve(ctx)?;
        let args = ModelArgs {
            iteration,
            chain: vision::route(&bundle, &messages, self.most_images()),
            images: ImageFolder::of(&bundle.gate, self.most_images()),
            request: ModelRequest {
                messages: Arc::new(messages),
                tools: offered,
                images: Arc::default(),
            },
            estimated: self.fit.sent(),
            known,
            strict: bundle.runtime.strict_tool_parsing,
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
        self.time_step(ctx, iteration);
        Ok(())
    }

    pub(super) async fn ask(
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
        if let TurnEventKind::Approval { approval } = &event {
            self.show_routed(approval);
        }
        self.voice.tell(event);
        Ok(())
    }

    /// Who is asked elsewhere sees it there, if they are connected.
    pub(super) fn show_routed(&self, approval: &Approval) {
        if approval.route.as_ref().is_some_and(|route| !route.posted) {
            self.judge.deps.hub.route(approval.clone());
        }
    }

    pub(super) async fn run(
        &mut self,
        ctx: &mut Ctx<TurnActor>,
        plan: BatchPlan,
    ) -> Result<(), ActorError> {
        let report = reserve(ctx)?;
        let runtime = &self.judge.bundle.runtime;
        let grace = Duration::from_millis(runtime.stop_grace_ms);
        // T14: at once only if it may be, there are several, and none had to be asked about.
        let runnable = plan.calls.iter().filter(|call| call.authority.is_some()).count();
        let asked = plan.calls.iter().any(RoundCall::was_asked);
        // V-I1: what a search makes live is there for the calls after it.
        let searches = plan.calls.iter().any(|call| call.tool == SEARCH_TOOL);
        let parallel = runtime.parallel_tools && runnable > 1 && !asked && !searches;
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
            delegator: Some(Arc::clone(&self.delegator)),
            max_result_chars: runtime.max_tool_result_chars,
            store: self.judge.deps.store.clone(),
            voice: self.voice.clone(),
            redactor: Arc::clone(&self.judge.deps.redactor),
            receipts: self.receipts(),
            rates: self.rates(),
            report,
        };
        let spec = SpawnSpec::new(format!("batch/{}", plan.batch))
            .mailbox(capacity)
            .grace(grace + BATCH_MARGIN);
        let child = ctx.spawn::<BatchActor>(spec, args).await.map_err(start_failed)?;
        self.batch = Some(child.handle.id);
        Ok(())
    }

    /// The budgets of this turn's sender.
    fn rates(&self) -> SenderRates {
        SenderRates {
            limiter: Arc::clone(&self.judge.deps.rates),
            profile: Arc::clone(self.judge.bundle.gate.profile()),
            channel: self.claim.record.channel.clone(),
            sender: self.claim.sender.clone(),
        }
    }

    /// Who gives receipts to this turn's results, if its agent has them.
    fn receipts(&self) -> Option<ReceiptIssuer> {
        let record = &self.claim.record;
        let scope = KeyScope::of(record.origin, record.conversation_id);
        let keys = &self.judge.deps.receipts;
        let enabled = self.judge.bundle.receipts.enabled;
        enabled.then(|| ReceiptIssuer::new(Arc::clone(keys), scope, record.id))
    }

    /// A slot's plan. The gate is asked once more: what changed since the call was prepared counts.
    fn planned(&self, call: RoundCall, grace: Duration) -> PlannedCall {
        let as_run = call.as_run();
        let plan = match (call.outcome, call.same_as, call.authority) {
            (Some(outcome), _, _) if call.told => SlotPlan::Kept(outcome),
            (Some(outcome), _, _) => SlotPlan::Filled(outcome),
            (None, Some(other), _) => SlotPlan::SameAs(other),
            (None, None, authority) => self.runnable(&as_run, &call.tool, authority, grace),
        };
        PlannedCall { call: as_run, tool: call.tool, plan }
    }

    fn runnable(
        &self,
        call: &rookery_messages::chat::ToolCall,
        name: &str,
        authority: Option<rookery_messages::tool::Authority>,
        grace: Duration,
    ) -> SlotPlan {
        use rookery_messages::chat::Arguments;
        use rookery_messages::tool::{SlotOutcome, text};
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
            (self.judge.tools.resolve(name), &call.arguments)
        else {
            return blocked(format!("tool {name} is not available"));
        };
        let effects = tool.effects(arguments);
        if let Verdict::Filled(outcome) = self.judge.recheck(name, arguments, &effects, &authority)
        {
            return SlotPlan::Filled(outcome);
        }
        let voice = self.voice.clone();
        SlotPlan::Run(Box::new(RunnableCall {
            tool,
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
                forbidden_paths: self.judge.bundle.gate.forbidden_paths(&effects),
                network: self.judge.bundle.gate.network(),
                authority,
                tainted: self.judge.tainted.clone(),
                cancel: tokio_util::sync::CancellationToken::new(),
                grace,
                processes: Arc::new(StoredProcesses(self.judge.deps.store.clone())),
                progress: Arc::new(move |text| voice.tell(TurnEventKind::Notice { text })),
            },
        }))
    }

    pub(super) fn crashed_call(&self, iteration: u32, exit: &ChildExit) -> ModelReport {
        let message = format!("the model call ended without a report: {}", exit.reason);
        let error = ModelError::new(ModelErrorClass::Network, message);
        let partial = self.shown.lock().clone();
        let end = ModelEnd::Failed { error, partial };
        ModelReport { iteration, end, spent: Default::default() }
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
