//! The backend's threads: one connection each, fed by bounded queues of jobs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{Builder, JoinHandle};

use parking_lot::Mutex;
use rookery_messages::BoxFuture;
use rookery_messages::memory::MemoryError;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::rows;

/// Jobs that may wait.
const QUEUE: usize = 256;

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// A queue and the threads behind it.
#[derive(Debug)]
pub(super) struct Threads {
    queue: SyncSender<Job>,
    threads: Vec<JoinHandle<()>>,
}

impl Threads {
    /// One thread a connection.
    pub(super) fn start(name: &str, connections: Vec<Connection>) -> Result<Self, MemoryError> {
        let (queue, jobs) = sync_channel(QUEUE);
        let jobs = Arc::new(Mutex::new(jobs));
        let start = |conn| {
            let jobs = Arc::clone(&jobs);
            let thread = Builder::new().name(name.to_owned());
            thread.spawn(move || work(conn, &jobs)).map_err(|error| {
                MemoryError::Unavailable(format!("a thread can't be started: {error}"))
            })
        };
        let threads = connections.into_iter().map(start).collect::<Result<_, _>>()?;
        Ok(Self { queue, threads })
    }

    /// Has `job` done on a connection. A job whose asker is gone before its turn comes is left out.
    pub(super) fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> rows::Result<T> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, MemoryError>> {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |conn| {
            if !reply.is_closed() {
                // Nobody may wait for it any more.
                let _ = reply.send(job(conn).map_err(MemoryError::from));
            }
        });
        let refused = match self.queue.try_send(job) {
            Ok(()) => None,
            Err(TrySendError::Full(_)) => Some(MemoryError::Busy),
            Err(TrySendError::Disconnected(_)) => Some(MemoryError::Closed),
        };
        Box::pin(async move {
            match refused {
                Some(error) => Err(error),
                // Dropped unanswered: the job panicked.
                None => answer.await.unwrap_or_else(|_| {
                    Err(MemoryError::Failed("a job of the memory's backend panicked".to_owned()))
                }),
            }
        })
    }

    /// Does what is queued, then ends the threads. Blocks until they have ended.
    pub(super) fn shutdown(self) {
        let Self { queue, threads } = self;
        drop(queue);
        for thread in threads {
            // Panics are caught where they happen.
            let _ = thread.join();
        }
    }
}

fn work(mut conn: Connection, jobs: &Mutex<Receiver<Job>>) {
    loop {
        // The lock is held while waiting: the others wait for it instead, and one job wakes one thread.
        let job = jobs.lock().recv();
        let Ok(job) = job else { return };
        // A transaction that a panic cut short is rolled back by its drop: the connection is as good as new.
        if catch_unwind(AssertUnwindSafe(|| job(&mut conn))).is_err() {
            tracing::error!("a job of the memory's backend panicked");
        }
    }
}
