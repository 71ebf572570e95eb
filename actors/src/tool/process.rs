//! Process groups that tools start: recorded before they act, ended as a whole, found again after a crash
//! (A128, A129).
//!
//! A group is ended by what the kernel says of it, not by what we remember: members are looked up in
//! `/proc`. A process that left its group is still found by a mark in its environment, and by one that it
//! inherits whatever it does to its environment, group and session: a limit that Linux keeps and never
//! applies (`RLIMIT_LOCKS`, `getrlimit(2)`). One that sets out to get away, by lowering that very limit
//! (`ulimit -x`) in a session of its own without its environment, is found by its parents, and once they are
//! gone as an orphan that is left to us (`family`). Only after a crash of the service itself nobody can tell
//! any more whose such a one was; a service manager that ends the whole control group does (`deploy/`).

mod family;
mod group;
mod scan;
#[cfg(test)]
mod tests;

use std::io;
use std::time::Duration;

use rookery_messages::ids::CallId;
use rookery_messages::tool::ProcessRecord;
use rustix::process::{Pid, Signal};
use tokio::time::Instant;

pub use family::{Kin, adopt_orphans, spawn};
pub use group::{Launch, Pipes, ProcessGroup, StartError};
use scan::{Mark, Member};

/// The variable that marks every process a call starts, with the call's id as its value.
pub const CALL_VARIABLE: &str = "ROOKERY_CALL";

/// How long survivors of a former life may take to end by themselves.
const SURVIVOR_GRACE: Duration = Duration::from_secs(1);
/// How long killed processes may take to go. Only the kernel can delay that.
const KILL_WAIT: Duration = Duration::from_secs(2);
/// How often who is left of an aborted call is killed, and what lies between.
const KILL_ROUNDS: u32 = 50;
const KILL_PAUSE: Duration = Duration::from_millis(10);

/// The id of this boot of the machine: start times and process ids mean nothing across boots.
pub fn boot_id() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// When a process started, in clock ticks since boot (`proc_pid_stat(5)`, field 22).
pub fn process_start_ticks(pid: i32) -> io::Result<u64> {
    scan::stat(pid).map(|stat| stat.start_ticks)
}

/// The limit for file locks by which a call's processes are known, far above any real one.
fn tag(call: CallId) -> u64 {
    const HIGH: u64 = 1 << 62;
    let (first, second) = call.0.as_u64_pair();
    HIGH | ((first.rotate_left(17) ^ second) & (HIGH - 1))
}

/// Ends the groups of a former life that are still there, and says which they were (A129).
///
/// A group counts as ours only if the machine was not booted since and either its leader lives and
/// started at the recorded moment, or the leader is gone and a process carries the call's mark. Others
/// are never touched, whatever their ids.
pub async fn end_survivors(records: &[ProcessRecord]) -> Vec<ProcessRecord> {
    let Ok(boot) = boot_id() else { return Vec::new() };
    let ours = records.iter().filter(|record| record.boot_id == boot);
    let ends = ours.map(async |record| {
        let target = Target::of_record(record)?;
        (!target.members().await.is_empty()).then_some(())?;
        target.end(SURVIVOR_GRACE).await.ok()?;
        Some(record.clone())
    });
    futures_util::future::join_all(ends).await.into_iter().flatten().collect()
}

/// The processes of one call.
#[derive(Clone, Copy, Debug)]
struct Target {
    /// The group, as long as its id is surely still its own.
    group: Option<Pid>,
    call: CallId,
    /// When the first of them started: nothing older is one.
    since: u64,
}

/// Processes that would not go.
#[derive(Debug, thiserror::Error)]
#[error("{left} of the command's processes could not be ended")]
pub struct NotEnded {
    left: usize,
}

impl Target {
    /// The processes a record stands for. None if it can be no record of ours: to signal "group" 0, 1 or
    /// less would be to signal everybody (`kill(2)`).
    fn of_record(record: &ProcessRecord) -> Option<Self> {
        let group = (record.pgid > 1).then(|| Pid::from_raw(record.pgid))??;
        let group = match scan::stat(record.pgid) {
            Ok(leader) if leader.start_ticks == record.start_ticks => Some(group),
            // Taken by another process, or without a leader: only the marked ones are surely ours.
            _ => None,
        };
        Some(Self { group, call: record.call, since: record.start_ticks })
    }

    /// Who of them lives. Zombies don't: they only wait to be reaped.
    async fn members(self) -> Vec<Member> {
        let mark = Mark { group: self.group, call: self.call, since: self.since };
        tokio::task::spawn_blocking(move || scan::members(&mark)).await.unwrap_or_default()
    }

    /// Asks them to end, and after `grace` makes them. Returns once none lives.
    async fn end(self, grace: Duration) -> Result<(), NotEnded> {
        let members = self.members().await;
        if members.is_empty() {
            return Ok(());
        }
        self.signal(&members, Signal::TERM);
        // A stopped process takes no signal but this one.
        self.signal(&members, Signal::CONT);
        let left = self.wait_gone(grace, None).await;
        if left == 0 {
            return Ok(());
        }
        match self.wait_gone(KILL_WAIT, Some(Signal::KILL)).await {
            0 => Ok(()),
            left => Err(NotEnded { left }),
        }
    }

    /// Looks until none lives or the time is over, signalling before each look. Says how many are left.
    async fn wait_gone(self, limit: Duration, signal: Option<Signal>) -> usize {
        let deadline = Instant::now() + limit;
        let mut pause = Duration::from_millis(5);
        loop {
            let members = self.members().await;
            if members.is_empty() || (signal.is_none() && Instant::now() >= deadline) {
                return members.len();
            }
            if let Some(signal) = signal {
                if Instant::now() >= deadline {
                    return members.len();
                }
                self.signal(&members, signal);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(80));
        }
    }

    /// Errors mean that a process is gone already, or not ours to signal: the next look tells.
    fn signal(self, members: &[Member], signal: Signal) {
        if let Some(group) = self.group {
            let _ = rustix::process::kill_process_group(group, signal);
        }
        for member in members.iter().filter(|member| !member.in_group) {
            scan::signal_one(member, signal);
        }
    }

    /// Kills who left the group, without anybody waiting for it. The group itself was killed, and its id may be
    /// somebody else's soon. Blocks for a moment.
    fn kill_rest(self) {
        let rest = Self { group: None, ..self };
        let mark = Mark { group: None, call: self.call, since: self.since };
        for _ in 0..KILL_ROUNDS {
            let members = scan::members(&mark);
            if members.is_empty() {
                return;
            }
            rest.signal(&members, Signal::KILL);
            std::thread::sleep(KILL_PAUSE);
        }
    }
}
