//! The event streams of conversations: a ring of recent events each, any number of followers.
//!
//! Publishing never waits. A follower that is too slow loses its place and gets [`HubItem::Gap`]; it
//! then takes a snapshot. Cost: one map look-up, one short lock and one `Arc` an event.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dashmap::DashMap;
use parking_lot::Mutex;
use rookery_messages::approval::Approval;
use rookery_messages::event::{TurnEvent, TurnEventKind};
use rookery_messages::ids::{ConversationId, TurnId};
use rookery_messages::time::World;
use tokio::sync::{Notify, broadcast};

/// Events kept per conversation …
const RING: usize = 512;
/// … as far as their texts are no longer than this in all, in bytes. The newest is always kept.
const RING_BYTES: usize = 1 << 20;
/// Routed approvals kept for a follower that is slow; it finds what it missed in the store.
const ROUTED: usize = 256;
/// Conversations kept without a follower before the oldest are dropped.
const KEEP: usize = 4_096;

struct Stream {
    ring: Mutex<Ring>,
    notify: Notify,
    /// Rung for ends only: who waits for an end need not be woken for every delta.
    ended: Notify,
    followers: AtomicUsize,
}

struct Ring {
    next: u64,
    events: VecDeque<Arc<TurnEvent>>,
    bytes: usize,
}

impl Ring {
    fn push(&mut self, event: TurnEvent) {
        self.bytes += text_bytes(&event.kind);
        self.events.push_back(Arc::new(event));
        while self.events.len() > RING || (self.bytes > RING_BYTES && self.events.len() > 1) {
            let Some(oldest) = self.events.pop_front() else { return };
            self.bytes -= text_bytes(&oldest.kind);
        }
    }
}

/// The texts of an event that may be long.
fn text_bytes(kind: &TurnEventKind) -> usize {
    match kind {
        TurnEventKind::Delta { text }
        | TurnEventKind::Thinking { text }
        | TurnEventKind::Notice { text } => text.len(),
        TurnEventKind::ToolResult { output, .. } => output.len(),
        TurnEventKind::Ended { reply, .. } => reply.as_ref().map_or(0, String::len),
        _ => 0,
    }
}

impl Stream {
    fn push(&self, turn: TurnId, kind: TurnEventKind) -> u64 {
        let mut ring = self.ring.lock();
        let seq = ring.next;
        ring.next += 1;
        ring.push(TurnEvent { seq, turn, kind });
        seq
    }
}

/// What a follower gets.
#[derive(Clone, PartialEq, Debug)]
pub enum HubItem {
    /// The next event.
    Event(Arc<TurnEvent>),
    /// Events were lost between what it had and `next`.
    Gap {
        /// The seq of the next event it will get.
        next: u64,
    },
}

/// All conversations' event streams.
pub struct EventHub {
    world: World,
    streams: DashMap<ConversationId, Arc<Stream>>,
    order: Mutex<VecDeque<ConversationId>>,
    routed: broadcast::Sender<Arc<Approval>>,
}

impl EventHub {
    /// Without any stream.
    pub fn new(world: World) -> Arc<Self> {
        Arc::new(Self {
            world,
            streams: DashMap::new(),
            order: Mutex::new(VecDeque::new()),
            routed: broadcast::Sender::new(ROUTED),
        })
    }

    /// Tells whoever is connected of an approval that is asked in another channel than its own.
    pub fn route(&self, approval: Approval) {
        // Nobody may be connected: the request stands in the store.
        let _ = self.routed.send(Arc::new(approval));
    }

    /// Approvals that are asked in another channel than their own, from now on.
    pub fn routed(&self) -> broadcast::Receiver<Arc<Approval>> {
        self.routed.subscribe()
    }

    /// Adds an event; gives its seq.
    pub fn publish(&self, conversation: ConversationId, turn: TurnId, kind: TurnEventKind) -> u64 {
        let is_end = matches!(kind, TurnEventKind::Ended { .. });
        // Under the map's lock: a stream that went to rest meanwhile would take the event with it, past
        // whoever follows its successor.
        let stream = loop {
            match self.streams.get(&conversation) {
                Some(stream) => break stream,
                None => drop(self.stream(conversation)),
            }
        };
        let seq = stream.push(turn, kind);
        stream.notify.notify_waiters();
        if is_end {
            stream.ended.notify_waiters();
        }
        seq
    }

    /// Follows a conversation: after `seq`, or from now on.
    pub fn subscribe(&self, conversation: ConversationId, after: Option<u64>) -> Subscription {
        let stream = self.followed(conversation);
        let next = match after {
            Some(seq) => seq + 1,
            None => stream.ring.lock().next,
        };
        Subscription { stream, next }
    }

    /// The seq the next event will have.
    pub fn next_seq(&self, conversation: ConversationId) -> u64 {
        self.stream(conversation).ring.lock().next
    }

    /// Conversations with a stream.
    pub fn len(&self) -> usize {
        self.streams.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// Drops a conversation's ring once nobody follows it: its session has gone to rest.
    pub fn rest(&self, conversation: ConversationId) {
        self.streams
            .remove_if(&conversation, |_, stream| stream.followers.load(Ordering::Relaxed) == 0);
    }

    /// The stream with one follower more. Counted under the map's lock, so that a stream going to rest
    /// can't lose a new follower.
    fn followed(&self, conversation: ConversationId) -> Arc<Stream> {
        loop {
            if let Some(stream) = self.streams.get(&conversation) {
                stream.followers.fetch_add(1, Ordering::Relaxed);
                return Arc::clone(&stream);
            }
            self.stream(conversation);
        }
    }

    fn stream(&self, conversation: ConversationId) -> Arc<Stream> {
        if let Some(stream) = self.streams.get(&conversation) {
            return Arc::clone(&stream);
        }
        // Starts at the time in milliseconds, times 1000: seq rises over restarts and over a ring that
        // was dropped, and stays an exact integer in JavaScript.
        let first = u64::try_from(self.world.now().as_millisecond()).unwrap_or(0) * 1_000;
        let stream = Arc::clone(&self.streams.entry(conversation).or_insert_with(|| {
            Arc::new(Stream {
                ring: Mutex::new(Ring { next: first, events: VecDeque::new(), bytes: 0 }),
                notify: Notify::new(),
                ended: Notify::new(),
                followers: AtomicUsize::new(0),
            })
        }));
        self.bound(conversation);
        stream
    }

    /// Keeps the number of streams bounded: the oldest without a follower goes first.
    fn bound(&self, newest: ConversationId) {
        let mut order = self.order.lock();
        order.push_back(newest);
        if order.len() <= KEEP {
            return;
        }
        for _ in 0..order.len() {
            let Some(oldest) = order.pop_front() else { return };
            let followed = self
                .streams
                .get(&oldest)
                .is_some_and(|stream| stream.followers.load(Ordering::Relaxed) > 0);
            if followed {
                order.push_back(oldest);
            } else {
                self.rest(oldest);
                return;
            }
        }
    }
}

/// One follower's place in a stream.
pub struct Subscription {
    stream: Arc<Stream>,
    next: u64,
}

impl Subscription {
    /// Waits for the next event. Safe to cancel.
    pub async fn next(&mut self) -> HubItem {
        loop {
            let stream = Arc::clone(&self.stream);
            let notified = stream.notify.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if let Some(item) = self.try_next() {
                return item;
            }
            notified.await;
        }
    }

    /// Waits for a turn's end, or for a gap in which it may have been. Passes over all other events.
    /// Safe to cancel.
    pub async fn end_of(&mut self, turn: TurnId) -> HubItem {
        loop {
            let stream = Arc::clone(&self.stream);
            let notified = stream.ended.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            while let Some(item) = self.try_next() {
                let found = match &item {
                    HubItem::Gap { .. } => true,
                    HubItem::Event(event) => {
                        event.turn == turn && matches!(event.kind, TurnEventKind::Ended { .. })
                    }
                };
                if found {
                    return item;
                }
            }
            notified.await;
        }
    }

    /// The next event, if there is one.
    pub fn try_next(&mut self) -> Option<HubItem> {
        let ring = self.stream.ring.lock();
        if self.next > ring.next {
            // The follower comes from a time or place this ring does not know.
            self.next = ring.next;
            return Some(HubItem::Gap { next: ring.next });
        }
        let oldest = ring.next - ring.events.len() as u64;
        if self.next < oldest {
            self.next = oldest;
            return Some(HubItem::Gap { next: oldest });
        }
        let index = usize::try_from(self.next - oldest).unwrap_or(usize::MAX);
        let event = ring.events.get(index).cloned()?;
        self.next += 1;
        Some(HubItem::Event(event))
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.stream.followers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::runtime::system_world;

    fn notice(text: String) -> TurnEventKind {
        TurnEventKind::Notice { text }
    }

    #[tokio::test]
    async fn a_follower_gets_every_event_in_order_and_a_slow_one_gets_a_gap() {
        let hub = EventHub::new(system_world());
        let (conversation, turn) = (ConversationId(Uuid::nil()), TurnId(Uuid::nil()));
        let mut follower = hub.subscribe(conversation, None);
        let first = hub.publish(conversation, turn, notice("0".into()));
        assert!(matches!(follower.next().await, HubItem::Event(e) if e.seq == first));
        for n in 0..=RING {
            hub.publish(conversation, turn, notice(n.to_string()));
        }
        assert_eq!(follower.next().await, HubItem::Gap { next: first + 2 });
        assert!(matches!(follower.next().await, HubItem::Event(e) if e.seq == first + 2));
        let mut resumed = hub.subscribe(conversation, Some(first + RING as u64));
        assert!(
            matches!(resumed.next().await, HubItem::Event(e) if e.seq == first + RING as u64 + 1)
        );
        assert_eq!(resumed.try_next(), None);
    }

    // I10: by bytes too; a follower that is too slow for them gets a gap
    #[tokio::test]
    async fn long_events_push_older_ones_out() {
        let hub = EventHub::new(system_world());
        let (conversation, turn) = (ConversationId(Uuid::nil()), TurnId(Uuid::nil()));
        let mut follower = hub.subscribe(conversation, None);
        let first = hub.publish(conversation, turn, notice("short".into()));
        for _ in 0..3 {
            hub.publish(conversation, turn, notice("x".repeat(RING_BYTES / 2)));
        }
        assert_eq!(follower.next().await, HubItem::Gap { next: first + 2 });
        let newest = hub.publish(conversation, turn, notice("x".repeat(2 * RING_BYTES)));
        assert_eq!(follower.next().await, HubItem::Gap { next: newest });
        assert!(matches!(follower.next().await, HubItem::Event(e) if e.seq == newest));
        hub.publish(conversation, turn, notice("short".into()));
        assert_eq!(hub.stream(conversation).ring.lock().bytes, "short".len());
    }

    #[tokio::test]
    async fn streams_nobody_follows_are_bounded() {
        // I10
        let hub = EventHub::new(system_world());
        let followed = ConversationId(Uuid::from_u128(1));
        let _follower = hub.subscribe(followed, None);
        for n in 0..(KEEP as u128 + 100) {
            let conversation = ConversationId(Uuid::from_u128(n + 2));
            hub.publish(conversation, TurnId(Uuid::nil()), notice(String::new()));
        }
        assert!(hub.len() <= KEEP + 1, "{}", hub.len());
        assert!(hub.streams.contains_key(&followed));
    }
}
