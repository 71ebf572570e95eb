//! One conversation's actor: `sessions/<conversation>`.
//!
//! The inbox is the queue: the session takes its next row from the store when it starts, after each
//! turn, and on a hint. At most one turn of a conversation runs, because only its session spawns turns
//! and only one at a time (I3). A turn that crashed is claimed again and goes on from its journal. When
//! nothing is left for the idle time the router lets it go; its state is in the store.

mod starting;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use rookery_messages::address::Address;
use rookery_messages::delegation::TaskState;
use rookery_messages::event::TurnEventKind;
use rookery_messages::exit::{ActorError, StopReason};
use rookery_messages::ids::{ActorId, ConversationId, TurnId};
use rookery_messages::journal::{JournalEntry, JournalKind};
use rookery_messages::observe::{Observation, TurnScope};
use rookery_messages::session::{Arrival, RouterMsg, SessionMsg, Steering};
use rookery_messages::store::{Claim, ClaimOutcome, TurnCommit};
use rookery_messages::turn::{Outcome, TurnClaim, TurnError, TurnFinish, TurnMsg, TurnRecord};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::observe::TurnVoice;
use crate::runtime::{ChildExit, Ctx, SpawnSpec, Supervised, TaskKey};
use crate::store::{commit_patiently, return_claim};
use crate::turn::delegate::{granted, notice};
use crate::turn::{AgentBundle, ChannelFacts, TurnActor, TurnArgs, TurnDeps};

/// Pause before a failed claim is tried again.
const CLAIM_PAUSE: Duration = Duration::from_secs(1);
/// How long a row waits whose agent or channel is not configured, before it is looked at again.
const UNCONFIGURED_PAUSE: Duration = Duration::from_secs(60);
/// How long a turn may take to stop: its batch's grace, and two commits.
const TURN_GRACE: Duration = Duration::from_secs(15);

/// Most messages kept for a turn that is being claimed; more of them wait for a turn of their own.
const MAX_EARLY_STEERING: usize = 32;

/// See the module's documentation.
pub struct SessionActor;

/// What it is built from.
pub struct SessionArgs {
    /// The conversation.
    pub conversation: ConversationId,
    /// The router above.
    pub router: Address<RouterMsg>,
    /// What it was started for.
    pub arrival: Arrival,
    /// The service's shared parts.
    pub deps: Arc<TurnDeps>,
}

/// What it knows.
pub struct Session {
    conversation: ConversationId,
    router: Address<RouterMsg>,
    deps: Arc<TurnDeps>,
    running: Option<Running>,
    claiming: bool,
    /// A turn that was claimed as it was accepted; it begins as soon as nothing is in its way.
    ready: Option<Box<TurnClaim>>,
    /// A hint came while a claim or a turn was under way.
    hinted: bool,
    /// The next row can't run now: hints change nothing about that, the next look does.
    waits: bool,
    /// Marked as cancelled while its claim was under way, so that the claim may not say so.
    cancelled: Option<TurnId>,
    /// Messages wait for others to go with them.
    gathering: Option<Gathering>,
    /// How often a gathering's timer was set.
    gathered: u64,
    /// Came while a claim was under way: for the turn it brings.
    steering: Vec<Steering>,
    idle: (u64, Option<TaskKey>),
    /// Others wait for its place.
    makes_room: bool,
}

/// Messages that wait for others.
struct Gathering {
    /// Not longer than this.
    until: Instant,
    number: u64,
    timer: Option<TaskKey>,
}

struct Running {
    id: ActorId,
    turn: TurnId,
    address: Address<TurnMsg>,
    since: Instant,
    /// Its end says that nothing else is open.
    nothing_waits: Arc<AtomicBool>,
}

impl Supervised for SessionActor {
    const KIND: &'static str = "session";
    const PAUSABLE: bool = true;
    type Msg = SessionMsg;
    type Args = SessionArgs;
    type State = Session;

    fn start(ctx: &mut Ctx<Self>, args: SessionArgs) -> Result<Session, ActorError> {
        let SessionArgs { conversation, router, arrival, deps } = args;
        ctx.note_to_self(SessionMsg::Hint(arrival));
        Ok(Session {
            conversation,
            router,
            deps,
            running: None,
            claiming: false,
            ready: None,
            hinted: false,
            waits: false,
            cancelled: None,
            gathering: None,
            gathered: 0,
            steering: Vec::new(),
            idle: (0, None),
            makes_room: false,
        })
    }

    async fn handle(
        ctx: &mut Ctx<Self>,
        state: &mut Session,
        message: SessionMsg,
    ) -> Result<(), ActorError> {
        match message {
            SessionMsg::Hint(arrival) => state.arrived(ctx, arrival).await?,
            SessionMsg::Gathered { timer } => {
                if state.gathering.as_ref().is_some_and(|gathering| gathering.number == timer) {
                    state.gathering = None;
                    state.claim(ctx);
                }
            }
            SessionMsg::Retry => {
                state.waits = false;
                state.next(ctx).await?;
            }
            SessionMsg::Claimed(Ok(outcome)) => state.claimed(ctx, outcome).await?,
            SessionMsg::Claimed(Err(error)) => {
                state.claiming = false;
                tracing::warn!(conversation = %state.conversation, %error, "a claim failed");
                state.deps.observer.observe(Observation::StoreFailed { code: error.code() });
                ctx.after(CLAIM_PAUSE, SessionMsg::Retry);
            }
            SessionMsg::ApprovalHint { turn, approval } => {
                if let Some(running) = &state.running
                    && running.turn == turn
                {
                    // A lost hint costs time only: the approval's actor looks by itself.
                    let _ = running.address.try_send(TurnMsg::ApprovalHint(approval));
                }
            }
            SessionMsg::Cancel(turn) => match &state.running {
                Some(running) if running.turn == turn => {
                    ctx.stop_child(running.id, StopReason::User);
                }
                _ => {
                    let comes = state.claiming || state.ready.is_some();
                    state.cancelled = Some(turn).filter(|_| comes);
                    // It may be the one that waits for its agent to be configured again.
                    if std::mem::take(&mut state.waits) {
                        state.next(ctx).await?;
                    }
                }
            },
            SessionMsg::MakeRoom => {
                state.makes_room = true;
                if state.is_idle() && !ctx.is_paused() {
                    state.wait_idle(ctx);
                }
            }
            // A pause is an operator's: it lasts, so its session does not go to rest.
            SessionMsg::IdleTimeout { .. } if ctx.is_paused() => {}
            SessionMsg::IdleTimeout { timer } if timer == state.idle.0 && state.is_idle() => {
                // The router is full: ask again later.
                if state
                    .router
                    .try_send(RouterMsg::Idle { conversation: state.conversation })
                    .is_err()
                {
                    state.wait_idle(ctx);
                }
            }
            SessionMsg::IdleTimeout { .. } => {}
        }
        Ok(())
    }

    async fn child_exited(
        ctx: &mut Ctx<Self>,
        state: &mut Session,
        exit: ChildExit,
    ) -> Result<(), ActorError> {
        if state.running.as_ref().is_some_and(|running| running.id == exit.id) {
            if exit.reason.is_abnormal() {
                tracing::warn!(conversation = %state.conversation, reason = %exit.reason, "a turn crashed; it goes on from its journal");
            }
            let ended = state.running.take();
            // What was accepted after the end was committed has brought a hint.
            let nothing_waits = !state.hinted
                && ended.is_some_and(|running| running.nothing_waits.load(Ordering::Acquire));
            if ctx.stopping().is_some() {
                ctx.end();
            } else if nothing_waits && state.ready.is_none() {
                state.wait_idle(ctx);
            } else {
                state.next(ctx).await?;
            }
        }
        Ok(())
    }

    async fn stop_requested(
        ctx: &mut Ctx<Self>,
        state: &mut Session,
        reason: &StopReason,
    ) -> Result<(), ActorError> {
        state.return_ready(ctx);
        match &state.running {
            Some(running) => ctx.stop_child(running.id, reason.clone()),
            None => ctx.end(),
        }
        Ok(())
    }

    async fn resumed(ctx: &mut Ctx<Self>, state: &mut Session) -> Result<(), ActorError> {
        state.next(ctx).await
    }

    fn observe(state: &Session) -> Value {
        json!({
            "conversation": state.conversation,
            "turn": state.running.as_ref().map(|running| running.turn),
            "running_ms": state.running.as_ref().map(|running| {
                u64::try_from(running.since.elapsed().as_millis()).unwrap_or(u64::MAX)
            }),
        })
    }
}

impl Session {
    fn is_idle(&self) -> bool {
        self.running.is_none()
            && !self.claiming
            && self.ready.is_none()
            && !self.hinted
            && !self.waits
            && self.gathering.is_none()
    }

    /// A row came, or may have come.
    async fn arrived(
        &mut self,
        ctx: &mut Ctx<SessionActor>,
        arrival: Arrival,
    ) -> Result<(), ActorError> {
        match arrival {
            Arrival::Claimed(claim) => {
                self.ready = Some(claim);
                if ctx.is_paused() {
                    self.return_ready(ctx);
                }
                return self.next(ctx).await;
            }
            // The sweep does not cut short what waits for others.
            Arrival::Waits if self.gathering.is_some() => {}
            Arrival::Waits => self.claim(ctx),
            Arrival::Interrupts(turn) => {
                // A hint may come after its own row was claimed.
                if let Some(running) = self.running.as_ref().filter(|one| one.turn != turn) {
                    ctx.stop_child(running.id, StopReason::Replaced);
                }
                self.claim(ctx);
            }
            Arrival::Steers(steering) => {
                if self.claiming && self.steering.len() < MAX_EARLY_STEERING {
                    self.steering.push(*steering);
                } else {
                    self.steer(steering);
                }
                self.claim(ctx);
            }
            Arrival::Gathers { quiet, most } => self.gather(ctx, quiet, most),
        }
        Ok(())
    }

    /// What was claimed already, or else what the store has.
    async fn next(&mut self, ctx: &mut Ctx<SessionActor>) -> Result<(), ActorError> {
        let free = self.running.is_none() && !self.claiming && !self.waits;
        if free
            && ctx.stopping().is_none()
            && !ctx.is_paused()
            && let Some(claim) = self.ready.take()
        {
            return self.start_turn(ctx, claim).await;
        }
        self.claim(ctx);
        Ok(())
    }

    /// What was claimed already does not begin here and now: it waits in the store.
    fn return_ready(&mut self, ctx: &mut Ctx<SessionActor>) {
        if let Some(claim) = self.ready.take() {
            let store = self.deps.store.clone();
            ctx.task(async move {
                return_claim(&store, &claim).await;
                None
            });
        }
    }

    /// Offers a row to the turn that runs. What it does not take is claimed after it.
    fn steer(&self, steering: Box<Steering>) {
        if let Some(running) = self.running.as_ref().filter(|one| one.turn != steering.turn)
            && let Err(refused) = running.address.try_send(TurnMsg::Steer(steering))
        {
            tracing::debug!(turn = %running.turn, why = refused.as_str(), "a turn takes nothing in");
        }
    }

    /// A message waits for others, unless a turn runs: those that wait for its end go together anyway.
    fn gather(&mut self, ctx: &mut Ctx<SessionActor>, quiet: Duration, most: Duration) {
        if self.running.is_some() || self.claiming || self.waits {
            return self.claim(ctx);
        }
        let now = Instant::now();
        let former = self.gathering.take();
        let until = former.as_ref().map_or(now + most, |former| former.until);
        self.gathered += 1;
        let number = self.gathered;
        if let Some(timer) = former.and_then(|former| former.timer) {
            ctx.abort(timer);
        }
        let wait = quiet.min(until.saturating_duration_since(now));
        let timer = ctx.after(wait, SessionMsg::Gathered { timer: number });
        self.gathering = Some(Gathering { until, number, timer });
    }

    fn claim(&mut self, ctx: &mut Ctx<SessionActor>) {
        if ctx.stopping().is_some() || ctx.is_paused() {
            return;
        }
        if self.running.is_some() || self.claiming || self.waits {
            self.hinted = true;
            return;
        }
        self.claiming = true;
        self.hinted = false;
        let store = self.deps.store.clone();
        let claim = Claim {
            conversation_id: self.conversation,
            at: ctx.world().now(),
            terms: self.deps.terms.clone(),
        };
        ctx.task(async move { Some(SessionMsg::Claimed(store.claim(claim).await)) });
    }

    async fn claimed(
        &mut self,
        ctx: &mut Ctx<SessionActor>,
        outcome: ClaimOutcome,
    ) -> Result<(), ActorError> {
        self.claiming = false;
        let early = std::mem::take(&mut self.steering);
        let ready = self.ready.take();
        match outcome {
            // The row was accepted, and claimed, after the store had looked. Otherwise this claim of it is
            // the older one: the store refuses what it would write.
            ClaimOutcome::Nothing if ready.is_some() => {
                self.ready = ready;
                self.next(ctx).await?;
                early.into_iter().for_each(|steering| self.steer(Box::new(steering)));
            }
            ClaimOutcome::Nothing if self.hinted => self.claim(ctx),
            ClaimOutcome::Nothing => self.wait_idle(ctx),
            ClaimOutcome::Exhausted(record) => {
                self.given_up(&record);
                self.claim(ctx);
            }
            // A stop came with the claim's answer: a later life takes the row up.
            ClaimOutcome::Turn(_) if ctx.stopping().is_some() => ctx.end(),
            ClaimOutcome::Turn(claim) => {
                self.tell_merged(&claim);
                self.start_turn(ctx, claim).await?;
                early.into_iter().for_each(|steering| self.steer(Box::new(steering)));
            }
        }
        Ok(())
    }

    /// Messages that go with the claimed one have their end.
    fn tell_merged(&self, claim: &TurnClaim) {
        for turn in &claim.merged {
            let merged = TurnEventKind::merged(claim.record.id);
            self.deps.hub.publish(self.conversation, *turn, merged);
        }
    }

    fn wait_idle(&mut self, ctx: &mut Ctx<SessionActor>) {
        if let Some(key) = self.idle.1.take() {
            ctx.abort(key);
        }
        self.idle.0 += 1;
        let timer = self.idle.0;
        let idle = RouterMsg::Idle { conversation: self.conversation };
        if std::mem::take(&mut self.makes_room)
            && !ctx.is_paused()
            && self.router.try_send(idle).is_ok()
        {
            return;
        }
        self.idle.1 = ctx.after(self.deps.session_idle, SessionMsg::IdleTimeout { timer });
    }
}
