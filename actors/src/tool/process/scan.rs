//! What `/proc` says of processes.

use std::io;

use rookery_messages::ids::CallId;
use rustix::process::{Pid, PidfdFlags, Signal};

use super::{CALL_VARIABLE, tag};

/// Parts of `/proc/<pid>/stat`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stat {
    pub(super) state: char,
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
    let group = fields.nth(1)?.parse().ok()?;
    // Field 22 of the line; the group was field 5.
    let start_ticks = fields.nth(16)?.parse().ok()?;
    Some(Stat { state, group, start_ticks })
}

/// The living processes of a call. Reads all of `/proc`: some microseconds a process.
pub(super) fn members(mark: &Mark) -> Vec<Member> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let own = std::process::id();
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid: &i32| u32::try_from(*pid) != Ok(own))
        .filter_map(|pid| {
            let stat = stat(pid).ok()?;
            if matches!(stat.state, 'Z' | 'X' | 'x') || stat.start_ticks < mark.since {
                return None;
            }
            let in_group = mark.group.is_some_and(|group| group.as_raw_pid() == stat.group);
            if in_group || is_marked(pid, mark.call) {
                Some(Member { pid: Pid::from_raw(pid)?, in_group })
            } else {
                None
            }
        })
        .collect()
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

/// Signals a marked process through a handle, so that another one with its id is never hit.
pub(super) fn signal_marked(pid: Pid, call: CallId, signal: Signal) {
    if let Ok(handle) = rustix::process::pidfd_open(pid, PidfdFlags::empty())
        && is_marked(pid.as_raw_pid(), call)
    {
        let _ = rustix::process::pidfd_send_signal(&handle, signal);
    }
}
