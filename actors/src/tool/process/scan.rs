//! What `/proc` says of processes.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use rookery_messages::ids::CallId;
use rustix::process::{Pid, PidfdFlags, Signal};

use super::{CALL_VARIABLE, family, tag};

/// Parts of `/proc/<pid>/stat`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stat {
    pub(super) state: char,
    pub(super) parent: i32,
    pub(super) group: i32,
    pub(super) start_ticks: u64,
}

/// By what a call's processes are known.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    pub(super) group: Option<Pid>,
    pub(super) call: CallId,
    pub(super) since: u64,
}

/// A living process of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) pid: Pid,
    pub(super) in_group: bool,
    start_ticks: u64,
}

impl Stat {
    fn lives(&self) -> bool {
        !matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// Reads a process's line.
pub(super) fn stat(pid: i32) -> io::Result<Stat> {
    // A name need not be UTF-8.
    let line = std::fs::read(format!("/proc/{pid}/stat"))?;
    parse(&String::from_utf8_lossy(&line)).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, format!("/proc/{pid}/stat has another form"))
    })
}

/// The fields after the name, which stands in parentheses and may hold anything (`proc_pid_stat(5)`).
pub(super) fn parse(line: &str) -> Option<Stat> {
    let (_, fields) = line.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    // Field 22 of the line; the group was field 5.
    let start_ticks = fields.nth(16)?.parse().ok()?;
    Some(Stat { state, parent, group, start_ticks })
}

/// All processes but our own.
fn table() -> BTreeMap<i32, Stat> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return BTreeMap::new() };
    let own = std::process::id();
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid: &i32| u32::try_from(*pid) != Ok(own))
        .filter_map(|pid| Some((pid, stat(pid).ok()?)))
        .collect()
}

/// Our children in a table, that live or that have ended.
fn children(table: &BTreeMap<i32, Stat>, living: bool) -> Vec<i32> {
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    let children = table.iter().filter(|(_, stat)| stat.parent == own && stat.lives() == living);
    children.map(|(pid, _)| *pid).collect()
}

/// The living processes of a call, and all below them. Reads all of `/proc`: some microseconds a process.
pub(super) fn members(mark: &Mark) -> Vec<Member> {
    let table = table();
    let in_group = |stat: &Stat| mark.group.is_some_and(|group| group.as_raw_pid() == stat.group);
    let mut found: BTreeSet<i32> = table
        .iter()
        .filter(|(_, stat)| stat.lives() && stat.start_ticks >= mark.since)
        .filter(|(pid, stat)| in_group(stat) || is_marked(**pid, mark.call))
        .map(|(pid, _)| *pid)
        .collect();
    if family::adopts() {
        family::reap(children(&table, false));
        let others = family::other_calls(mark.call);
        let younger = |pid: &i32| table.get(pid).is_some_and(|stat| stat.start_ticks >= mark.since);
        let stray = |pid: &i32| younger(pid) && !others.iter().any(|call| is_marked(*pid, *call));
        found.extend(family::left_to_us(children(&table, true)).into_iter().filter(stray));
    }
    let mut open: Vec<i32> = found.iter().copied().collect();
    while let Some(parent) = open.pop() {
        let below = table.iter().filter(|(_, stat)| stat.parent == parent && stat.lives());
        open.extend(below.map(|(pid, _)| *pid).filter(|pid| found.insert(*pid)));
    }
    found
        .into_iter()
        .filter_map(|pid| {
            let stat = table.get(&pid)?;
            let (in_group, start_ticks) = (in_group(stat), stat.start_ticks);
            Some(Member { pid: Pid::from_raw(pid)?, in_group, start_ticks })
        })
        .collect()
}

/// Takes what was left to us and has ended off the system's list. All who wait for a child hear of each end; one
/// of them looks. What ends meanwhile is found at the next end, or at that of its call.
pub(super) fn reap() {
    static LOOKS: AtomicBool = AtomicBool::new(false);
    if family::adopts() && !LOOKS.swap(true, Ordering::AcqRel) {
        family::reap(children(&table(), false));
        LOOKS.store(false, Ordering::Release);
    }
}

/// Whether a process carries a call's mark.
fn is_marked(pid: i32, call: CallId) -> bool {
    in_environment(pid, call) || file_locks(pid) == Some(tag(call))
}

/// One of another user can't be looked at.
fn in_environment(pid: i32, call: CallId) -> bool {
    let Ok(environment) = std::fs::read(format!("/proc/{pid}/environ")) else { return false };
    let mark = format!("{CALL_VARIABLE}={call}");
    environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
}

/// How many file locks a process may hold at most, if that is limited (`proc_pid_limits(5)`).
fn file_locks(pid: i32) -> Option<u64> {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let row = limits.lines().find_map(|row| row.strip_prefix("Max file locks"))?;
    // The soft limit stands first; a program may change it, the other one only for less.
    row.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Signals a process through a handle, so that another one with its id is never hit.
pub(super) fn signal_one(member: &Member, signal: Signal) {
    if let Ok(handle) = rustix::process::pidfd_open(member.pid, PidfdFlags::empty())
        && stat(member.pid.as_raw_pid()).is_ok_and(|stat| stat.start_ticks == member.start_ticks)
    {
        let _ = rustix::process::pidfd_send_signal(&handle, signal);
    }
}
