//! The router: `sessions`. Maps conversations to their sessions, and lets idle ones go.
//!
//! It is the only one who starts sessions, so a conversation never has two (I3). A message is a hint:
//! what is lost is found by the sweep, which asks the store for open rows now and then. Passivation:
//! unmap, recheck the inbox, then stop.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use rookery_messages::address::Address;
use rookery_messages::exit::{ActorError, ExitReason, StopReason};
use rookery_messages::ids::{ActorId, ConversationId};
use rookery_messages::session::{Arrival, RouterMsg, SessionMsg};
use rookery_messages::store::Prune;
use rookery_messages::turn::TurnClaim;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::actor::{SessionActor, SessionArgs};
use crate::runtime::{ChildExit, Ctx, SpawnSpec, Supervised, TaskKey};
use crate::store::return_claim;
use crate::turn::TurnDeps;

/// How often it looks for rows nobody owns.
const SWEEP: Duration = Duration::from_secs(10);
/// What is old is thrown away so many sweeps apart, about once an hour …
const SWEEPS_A_PRUNING: u32 = 360;
/// … the first time when a restart's work is done; …
const FIRST_PRUNING: u32 = 6;
/// … so many turns are looked at at once, with a pause after each piece.
const PIECE: u32 = 200;
const BETWEEN_PIECES: Duration = Duration::from_millis(100);
/// Most conversations that wait for a place by name.
const MOST_WAITING: usize = 1_024;
/// So many sessions are asked at once to make room: some of them may be at work.
const ASKED_AT_ONCE: usize = 4;
/// How long a session may take to stop: its turn's grace and a margin.
const SESSION_GRACE: Duration = Duration::from_secs(17);

/// See the module's documentation.
pub struct RouterActor;

/// What it is built from.
#[derive(Clone)]
pub struct RouterArgs {
    /// The service's shared parts.
    pub deps: Arc<TurnDeps>,
}

/// What it knows.
pub struct Router {
    deps: Arc<TurnDeps>,
    sessions: HashMap<ConversationId, Mapped>,
    by_child: HashMap<ActorId, ConversationId>,
    /// Hints that came when the map was full.
    turned_away: u64,
    /// Conversations that wait for a place, first come first; the sweep finds those that are too many.
    waiting: VecDeque<ConversationId>,
    /// The store is being asked.
    sweeping: bool,
    /// How often it has swept: now and then it also throws away what is old.
    sweeps: u32,
    /// The next sweep. There is one at a time, however often the router is resumed.
    next_sweep: Option<TaskKey>,
}

struct Mapped {
    id: ActorId,
    address: Address<SessionMsg>,
    /// The recheck runs: a hint in between keeps it.
    leaving: bool,
    /// When somebody wrote there last.
    heard: Instant,
    /// It was asked to make room since then.
    asked: bool,
}

impl Supervised for RouterActor {
    const KIND: &'static str = "router";
    const PAUSABLE: bool = true;
    type Msg = RouterMsg;
    type Args = RouterArgs;
    type State = Router;

    fn start(ctx: &mut Ctx<Self>, args: RouterArgs) -> Result<Router, ActorError> {
        ctx.note_to_self(RouterMsg::Sweep);
        Ok(Router {
            deps: args.deps,
            sessions: HashMap::new(),
            by_child: HashMap::new(),
            turned_away: 0,
            waiting: VecDeque::new(),
            sweeping: false,
            sweeps: 0,
            next_sweep: None,
        })
    }

    async fn handle(
        ctx: &mut Ctx<Self>,
        state: &mut Router,
        message: RouterMsg,
    ) -> Result<(), ActorError> {
        match message {
            RouterMsg::Hint { conversation, arrival } => {
                state.hint(ctx, conversation, arrival).await;
            }
            RouterMsg::Sweep => state.sweep(ctx),
            RouterMsg::Swept(found) => {
                state.sweeping = false;
                match found {
                    Ok(open) => {
                        for conversation in open {
                            // A session that is there may have missed its hint just as well.
                            state.hint(ctx, conversation, Arrival::Waits).await;
                        }
                    }
                    Err(error) => tracing::warn!(%error, "the sweep for open turns failed"),
                }
                state.deps.receipts.end_old();
                state.prune(ctx);
                state.next_sweep = ctx.after(SWEEP, RouterMsg::Sweep);
            }
            RouterMsg::Idle { conversation } => {
                if let Some(mapped) = state.sessions.get_mut(&conversation) {
                    mapped.leaving = true;
                    let store = state.deps.store.clone();
                    ctx.task(async move {
                        let open = store.has_open(conversation).await;
                        Some(RouterMsg::IdleChecked { conversation, open })
                    });
                }
            }
            RouterMsg::IdleChecked { conversation, open } => {
                state.idle_checked(ctx, conversation, matches!(open, Ok(false))).await;
            }
            RouterMsg::ApprovalHint { conversation, turn, approval } => {
                // No session runs a turn that another one waits for.
                state.deps.nested.hint(conversation, approval);
                state.pass_on(conversation, SessionMsg::ApprovalHint { turn, approval });
            }
            RouterMsg::Cancel { conversation, turn } => {
                state.pass_on(conversation, SessionMsg::Cancel(turn));
            }
        }
        Ok(())
    }

    async fn child_exited(
        ctx: &mut Ctx<Self>,
        state: &mut Router,
        exit: ChildExit,
    ) -> Result<(), ActorError> {
        let Some(conversation) = state.by_child.remove(&exit.id) else { return Ok(()) };
        if state.sessions.get(&conversation).is_some_and(|mapped| mapped.id == exit.id) {
            state.sessions.remove(&conversation);
        }
        if exit.reason.is_abnormal() && ctx.stopping().is_none() {
            // Its rows are in the store; a new session takes them up.
            state.hint(ctx, conversation, Arrival::Waits).await;
        } else if !state.sessions.contains_key(&conversation) {
            // Unless another session has taken its place already, whose events these are now.
            state.deps.hub.rest(conversation);
            state.deps.receipts.rest(conversation);
            state.recheck(ctx, conversation, &exit.reason);
        }
        state.fill_places(ctx).await;
        state.end_if_empty(ctx);
        Ok(())
    }

    async fn stop_requested(
        ctx: &mut Ctx<Self>,
        state: &mut Router,
        reason: &StopReason,
    ) -> Result<(), ActorError> {
        // An operator who stops or restarts the router, or all of the service, has no quarrel with the
        // conversations: their turns leave in good order and go on when it is back.
        let reason = match reason {
            StopReason::Operator(_) => &StopReason::ParentEnded,
            reason => reason,
        };
        ctx.stop_children(reason);
        state.end_if_empty(ctx);
        Ok(())
    }

    async fn resumed(ctx: &mut Ctx<Self>, state: &mut Router) -> Result<(), ActorError> {
        state.sweep(ctx);
        Ok(())
    }

    fn observe(state: &Router) -> Value {
        json!({
            "sessions": state.sessions.len(),
            "waiting": state.waiting.len(),
            "turned_away": state.turned_away,
        })
    }
}

impl Router {
    /// Asks the store for open rows now, in place of the sweep that was to come.
    fn sweep(&mut self, ctx: &mut Ctx<RouterActor>) {
        if let Some(timer) = self.next_sweep.take() {
            ctx.abort(timer);
        }
        if self.sweeping {
            return;
        }
        self.sweeping = true;
        let store = self.deps.store.clone();
        ctx.task(async move { Some(RouterMsg::Swept(store.open_conversations().await)) });
    }

    /// Throws away what ended long ago, in pieces between which others write.
    fn prune(&mut self, ctx: &mut Ctx<RouterActor>) {
        let due = self.sweeps % SWEEPS_A_PRUNING == FIRST_PRUNING;
        self.sweeps = self.sweeps.wrapping_add(1);
        let retention = &self.deps.retention;
        let now = ctx.world().now();
        let before =
            |days: u32| (days > 0).then(|| now - SignedDuration::from_hours(24 * i64::from(days)));
        let mut prune = Prune {
            journal_before: before(retention.journal_days),
            inbox_before: before(retention.inbox_days),
            limit: PIECE,
            after: 0,
        };
        if !due || (prune.journal_before.is_none() && prune.inbox_before.is_none()) {
            return;
        }
        let store = self.deps.store.clone();
        ctx.task(async move {
            loop {
                match store.prune(prune).await {
                    Ok(Some(next)) => {
                        prune.after = next;
                        tokio::time::sleep(BETWEEN_PIECES).await;
                    }
                    Ok(None) => return None,
                    Err(error) => {
                        tracing::warn!(%error, "old turns stay for now");
                        return None;
                    }
                }
            }
        });
    }

    async fn hint(
        &mut self,
        ctx: &mut Ctx<RouterActor>,
        conversation: ConversationId,
        arrival: Arrival,
    ) {
        if let Some(mapped) = self.sessions.get_mut(&conversation) {
            mapped.leaving = false;
            mapped.heard = Instant::now();
            mapped.asked = false;
            // A full mailbox holds a hint already; a closed one is followed by its exit.
            if let Err(refused) = mapped.address.try_send(SessionMsg::Hint(arrival)) {
                self.return_claim(ctx, refused.into_message().into_claim());
            }
            return;
        }
        if ctx.stopping().is_some() || ctx.is_paused() {
            return self.return_claim(ctx, arrival.into_claim());
        }
        if self.sessions.len() >= self.deps.max_sessions {
            self.turned_away += 1;
            self.wait_for_place(conversation);
            return self.return_claim(ctx, arrival.into_claim());
        }
        let deps = Arc::clone(&self.deps);
        let args = SessionArgs { conversation, router: ctx.address(), arrival, deps };
        let spec = SpawnSpec::new(conversation.to_string()).mailbox(64).grace(SESSION_GRACE);
        match ctx.spawn::<SessionActor>(spec, args).await {
            Ok(child) => {
                let id = child.handle.id;
                self.by_child.insert(id, conversation);
                let address = child.address;
                let (leaving, heard, asked) = (false, Instant::now(), false);
                let mapped = Mapped { id, address, leaving, heard, asked };
                self.sessions.insert(conversation, mapped);
            }
            Err(error) => {
                tracing::error!(%conversation, %error, "a session did not start; the sweep tries again");
            }
        }
    }

    /// A turn that was claimed as it was accepted finds no session: it waits for the sweep.
    fn return_claim(&self, ctx: &mut Ctx<RouterActor>, claim: Option<Box<TurnClaim>>) {
        let Some(claim) = claim else { return };
        let store = self.deps.store.clone();
        ctx.task(async move {
            return_claim(&store, &claim).await;
            None
        });
    }

    /// All places are taken: those who have had theirs longest without need make room.
    fn wait_for_place(&mut self, conversation: ConversationId) {
        if !self.waiting.contains(&conversation) && self.waiting.len() < MOST_WAITING {
            self.waiting.push_back(conversation);
            self.make_room();
        }
    }

    fn make_room(&mut self) {
        let mut quiet: Vec<&mut Mapped> =
            self.sessions.values_mut().filter(|one| !one.asked && !one.leaving).collect();
        if quiet.len() > ASKED_AT_ONCE {
            quiet.select_nth_unstable_by_key(ASKED_AT_ONCE, |one| one.heard);
        }
        for mapped in quiet.into_iter().take(ASKED_AT_ONCE) {
            mapped.asked = mapped.address.try_send(SessionMsg::MakeRoom).is_ok();
        }
    }

    /// Those that wait, as far as there are places by now.
    async fn fill_places(&mut self, ctx: &mut Ctx<RouterActor>) {
        while self.sessions.len() < self.deps.max_sessions
            && let Some(conversation) = self.waiting.pop_front()
        {
            self.hint(ctx, conversation, Arrival::Waits).await;
        }
        if !self.waiting.is_empty() {
            self.make_room();
        }
    }

    async fn idle_checked(
        &mut self,
        ctx: &mut Ctx<RouterActor>,
        conversation: ConversationId,
        nothing_open: bool,
    ) {
        let Some(mapped) = self.sessions.get(&conversation) else { return };
        if mapped.leaving && nothing_open {
            let id = mapped.id;
            self.sessions.remove(&conversation);
            ctx.stop_child(id, StopReason::Idle);
            self.fill_places(ctx).await;
        } else {
            let _ = mapped.address.try_send(SessionMsg::Hint(Arrival::Waits));
        }
    }

    /// A session that was stopped by hand may have left rows behind: they don't wait for the sweep.
    fn recheck(
        &self,
        ctx: &mut Ctx<RouterActor>,
        conversation: ConversationId,
        reason: &ExitReason,
    ) {
        if *reason == (ExitReason::Stopped { reason: StopReason::Idle }) || ctx.stopping().is_some()
        {
            return;
        }
        let store = self.deps.store.clone();
        ctx.task(async move {
            let open = store.has_open(conversation).await;
            matches!(open, Ok(true)).then_some(RouterMsg::hint(conversation))
        });
    }

    fn pass_on(&self, conversation: ConversationId, message: SessionMsg) {
        if let Some(mapped) = self.sessions.get(&conversation) {
            // A hint that is lost is made up for by whoever waits looking at the store.
            let _ = mapped.address.try_send(message);
        }
    }

    fn end_if_empty(&self, ctx: &mut Ctx<RouterActor>) {
        if ctx.stopping().is_some() && ctx.children().next().is_none() {
            ctx.end();
        }
    }
}
