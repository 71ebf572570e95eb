//! The reader threads: a few connections share one bounded queue of questions.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{Builder, JoinHandle};

use parking_lot::Mutex;
use rookery_messages::store::{Found, Read, StoreError, StoreReader};
use tokio::sync::oneshot;

use super::writer::{panic_text, thread_error};

/// Questions that may wait for a reader.
const QUEUE: usize = 256;

/// Where a question's answer goes.
pub type ReadReply = oneshot::Sender<Result<Found, StoreError>>;

type Job = (Read, ReadReply);

/// The running readers.
#[derive(Debug)]
pub(super) struct Readers {
    queue: SyncSender<Job>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    /// One thread a reader.
    pub(super) fn start(readers: Vec<Box<dyn StoreReader>>) -> Result<Self, StoreError> {
        let (queue, jobs) = sync_channel(QUEUE);
        let jobs = Arc::new(Mutex::new(jobs));
        let threads = readers
            .into_iter()
            .map(|reader| {
                let jobs = Arc::clone(&jobs);
                Builder::new()
                    .name("store-reader".to_owned())
                    .spawn(move || read_until_closed(reader, &jobs))
                    .map_err(|error| thread_error(&error))
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { queue, threads })
    }

    /// Queues a question; never blocks.
    pub(super) fn submit(&self, read: Read, reply: ReadReply) -> Result<(), StoreError> {
        let (error, reply) = match self.queue.try_send((read, reply)) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Full((_, reply))) => (StoreError::Busy, reply),
            Err(TrySendError::Disconnected((_, reply))) => (StoreError::Closed, reply),
        };
        // Whoever asked may be gone; then nobody needs the answer.
        let _ = reply.send(Err(error.clone()));
        Err(error)
    }

    /// Answers what is queued, then ends the threads.
    pub(super) fn shutdown(self) {
        let Self { queue, threads } = self;
        drop(queue);
        for thread in threads {
            // Panics of a reader are caught where they happen.
            let _ = thread.join();
        }
    }
}

fn read_until_closed(mut reader: Box<dyn StoreReader>, jobs: &Mutex<Receiver<Job>>) {
    loop {
        // The lock is held while waiting: the others wait for it instead, and one job wakes one thread.
        let job = jobs.lock().recv();
        let Ok((read, reply)) = job else { return };
        if reply.is_closed() {
            continue;
        }
        // A question changes nothing, so the reader is as good as before.
        let answer =
            catch_unwind(AssertUnwindSafe(|| reader.read(&read))).unwrap_or_else(|panic| {
                let text = panic_text(panic.as_ref());
                Err(StoreError::Failed(format!("a reader panicked: {text}")))
            });
        // Whoever asked may be gone; then nobody needs the answer.
        let _ = reply.send(answer);
    }
}
