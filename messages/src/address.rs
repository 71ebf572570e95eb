//! Where messages go: bounded, counted addresses that outlive an incarnation.
//!
//! An [`Address`] never queues more than its mailbox's capacity. A handler uses [`Address::try_send`],
//! which gives the message back if there is no room; tasks and outsiders may wait with
//! [`Address::send`]. A report that must arrive uses a [`Reserved`] place taken beforehand.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::exit::StopReason;
use crate::ids::ActorId;

/// The bounded label of a message: its enum variant's name. Shown as "message in hand".
pub trait Message: Send + 'static {
    /// The variant's name.
    fn kind(&self) -> &'static str;
}

impl Message for () {
    fn kind(&self) -> &'static str {
        "unit"
    }
}

/// Why a message was not taken. It always gives the message back.
#[derive(PartialEq, Eq)]
pub enum SendError<M> {
    /// The mailbox is full.
    Full(M),
    /// The actor is between two incarnations; try again soon.
    Restarting(M),
    /// The actor has ended for good.
    Closed(M),
    /// A handler tried to wait for room; two full mailboxes would wait for each other for ever.
    InHandler(M),
}

impl<M> SendError<M> {
    /// The message that was not taken.
    pub fn into_message(self) -> M {
        match self {
            Self::Full(m) | Self::Restarting(m) | Self::Closed(m) | Self::InHandler(m) => m,
        }
    }

    /// Short stable word.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Full(_) => "full",
            Self::Restarting(_) => "restarting",
            Self::Closed(_) => "closed",
            Self::InHandler(_) => "in_handler",
        }
    }
}

impl<M> fmt::Debug for SendError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl<M> fmt::Display for SendError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "mailbox is full",
            Self::Restarting(_) => "actor is restarting",
            Self::Closed(_) => "actor has ended",
            Self::InHandler(_) => "a handler may not wait for room in a mailbox",
        })
    }
}

impl<M> std::error::Error for SendError<M> {}

tokio::task_local! {
    /// Set while an actor's handler runs.
    static IN_HANDLER: ();
}

/// Runs a handler's future, so that a waiting send inside it is refused.
pub async fn in_handler<F: Future>(future: F) -> F::Output {
    IN_HANDLER.scope((), future).await
}

/// Whether the calling code runs inside an actor's handler.
pub fn is_in_handler() -> bool {
    IN_HANDLER.try_with(|()| ()).is_ok()
}

/// The typed stop signal of one incarnation: written once, seen before each message.
#[derive(Debug, Default)]
pub struct StopCell {
    asked: OnceLock<(StopReason, Option<Instant>)>,
    token: CancellationToken,
}

impl StopCell {
    /// Writes the reason if it is the first; tells whether it was.
    pub fn set(&self, reason: StopReason, deadline: Option<Instant>) -> bool {
        let first = self.asked.set((reason, deadline)).is_ok();
        if first {
            self.token.cancel();
        }
        first
    }

    /// The reason and the absolute deadline, once asked.
    pub fn get(&self) -> Option<&(StopReason, Option<Instant>)> {
        self.asked.get()
    }

    /// A token that is cancelled when the stop is asked.
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }
}

/// Stops or kills one incarnation, whatever its message type.
#[derive(Clone)]
pub struct StopHandle {
    cell: Arc<StopCell>,
    wake: Arc<dyn Fn() + Send + Sync>,
    kill: Arc<dyn Fn() + Send + Sync>,
}

impl StopHandle {
    /// `wake` queues one wake-up that needs no room; `kill` ends the incarnation at once.
    pub fn new(
        cell: Arc<StopCell>,
        wake: Arc<dyn Fn() + Send + Sync>,
        kill: Arc<dyn Fn() + Send + Sync>,
    ) -> Self {
        Self { cell, wake, kill }
    }

    /// Asks it to stop within its own grace. The first reason wins.
    pub fn stop(&self, reason: StopReason) {
        self.stop_by(reason, None);
    }

    /// Asks it to stop by an absolute deadline, after which it is killed.
    pub fn stop_by(&self, reason: StopReason, deadline: Option<Instant>) {
        if self.cell.set(reason, deadline) {
            (self.wake)();
        }
    }

    /// Ends it at its next await, without bookkeeping.
    pub fn kill(&self) {
        (self.kill)();
    }

    /// The stop cell.
    pub fn cell(&self) -> &Arc<StopCell> {
        &self.cell
    }
}

impl fmt::Debug for StopHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StopHandle").field(&self.cell.get()).finish()
    }
}

/// A message on its way, with the place it takes in the mailbox.
#[derive(Debug)]
pub struct Delivery<M> {
    /// The message.
    pub message: M,
    /// Its place; given back when the message is taken in hand.
    pub permit: Option<OwnedSemaphorePermit>,
}

/// Depth and high-water mark of a mailbox, readable without a message.
#[derive(Debug, Default)]
pub struct MailboxGauge {
    depth: AtomicUsize,
    high_water: AtomicUsize,
}

impl MailboxGauge {
    /// One message more.
    pub fn entered(&self) {
        let depth = self.depth.fetch_add(1, Ordering::Relaxed) + 1;
        self.high_water.fetch_max(depth, Ordering::Relaxed);
    }

    /// One message fewer.
    pub fn left(&self) {
        self.depth.fetch_sub(1, Ordering::Relaxed);
    }

    /// Messages waiting now.
    pub fn depth(&self) -> usize {
        self.depth.load(Ordering::Relaxed)
    }

    /// The most that ever waited.
    pub fn high_water(&self) -> usize {
        self.high_water.load(Ordering::Relaxed)
    }
}

/// Hands a delivery to the actor's queue; an error gives it back.
pub type Post<M> = Box<dyn Fn(Delivery<M>) -> Result<(), Delivery<M>> + Send + Sync>;

/// The bounded mailbox of one incarnation.
pub struct Mailbox<M> {
    actor: ActorId,
    capacity: usize,
    places: Arc<Semaphore>,
    gauge: Arc<MailboxGauge>,
    post: Post<M>,
    stop: StopHandle,
    outlived: bool,
}

impl<M> Mailbox<M> {
    /// Built by the runtime layer at spawn.
    pub fn new(
        actor: ActorId,
        capacity: usize,
        gauge: Arc<MailboxGauge>,
        post: Post<M>,
        stop: StopHandle,
    ) -> Self {
        let places = Arc::new(Semaphore::new(capacity));
        Self { actor, capacity, places, gauge, post, stop, outlived: false }
    }

    /// Its address outlives it: once the incarnation is gone, and before its supervisor knows, sends
    /// say `Restarting`. Whether there will be another is for the supervisor to say.
    #[must_use]
    pub fn outlived(mut self, outlived: bool) -> Self {
        self.outlived = outlived;
        self
    }

    fn deliver(&self, message: M, permit: OwnedSemaphorePermit) -> Result<(), SendError<M>> {
        self.gauge.entered();
        let depth = self.gauge.depth();
        // I10: a place is held by every waiting message, so the depth can't pass the capacity.
        crate::check_invariant!(I10, depth <= self.capacity, "depth {depth}/{}", self.capacity);
        (self.post)(Delivery { message, permit: Some(permit) }).map_err(|back| {
            self.gauge.left();
            if self.outlived {
                SendError::Restarting(back.message)
            } else {
                SendError::Closed(back.message)
            }
        })
    }
}

enum Slot<M> {
    Live(Arc<Mailbox<M>>),
    Restarting,
    Ended,
}

/// The swap cell behind an [`Address`]: outlives incarnations, owned by whoever restarts the actor.
pub struct AddressCell<M> {
    slot: ArcSwap<Slot<M>>,
    generation: AtomicU64,
}

impl<M> AddressCell<M> {
    /// A cell without an incarnation yet.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            slot: ArcSwap::from_pointee(Slot::Restarting),
            generation: AtomicU64::new(0),
        })
    }

    /// Installs a new incarnation's mailbox; gives its generation, starting at 1.
    pub fn install(&self, mailbox: Arc<Mailbox<M>>) -> u64 {
        self.slot.store(Arc::new(Slot::Live(mailbox)));
        self.generation.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Between incarnations: sends say `Restarting`.
    pub fn suspend(&self) {
        self.slot.store(Arc::new(Slot::Restarting));
    }

    /// Ended for good: sends say `Closed`.
    pub fn close(&self) {
        self.slot.store(Arc::new(Slot::Ended));
    }

    /// How many incarnations there have been.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }
}

/// A bounded, counted address of an actor.
pub struct Address<M> {
    cell: Arc<AddressCell<M>>,
}

impl<M> Clone for Address<M> {
    fn clone(&self) -> Self {
        Self { cell: Arc::clone(&self.cell) }
    }
}

impl<M> fmt::Debug for Address<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address(generation {})", self.cell.generation())
    }
}

impl<M: Send + 'static> Address<M> {
    /// The address of whatever incarnation `cell` holds.
    pub fn new(cell: Arc<AddressCell<M>>) -> Self {
        Self { cell }
    }

    fn mailbox(&self, message: M) -> Result<(Arc<Mailbox<M>>, M), SendError<M>> {
        match &**self.cell.slot.load() {
            Slot::Live(mailbox) => Ok((Arc::clone(mailbox), message)),
            Slot::Restarting => Err(SendError::Restarting(message)),
            Slot::Ended => Err(SendError::Closed(message)),
        }
    }

    /// Sends if there is room; gives the message back if not. The only send a handler may use.
    pub fn try_send(&self, message: M) -> Result<(), SendError<M>> {
        let (mailbox, message) = self.mailbox(message)?;
        match Arc::clone(&mailbox.places).try_acquire_owned() {
            Ok(permit) => mailbox.deliver(message, permit),
            Err(TryAcquireError::NoPermits) => Err(SendError::Full(message)),
            Err(TryAcquireError::Closed) => Err(SendError::Closed(message)),
        }
    }

    /// Waits for room. For tasks and outsiders; refused inside a handler.
    pub async fn send(&self, message: M) -> Result<(), SendError<M>> {
        if is_in_handler() {
            return Err(SendError::InHandler(message));
        }
        let (mailbox, message) = self.mailbox(message)?;
        match Arc::clone(&mailbox.places).acquire_owned().await {
            Ok(permit) => mailbox.deliver(message, permit),
            Err(_closed) => Err(SendError::Closed(message)),
        }
    }

    /// Takes a place now for a message that must arrive later. `None`: no room, or no actor.
    pub fn reserve(&self) -> Option<Reserved<M>> {
        match &**self.cell.slot.load() {
            Slot::Live(mailbox) => {
                let permit = Arc::clone(&mailbox.places).try_acquire_owned().ok()?;
                Some(Reserved { mailbox: Arc::clone(mailbox), permit })
            }
            Slot::Restarting | Slot::Ended => None,
        }
    }

    /// Asks the current incarnation to stop within its grace; the first reason wins.
    pub fn stop(&self, reason: StopReason) {
        self.stop_by(reason, None);
    }

    /// Asks the current incarnation to stop by an absolute deadline.
    pub fn stop_by(&self, reason: StopReason, deadline: Option<Instant>) {
        if let Slot::Live(mailbox) = &**self.cell.slot.load() {
            mailbox.stop.stop_by(reason, deadline);
        }
    }

    /// The current incarnation's id, if there is one.
    pub fn actor(&self) -> Option<ActorId> {
        match &**self.cell.slot.load() {
            Slot::Live(mailbox) => Some(mailbox.actor),
            Slot::Restarting | Slot::Ended => None,
        }
    }

    /// How many incarnations there have been.
    pub fn generation(&self) -> u64 {
        self.cell.generation()
    }

    /// Whether the actor has ended for good.
    pub fn is_closed(&self) -> bool {
        matches!(&**self.cell.slot.load(), Slot::Ended)
    }
}

/// A place held in a mailbox: one message that can't be refused for want of room.
pub struct Reserved<M> {
    mailbox: Arc<Mailbox<M>>,
    permit: OwnedSemaphorePermit,
}

impl<M> Reserved<M> {
    /// Sends the message. An error means that the actor has ended.
    pub fn send(self, message: M) -> Result<(), SendError<M>> {
        self.mailbox.deliver(message, self.permit)
    }
}

impl<M> fmt::Debug for Reserved<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reserved")
    }
}
