//! Messages whose attachments are on their way: in order, conversation by conversation.
//!
//! What is here stands in the store too; this is the order of work. An album's messages, which come one by
//! one, become one message (A058); one that comes too late for it is a message of its own.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use rookery_messages::channel::Incoming;
use rookery_messages::time::World;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until};

use super::{ReceiverArgs, files, listen};
use crate::channel::text::check_text;

/// An album is complete when nothing more of it came for so long.
const ALBUM_PAUSE: Duration = Duration::from_millis(1_500);
/// Most messages that wait, over all conversations; listening waits for room.
const ROOM: usize = 512;
/// Downloads at once.
const DOWNLOADS: usize = 4;
/// Pause before the spool is told again that a message is done.
const STORE_PAUSE: Duration = Duration::from_millis(500);

struct Waiting {
    incoming: Incoming,
    since: Instant,
}

/// The order of work.
pub(super) struct Spool {
    queues: Mutex<HashMap<String, VecDeque<Waiting>>>,
    room: Semaphore,
    downloads: Semaphore,
}

impl Default for Spool {
    fn default() -> Self {
        Self {
            queues: Mutex::default(),
            room: Semaphore::new(ROOM),
            downloads: Semaphore::new(DOWNLOADS),
        }
    }
}

impl Spool {
    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.queues.lock().values().map(VecDeque::len).sum()
    }

    /// Whether messages of a conversation wait or are in work.
    pub(super) fn holds(&self, conversation: &str) -> bool {
        self.queues.lock().contains_key(conversation)
    }

    /// Adds one, once there is room. Says whether its conversation needs a worker.
    pub(super) async fn push(&self, incoming: Incoming) -> bool {
        if let Ok(place) = self.room.acquire().await {
            // Given back when it is taken out.
            place.forget();
        }
        let mut queues = self.queues.lock();
        let needs = !queues.contains_key(&incoming.conversation);
        let queue = queues.entry(incoming.conversation.clone()).or_default();
        queue.push_back(Waiting { incoming, since: Instant::now() });
        needs
    }

    /// Works until nothing of the conversation is left.
    pub(super) async fn work(&self, args: &ReceiverArgs, world: &World, conversation: &str) {
        while let Some(group) = self.next(conversation).await {
            self.finish(args, world, group).await;
        }
    }

    /// The next message, or the next whole album. None: the conversation has no queue any more.
    async fn next(&self, conversation: &str) -> Option<Vec<Incoming>> {
        loop {
            let wait = {
                let mut queues = self.queues.lock();
                let queue = queues.get_mut(conversation)?;
                let Some(first) = queue.front() else {
                    queues.remove(conversation);
                    return None;
                };
                match first.incoming.album.clone() {
                    None => return queue.pop_front().map(|one| self.taken(vec![one])),
                    Some(album) => {
                        let of = |one: &Waiting| one.incoming.album.as_ref() == Some(&album);
                        let newest = queue.iter().filter(|one| of(one)).map(|one| one.since).max();
                        let ready = newest.unwrap_or(first.since) + ALBUM_PAUSE;
                        if ready <= Instant::now() {
                            let (group, rest) =
                                std::mem::take(queue).into_iter().partition::<Vec<_>, _>(of);
                            queue.extend(rest);
                            return Some(self.taken(group));
                        }
                        ready
                    }
                }
            };
            sleep_until(wait).await;
        }
    }

    fn taken(&self, group: Vec<Waiting>) -> Vec<Incoming> {
        self.room.add_permits(group.len());
        group.into_iter().map(|one| one.incoming).collect()
    }

    /// Fetches, accepts, and lets go.
    async fn finish(&self, args: &ReceiverArgs, world: &World, group: Vec<Incoming>) {
        let ids: Vec<String> = group.iter().map(|one| one.external_id.clone()).collect();
        let (mut lines, mut attachments) = (Vec::new(), Vec::new());
        let mut first: Option<Incoming> = None;
        for one in group {
            if !one.text.trim().is_empty() {
                lines.push(one.text.clone());
            }
            for (n, file) in one.attachments.iter().enumerate() {
                let _turn = self.downloads.acquire().await;
                let prefix = format!("{}-{}", one.external_id, n + 1);
                let fetched = files::fetch(&*args.adapter, &args.workspace, &prefix, file).await;
                lines.push(fetched.line);
                attachments.extend(fetched.attachment);
            }
            first.get_or_insert(one);
        }
        if let Some(mut incoming) = first {
            incoming.text = lines.join("\n");
            if check_text("text", &incoming.text).is_ok() {
                listen::accept(args, incoming, attachments).await;
            }
        }
        // Until then a restart would accept it once more, which changes nothing.
        while let Err(error) =
            args.store.unspool(args.channel().clone(), ids.clone(), world.now()).await
        {
            tracing::warn!(%error, "an accepted message stays in the spool for now");
            tokio::time::sleep(STORE_PAUSE).await;
        }
    }
}
