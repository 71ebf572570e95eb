//! Looking into the tree, and acting on it by path.

use std::sync::Arc;
use std::time::Duration;

use rookery_actors::runtime::{Directory, Entry, PlaceOrder, Placeholder};
use rookery_messages::exit::StopReason;
use rookery_messages::ids::ActorId;
use rookery_messages::tree::{ActorStatus, InHand, TreeNode, TreeSnapshot};
use serde::Serialize;

use crate::supervisor;

/// How long an actor may take to show its state.
const OBSERVE_WAIT: Duration = Duration::from_millis(500);

/// What an operator may do to an actor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Stop it in order; it stays stopped.
    Stop,
    /// End it at once. A permanent actor is started again.
    Kill,
    /// Stop it in order and start it again at once; start a parked one.
    Restart,
    /// It takes no new work.
    Pause,
    /// It takes work again.
    Resume,
}

impl Operation {
    /// The word in paths, audit rows and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Kill => "kill",
            Self::Restart => "restart",
            Self::Pause => "pause",
            Self::Resume => "resume",
        }
    }

    /// The operation of a word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Stop, Self::Kill, Self::Restart, Self::Pause, Self::Resume]
            .into_iter()
            .find(|operation| operation.as_str() == word)
    }
}

/// Why an operation was not done.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InspectError {
    /// Nobody at this path.
    #[error("no actor at {0}")]
    NotFound(String),
    /// The root is the service.
    #[error("the root can't be asked to {0}: it is the service itself")]
    Root(&'static str),
    /// Orders come by it: stopped, nobody could be asked to start it again.
    #[error("{0} can't be stopped from here: it is the way by which it could be started again")]
    Lifeline(String),
    /// Its kind has no pause.
    #[error("an actor of kind {0} can't be paused or resumed")]
    NotPausable(&'static str),
    /// Nobody would start it again.
    #[error("{0} is not the child of a supervisor, so nobody would start it again")]
    NotRestartable(String),
    /// There is no incarnation to act on.
    #[error("{path} has no incarnation now: it is {status}")]
    Down {
        /// Which.
        path: String,
        /// `restarting` or `parked`.
        status: &'static str,
    },
    /// The supervisor took no message.
    #[error("the supervisor of {0} could not be told")]
    Unreachable(String),
}

impl InspectError {
    /// Short stable word.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "no_such_actor",
            Self::Root(_) => "root_protected",
            Self::Lifeline(_) => "lifeline_protected",
            Self::NotPausable(_) => "not_pausable",
            Self::NotRestartable(_) => "not_restartable",
            Self::Down { .. } => "actor_down",
            Self::Unreachable(_) => "supervisor_unreachable",
        }
    }

    /// What to do instead.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "look at the tree for the paths of live actors",
            Self::Root(_) => "end the service with SIGTERM",
            Self::Lifeline(_) => "restart it, or end the service with SIGTERM",
            Self::NotPausable(_) => {
                "what can be paused: intakes and senders of channels, sessions, one session"
            }
            Self::NotRestartable(_) => "stop it; whoever owns it decides what follows",
            Self::Down { .. } => "wait until it is up again, or start it at once with restart",
            Self::Unreachable(_) => "try again in a moment",
        }
    }
}

/// An actor with a message in hand for too long.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Stuck {
    /// Its path.
    pub path: String,
    /// Its kind.
    pub kind: String,
    /// The message.
    pub in_hand: InHand,
    /// A supervisor keeps it: nobody but an operator would end it.
    pub permanent: bool,
}

/// Reads the tree and acts on it. Cheap to clone.
#[derive(Clone)]
pub struct Inspector {
    directory: Arc<Directory>,
    lifeline: Option<&'static str>,
}

enum Target {
    Live(Arc<Entry>),
    Down(Placeholder),
}

enum Deed {
    Live(Operation, Arc<Entry>, Arc<Directory>),
    /// Of a child without an incarnation: whether it shall be started.
    Down(bool, Placeholder),
}

/// An operation that can be done, on the incarnation that was found.
#[must_use = "nothing is done before it is performed"]
pub struct Act(Deed);

impl Act {
    /// Does it, in the name of `by`.
    pub fn perform(self, by: &str) -> Result<(), InspectError> {
        match self.0 {
            Deed::Live(operation, entry, directory) => {
                match operation {
                    Operation::Stop => entry.stop(StopReason::Operator(by.to_owned())),
                    Operation::Kill => entry.kill_by(by),
                    Operation::Restart => entry.restart(StopReason::Operator(by.to_owned())),
                    Operation::Pause | Operation::Resume => {
                        let done = directory.hold(&entry, operation == Operation::Pause);
                        return if done {
                            Ok(())
                        } else {
                            Err(InspectError::NotPausable(entry.kind))
                        };
                    }
                }
                Ok(())
            }
            Deed::Down(start, place) => {
                let by = by.to_owned();
                let wish = if start { PlaceOrder::Restart { by } } else { PlaceOrder::Stop { by } };
                order(&place, wish)
            }
        }
    }
}

impl Inspector {
    /// For one directory.
    pub fn new(directory: Arc<Directory>) -> Self {
        Self { directory, lifeline: None }
    }

    /// The actor by which orders come in. Neither it nor one above it can be stopped for good by an order.
    #[must_use]
    pub fn lifeline(mut self, path: &'static str) -> Self {
        self.lifeline = Some(path);
        self
    }

    /// Who lives.
    pub fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    /// The tree now; none before the root has started and after it has ended.
    pub fn snapshot(&self) -> Option<TreeSnapshot> {
        self.directory.snapshot()
    }

    /// One actor with all below it, and its own view of its state.
    pub async fn node(&self, path: &str) -> Result<TreeNode, InspectError> {
        let missing = || InspectError::NotFound(path.to_owned());
        let snapshot = self.snapshot().ok_or_else(missing)?;
        let mut node = take(snapshot.root, path).ok_or_else(missing)?;
        // The incarnation of the snapshot, not one that came since.
        if let Some(entry) = self.directory.get(node.id) {
            node.detail = entry.observe(OBSERVE_WAIT).await;
        }
        Ok(node)
    }

    /// What an operation at a path would do, or why it can't be done. Nothing is done yet.
    pub fn judge(&self, operation: Operation, path: &str) -> Result<Act, InspectError> {
        let target = self.target(path)?;
        let deed = match (operation, target) {
            (Operation::Stop | Operation::Kill | Operation::Restart, Target::Live(entry))
                if entry.parent.is_none() =>
            {
                return Err(InspectError::Root(operation.as_str()));
            }
            (Operation::Stop, _) if self.holds_lifeline(path) => {
                return Err(InspectError::Lifeline(path.to_owned()));
            }
            (Operation::Restart, Target::Live(entry)) if !self.is_supervisor(entry.parent) => {
                return Err(InspectError::NotRestartable(path.to_owned()));
            }
            (Operation::Pause | Operation::Resume, Target::Live(entry)) if !entry.pausable => {
                return Err(InspectError::NotPausable(entry.kind));
            }
            (operation, Target::Live(entry)) => {
                Deed::Live(operation, entry, Arc::clone(&self.directory))
            }
            (Operation::Stop, Target::Down(place)) => Deed::Down(false, place),
            (Operation::Restart, Target::Down(place)) => Deed::Down(true, place),
            (Operation::Kill | Operation::Pause | Operation::Resume, Target::Down(place)) => {
                let (path, status) = (path.to_owned(), word(place.status));
                return Err(InspectError::Down { path, status });
            }
        };
        Ok(Act(deed))
    }

    /// Acts on the actor at a path, in the name of `by`.
    pub fn operate(&self, operation: Operation, path: &str, by: &str) -> Result<(), InspectError> {
        self.judge(operation, path)?.perform(by)
    }

    /// Actors with a message in hand for `longer_than` or more, the longest first.
    pub fn stuck(&self, longer_than: Duration) -> Vec<Stuck> {
        let limit = u64::try_from(longer_than.as_millis()).unwrap_or(u64::MAX);
        let mut found = Vec::new();
        if let Some(snapshot) = self.snapshot() {
            find_stuck(&snapshot.root, true, limit, &mut found);
        }
        found.sort_by_key(|stuck| std::cmp::Reverse(stuck.in_hand.since_ms));
        found
    }

    fn target(&self, path: &str) -> Result<Target, InspectError> {
        if let Some(entry) = self.directory.find(path) {
            return Ok(Target::Live(entry));
        }
        let place = self.directory.placeholder(path);
        place.map(Target::Down).ok_or_else(|| InspectError::NotFound(path.to_owned()))
    }

    fn holds_lifeline(&self, path: &str) -> bool {
        let rest = self.lifeline.and_then(|lifeline| lifeline.strip_prefix(path));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    fn is_supervisor(&self, id: Option<ActorId>) -> bool {
        id.and_then(|id| self.directory.get(id)).is_some_and(|e| e.kind == supervisor::KIND)
    }
}

fn order(place: &Placeholder, order: PlaceOrder) -> Result<(), InspectError> {
    if (place.control)(order) { Ok(()) } else { Err(InspectError::Unreachable(place.path.clone())) }
}

/// The word of a status without an incarnation.
pub(crate) fn word(status: ActorStatus) -> &'static str {
    match status {
        ActorStatus::Parked => "parked",
        ActorStatus::Restarting => "restarting",
        ActorStatus::Ended => "ended",
        ActorStatus::Starting => "starting",
        ActorStatus::Stopping => "stopping",
        ActorStatus::Paused => "paused",
        ActorStatus::Idle | ActorStatus::Busy => "up",
    }
}

/// The node at a path, without walking what can't hold it.
fn take(node: TreeNode, path: &str) -> Option<TreeNode> {
    if node.path == path {
        return Some(node);
    }
    let above = |outer: &str| path.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'));
    if !above(&node.path) {
        return None;
    }
    // Segments may hold slashes, so two children can both be above the path.
    node.children.into_iter().find_map(|child| take(child, path))
}

fn find_stuck(node: &TreeNode, permanent: bool, limit: u64, found: &mut Vec<Stuck>) {
    if let Some(in_hand) = node.in_hand.as_ref().filter(|in_hand| in_hand.since_ms >= limit) {
        found.push(Stuck {
            path: node.path.clone(),
            kind: node.kind.clone(),
            in_hand: in_hand.clone(),
            permanent,
        });
    }
    let permanent = node.kind == supervisor::KIND;
    for child in &node.children {
        find_stuck(child, permanent, limit, found);
    }
}

#[cfg(test)]
mod tests;
