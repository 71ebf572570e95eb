//! Whether the store takes what it is given: a full or broken disk makes the service unready, though every
//! actor of it lives.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use rookery_messages::store::{Store, StoreError, Write, Written};
use rookery_supervisors::health::Check;
use tokio::time::Instant;

/// How long a failed write counts. Nobody may write while we are not ready, so that only trying tells
/// whether the disk has room again.
const COUNTS_FOR: Duration = Duration::from_secs(15);

/// What became of the last batch.
#[derive(Default)]
pub(super) struct StoreHealth {
    failed: Mutex<Option<(Instant, String)>>,
}

impl StoreHealth {
    /// The store, watched.
    pub(super) fn watch(self: &Arc<Self>, store: Box<dyn Store>) -> Box<dyn Store> {
        Box::new(Watched { store, health: Arc::clone(self) })
    }

    /// The check for readiness.
    pub(super) fn check(self: &Arc<Self>) -> Check {
        let health = Arc::clone(self);
        Arc::new(move || health.standing(Instant::now()))
    }

    fn standing(&self, now: Instant) -> Result<(), String> {
        match &*self.failed.lock() {
            Some((at, why)) if now.saturating_duration_since(*at) < COUNTS_FOR => Err(why.clone()),
            _ => Ok(()),
        }
    }

    fn note(&self, answers: &[Result<Written, StoreError>], now: Instant) {
        let disk = |error: &StoreError| {
            matches!(
                error,
                StoreError::Full(_) | StoreError::Unavailable(_) | StoreError::Corrupt(_)
            )
        };
        let found = answers.iter().find_map(|answer| answer.as_ref().err().filter(|e| disk(e)));
        match found {
            Some(error) => *self.failed.lock() = Some((now, error.to_string())),
            // What is refused for its own sake says nothing of the disk, nor does what may write nothing.
            None if answers.iter().any(|answer| matches!(answer, Ok(Written::Committed(_)))) => {
                *self.failed.lock() = None;
            }
            None => {}
        }
    }
}

struct Watched {
    store: Box<dyn Store>,
    health: Arc<StoreHealth>,
}

impl Store for Watched {
    fn apply(&mut self, writes: &[Write]) -> Vec<Result<Written, StoreError>> {
        let answers = self.store.apply(writes);
        self.health.note(&answers, Instant::now());
        answers
    }

    fn begin_life(&mut self, at: Timestamp) -> Result<(), StoreError> {
        self.store.begin_life(at)
    }
}

#[cfg(test)]
mod tests {
    use rookery_messages::store::CommitAck;

    use super::*;

    #[test]
    fn a_store_that_cannot_write_is_not_ready_until_it_can_or_was_not_tried_for_a_while() {
        let health = StoreHealth::default();
        let now = Instant::now();
        assert_eq!(health.standing(now), Ok(()));
        let full = || Err(StoreError::Full("no space".to_owned()));
        health.note(&[full()], now);
        let why = health.standing(now).unwrap_err();
        assert!(why.contains("full: no space"), "{why}");
        // One that is refused, or none at all, changes nothing.
        health.note(&[Err(StoreError::Stale)], now);
        health.note(&[], now);
        health.note(&[Ok(Written::Done)], now);
        assert!(health.standing(now).is_err());
        assert_eq!(health.standing(now + COUNTS_FOR), Ok(()));
        health.note(&[full()], now);
        health.note(&[Ok(Written::Committed(CommitAck::default()))], now);
        assert_eq!(health.standing(now), Ok(()));
    }
}
