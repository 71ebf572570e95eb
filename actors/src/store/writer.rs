//! The writer thread: requests that wait are committed together (group commit), then answered.
//!
//! A request that is alone is committed at once: the group is what has come in while the last commit was
//! synced, so the batch grows with the load and there is no delay to tune.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use rookery_messages::store::{
    ClaimOutcome, Read, SendResult, Store, StoreError, StoreReader, Write, Written,
};
use rookery_messages::turn::TurnRecord;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::readers::{ReadReply, Readers};

/// Requests that may wait for the writer.
const QUEUE: usize = 1_024;
/// Requests committed together at most; bounds what one slow batch makes others wait.
const BATCH: usize = 128;
/// How long nothing may be written before the store is looked after.
const IDLE: Duration = Duration::from_secs(5);
/// The same, after a write that failed for the disk.
const FAILED: Duration = Duration::from_secs(1);

/// Where a write's answer goes.
pub type WriteReply = oneshot::Sender<Result<Written, StoreError>>;

type Job = (Write, WriteReply);

/// The store's threads: one writer, some readers. Submitting never blocks.
#[derive(Debug)]
pub struct StoreThreads {
    queue: SyncSender<Job>,
    writer: JoinHandle<()>,
    readers: Readers,
}

impl StoreThreads {
    /// Starts the threads. `on_end` is called once, from the writer's thread, when it ends: with a
    /// panic's text, or, after [`shutdown`](Self::shutdown), with `shut down`. Requests that still wait
    /// then are dropped, so whoever waits for an answer sees that none comes.
    pub fn start(
        store: Box<dyn Store>,
        readers: Vec<Box<dyn StoreReader>>,
        on_end: Box<dyn FnOnce(String) + Send>,
    ) -> Result<Self, StoreError> {
        let readers = Readers::start(readers)?;
        let (queue, jobs) = sync_channel(QUEUE);
        let writer = Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || {
                // The queue goes with the closure: it is gone before anybody is told.
                let end = catch_unwind(AssertUnwindSafe(move || write_until_closed(store, jobs)));
                on_end(match end {
                    Ok(()) => "shut down".to_owned(),
                    Err(panic) => format!("the writer panicked: {}", panic_text(panic.as_ref())),
                });
            })
            .map_err(|error| thread_error(&error))?;
        Ok(Self { queue, writer, readers })
    }

    /// Queues a write. If there is no room, or the writer has ended, the reply says so too.
    pub fn submit_write(&self, write: Write, reply: WriteReply) -> Result<(), StoreError> {
        let (error, reply) = match self.queue.try_send((write, reply)) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Full((_, reply))) => (StoreError::Busy, reply),
            Err(TrySendError::Disconnected((_, reply))) => (StoreError::Closed, reply),
        };
        // Whoever asked may be gone; then nobody needs the answer.
        let _ = reply.send(Err(error.clone()));
        Err(error)
    }

    /// Queues a question. If there is no room, or the readers have ended, the reply says so too.
    pub fn submit_read(&self, read: Read, reply: ReadReply) -> Result<(), StoreError> {
        self.readers.submit(read, reply)
    }

    /// Answers what is queued, then ends the threads. Blocks until they have ended.
    pub fn shutdown(self) {
        let Self { queue, writer, readers } = self;
        // The writer goes last: the last connection that can write moves the log into the file.
        readers.shutdown();
        drop(queue);
        // A panic was caught and told; there is nothing to take from the thread.
        let _ = writer.join();
    }
}

fn write_until_closed(mut store: Box<dyn Store>, jobs: Receiver<Job>) {
    let mut writes = Vec::with_capacity(BATCH);
    let mut replies = Vec::with_capacity(BATCH);
    let mut given_back: Vec<Write> = Vec::new();
    let mut watch = Watch::default();
    loop {
        let first = match jobs.recv_timeout(watch.pause()) {
            Ok(first) => first,
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                watch.look(store.as_mut());
                continue;
            }
        };
        let others = std::iter::from_fn(|| jobs.try_recv().ok());
        for (write, reply) in std::iter::once(first).chain(others).take(BATCH) {
            if !(is_claim(&write) && reply.is_closed()) {
                writes.push(write);
                replies.push(reply);
            }
        }
        if writes.is_empty() {
            continue;
        }
        let answers = store.apply(&writes);
        watch.note(&answers);
        for ((write, reply), answer) in writes.drain(..).zip(replies.drain(..)).zip(answers) {
            if let Err(Ok(untaken)) = reply.send(answer) {
                given_back.extend(give_back(&write, untaken));
            }
        }
        if !given_back.is_empty() {
            for answer in store.apply(&given_back) {
                if let Err(error) = answer {
                    tracing::warn!(%error, "what was claimed for somebody who is gone stays claimed");
                }
            }
            given_back.clear();
        }
        // One that is never idle is looked after all the same.
        if watch.is_due() {
            watch.look(store.as_mut());
        }
    }
}

/// Looks after the store between writes. After a failure only a probe that goes well says that it is over: a
/// small write may go where a larger one does not.
#[derive(Default)]
struct Watch {
    /// When a write failed for the disk, or it was last found so.
    failed: Option<Instant>,
}

impl Watch {
    fn pause(&self) -> Duration {
        if self.failed.is_some() { FAILED } else { IDLE }
    }

    fn is_due(&self) -> bool {
        self.failed.is_some_and(|at| at.elapsed() >= FAILED)
    }

    fn note(&mut self, answers: &[Result<Written, StoreError>]) {
        let of_the_disk = |answer: &Result<Written, StoreError>| {
            answer.as_ref().is_err_and(StoreError::is_of_the_disk)
        };
        if self.failed.is_none() && answers.iter().any(of_the_disk) {
            self.failed = Some(Instant::now());
        }
    }

    fn look(&mut self, store: &mut dyn Store) {
        let was = self.failed.is_some();
        let found = if was { store.probe() } else { store.check() };
        if found.is_err() != was {
            tell(&found);
        }
        self.failed = found.is_err().then(Instant::now);
    }
}

/// The store can't be written any more, or can again.
fn tell(found: &Result<(), StoreError>) {
    match found {
        Ok(()) => tracing::info!("the store can be written again"),
        Err(error) => tracing::error!(%error, "the store can't be written"),
    }
}

/// A claim takes something for whoever asks; if nobody waits any more, it would only be lost.
fn is_claim(write: &Write) -> bool {
    matches!(write, Write::Claim(_) | Write::ClaimOutbox { .. })
}

/// What was claimed for somebody who stopped waiting. Outbox rows: nobody would send them, and what
/// follows in their conversation would wait for ever. A turn: it did not even begin, so it has no crash to
/// answer for. An accepted message stays, and waits.
fn give_back(write: &Write, untaken: Written) -> Vec<Write> {
    let (at, rows) = match (write, untaken) {
        (Write::ClaimOutbox { at, .. }, Written::Outbox(rows)) => (at, rows),
        (Write::Claim(_), Written::Claimed(ClaimOutcome::Turn(claim))) => {
            let TurnRecord { id: turn, conversation_id, .. } = claim.record;
            return vec![Write::ReleaseTurn { turn, conversation_id, fence: claim.fence }];
        }
        (Write::Accept(_), Written::Accepted(outcome)) => {
            let back = outcome.claim.map(|claim| Write::ReturnClaim {
                turn: claim.record.id,
                conversation_id: claim.record.conversation_id,
                fence: claim.fence,
            });
            return back.into_iter().collect();
        }
        _ => return Vec::new(),
    };
    rows.into_iter()
        .map(|row| Write::MarkOutbox {
            id: row.message.id,
            at: *at,
            result: SendResult::Retry { at: *at, cause: "the sender did not take it".to_owned() },
        })
        .collect()
}

/// A thread could not be started.
pub(super) fn thread_error(error: &std::io::Error) -> StoreError {
    StoreError::Failed(format!("starting a thread of the store: {error}"))
}

/// What a panic said.
pub(super) fn panic_text(panic: &(dyn Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text.clone()
    } else {
        "without a text".to_owned()
    }
}
