//! A sink that hands observations on to subscribers of their own pace.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rookery_messages::observe::{Observation, Observer};
use tokio::sync::mpsc::{self, Receiver, Sender, error::TrySendError};

/// Fans out to bounded channels. A subscriber that is too slow loses observations, which are counted;
/// one that went away is let go (V-N5).
#[derive(Default)]
pub struct ObservationFeed {
    subscribers: Mutex<Vec<Sender<Arc<Observation>>>>,
    lost: AtomicU64,
}

impl ObservationFeed {
    /// Without subscribers.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// From now on. At most `capacity` observations wait.
    pub fn subscribe(&self, capacity: usize) -> Receiver<Arc<Observation>> {
        let (sender, receiver) = mpsc::channel(capacity.max(1));
        self.subscribers.lock().push(sender);
        receiver
    }

    /// Observations that a subscriber had no room for.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl Observer for ObservationFeed {
    fn observe(&self, observation: &Observation) {
        let mut subscribers = self.subscribers.lock();
        if subscribers.is_empty() {
            return;
        }
        let shared = Arc::new(observation.clone());
        subscribers.retain(|subscriber| match subscriber.try_send(Arc::clone(&shared)) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => {
                self.lost.fetch_add(1, Ordering::Relaxed);
                true
            }
            Err(TrySendError::Closed(_)) => false,
        });
    }
}
