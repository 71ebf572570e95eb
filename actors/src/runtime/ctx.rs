//! What an actor may do: its own address, children, tasks, time, its end.

use std::any::Any;
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use ractor::{ActorCell, ActorRef};
use rookery_messages::address::{Address, StopHandle};
use rookery_messages::exit::{ExitReason, StopReason};
use rookery_messages::ids::ActorId;
use rookery_messages::time::World;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::directory::Directory;
use super::entry::Entry;
use super::host::{ExitCell, Parcel};
use super::panics::{self, PanicReport};
use super::spawn::{Child, SpawnError, SpawnSpec, spawn_under};
use super::supervised::Supervised;
use super::tasks::TaskKey;

/// What remains of a deadline for the level below, so that a parent never kills a child in its grace.
pub(super) fn child_deadline(deadline: Instant) -> Instant {
    let left = deadline.saturating_duration_since(Instant::now());
    deadline - (left / 10).clamp(Duration::from_millis(20), Duration::from_millis(500)).min(left)
}

/// A parent's hold on a child of any message type.
#[derive(Clone, Debug)]
pub struct ChildHandle {
    /// Incarnation.
    pub id: ActorId,
    /// Its kind.
    pub kind: &'static str,
    /// The last segments of its path.
    pub segment: String,
    pub(super) stop: StopHandle,
    pub(super) cell: ActorCell,
    pub(super) exit: Arc<ExitCell>,
}

impl ChildHandle {
    /// Asks it to stop by an absolute deadline, or within its own grace.
    pub fn stop_by(&self, reason: StopReason, deadline: Option<Instant>) {
        self.stop.stop_by(reason, deadline);
    }

    /// Why it was asked to stop, if it was.
    pub fn stop_asked(&self) -> Option<StopReason> {
        self.stop.cell().get().map(|(reason, _)| reason.clone())
    }

    /// Ends it at once.
    pub fn kill(&self) {
        self.cell.kill();
    }

    /// Waits for its end.
    pub async fn ended(&self) -> ExitReason {
        self.exit.wait().await
    }

    /// How it ended, if it has.
    pub fn exit(&self) -> Option<ExitReason> {
        self.exit.get()
    }
}

/// What an actor may do. Given to each of its handlers.
pub struct Ctx<T: Supervised> {
    pub(super) entry: Arc<Entry>,
    pub(super) directory: Arc<Directory>,
    pub(super) world: World,
    pub(super) myself: ActorRef<Parcel<T::Msg>>,
    pub(super) address: Address<T::Msg>,
    pub(super) children: BTreeMap<ActorId, ChildHandle>,
    /// The place of the message in hand; a task started while it is handled takes it over.
    pub(super) place: Option<OwnedSemaphorePermit>,
    pub(super) grace: Duration,
    pub(super) stopping: Option<(StopReason, Instant)>,
    pub(super) end: Option<ExitReason>,
}

impl<T: Supervised> Ctx<T> {
    /// This incarnation's id.
    pub fn id(&self) -> ActorId {
        self.entry.id
    }

    /// Its path from the root.
    pub fn path(&self) -> &str {
        &self.entry.path
    }

    /// Its own address.
    pub fn address(&self) -> Address<T::Msg> {
        self.address.clone()
    }

    /// Clock, ids, jitter.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Who lives.
    pub fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    /// Whether it takes no new work because the service ends. Then it [is paused](Self::is_paused) too.
    pub fn is_draining(&self) -> bool {
        self.entry.is_draining()
    }

    /// Whether an operator paused it: it takes no new work.
    pub fn is_paused(&self) -> bool {
        self.entry.is_paused()
    }

    /// Whether it was told to stop, and why.
    pub fn stopping(&self) -> Option<&StopReason> {
        self.stopping.as_ref().map(|(reason, _)| reason)
    }

    /// When it has to be gone, once told to stop.
    pub fn deadline(&self) -> Option<Instant> {
        self.stopping.as_ref().map(|(_, deadline)| *deadline)
    }

    /// What it waits for, as operators see it.
    pub fn set_waiting_on(&self, what: Option<String>) {
        self.entry.set_waiting_on(what);
    }

    /// Ends this actor after the handler: finished, or stopped if it was told to.
    pub fn end(&mut self) {
        if self.end.is_none() {
            self.end = Some(match &self.stopping {
                Some((reason, _)) => ExitReason::Stopped { reason: reason.clone() },
                None => ExitReason::Finished,
            });
        }
    }

    /// Starts a child. Only from a handler.
    pub async fn spawn<C: Supervised>(
        &mut self,
        spec: SpawnSpec,
        args: C::Args,
    ) -> Result<Child<C::Msg>, SpawnError> {
        let child = spawn_under::<C>(
            &self.directory,
            &self.world,
            Some((&self.entry, self.myself.get_cell())),
            spec,
            args,
        )
        .await?;
        self.children.insert(child.handle.id, child.handle.clone());
        Ok(child)
    }

    /// Takes a child in that a [`super::Starter`] started under it.
    pub fn adopt(&mut self, handle: ChildHandle) {
        self.children.insert(handle.id, handle);
    }

    /// This actor, as the one that a [`super::Starter`] starts a child under.
    pub fn as_parent(&self) -> super::Parent {
        super::Parent {
            entry: Arc::clone(&self.entry),
            cell: self.myself.get_cell(),
            directory: Arc::clone(&self.directory),
            world: self.world.clone(),
        }
    }

    /// Children alive, oldest first.
    pub fn children(&self) -> impl Iterator<Item = &ChildHandle> {
        self.children.values()
    }

    /// One child.
    pub fn child(&self, id: ActorId) -> Option<&ChildHandle> {
        self.children.get(&id)
    }

    /// Asks a child to stop. While stopping, its deadline lies before this actor's own.
    pub fn stop_child(&self, id: ActorId, reason: StopReason) {
        if let Some(child) = self.children.get(&id) {
            child.stop_by(reason, self.deadline().map(child_deadline));
        }
    }

    /// Asks all children to stop.
    pub fn stop_children(&self, reason: &StopReason) {
        let deadline = self.deadline().map(child_deadline);
        for child in self.children.values() {
            child.stop_by(reason.clone(), deadline);
        }
    }

    /// Starts a task. It belongs to this actor, ends with it, and may report one message. A panic in
    /// it is this actor's. It takes over the place of the message in hand, so that mailbox and tasks
    /// together stay within the mailbox's capacity.
    pub fn task<F>(&mut self, future: F) -> Option<TaskKey>
    where
        F: Future<Output = Option<T::Msg>> + Send + 'static,
    {
        let place = self.place.take();
        self.start_task(place, future)
    }

    /// Sends itself a message, behind those that wait already. Needs no room: there is one at a time, as a
    /// rule from its start, where nothing else can be done yet.
    pub fn note_to_self(&self, message: T::Msg) {
        // It can't have ended: this is one of its handlers.
        let _ = self.myself.send_message(Parcel::Report(message));
    }

    /// Sends itself a message later. The key cancels it.
    pub fn after(&mut self, delay: Duration, message: T::Msg) -> Option<TaskKey> {
        self.start_task(None, async move {
            tokio::time::sleep(delay).await;
            Some(message)
        })
    }

    /// Aborts one of its tasks. Nothing happens if it is done.
    pub fn abort(&self, key: TaskKey) {
        self.entry.tasks.abort(key);
    }

    fn start_task<F>(&self, place: Option<OwnedSemaphorePermit>, future: F) -> Option<TaskKey>
    where
        F: Future<Output = Option<T::Msg>> + Send + 'static,
    {
        let myself = self.myself.clone();
        // Boxed where it is smallest: tokio copies a task's future several times on its way to the heap.
        let future = Box::pin(future);
        self.entry.tasks.start(async move {
            let outcome = AssertUnwindSafe(future).catch_unwind().await;
            let parcel = match outcome {
                Ok(Some(message)) => Parcel::Report(message),
                Ok(None) => return,
                Err(payload) => Parcel::TaskPanicked(report(&*payload)),
            };
            drop(place);
            // An error means that the actor has ended: nobody is left to be told.
            let _ = myself.send_message(parcel);
        })
    }

    pub(super) fn note_status(&self, status: rookery_messages::tree::ActorStatus) {
        self.entry.set_status(status);
    }

    pub(super) fn take_in_hand(&self, kind: &'static str) {
        *self.entry.in_hand.lock() = Some((kind, Instant::now()));
        self.note_status(if self.stopping.is_some() {
            rookery_messages::tree::ActorStatus::Stopping
        } else {
            rookery_messages::tree::ActorStatus::Busy
        });
    }

    pub(super) fn put_down(&self) {
        *self.entry.in_hand.lock() = None;
        self.entry.handled.fetch_add(1, Ordering::Relaxed);
        if self.stopping.is_none() {
            self.note_status(rookery_messages::tree::ActorStatus::Idle);
        }
    }
}

fn report(payload: &(dyn Any + Send)) -> PanicReport {
    panics::report(payload)
}
