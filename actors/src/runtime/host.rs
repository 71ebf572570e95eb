//! The only `impl ractor::Actor`: drives a [`Supervised`] actor.
//!
//! It meters the mailbox, times handlers, records the message in hand, catches panics, classifies the
//! exit, owns the tasks, stops children with a deadline before it ends, and calls `ended` for every
//! exit but a kill. Its drop is the one place where an incarnation leaves the directory, so that a kill,
//! which runs no code of ours, is seen too.

use std::future::Future;
use std::marker::PhantomData;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::FutureExt;
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use rookery_messages::address::{
    Address, AddressCell, Delivery, Mailbox, Message, StopCell, StopHandle, in_handler,
};
use rookery_messages::exit::{ActorError, ExitReason, StopReason};
use rookery_messages::time::World;
use rookery_messages::tree::ActorStatus;
use serde_json::Value;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::ctx::{Ctx, child_deadline};
use super::directory::Directory;
use super::entry::Entry;
use super::panics::{self, PanicReport};
use super::supervised::{ChildExit, Supervised};

/// How long `ended` may take: it awaits nothing slow.
const ENDED_LIMIT: Duration = Duration::from_secs(1);
/// What a child gets at least, when its parent is past its own deadline.
const LAST_MOMENT: Duration = Duration::from_millis(100);
/// How long a killed child may take to be gone.
const KILL_LIMIT: Duration = Duration::from_secs(2);
/// How long past its deadline an actor may be before it is killed from outside.
const KILL_MARGIN: Duration = Duration::from_millis(500);

/// What travels in the ractor mailbox.
pub(super) enum Parcel<M> {
    /// A message by an address, with its place.
    Message(Delivery<M>),
    /// A task's report.
    Report(M),
    /// One of its tasks panicked.
    TaskPanicked(PanicReport),
    /// Look at the stop cell and the deadline.
    Wake,
    /// A child's end, behind whatever the child had sent.
    ChildExited(ChildExit),
    /// An operator resumed it.
    Resumed,
    /// An operator wants its view of its state.
    Observe(oneshot::Sender<Value>),
}

/// The exit of one incarnation: written once, awaited by its parent.
#[derive(Default, Debug)]
pub(super) struct ExitCell {
    reason: OnceLock<ExitReason>,
    gone: OnceLock<()>,
    notify: Notify,
}

impl ExitCell {
    pub(super) fn set(&self, reason: ExitReason) {
        let _first_wins = self.reason.set(reason);
    }

    pub(super) fn get(&self) -> Option<ExitReason> {
        self.gone.get().and(self.reason.get().cloned())
    }

    fn reason_or_killed(&self) -> ExitReason {
        self.reason.get_or_init(|| ExitReason::Killed).clone()
    }

    fn mark_gone(&self) {
        let _once = self.gone.set(());
        self.notify.notify_waiters();
    }

    pub(super) async fn wait(&self) -> ExitReason {
        loop {
            let notified = self.notify.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if let Some(reason) = self.get() {
                return reason;
            }
            notified.await;
        }
    }
}

/// See the module's documentation.
pub(super) struct Host<T: Supervised> {
    entry: Arc<Entry>,
    directory: Arc<Directory>,
    exit: Arc<ExitCell>,
    /// Closed at the end, unless a supervisor owns it.
    cell: Option<Arc<AddressCell<T::Msg>>>,
    label: PhantomData<fn() -> T>,
}

impl<T: Supervised> Host<T> {
    pub(super) fn new(
        entry: Arc<Entry>,
        directory: Arc<Directory>,
        exit: Arc<ExitCell>,
        cell: Option<Arc<AddressCell<T::Msg>>>,
    ) -> Self {
        Self { entry, directory, exit, cell, label: PhantomData }
    }
}

impl<T: Supervised> Drop for Host<T> {
    fn drop(&mut self) {
        self.entry.tasks.abort_all();
        if let Some(cell) = &self.cell {
            cell.close();
        }
        let reason = self.exit.reason_or_killed();
        let in_hand = if reason.is_abnormal() {
            self.entry.in_hand.lock().map(|(kind, _)| kind)
        } else {
            None
        };
        self.directory.remove(&self.entry, &reason, in_hand);
        self.exit.mark_gone();
    }
}

pub(super) struct HostArgs<T: Supervised> {
    pub(super) args: T::Args,
    pub(super) entry: Arc<Entry>,
    pub(super) directory: Arc<Directory>,
    pub(super) world: World,
    pub(super) cell: Arc<AddressCell<T::Msg>>,
    pub(super) grace: Duration,
    pub(super) exit: Arc<ExitCell>,
}

/// The ractor state. The actor's own is taken out and dropped before the exit is told, because ractor
/// keeps this one alive in the parent's queue.
pub(super) struct HostState<T: Supervised> {
    ctx: Ctx<T>,
    state: Option<T::State>,
    stop: Arc<StopCell>,
}

impl<T: Supervised> Actor for Host<T> {
    type Msg = Parcel<T::Msg>;
    type State = HostState<T>;
    type Arguments = HostArgs<T>;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        args: Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        let HostArgs { args, entry, directory, world, cell, grace, exit } = args;
        let stop = Arc::new(StopCell::default());
        let control = control(&myself, &stop, &exit, grace);
        let poster = myself.clone();
        let mailbox = Mailbox::new(
            entry.id,
            entry.capacity,
            Arc::clone(&entry.gauge),
            Box::new(move |delivery| {
                poster.send_message(Parcel::Message(delivery)).map_err(|error| match error {
                    ractor::MessagingErr::SendErr(Parcel::Message(delivery)) => delivery,
                    _ => unreachable_delivery(),
                })
            }),
            control.clone(),
        )
        .outlived(self.cell.is_none());
        let _ = entry.control.set(control);
        let observer = myself.clone();
        let _ = entry.observe.set(Box::new(move |reply| {
            let _ = observer.send_message(Parcel::Observe(reply));
        }));
        let resumer = myself.clone();
        let _ = entry.resume.set(Box::new(move || {
            let _ = resumer.send_message(Parcel::Resumed);
        }));
        let mut ctx = Ctx {
            entry: Arc::clone(&entry),
            directory,
            world,
            myself,
            address: Address::new(Arc::clone(&cell)),
            children: Default::default(),
            place: None,
            grace,
            stopping: None,
            end: None,
        };
        // Messages may come as soon as the address is there; they wait until the start is done.
        cell.install(Arc::new(mailbox));
        let built = std::panic::catch_unwind(AssertUnwindSafe(|| T::start(&mut ctx, args)));
        let started = match built {
            Ok(Ok(state)) => Ok(state),
            Ok(Err(error)) => Err((error.message, error.permanent)),
            Err(payload) => {
                let report = panics::report(&*payload);
                Err((format!("panicked: {} at {}", report.message, report.location), false))
            }
        };
        match started {
            Ok(state) => {
                entry.set_status(ActorStatus::Idle);
                Ok(HostState { ctx, state: Some(state), stop })
            }
            Err((error, permanent)) => {
                let error = ctx.directory.clean(error);
                exit.set(ExitReason::StartFailed { error: error.clone(), permanent });
                Err(error.into())
            }
        }
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        parcel: Self::Msg,
        host: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        if host.state.is_none() {
            return Ok(());
        }
        if host.ctx.stopping.is_none() {
            self.notice_stop(host).await;
        }
        if host.ctx.end.is_none() {
            self.handle_parcel(host, parcel).await;
        }
        if let Some(reason) = host.ctx.end.clone() {
            Box::pin(self.finalize(host, reason)).await;
            myself.stop(None);
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<Self::Msg>,
        event: SupervisionEvent,
        host: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let (SupervisionEvent::ActorTerminated(who, ..) | SupervisionEvent::ActorFailed(who, _)) =
            event
        else {
            return Ok(());
        };
        let id = host.ctx.children.values().find(|c| c.cell.get_id() == who.get_id()).map(|c| c.id);
        if let Some(child) = id.and_then(|id| host.ctx.children.remove(&id)) {
            // Supervision events outrun messages. Put behind what the child had sent, so that an
            // exit is never seen before the report that went before it.
            let exit = ChildExit {
                id: child.id,
                kind: child.kind,
                segment: child.segment.clone(),
                reason: child.exit.reason_or_killed(),
            };
            let _ = myself.send_message(Parcel::ChildExited(exit));
        }
        Ok(())
    }
}

impl<T: Supervised> Host<T> {
    async fn notice_stop(&self, host: &mut HostState<T>) {
        let Some((reason, deadline)) = host.stop.get().cloned() else { return };
        let deadline = deadline.unwrap_or_else(|| Instant::now() + host.ctx.grace);
        host.ctx.stopping = Some((reason.clone(), deadline));
        host.ctx.note_status(ActorStatus::Stopping);
        let Some(state) = host.state.as_mut() else { return };
        let run = guarded(T::stop_requested(&mut host.ctx, state, &reason)).await;
        self.conclude(&mut host.ctx, run);
    }

    async fn handle_parcel(&self, host: &mut HostState<T>, parcel: Parcel<T::Msg>) {
        let Some(state) = host.state.as_mut() else { return };
        let ctx = &mut host.ctx;
        let run = match parcel {
            Parcel::Message(Delivery { message, permit }) => {
                self.entry.gauge.left();
                ctx.place = permit;
                self.in_hand(ctx, state, message).await
            }
            Parcel::Report(message) => self.in_hand(ctx, state, message).await,
            Parcel::ChildExited(exit) => {
                ctx.take_in_hand("ChildExited");
                guarded(T::child_exited(ctx, state, exit)).await
            }
            Parcel::Resumed => {
                ctx.take_in_hand("Resumed");
                guarded(T::resumed(ctx, state)).await
            }
            Parcel::TaskPanicked(report) => {
                ctx.take_in_hand("TaskPanicked");
                Err(Broken::Panicked(report))
            }
            Parcel::Observe(reply) => {
                let view = std::panic::catch_unwind(AssertUnwindSafe(|| T::observe(state)));
                let _nobody_waits = reply.send(view.unwrap_or(Value::Null));
                return;
            }
            Parcel::Wake => {
                if ctx.deadline().is_some_and(|deadline| Instant::now() >= deadline) {
                    ctx.end();
                }
                return;
            }
        };
        ctx.place = None;
        self.conclude(ctx, run);
        if ctx.end.as_ref().is_none_or(|reason| !reason.is_abnormal()) {
            ctx.put_down();
        }
    }

    async fn in_hand(
        &self,
        ctx: &mut Ctx<T>,
        state: &mut T::State,
        message: T::Msg,
    ) -> Result<(), Broken> {
        ctx.take_in_hand(message.kind());
        guarded(T::handle(ctx, state, message)).await
    }

    fn conclude(&self, ctx: &mut Ctx<T>, run: Result<(), Broken>) {
        match run {
            Ok(()) => {}
            Err(Broken::Failed(error)) => {
                let text = self.directory.clean(error.message);
                ctx.end = Some(ExitReason::Failed { error: text, permanent: error.permanent });
            }
            Err(Broken::Panicked(report)) => {
                ctx.end = Some(ExitReason::Panicked {
                    message: self.directory.clean(report.message),
                    location: report.location,
                });
            }
        }
    }

    /// The one end of every exit but a kill: children, then tasks, then `ended`, then the state.
    async fn finalize(&self, host: &mut HostState<T>, reason: ExitReason) {
        host.ctx.note_status(ActorStatus::Stopping);
        let deadline = host.ctx.deadline().unwrap_or_else(|| Instant::now() + host.ctx.grace);
        let why = match &reason {
            ExitReason::Stopped { reason } => reason.clone(),
            _ => StopReason::ParentEnded,
        };
        let children = std::mem::take(&mut host.ctx.children);
        let limit = child_deadline(deadline);
        // Whoever was not asked before gets a moment for its own bookkeeping.
        let deadline = deadline.max(Instant::now() + LAST_MOMENT);
        for child in children.values().rev() {
            child.stop_by(why.clone(), Some(limit));
        }
        for child in children.values().rev() {
            if tokio::time::timeout_at(deadline, child.ended()).await.is_err() {
                child.kill();
                let _ = tokio::time::timeout(KILL_LIMIT, child.ended()).await;
            }
        }
        self.entry.tasks.abort_and_wait().await;
        if let Some(mut state) = host.state.take() {
            let ended = guarded_unit(T::ended(&mut host.ctx, &mut state, &reason));
            let _ = tokio::time::timeout(ENDED_LIMIT, ended).await;
            // A drop may panic too; it must not take the exit's record with it.
            let _ = std::panic::catch_unwind(AssertUnwindSafe(move || drop(state)));
        }
        self.exit.set(reason);
    }
}

enum Broken {
    Failed(ActorError),
    Panicked(PanicReport),
}

/// Runs a handler. Its future is boxed: inline, it would be a part of each future that ractor's loop is made
/// of, and copied through all of them for every message.
fn guarded<F>(future: F) -> impl Future<Output = Result<(), Broken>>
where
    F: Future<Output = Result<(), ActorError>>,
{
    let run = AssertUnwindSafe(in_handler(Box::pin(future))).catch_unwind();
    async move {
        match run.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Broken::Failed(error)),
            Err(payload) => Err(Broken::Panicked(panics::report(&*payload))),
        }
    }
}

fn guarded_unit<F: Future<Output = ()>>(future: F) -> impl Future<Output = ()> {
    let run = AssertUnwindSafe(in_handler(Box::pin(future))).catch_unwind();
    run.map(|_panics_end_here| ())
}

/// The stop handle of a new incarnation. A stop also starts a watch outside the actor: whatever hangs
/// in a handler past its deadline is killed.
fn control<M: Send + 'static>(
    myself: &ActorRef<Parcel<M>>,
    stop: &Arc<StopCell>,
    exit: &Arc<ExitCell>,
    grace: Duration,
) -> StopHandle {
    let (waker, watched, gone) = (myself.clone(), Arc::clone(stop), Arc::clone(exit));
    let wake = move || {
        let _ = waker.send_message(Parcel::Wake);
        let deadline = watched.get().and_then(|(_, deadline)| *deadline);
        let deadline = deadline.unwrap_or_else(|| Instant::now() + grace);
        let (waker, gone) = (waker.clone(), Arc::clone(&gone));
        let watch = async move {
            if tokio::time::timeout_at(deadline, gone.wait()).await.is_ok() {
                return;
            }
            let _ = waker.send_message(Parcel::Wake);
            if tokio::time::timeout(KILL_MARGIN, gone.wait()).await.is_err() {
                waker.kill();
            }
        };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(watch);
        }
    };
    let killer = myself.get_cell();
    StopHandle::new(Arc::clone(stop), Arc::new(wake), Arc::new(move || killer.kill()))
}

#[allow(clippy::unreachable, reason = "ractor gives back the very message it could not queue")]
fn unreachable_delivery<M>() -> Delivery<M> {
    unreachable!("ractor answered a send with another message's error")
}
