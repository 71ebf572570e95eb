//! The sender of one channel: delivers its outbox.
//!
//! Owns no row: everything stands in the store, so a restart goes on where the last life stopped.
//! Supervised below its channel. A row is claimed (pending → sending, committed), tried once in a task,
//! and its result marked; the store hands out only the first unsent row of a conversation, so a
//! conversation's messages keep their order while others go in parallel. Looks for rows when told that
//! some are due, when the next one becomes due, and now and then by itself. At shutdown it delivers
//! what is due before it ends; otherwise it finishes what is in hand.
//!
//! For a platform that can show a turn while it runs, each such turn has a draft below it, which sends
//! within the same budgets and gives way to the answer.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use jiff::Timestamp;
use rookery_messages::channel::{Capabilities, ChannelAdapter, LiveTurn, SendAttempt, SenderMsg};
use rookery_messages::exit::{ActorError, StopReason};
use rookery_messages::observe::Observation;
use rookery_messages::settings::OnUnknown;
use rookery_messages::store::{OutboxPayload, OutboxRow, SendResult, StoreError};
use rookery_messages::time::World;
use rookery_messages::tool::head;
use serde_json::{Value, json};

use super::deliver::Delivery;
use super::draft::{DraftActor, DraftArgs, Prompts};
use crate::observe::{EventHub, ObserverHandle};
use crate::runtime::{ChildExit, Ctx, SpawnSpec, Supervised, TaskKey};
use crate::store::StoreClient;

/// Sends at once, over all conversations.
const MAX_IN_HAND: usize = 16;
/// Tries of one row.
const MAX_ATTEMPTS: u32 = 20;
/// A row older than this is not tried again.
const MAX_AGE: Duration = Duration::from_secs(24 * 3_600);
/// First delay before another try; doubles.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// Longest delay of our own.
const LONGEST_DELAY: Duration = Duration::from_secs(300);
/// Longest delay a platform may ask for.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(3_600);
/// How often it looks without being told.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// Delay after the store failed.
const STORE_DELAY: Duration = Duration::from_secs(1);
/// An adapter that does not bound itself is given up.
const SEND_LIMIT: Duration = Duration::from_secs(120);
/// So much of a cause is shown in the tree, in bytes; the actor's detail has it whole.
const SHOWN: usize = 100;
/// What stands before the turn's id in a draft's path.
const DRAFT: &str = "draft/";
/// Most turns shown at once while they run; the others are answered all the same.
const MAX_DRAFTS: usize = 1_024;

/// What a sender is built from.
#[derive(Clone)]
pub struct SenderArgs {
    /// The platform's sending half.
    pub adapter: Arc<dyn ChannelAdapter>,
    /// What is done with a send whose outcome is unknown.
    pub on_unknown: OnUnknown,
    /// The store.
    pub store: StoreClient,
    /// The event streams, for drafts.
    pub hub: Arc<EventHub>,
    /// Where a reply to a prompt finds it.
    pub prompts: Arc<Prompts>,
    /// Who is told.
    pub observer: ObserverHandle,
}

/// The actor.
pub struct Sender;

/// What it knows.
pub struct SenderState {
    args: SenderArgs,
    delivery: Delivery,
    /// What a former life left sending is given back.
    released: bool,
    claiming: bool,
    /// Rows became due while a claim was on its way.
    again: bool,
    in_hand: usize,
    timer: u64,
    timer_task: Option<TaskKey>,
    /// Why the last message tried did not arrive.
    trouble: Option<String>,
    sent: u64,
    retried: u64,
    dead: u64,
}

impl Supervised for Sender {
    const KIND: &'static str = "sender";
    const PAUSABLE: bool = true;
    type Msg = SenderMsg;
    type Args = SenderArgs;
    type State = SenderState;

    fn start(ctx: &mut Ctx<Self>, args: SenderArgs) -> Result<SenderState, ActorError> {
        release(ctx, &args);
        let delivery = Delivery {
            adapter: Arc::clone(&args.adapter),
            capabilities: Arc::new(args.adapter.capabilities()),
            budgets: Arc::default(),
            drafts: Arc::default(),
            prompts: Arc::clone(&args.prompts),
            store: args.store.clone(),
        };
        Ok(SenderState {
            args,
            delivery,
            released: false,
            claiming: false,
            again: false,
            in_hand: 0,
            timer: 0,
            timer_task: None,
            trouble: None,
            sent: 0,
            retried: 0,
            dead: 0,
        })
    }

    async fn handle(
        ctx: &mut Ctx<Self>,
        state: &mut SenderState,
        message: SenderMsg,
    ) -> Result<(), ActorError> {
        match message {
            SenderMsg::Released(Ok(())) => {
                state.released = true;
                state.claim(ctx);
            }
            SenderMsg::Released(Err(error)) => state.store_failed(ctx, &error),
            SenderMsg::Due => state.claim(ctx),
            SenderMsg::TurnBegan(live) => state.show(ctx, *live).await,
            SenderMsg::Timer { timer } if timer == state.timer => {
                if state.released {
                    state.claim(ctx);
                } else {
                    release(ctx, &state.args);
                }
            }
            SenderMsg::Timer { .. } => {}
            SenderMsg::Claimed(Ok(rows)) => state.claimed(ctx, rows),
            SenderMsg::Claimed(Err(error)) => {
                state.claiming = false;
                state.store_failed(ctx, &error);
            }
            SenderMsg::Tried { row, attempt } => state.tried(ctx, &row, attempt),
            SenderMsg::Marked { id, result } => state.marked(ctx, id, result),
            SenderMsg::NextDue(due) => {
                let now = ctx.world().now();
                let wait = match due {
                    Ok(Some(at)) => Duration::try_from(at.duration_since(now)).unwrap_or_default(),
                    Ok(None) => LOOK_AGAIN,
                    Err(_) => STORE_DELAY,
                };
                state.wake_after(ctx, wait.min(LOOK_AGAIN));
            }
        }
        state.end_if_done(ctx);
        Ok(())
    }

    async fn child_exited(
        ctx: &mut Ctx<Self>,
        state: &mut SenderState,
        exit: ChildExit,
    ) -> Result<(), ActorError> {
        // What it showed stands in the store for the answer, unless another attempt goes on with it.
        let turn = exit.segment.strip_prefix(DRAFT).and_then(|turn| turn.parse().ok());
        if let Some(turn) = turn
            && !ctx.children().any(|child| child.segment == exit.segment)
        {
            state.delivery.drafts.forget(turn);
        }
        Ok(())
    }

    async fn resumed(ctx: &mut Ctx<Self>, state: &mut SenderState) -> Result<(), ActorError> {
        state.claim(ctx);
        Ok(())
    }

    async fn stop_requested(
        ctx: &mut Ctx<Self>,
        state: &mut SenderState,
        reason: &StopReason,
    ) -> Result<(), ActorError> {
        if matches!(reason, StopReason::StoreLost) {
            ctx.end();
            return Ok(());
        }
        state.claim(ctx);
        state.end_if_done(ctx);
        Ok(())
    }

    fn observe(state: &SenderState) -> Value {
        json!({
            "channel": state.args.adapter.id(),
            "in_hand": state.in_hand,
            "drafts": state.delivery.drafts.len(),
            "last_error": state.trouble,
            "sent": state.sent,
            "retried": state.retried,
            "dead": state.dead,
        })
    }
}

/// Why a message did not arrive, or why nobody knows.
fn cause_of(result: &SendResult) -> Option<String> {
    match result {
        SendResult::Sent { .. } => None,
        SendResult::Retry { cause, .. }
        | SendResult::Unknown { cause, .. }
        | SendResult::Dead { cause, .. } => Some(cause.clone()),
    }
}

fn release(ctx: &mut Ctx<Sender>, args: &SenderArgs) {
    let (store, channel, now) = (args.store.clone(), args.adapter.id().clone(), ctx.world().now());
    let (on_unknown, prompts) = (args.on_unknown, Arc::clone(&args.prompts));
    ctx.task(async move {
        let released = async {
            // What was asked in chats before this life can still be answered there.
            for row in store.prompts(channel.clone()).await? {
                prompts.add(&row.conversation, &row.message, row.approval);
            }
            store.release_outbox(channel, now, on_unknown).await
        };
        Some(SenderMsg::Released(released.await))
    });
}

impl SenderState {
    /// Whether new rows may be taken: not when paused, and at the end only to flush at shutdown.
    fn takes_work(&self, ctx: &Ctx<Sender>) -> bool {
        let flushing = ctx.stopping().is_none_or(|reason| *reason == StopReason::Shutdown);
        self.released && flushing && !ctx.is_paused()
    }

    fn claim(&mut self, ctx: &mut Ctx<Sender>) {
        if !self.takes_work(ctx) {
            return;
        }
        if self.claiming {
            self.again = true;
            return;
        }
        let room = MAX_IN_HAND.saturating_sub(self.in_hand);
        if room == 0 {
            return;
        }
        self.claiming = true;
        self.again = false;
        let (store, channel) = (self.args.store.clone(), self.args.adapter.id().clone());
        let (now, limit) = (ctx.world().now(), u32::try_from(room).unwrap_or(u32::MAX));
        ctx.task(
            async move { Some(SenderMsg::Claimed(store.claim_outbox(channel, now, limit).await)) },
        );
    }

    fn claimed(&mut self, ctx: &mut Ctx<Sender>, rows: Vec<OutboxRow>) {
        self.claiming = false;
        if rows.is_empty() && !self.again {
            self.ask_next_due(ctx);
            return;
        }
        for row in rows {
            self.in_hand += 1;
            let delivery = self.delivery.clone();
            ctx.task(async move {
                let attempt = attempt(&delivery, &row).await;
                Some(SenderMsg::Tried { row: Box::new(row), attempt })
            });
        }
        self.claim(ctx);
    }

    /// A turn begins: its people may see it being written.
    async fn show(&mut self, ctx: &mut Ctx<Sender>, live: LiveTurn) {
        let Capabilities { streaming, typing, buttons, .. } = &*self.delivery.capabilities;
        let shows = streaming.is_in_chat() || typing.is_some() || *buttons;
        if !shows || ctx.stopping().is_some() || ctx.is_paused() {
            return;
        }
        let turn = live.turn;
        // Another attempt begins anew; the message that people see stays the same.
        let segment = format!("{DRAFT}{turn}");
        let former = ctx.children().find(|child| child.segment == segment).map(|child| child.id);
        if let Some(former) = former {
            ctx.stop_child(former, StopReason::Replaced);
        }
        if ctx.children().count() >= MAX_DRAFTS {
            tracing::debug!(%turn, "too many turns are shown while they run; this one isn't");
            return;
        }
        let args = DraftArgs {
            live,
            adapter: Arc::clone(&self.delivery.adapter),
            capabilities: Arc::clone(&self.delivery.capabilities),
            budgets: Arc::clone(&self.delivery.budgets),
            prompts: Arc::clone(&self.args.prompts),
            slot: self.delivery.drafts.open(turn),
            hub: Arc::clone(&self.args.hub),
            store: self.args.store.clone(),
        };
        let spec = SpawnSpec::new(segment).mailbox(4);
        if let Err(error) = ctx.spawn::<DraftActor>(spec, args).await {
            tracing::warn!(%turn, %error, "a turn is not shown while it runs");
        }
    }

    fn ask_next_due(&mut self, ctx: &mut Ctx<Sender>) {
        if ctx.stopping().is_some() {
            return;
        }
        let (store, channel) = (self.args.store.clone(), self.args.adapter.id().clone());
        ctx.task(async move { Some(SenderMsg::NextDue(store.outbox_due(channel).await)) });
    }

    fn tried(&mut self, ctx: &mut Ctx<Sender>, row: &OutboxRow, attempt: SendAttempt) {
        let result = judge(row, attempt, self.args.on_unknown, ctx.world());
        let again = matches!(
            result,
            SendResult::Retry { .. } | SendResult::Unknown { resend_at: Some(_), .. }
        );
        if let (false, OutboxPayload::Reply { turn, .. }) = (again, &row.message.payload) {
            self.delivery.drafts.forget(*turn);
        }
        let (store, id, world) = (self.args.store.clone(), row.message.id, ctx.world().clone());
        ctx.task(async move {
            // The row is ours until its result is written: nobody else may try it meanwhile.
            loop {
                match store.mark_outbox(id, world.now(), result.clone()).await {
                    Ok(()) => return Some(SenderMsg::Marked { id, result: Ok(result) }),
                    Err(error) if error.is_transient() => tokio::time::sleep(STORE_DELAY).await,
                    Err(error) => return Some(SenderMsg::Marked { id, result: Err(error) }),
                }
            }
        });
    }

    fn marked(
        &mut self,
        ctx: &mut Ctx<Sender>,
        id: rookery_messages::ids::OutboxId,
        result: Result<SendResult, StoreError>,
    ) {
        self.in_hand = self.in_hand.saturating_sub(1);
        match result {
            Ok(result) => {
                let word = match &result {
                    SendResult::Sent { .. } => {
                        self.sent += 1;
                        "sent"
                    }
                    SendResult::Retry { .. } => {
                        self.retried += 1;
                        "retry"
                    }
                    SendResult::Unknown { .. } => "unknown",
                    SendResult::Dead { .. } => {
                        self.dead += 1;
                        "dead"
                    }
                };
                let channel = self.args.adapter.id().clone();
                let cause = cause_of(&result);
                self.trouble.clone_from(&cause);
                let again = matches!(
                    result,
                    SendResult::Retry { .. } | SendResult::Unknown { resend_at: Some(_), .. }
                );
                let waiting = cause.as_deref().filter(|_| again);
                let waiting = waiting.map(|cause| format!("another try: {}", head(cause, SHOWN)));
                ctx.set_waiting_on(waiting);
                self.args.observer.observe(Observation::Delivery { channel, result: word, cause });
            }
            Err(error) => {
                tracing::warn!(row = %id, %error, "the result of a send could not be written");
                self.args.observer.observe(Observation::StoreFailed { code: error.code() });
            }
        }
        self.claim(ctx);
    }

    fn store_failed(&mut self, ctx: &mut Ctx<Sender>, error: &StoreError) {
        self.args.observer.observe(Observation::StoreFailed { code: error.code() });
        if ctx.stopping().is_none() {
            self.wake_after(ctx, STORE_DELAY);
        }
    }

    fn wake_after(&mut self, ctx: &mut Ctx<Sender>, wait: Duration) {
        if let Some(former) = self.timer_task.take() {
            ctx.abort(former);
        }
        self.timer += 1;
        self.timer_task = ctx.after(wait, SenderMsg::Timer { timer: self.timer });
    }

    fn end_if_done(&self, ctx: &mut Ctx<Sender>) {
        let more = self.claiming && self.takes_work(ctx);
        if ctx.stopping().is_some() && self.in_hand == 0 && !more {
            ctx.end();
        }
    }
}

/// One try. Whatever the adapter does, there is an answer.
async fn attempt(delivery: &Delivery, row: &OutboxRow) -> SendAttempt {
    if row.attempts >= MAX_ATTEMPTS {
        // Tries whose result nobody lived to write count too.
        return SendAttempt::Refused { cause: format!("given up after {} tries", row.attempts) };
    }
    let send = AssertUnwindSafe(async { delivery.row(row).await }).catch_unwind();
    match tokio::time::timeout(SEND_LIMIT, send).await {
        Ok(Ok(attempt)) => attempt,
        Ok(Err(_panic)) => SendAttempt::Unknown { cause: "the channel's adapter crashed".into() },
        Err(_) => SendAttempt::Unknown { cause: "the channel's adapter did not end".into() },
    }
}

/// What a try means for its row.
fn judge(
    row: &OutboxRow,
    attempt: SendAttempt,
    on_unknown: OnUnknown,
    world: &World,
) -> SendResult {
    let now = world.now();
    let tries = row.attempts + 1;
    let age = Duration::try_from(now.duration_since(row.created_at)).unwrap_or_default();
    let given_up = tries >= MAX_ATTEMPTS || age >= MAX_AGE;
    let later = |asked: Option<Duration>| -> Timestamp {
        let ceiling = FIRST_DELAY.saturating_mul(1 << row.attempts.min(16)).min(LONGEST_DELAY);
        let delay = ceiling / 2 + world.jitter(ceiling / 2);
        now + delay.max(asked.unwrap_or_default().min(LONGEST_RETRY_AFTER))
    };
    match attempt {
        SendAttempt::Sent { external_id } => SendResult::Sent { external_id },
        SendAttempt::Refused { cause } => SendResult::Dead { cause },
        SendAttempt::Failed { cause, .. } if given_up => {
            SendResult::Dead { cause: format!("given up after {tries} tries: {cause}") }
        }
        SendAttempt::Failed { cause, retry_after } => {
            SendResult::Retry { at: later(retry_after), cause }
        }
        SendAttempt::Unknown { cause } => {
            let resend = on_unknown == OnUnknown::Resend && !given_up;
            SendResult::Unknown { cause, resend_at: resend.then(|| later(None)) }
        }
    }
}

#[cfg(test)]
mod tests;
