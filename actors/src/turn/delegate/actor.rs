//! A delegate call's actor: `tool/<call>` below its batch's collector, in the place of a tool's.
//!
//! It owns the child turn, `turn/<child>` below it: claims its row, runs it, and looks at what its record
//! says once its actor has ended. A child that crashed is claimed again and goes on from its journal,
//! like a session's. It sends one report, on a place reserved at its spawn, and ends. Told to stop, it
//! stops the child for the same reason, so that what is written of both says the same.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rookery_messages::BoxFuture;
use rookery_messages::address::{Message, Reserved};
use rookery_messages::delegation::ChildMode;
use rookery_messages::exit::{ActorError, ExitReason, StopReason};
use rookery_messages::ids::{ActorId, ConversationId};
use rookery_messages::store::{Claim, ClaimOutcome, ClaimTerms, StoreError};
use rookery_messages::tool::{BatchMsg, RunnableCall, SlotOutcome, ToolResult, text};
use rookery_messages::turn::{CallState, Outcome, TurnClaim, TurnMsg, TurnRecord, TurnState};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::begin::Begun;
use super::{Delegator, granted};
use crate::runtime::{Child, ChildExit, Ctx, SpawnError, SpawnSpec, Supervised};
use crate::turn::actor::{TurnActor, TurnArgs};

/// Pause before what failed for a passing reason is tried again.
const PAUSE: Duration = Duration::from_secs(1);
/// How long the child's turn may take to stop. Its parents' deadlines lie before that, as a rule.
const TURN_GRACE: Duration = Duration::from_secs(15);

/// See the module's documentation.
pub(crate) struct DelegateActor;

/// What it is built from.
pub(crate) struct DelegateArgs {
    /// The slot it fills.
    pub(crate) slot: usize,
    /// The call.
    pub(crate) call: Box<RunnableCall>,
    /// The parent turn's part.
    pub(crate) delegator: Arc<Delegator>,
    /// The place of its one report.
    pub(crate) report: Reserved<BatchMsg>,
}

/// What it takes.
pub(crate) enum DelegateMsg {
    /// The child's row is there, or why not.
    Begun(Result<Begun, String>),
    /// The claim's answer.
    Claimed(Box<Result<ClaimOutcome, StoreError>>),
    /// What the child's record says.
    Looked(Box<Result<Option<TurnRecord>, StoreError>>),
    /// Time to claim again.
    Claim,
    /// Time to look again.
    Look,
}

impl Message for DelegateMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Begun(_) => "Begun",
            Self::Claimed(_) => "Claimed",
            Self::Looked(_) => "Looked",
            Self::Claim => "Claim",
            Self::Look => "Look",
        }
    }
}

/// What it knows.
pub(crate) struct Delegate {
    slot: usize,
    delegator: Arc<Delegator>,
    report: Option<Reserved<BatchMsg>>,
    began: Instant,
    child: Option<Begun>,
    running: Option<ActorId>,
    /// The child left in good order: it goes on in a later life, with its parent.
    left: bool,
}

impl Supervised for DelegateActor {
    const KIND: &'static str = "delegate";
    type Msg = DelegateMsg;
    type Args = DelegateArgs;
    type State = Delegate;

    fn start(ctx: &mut Ctx<Self>, args: DelegateArgs) -> Result<Delegate, ActorError> {
        let DelegateArgs { slot, call, delegator, report } = args;
        let (id, arguments) = (call.context.call, call.arguments);
        let by = Arc::clone(&delegator);
        ctx.task(async move {
            let begun = by.begin(id, &arguments, ChildMode::Delegate).await;
            Some(DelegateMsg::Begun(begun))
        });
        Ok(Delegate {
            slot,
            delegator,
            report: Some(report),
            began: Instant::now(),
            child: None,
            running: None,
            left: false,
        })
    }

    async fn handle(
        ctx: &mut Ctx<Self>,
        state: &mut Delegate,
        message: DelegateMsg,
    ) -> Result<(), ActorError> {
        match message {
            DelegateMsg::Begun(Ok(child)) => {
                state.child = Some(child);
                ctx.set_waiting_on(Some(format!("turn {}", child.turn)));
                state.claim(ctx);
            }
            DelegateMsg::Begun(Err(why)) => {
                state.report(ctx, CallState::Failed, ToolResult::failed(why).model_text());
            }
            DelegateMsg::Claim => state.claim(ctx),
            DelegateMsg::Look => state.look(ctx),
            DelegateMsg::Claimed(answer) => match *answer {
                Ok(ClaimOutcome::Turn(claim)) => state.start_child(ctx, claim).await?,
                // It has ended already, in a former life.
                Ok(ClaimOutcome::Nothing) => state.look(ctx),
                Ok(ClaimOutcome::Exhausted(record)) => state.ended(ctx, &record),
                Err(error) if error.is_transient() => {
                    ctx.after(PAUSE, DelegateMsg::Claim);
                }
                Err(error) => {
                    let why = ToolResult::failed(format!("the child could not be run: {error}"));
                    state.report(ctx, CallState::Failed, why.model_text());
                }
            },
            DelegateMsg::Looked(found) => match *found {
                Ok(Some(record)) if record.state == TurnState::Ended => state.ended(ctx, &record),
                Ok(_) if ctx.stopping().is_some() => state.interrupted(ctx),
                // Its parent's stop is on the way.
                Ok(_) if state.left => {}
                Ok(_) => state.claim(ctx),
                Err(_) if ctx.stopping().is_some() => state.interrupted(ctx),
                Err(error) => {
                    tracing::warn!(%error, "a child's record could not be read; trying again");
                    ctx.after(PAUSE, DelegateMsg::Look);
                }
            },
        }
        Ok(())
    }

    async fn child_exited(
        ctx: &mut Ctx<Self>,
        state: &mut Delegate,
        exit: ChildExit,
    ) -> Result<(), ActorError> {
        if state.running == Some(exit.id) {
            state.gone();
            if exit.reason.is_abnormal() {
                tracing::warn!(reason = %exit.reason, "a child turn crashed; it goes on from its journal");
            }
            state.left =
                matches!(&exit.reason, ExitReason::Stopped { reason } if !reason.ends_turn());
            let silent = ctx.stopping().is_some_and(|reason| !reason.ends_turn());
            if silent {
                // Nothing is written of either.
                state.interrupted(ctx);
            } else {
                state.look(ctx);
            }
        }
        Ok(())
    }

    async fn stop_requested(
        ctx: &mut Ctx<Self>,
        state: &mut Delegate,
        reason: &StopReason,
    ) -> Result<(), ActorError> {
        match state.running {
            Some(child) => ctx.stop_child(child, reason.clone()),
            // Whatever of it is accepted ends with its parent's row, or is found again with it.
            None => state.interrupted(ctx),
        }
        Ok(())
    }

    async fn ended(_: &mut Ctx<Self>, state: &mut Delegate, _: &ExitReason) {
        state.gone();
    }

    fn observe(state: &Delegate) -> Value {
        json!({ "slot": state.slot, "turn": state.child.map(|child| child.turn) })
    }
}

impl Delegate {
    fn claim(&mut self, ctx: &mut Ctx<DelegateActor>) {
        let Some(child) = self.child.filter(|_| ctx.stopping().is_none()) else { return };
        let deps = Arc::clone(&self.delegator.deps);
        let claim = Claim {
            conversation_id: child.conversation_id,
            at: ctx.world().now(),
            terms: ClaimTerms { together: Arc::default(), ..deps.terms.clone() },
        };
        ctx.task(
            async move { Some(DelegateMsg::Claimed(Box::new(deps.store.claim(claim).await))) },
        );
    }

    fn look(&mut self, ctx: &mut Ctx<DelegateActor>) {
        let Some(child) = self.child else { return };
        let store = self.delegator.deps.store.clone();
        ctx.task(async move { Some(DelegateMsg::Looked(Box::new(store.turn(child.turn).await))) });
    }

    async fn start_child(
        &mut self,
        ctx: &mut Ctx<DelegateActor>,
        claim: Box<TurnClaim>,
    ) -> Result<(), ActorError> {
        if ctx.stopping().is_some() {
            return Ok(());
        }
        let deps = &self.delegator.deps;
        let bundle = claim.record.parent.as_ref().zip(deps.agents.get(&claim.record.agent));
        let bundle = bundle.map(|(of, agent)| granted(agent, of, deps)).transpose();
        let bundle = match bundle {
            Ok(Some(bundle)) => Arc::new(bundle),
            Ok(None) | Err(_) => {
                let agent = &claim.record.agent;
                let why = format!("the child can't go on: agent `{agent}` is not there any more");
                self.report(ctx, CallState::Failed, ToolResult::failed(why).model_text());
                return Ok(());
            }
        };
        let cancelled = claim.cancel_requested;
        let (turn, conversation_id) = (claim.record.id, claim.record.conversation_id);
        let args = TurnArgs {
            claim,
            bundle,
            channel: self.delegator.channel.clone(),
            deps: Arc::clone(deps),
            nothing_waits: Arc::default(),
        };
        let spec = SpawnSpec::new(format!("turn/{turn}")).mailbox(256).grace(TURN_GRACE);
        match spawn_turn(ctx, spec, args).await {
            Ok(child) => {
                self.delegator.deps.nested.insert(conversation_id, child.address);
                self.delegator.waits.fetch_add(1, Ordering::Relaxed);
                self.running = Some(child.handle.id);
                if cancelled {
                    ctx.stop_child(child.handle.id, StopReason::User);
                }
            }
            Err(error) => {
                // Counts as an attempt; after the last one the store fails the turn.
                tracing::error!(%turn, %error, "a child turn did not start");
                ctx.after(PAUSE, DelegateMsg::Claim);
            }
        }
        Ok(())
    }

    /// The child's actor has ended.
    fn gone(&mut self) {
        if self.running.take().is_some()
            && let Some(child) = self.child
        {
            self.delegator.waits.fetch_sub(1, Ordering::Relaxed);
            self.rest(child.conversation_id);
        }
    }

    fn rest(&self, conversation: ConversationId) {
        self.delegator.deps.nested.remove(conversation);
        self.delegator.deps.hub.rest(conversation);
    }

    /// The child's record has its end.
    fn ended(&mut self, ctx: &mut Ctx<DelegateActor>, record: &TurnRecord) {
        self.delegator.purse().add_child(record);
        let result = result_of(record);
        let state = match (result.success, ctx.stopping()) {
            (true, _) => CallState::Succeeded,
            (false, None) => CallState::Failed,
            (false, Some(_)) => CallState::Interrupted,
        };
        self.report(ctx, state, result.model_text());
    }

    fn interrupted(&mut self, ctx: &mut Ctx<DelegateActor>) {
        self.report(ctx, CallState::Interrupted, text::INTERRUPTED_RUNNING.to_owned());
    }

    fn report(&mut self, ctx: &mut Ctx<DelegateActor>, state: CallState, output: String) {
        if let Some(report) = self.report.take() {
            let duration_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
            let outcome = SlotOutcome { state, output, duration_ms, receipt: None };
            // An error means that the collector has ended, and the batch with it.
            let _ = report.send(BatchMsg::ToolEnded { slot: self.slot, outcome });
        }
        ctx.end();
    }
}

/// What the model reads of a child that has ended.
pub(super) fn result_of(record: &TurnRecord) -> ToolResult {
    let outcome = record.outcome.unwrap_or(Outcome::Failed);
    match (outcome, &record.reply, &record.error) {
        (Outcome::Answered | Outcome::Silent | Outcome::Merged, reply, _) => {
            ToolResult::ok(reply.clone().unwrap_or_default())
        }
        (outcome, _, Some(error)) => ToolResult::failed(format!(
            "the child turn {} {}: {}: {}",
            record.id,
            outcome.as_str(),
            error.code,
            error.message
        )),
        (outcome, _, None) => {
            ToolResult::failed(format!("the child turn {} {}", record.id, outcome.as_str()))
        }
    }
}

/// Turns start batches, batches start delegates, delegates start turns: boxed here, so that the future of
/// a turn's start is no part of itself.
fn spawn_turn(
    ctx: &mut Ctx<DelegateActor>,
    spec: SpawnSpec,
    args: TurnArgs,
) -> BoxFuture<'_, Result<Child<TurnMsg>, SpawnError>> {
    Box::pin(ctx.spawn::<TurnActor>(spec, args))
}
