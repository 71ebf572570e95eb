//! What a supervisor tells of its children.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use rookery_messages::exit::ExitReason;
use rookery_messages::tree::LastExit;
use serde::Serialize;

/// How one child ended in an ordered stop.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ChildEnd {
    /// Its path.
    pub path: String,
    /// Its kind.
    pub kind: &'static str,
    /// How it ended.
    pub reason: ExitReason,
    /// From being asked to being gone, in milliseconds.
    pub took_ms: u64,
}

impl fmt::Display for ChildEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} after {} ms", self.path, self.reason, self.took_ms)
    }
}

/// Collects the ends of an ordered stop from all supervisors of a tree, in the order they happened.
#[derive(Default, Debug)]
pub struct StopLog {
    ends: Mutex<Vec<ChildEnd>>,
}

impl StopLog {
    pub(super) fn add(&self, end: ChildEnd) {
        self.ends.lock().push(end);
    }

    /// All ends so far.
    pub fn ends(&self) -> Vec<ChildEnd> {
        self.ends.lock().clone()
    }

    /// Those that did not end by themselves within their grace.
    pub fn killed(&self) -> Vec<ChildEnd> {
        let ends = self.ends.lock();
        ends.iter().filter(|end| end.reason == ExitReason::Killed).cloned().collect()
    }
}

/// Where a child stands with its supervisor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildStanding {
    /// An incarnation runs.
    Up,
    /// Told to stop.
    Stopping,
    /// Waits for its start.
    Restarting,
    /// Given up, or stopped on purpose.
    Parked,
    /// Not needed any more.
    Forgotten,
}

/// One child.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ChildReport {
    /// The path segments below the supervisor.
    pub segment: String,
    /// Its kind.
    pub kind: &'static str,
    /// Where it stands.
    pub standing: ChildStanding,
    /// Incarnations so far.
    pub generation: u64,
    /// Restarts that count against its intensity now.
    pub recent_restarts: usize,
    /// How the last incarnation ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_exit: Option<LastExit>,
}

/// One line of the history of exits.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ExitLine {
    /// When.
    #[serde(with = "rookery_messages::time::millis")]
    pub at: Timestamp,
    /// Whose.
    pub segment: String,
    /// Which incarnation.
    pub generation: u64,
    /// How.
    pub reason: String,
    /// What was done about it: `restart in 120 ms`, `parked` …
    pub then: String,
}

/// A supervisor's view of its children.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SupervisorReport {
    /// Children in order of start.
    pub children: Vec<ChildReport>,
    /// The last exits, oldest first.
    pub exits: Vec<ExitLine>,
    /// The ends of an ordered stop that is under way.
    pub stopped: Vec<ChildEnd>,
}

/// Whole milliseconds.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
