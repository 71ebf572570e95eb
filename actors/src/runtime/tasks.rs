//! The tasks of one actor: they belong to its host, never to its state, and die with it.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::task::JoinHandle;

/// Names one task of an actor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TaskKey(u64);

#[derive(Default)]
struct Running {
    next: u64,
    closed: bool,
    handles: HashMap<u64, JoinHandle<()>>,
}

/// A set of tasks that is aborted as a whole.
#[derive(Default)]
pub(super) struct TaskSet {
    running: Mutex<Running>,
    count: AtomicUsize,
}

impl TaskSet {
    /// Starts a task, unless the set is closed: an ending actor starts nothing.
    pub(super) fn start(
        self: &Arc<Self>,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> Option<TaskKey> {
        let mut running = self.running.lock();
        if running.closed {
            return None;
        }
        let key = running.next;
        running.next += 1;
        let set = Arc::downgrade(self);
        self.count.fetch_add(1, Ordering::Relaxed);
        // The lock is held until the handle is in the map, so the task can't remove itself too early.
        #[allow(clippy::disallowed_methods, reason = "the one place where tasks are started")]
        let handle = tokio::spawn(async move {
            future.await;
            if let Some(set) = set.upgrade()
                && set.running.lock().handles.remove(&key).is_some()
            {
                set.count.fetch_sub(1, Ordering::Relaxed);
            }
        });
        running.handles.insert(key, handle);
        Some(TaskKey(key))
    }

    /// Aborts one task. Nothing happens if it is done.
    pub(super) fn abort(&self, key: TaskKey) {
        let handle = self.running.lock().handles.remove(&key.0);
        if let Some(handle) = handle {
            handle.abort();
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Aborts all, without waiting: for the drop of a killed host.
    pub(super) fn abort_all(&self) {
        for handle in self.close() {
            handle.abort();
        }
    }

    /// Aborts all and waits until each is gone.
    pub(super) async fn abort_and_wait(&self) {
        let handles = self.close();
        for handle in &handles {
            handle.abort();
        }
        for handle in handles {
            // An aborted or panicked task is gone just as well.
            let _ = handle.await;
        }
    }

    /// How many run.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn close(&self) -> Vec<JoinHandle<()>> {
        let mut running = self.running.lock();
        running.closed = true;
        self.count.store(0, Ordering::Relaxed);
        running.handles.drain().map(|(_, handle)| handle).collect()
    }
}
