//! One live actor's meta: written by its host, read by whoever looks.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use rookery_messages::address::{MailboxGauge, StopHandle};
use rookery_messages::exit::StopReason;
use rookery_messages::ids::ActorId;
use rookery_messages::tree::{ActorStatus, InHand, LastExit, MailboxView, TreeNode};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::tasks::TaskSet;

/// What an operator wants of an actor that was stopped by hand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Intent {
    /// Nothing special: a stop stays a stop.
    None = 0,
    /// Its supervisor starts it again at once.
    Restart = 1,
}

type ObserveRequest = Box<dyn Fn(oneshot::Sender<Value>) + Send + Sync>;

/// One live actor's meta.
pub struct Entry {
    /// Incarnation.
    pub id: ActorId,
    /// Kind.
    pub kind: &'static str,
    /// Path from the root.
    pub path: String,
    /// The last segments of the path, as given at the spawn.
    pub segment: String,
    /// The actor above; none for the root.
    pub parent: Option<ActorId>,
    /// When this incarnation started.
    pub started_at: Timestamp,
    /// Incarnation number under a supervisor, from 1.
    pub generation: u64,
    /// Whether it may be paused.
    pub pausable: bool,
    pub(super) capacity: usize,
    pub(super) gauge: Arc<MailboxGauge>,
    pub(super) tasks: Arc<TaskSet>,
    pub(super) handled: AtomicU64,
    pub(super) status: AtomicU8,
    pub(super) in_hand: Mutex<Option<(&'static str, Instant)>>,
    pub(super) waiting_on: Mutex<Option<(String, Instant)>>,
    pub(super) control: OnceLock<StopHandle>,
    pub(super) observe: OnceLock<ObserveRequest>,
    pub(super) resume: OnceLock<Box<dyn Fn() + Send + Sync>>,
    pub(super) last_exit: Option<LastExit>,
    pub(super) paused: AtomicBool,
    draining: AtomicBool,
    pub(super) intent: AtomicU8,
    killed_by: OnceLock<String>,
}

impl Entry {
    #[allow(clippy::too_many_arguments, reason = "built in one place, from one spec")]
    pub(super) fn new(
        id: ActorId,
        kind: &'static str,
        path: String,
        segment: String,
        parent: Option<ActorId>,
        started_at: Timestamp,
        capacity: usize,
        pausable: bool,
        generation: u64,
        last_exit: Option<LastExit>,
    ) -> Self {
        Self {
            id,
            kind,
            path,
            segment,
            parent,
            started_at,
            generation,
            pausable,
            capacity,
            gauge: Arc::default(),
            tasks: Arc::default(),
            handled: AtomicU64::new(0),
            status: AtomicU8::new(status_code(ActorStatus::Starting)),
            in_hand: Mutex::new(None),
            waiting_on: Mutex::new(None),
            control: OnceLock::new(),
            observe: OnceLock::new(),
            resume: OnceLock::new(),
            last_exit,
            paused: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            intent: AtomicU8::new(Intent::None as u8),
            killed_by: OnceLock::new(),
        }
    }

    /// Where it stands.
    pub fn status(&self) -> ActorStatus {
        let status = status_of(self.status.load(Ordering::Relaxed));
        match status {
            ActorStatus::Idle | ActorStatus::Busy if self.is_draining() => ActorStatus::Stopping,
            ActorStatus::Idle | ActorStatus::Busy if self.is_paused() => ActorStatus::Paused,
            other => other,
        }
    }

    pub(super) fn set_status(&self, status: ActorStatus) {
        self.status.store(status_code(status), Ordering::Relaxed);
    }

    /// Whether an operator paused it.
    pub fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }

    /// Whether it takes no new work because the service ends.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// From now on it takes no new work: the service ends. `false` if its kind can't be paused.
    pub fn drain(&self) -> bool {
        if !self.pausable {
            return false;
        }
        self.draining.store(true, Ordering::Relaxed);
        self.set_paused(true)
    }

    /// Pauses or resumes it; `false` if its kind can't be paused.
    pub fn set_paused(&self, paused: bool) -> bool {
        if !self.pausable {
            return false;
        }
        let was = self.paused.swap(paused, Ordering::Relaxed);
        if was
            && !paused
            && let Some(resume) = self.resume.get()
        {
            resume();
        }
        true
    }

    /// What it waits for.
    pub fn waiting_on(&self) -> Option<String> {
        self.waiting_on.lock().as_ref().map(|(what, _)| what.clone())
    }

    /// Sets what it waits for. The time since when begins anew only with something else.
    pub(super) fn set_waiting_on(&self, what: Option<String>) {
        let mut waiting = self.waiting_on.lock();
        if waiting.as_ref().map(|(now, _)| now) != what.as_ref() {
            *waiting = what.map(|what| (what, Instant::now()));
        }
    }

    /// Tasks it owns.
    pub fn task_count(&self) -> usize {
        self.tasks.count()
    }

    /// Asks it to stop.
    pub fn stop(&self, reason: StopReason) {
        if let Some(control) = self.control.get() {
            control.stop(reason);
        }
    }

    /// Stops it so that its supervisor starts it again.
    pub fn restart(&self, reason: StopReason) {
        self.intent.store(Intent::Restart as u8, Ordering::Release);
        self.stop(reason);
    }

    /// Ends it at once.
    pub fn kill(&self) {
        if let Some(control) = self.control.get() {
            control.kill();
        }
    }

    /// The same, in an operator's name: the records of its end say so.
    pub fn kill_by(&self, operator: &str) {
        // The first one killed it.
        let _ = self.killed_by.set(operator.to_owned());
        self.kill();
    }

    /// The operator who killed it.
    pub(super) fn killed_by(&self) -> Option<&str> {
        self.killed_by.get().map(String::as_str)
    }

    /// What an operator wants after its stop.
    pub fn intent(&self) -> Intent {
        if self.intent.load(Ordering::Acquire) == Intent::Restart as u8 {
            Intent::Restart
        } else {
            Intent::None
        }
    }

    /// The message in hand, and since when. After an abnormal end: the message it died in.
    pub fn in_hand(&self) -> Option<(&'static str, Instant)> {
        *self.in_hand.lock()
    }

    /// Asks the actor for its own view of its state; null if it does not answer in time.
    pub async fn observe(&self, wait: Duration) -> Value {
        let (reply, answer) = oneshot::channel();
        if let Some(observe) = self.observe.get() {
            observe(reply);
        }
        match tokio::time::timeout(wait, answer).await {
            Ok(Ok(value)) => value,
            _ => Value::Null,
        }
    }

    pub(super) fn node(&self) -> TreeNode {
        let in_hand = *self.in_hand.lock();
        let (waiting_on, waiting_ms) = match &*self.waiting_on.lock() {
            Some((what, since)) => (Some(what.clone()), Some(millis(*since))),
            None => (None, None),
        };
        TreeNode {
            path: self.path.clone(),
            kind: self.kind.to_owned(),
            id: self.id,
            status: self.status(),
            generation: self.generation,
            started_at: self.started_at,
            mailbox: MailboxView {
                depth: self.gauge.depth(),
                capacity: self.capacity,
                high_water: self.gauge.high_water(),
            },
            in_hand: in_hand.map(|(message, since)| InHand {
                message: message.to_owned(),
                since_ms: millis(since),
            }),
            waiting_on,
            waiting_ms,
            handled: self.handled.load(Ordering::Relaxed),
            tasks: self.tasks.count(),
            restarts: self.generation.saturating_sub(1),
            last_exit: self.last_exit.clone(),
            detail: Value::Null,
            children: Vec::new(),
        }
    }
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

fn status_code(status: ActorStatus) -> u8 {
    match status {
        ActorStatus::Starting => 0,
        ActorStatus::Idle => 1,
        ActorStatus::Busy => 2,
        ActorStatus::Stopping => 3,
        ActorStatus::Restarting => 4,
        ActorStatus::Parked => 5,
        ActorStatus::Paused => 6,
        ActorStatus::Ended => 7,
    }
}

fn status_of(code: u8) -> ActorStatus {
    match code {
        0 => ActorStatus::Starting,
        1 => ActorStatus::Idle,
        2 => ActorStatus::Busy,
        3 => ActorStatus::Stopping,
        4 => ActorStatus::Restarting,
        5 => ActorStatus::Parked,
        6 => ActorStatus::Paused,
        _ => ActorStatus::Ended,
    }
}
