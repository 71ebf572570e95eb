//! The end of the service in phases, each with a deadline and a line in the report (DESIGN.md, section 8).
//!
//! A phase's action gives its commands before it first waits, so that a phase which is cut short has
//! still done its part. The whole ends within the sum of the deadlines (I14).

use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use rookery_messages::BoxFuture;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::Instant;

/// Tells a shutdown to skip the waiting: a second SIGTERM.
#[derive(Clone, Debug)]
pub struct Hurry(watch::Sender<bool>);

impl Hurry {
    /// Not in a hurry.
    pub fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    /// From now on, waiting is skipped.
    pub fn now(&self) {
        self.0.send_replace(true);
    }

    /// Whether waiting is skipped.
    pub fn is_set(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until waiting is skipped.
    pub async fn wait(&self) {
        let mut seen = self.0.subscribe();
        // The sender is held by `self`, so this ends with the value only.
        let _ = seen.wait_for(|hurry| *hurry).await;
    }
}

impl Default for Hurry {
    fn default() -> Self {
        Self::new()
    }
}

type Action = Box<dyn FnOnce(Instant, Hurry) -> BoxFuture<'static, Result<String, String>> + Send>;

/// One step of the shutdown.
pub struct Phase {
    name: &'static str,
    deadline: Duration,
    hurried: Duration,
    action: Action,
}

impl Phase {
    /// `action` gets its absolute deadline; its answer is a line for the report: what was done, or what
    /// went wrong.
    pub fn new<F>(
        name: &'static str,
        deadline: Duration,
        action: impl FnOnce(Instant, Hurry) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = Result<String, String>> + Send + 'static,
    {
        Self {
            name,
            deadline,
            hurried: Duration::ZERO,
            action: Box::new(move |until, hurry| Box::pin(action(until, hurry))),
        }
    }

    /// What remains of its time in a hurry, for work that must not be cut off: closing the store.
    #[must_use]
    pub fn hurried(mut self, limit: Duration) -> Self {
        self.hurried = limit;
        self
    }
}

/// How a phase ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PhaseEnd {
    /// In time.
    Done,
    /// It reported a failure, or panicked.
    Failed,
    /// Its deadline passed.
    TimedOut,
    /// A hurry cut its waiting short.
    Hurried,
}

impl PhaseEnd {
    fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::TimedOut => "timed out",
            Self::Hurried => "cut short",
        }
    }
}

/// A phase's line.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PhaseLine {
    /// Which.
    pub name: &'static str,
    /// How it ended.
    pub end: PhaseEnd,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
    /// How long it might have taken, in milliseconds.
    pub deadline_ms: u64,
    /// What it said.
    pub detail: String,
}

impl fmt::Display for PhaseLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} after {} ms", self.name, self.end.as_str(), self.took_ms)?;
        if self.detail.is_empty() { Ok(()) } else { write!(f, ", {}", self.detail) }
    }
}

/// How a shutdown went.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct ShutdownReport {
    /// Its phases, in order.
    pub phases: Vec<PhaseLine>,
}

impl ShutdownReport {
    /// Whether every phase ended in time and well.
    pub fn is_clean(&self) -> bool {
        self.phases.iter().all(|phase| phase.end == PhaseEnd::Done)
    }
}

impl fmt::Display for ShutdownReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, phase) in self.phases.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{phase}")?;
        }
        Ok(())
    }
}

/// Runs the phases in order. A phase that fails or is late keeps no other from its turn.
pub async fn run(phases: Vec<Phase>, hurry: &Hurry) -> ShutdownReport {
    let mut report = ShutdownReport::default();
    for phase in phases {
        let line = run_phase(phase, hurry).await;
        tracing::info!(
            phase = line.name,
            end = line.end.as_str(),
            took_ms = line.took_ms,
            deadline_ms = line.deadline_ms,
            detail = %line.detail,
            "shutdown phase ended"
        );
        report.phases.push(line);
    }
    report
}

async fn run_phase(phase: Phase, hurry: &Hurry) -> PhaseLine {
    let started = Instant::now();
    let until = started + phase.deadline;
    let (action, signal) = (phase.action, hurry.clone());
    // Built inside the guard: an action that panics before its first await is a failed phase too.
    let work = AssertUnwindSafe(async move { action(until, signal).await }).catch_unwind();
    let limit = async {
        tokio::select! {
            () = tokio::time::sleep_until(until) => PhaseEnd::TimedOut,
            () = async {
                hurry.wait().await;
                tokio::time::sleep(phase.hurried).await;
            } => PhaseEnd::Hurried,
        }
    };
    let (end, detail) = tokio::select! {
        biased;
        result = work => match result {
            Ok(Ok(detail)) => (PhaseEnd::Done, detail),
            Ok(Err(detail)) => (PhaseEnd::Failed, detail),
            Err(_) => (PhaseEnd::Failed, "it panicked".to_owned()),
        },
        end = limit => (end, String::new()),
    };
    let (took_ms, deadline_ms) = (millis(started.elapsed()), millis(phase.deadline));
    PhaseLine { name: phase.name, end, took_ms, deadline_ms, detail }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn waits(name: &'static str, deadline: Duration, work: Duration) -> Phase {
        Phase::new(name, deadline, move |_, _| async move {
            tokio::time::sleep(work).await;
            Ok("ok".to_owned())
        })
    }

    fn hangs(
        name: &'static str,
        deadline: Duration,
        began: Arc<Mutex<Vec<&'static str>>>,
    ) -> Phase {
        Phase::new(name, deadline, move |_, _| {
            began.lock().push(name);
            pending()
        })
    }

    #[tokio::test(start_paused = true)]
    async fn phases_run_in_order_and_end_within_the_sum_of_their_deadlines() {
        // I14
        let began = Arc::default();
        let phases = vec![
            waits("intakes", ms(100), ms(30)),
            hangs("turns", ms(200), Arc::clone(&began)),
            Phase::new("senders", ms(100), |_, _| async { Err("2 rows left".to_owned()) }),
            Phase::new("gateway", ms(100), |_, _| async { panic!("boom") }),
            waits("store", ms(100), ms(10)),
        ];
        let started = Instant::now();
        let report = run(phases, &Hurry::new()).await;
        assert!(started.elapsed() <= ms(600));
        assert!(!report.is_clean());
        assert_eq!(
            report.to_string(),
            "intakes: done after 30 ms, ok\n\
             turns: timed out after 200 ms\n\
             senders: failed after 0 ms, 2 rows left\n\
             gateway: failed after 0 ms, it panicked\n\
             store: done after 10 ms, ok"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_signal_skips_the_waiting_but_not_the_commands_nor_the_store() {
        // I14
        let began: Arc<Mutex<Vec<&'static str>>> = Arc::default();
        let hurry = Hurry::new();
        let phases = vec![
            hangs("turns", ms(20_000), Arc::clone(&began)),
            hangs("rest", ms(5_000), Arc::clone(&began)),
            waits("store", ms(3_000), ms(400)).hurried(ms(1_000)),
        ];
        let started = Instant::now();
        let signal = async {
            tokio::time::sleep(ms(2_000)).await;
            hurry.now();
        };
        let (report, ()) = tokio::join!(run(phases, &hurry), signal);
        assert_eq!(started.elapsed(), ms(2_400));
        assert_eq!(*began.lock(), ["turns", "rest"]);
        let ends: Vec<_> = report.phases.iter().map(|phase| phase.end).collect();
        assert_eq!(ends, [PhaseEnd::Hurried, PhaseEnd::Hurried, PhaseEnd::Done]);
        assert!(hurry.is_set());
    }

    #[tokio::test(start_paused = true)]
    async fn a_shutdown_in_which_all_went_well_is_clean() {
        let report = run(vec![waits("store", ms(10), ms(1))], &Hurry::new()).await;
        assert!(report.is_clean());
    }
}
