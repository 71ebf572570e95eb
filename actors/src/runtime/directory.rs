//! Who lives: id → meta. Status is read from here without a message.
//!
//! Cost: one map insert and remove an actor, a few relaxed atomics a message.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dashmap::DashMap;
use jiff::Timestamp;
use parking_lot::{Mutex, RwLock};
use rookery_messages::exit::ExitReason;
use rookery_messages::ids::ActorId;
use rookery_messages::time::World;
use rookery_messages::tree::{ActorStatus, LastExit, MailboxView, TreeNode, TreeSnapshot};
use serde_json::Value;
use tokio::time::Instant;

use super::entry::Entry;

/// How long a failed actor stays on show.
const GRAVE_TIME: Duration = Duration::from_secs(60);

/// Most failed actors on show.
const GRAVES: usize = 256;

/// How an actor ended, for the crash log and the metrics.
#[derive(Clone, Debug)]
pub struct ExitRecord {
    /// Which.
    pub id: ActorId,
    /// Its kind.
    pub kind: &'static str,
    /// Its path.
    pub path: String,
    /// How.
    pub reason: ExitReason,
    /// When.
    pub at: Timestamp,
    /// The message it died in.
    pub in_hand: Option<&'static str>,
    /// The operator who killed it.
    pub killed_by: Option<String>,
}

impl ExitRecord {
    /// How, in words: of a kill, by whom.
    pub fn text(&self) -> String {
        exit_text(&self.reason, self.killed_by.as_deref())
    }
}

fn exit_text(reason: &ExitReason, killed_by: Option<&str>) -> String {
    match (reason, killed_by) {
        (ExitReason::Killed, Some(by)) => format!("killed by operator {by}"),
        _ => reason.to_string(),
    }
}

/// Takes out of an error's or a panic's text what nobody may read.
pub type Cleaner = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// Told of every exit. Must not block.
pub type ExitHook = Arc<dyn Fn(&ExitRecord) + Send + Sync>;

/// What an operator wants of a child that has no incarnation now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PlaceOrder {
    /// Start it at once.
    Restart {
        /// Who asks.
        by: String,
    },
    /// Don't start it again.
    Stop {
        /// Who asks.
        by: String,
    },
}

/// Hands an order to the supervisor; `false` if it could not be told.
pub type PlaceControl = Arc<dyn Fn(PlaceOrder) -> bool + Send + Sync>;

/// A child that has no incarnation now: restarting or parked. Kept by its supervisor.
#[derive(Clone)]
pub struct Placeholder {
    /// Its path.
    pub path: String,
    /// Its kind.
    pub kind: &'static str,
    /// Restarting or parked.
    pub status: ActorStatus,
    /// Incarnations so far.
    pub generation: u64,
    /// How the last one ended.
    pub last_exit: Option<LastExit>,
    /// The supervisor.
    pub parent: ActorId,
    /// How the supervisor is told what an operator wants of the child.
    pub control: PlaceControl,
}

struct Grave {
    node: TreeNode,
    until: Instant,
}

/// All actors of one process, or of one test's world.
pub struct Directory {
    world: World,
    next: AtomicU64,
    seq: AtomicU64,
    live: DashMap<ActorId, Arc<Entry>>,
    by_path: DashMap<String, ActorId>,
    placeholders: Mutex<HashMap<String, Placeholder>>,
    /// Paths that an operator has paused: whoever comes to stand there is paused too.
    held: Mutex<HashSet<String>>,
    graves: Mutex<VecDeque<Grave>>,
    hook: RwLock<Option<ExitHook>>,
    cleaner: RwLock<Option<Cleaner>>,
    empty: tokio::sync::Notify,
}

impl Directory {
    /// An empty directory.
    pub fn new(world: World) -> Arc<Self> {
        Arc::new(Self {
            world,
            next: AtomicU64::new(1),
            seq: AtomicU64::new(0),
            live: DashMap::new(),
            by_path: DashMap::new(),
            placeholders: Mutex::new(HashMap::new()),
            held: Mutex::new(HashSet::new()),
            graves: Mutex::new(VecDeque::new()),
            hook: RwLock::new(None),
            cleaner: RwLock::new(None),
            empty: tokio::sync::Notify::new(),
        })
    }

    /// Who is told of exits.
    pub fn set_exit_hook(&self, hook: ExitHook) {
        *self.hook.write() = Some(hook);
    }

    /// How the texts of errors and panics are cleaned before anybody is told of them.
    pub fn set_cleaner(&self, cleaner: Cleaner) {
        *self.cleaner.write() = Some(cleaner);
    }

    /// An error's text as it may be shown.
    pub(super) fn clean(&self, text: String) -> String {
        let cleaner = self.cleaner.read().clone();
        cleaner.map_or(text.clone(), |cleaner| cleaner(&text))
    }

    pub(super) fn fresh_id(&self) -> ActorId {
        ActorId(self.next.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) fn insert(&self, entry: &Arc<Entry>) {
        self.seq.fetch_add(1, Ordering::Relaxed);
        // I9: whoever lives has a live parent. The parent's host can't have ended while it spawns.
        if let Some(parent) = entry.parent {
            rookery_messages::check_invariant!(
                I9,
                self.live.contains_key(&parent),
                "{} was started under a parent that is gone",
                entry.path
            );
        }
        self.placeholders.lock().remove(&entry.path);
        if entry.pausable && self.held.lock().contains(&entry.path) {
            entry.set_paused(true);
        }
        self.by_path.insert(entry.path.clone(), entry.id);
        self.live.insert(entry.id, Arc::clone(entry));
    }

    /// Pauses or resumes an actor, and whoever takes its place, however far above it something restarts;
    /// `false` if its kind can't be paused.
    pub fn hold(&self, entry: &Entry, paused: bool) -> bool {
        if !entry.pausable {
            return false;
        }
        let mut held = self.held.lock();
        if paused {
            held.insert(entry.path.clone());
        } else {
            held.remove(&entry.path);
        }
        drop(held);
        entry.set_paused(paused)
    }

    /// Takes an ended actor out; keeps it on show if it failed.
    pub(super) fn remove(&self, entry: &Entry, reason: &ExitReason, in_hand: Option<&'static str>) {
        if self.live.remove(&entry.id).is_none() {
            return;
        }
        self.seq.fetch_add(1, Ordering::Relaxed);
        self.by_path.remove_if(&entry.path, |_, id| *id == entry.id);
        // Whoever kept them is gone; a killed supervisor could not do so itself.
        self.placeholders.lock().retain(|_, placeholder| placeholder.parent != entry.id);
        let at = self.world.now();
        if reason.is_abnormal() {
            let mut node = entry.node();
            node.status = ActorStatus::Ended;
            node.in_hand = None;
            node.waiting_on = None;
            node.waiting_ms = None;
            let text = exit_text(reason, entry.killed_by());
            node.last_exit = Some(LastExit { text, ..last_exit(at, reason, in_hand) });
            let mut graves = self.graves.lock();
            if graves.len() == GRAVES {
                graves.pop_front();
            }
            graves.push_back(Grave { node, until: Instant::now() + GRAVE_TIME });
        }
        let hook = self.hook.read().clone();
        if let Some(hook) = hook {
            hook(&ExitRecord {
                id: entry.id,
                kind: entry.kind,
                path: entry.path.clone(),
                reason: reason.clone(),
                at,
                in_hand,
                killed_by: entry.killed_by().map(str::to_owned),
            });
        }
        if self.live.is_empty() {
            self.empty.notify_waiters();
        }
    }

    /// A child without an incarnation: restarting or parked.
    pub fn place(&self, placeholder: Placeholder) {
        self.seq.fetch_add(1, Ordering::Relaxed);
        self.placeholders.lock().insert(placeholder.path.clone(), placeholder);
    }

    /// The placeholder's supervisor is gone, or the child was given up.
    pub fn unplace(&self, path: &str) {
        self.placeholders.lock().remove(path);
    }

    /// The placeholder at a path.
    pub fn placeholder(&self, path: &str) -> Option<Placeholder> {
        self.placeholders.lock().get(path).cloned()
    }

    /// The live actor at a path.
    pub fn find(&self, path: &str) -> Option<Arc<Entry>> {
        let id = *self.by_path.get(path)?;
        self.get(id)
    }

    /// A live actor.
    pub fn get(&self, id: ActorId) -> Option<Arc<Entry>> {
        self.live.get(&id).map(|entry| Arc::clone(&entry))
    }

    /// Live actors of a kind, such as all turns.
    pub fn of_kind(&self, kind: &str) -> Vec<Arc<Entry>> {
        self.live.iter().filter(|e| e.kind == kind).map(|e| Arc::clone(&e)).collect()
    }

    /// How many live, by kind.
    pub fn counts(&self) -> HashMap<&'static str, usize> {
        let mut counts = HashMap::new();
        for entry in &self.live {
            *counts.entry(entry.kind).or_insert(0) += 1;
        }
        counts
    }

    /// How many live.
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// Whether none lives.
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// The deepest mailbox now.
    pub fn deepest_mailbox(&self) -> usize {
        self.live.iter().map(|entry| entry.gauge.depth()).max().unwrap_or(0)
    }

    /// Tasks owned by live actors.
    pub fn task_count(&self) -> usize {
        self.live.iter().map(|entry| entry.tasks.count()).sum()
    }

    /// Paths of live actors whose parent is not alive. Empty at rest (I9).
    pub fn orphans(&self) -> Vec<String> {
        self.live
            .iter()
            .filter(|e| e.parent.is_some_and(|parent| !self.live.contains_key(&parent)))
            .map(|e| e.path.clone())
            .collect()
    }

    /// Waits until no actor lives.
    pub async fn wait_empty(&self) {
        loop {
            let notified = self.empty.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if self.is_empty() {
                return;
            }
            notified.await;
        }
    }

    /// The tree now.
    pub fn snapshot(&self) -> Option<TreeSnapshot> {
        let mut below: HashMap<Option<ActorId>, Vec<TreeNode>> = HashMap::new();
        for entry in &self.live {
            below.entry(entry.parent).or_default().push(entry.node());
        }
        for placeholder in self.placeholders.lock().values() {
            below.entry(Some(placeholder.parent)).or_default().push(self.empty_node(placeholder));
        }
        let mut root = below.remove(&None)?.into_iter().min_by_key(|node| node.id)?;
        attach(&mut root, &mut below);
        let now = Instant::now();
        let mut graves = self.graves.lock();
        graves.retain(|grave| grave.until > now);
        for grave in graves.iter() {
            bury(&mut root, &grave.node);
        }
        Some(TreeSnapshot {
            version: 1,
            seq: self.seq.load(Ordering::Relaxed),
            captured_at: self.world.now(),
            root,
        })
    }

    fn empty_node(&self, placeholder: &Placeholder) -> TreeNode {
        TreeNode {
            path: placeholder.path.clone(),
            kind: placeholder.kind.to_owned(),
            id: ActorId(0),
            status: placeholder.status,
            generation: placeholder.generation,
            started_at: placeholder.last_exit.as_ref().map_or_else(|| self.world.now(), |e| e.at),
            mailbox: MailboxView::default(),
            in_hand: None,
            waiting_on: None,
            waiting_ms: None,
            handled: 0,
            tasks: 0,
            restarts: placeholder.generation.saturating_sub(1),
            last_exit: placeholder.last_exit.clone(),
            detail: Value::Null,
            children: Vec::new(),
        }
    }
}

/// An exit as clients see it.
pub(crate) fn last_exit(
    at: Timestamp,
    reason: &ExitReason,
    in_hand: Option<&'static str>,
) -> LastExit {
    LastExit {
        at,
        reason: reason.clone(),
        text: reason.to_string(),
        in_hand: in_hand.map(str::to_owned),
    }
}

fn attach(node: &mut TreeNode, below: &mut HashMap<Option<ActorId>, Vec<TreeNode>>) {
    if node.id == ActorId(0) {
        return;
    }
    let mut children = below.remove(&Some(node.id)).unwrap_or_default();
    children.sort_by(|a, b| (a.started_at, a.id, &a.path).cmp(&(b.started_at, b.id, &b.path)));
    for child in &mut children {
        attach(child, below);
    }
    node.children = children;
}

/// Shows a failed actor below the deepest living ancestor of its path.
fn bury(node: &mut TreeNode, grave: &TreeNode) {
    let inside = |outer: &str| grave.path.strip_prefix(outer).is_some_and(|r| r.starts_with('/'));
    if let Some(child) = node.children.iter_mut().find(|child| inside(&child.path)) {
        bury(child, grave);
    } else if !node.children.iter().any(|child| child.path == grave.path) {
        node.children.push(grave.clone());
    }
}
