//! Whose child a child of ours is: one we started, or one that was left to us.
//!
//! A process that adopts orphans (`PR_SET_CHILD_SUBREAPER`, `prctl(2)`) gets every descendant whose parents
//! end, whatever it did to its group, session, environment and limits. What it did not start itself it can
//! then only have from its commands. The service adopts; a program that embeds it has children of its own, and
//! decides for itself.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use rookery_messages::ids::CallId;
use rustix::process::{Pid, WaitOptions};
use tokio::process::{Child, Command};

static ADOPTS: AtomicBool = AtomicBool::new(false);
/// The children we started and did not give up yet.
static OURS: Mutex<BTreeMap<i32, Started>> = Mutex::new(BTreeMap::new());

struct Started {
    /// Ids are used again: which start of this id it is.
    serial: u64,
    call: Option<CallId>,
}

/// From now on what our commands leave behind is left to us. All children of the process have to be started
/// through [`spawn`]: others would be taken for leftovers of a command.
pub fn adopt_orphans() -> io::Result<()> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    ADOPTS.store(true, Ordering::Release);
    Ok(())
}

/// Whether orphans are left to us.
pub(super) fn adopts() -> bool {
    ADOPTS.load(Ordering::Acquire)
}

/// That a child is one we started. Kept until it is reaped or given up.
pub struct Kin {
    pid: i32,
    serial: u64,
}

impl Drop for Kin {
    fn drop(&mut self) {
        let mut ours = OURS.lock();
        if ours.get(&self.pid).is_some_and(|started| started.serial == self.serial) {
            ours.remove(&self.pid);
        }
    }
}

/// Starts a child, for a call if it is for one.
pub fn spawn(command: &mut Command, call: Option<CallId>) -> io::Result<(Child, Kin)> {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    // Whoever saw the child before it is known waits here before it judges it.
    let mut ours = OURS.lock();
    let child = command.spawn()?;
    let pid = child.id().and_then(|id| i32::try_from(id).ok());
    let pid = pid.ok_or_else(|| io::Error::other("it was ended by somebody else"))?;
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    ours.insert(pid, Started { serial, call });
    Ok((child, Kin { pid, serial }))
}

/// Those of these children of ours that were left to us.
pub(super) fn left_to_us(children: Vec<i32>) -> Vec<i32> {
    let ours = OURS.lock();
    children.into_iter().filter(|pid| !ours.contains_key(pid)).collect()
}

/// The calls of the children that we started and that are in hand, but for this one.
pub(super) fn other_calls(call: CallId) -> Vec<CallId> {
    OURS.lock().values().filter_map(|started| started.call).filter(|one| *one != call).collect()
}

/// Takes ended children off the system's list that were left to us: nobody else does.
pub(super) fn reap(ended: Vec<i32>) {
    for pid in left_to_us(ended).into_iter().filter_map(Pid::from_raw) {
        let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
    }
}
