//! Whether the store takes what it is given: a full or broken disk makes the service unready, though every
//! actor of it lives.

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use rookery_messages::store::{Store, StoreError, Write, Written};
use rookery_supervisors::health::Check;

/// Whether a write failed for the disk. The store's own probe says when that is over.
#[derive(Default)]
pub(super) struct StoreHealth {
    failed: Mutex<Option<String>>,
}

impl StoreHealth {
    /// The store, watched.
    pub(super) fn watch(self: &Arc<Self>, store: Box<dyn Store>) -> Box<dyn Store> {
        Box::new(Watched { store, health: Arc::clone(self) })
    }

    /// The check for readiness.
    pub(super) fn check(self: &Arc<Self>) -> Check {
        let health = Arc::clone(self);
        Arc::new(move || health.standing())
    }

    /// Whether it takes what it is given, as far as it was tried.
    pub(super) fn standing(&self) -> Result<(), String> {
        self.failed.lock().clone().map_or(Ok(()), Err)
    }

    fn note(&self, answers: &[Result<Written, StoreError>]) {
        let errors = answers.iter().filter_map(|answer| answer.as_ref().err());
        // A write that goes well says little of a disk that took no other one: the store's probe tells.
        if let Some(error) = errors.into_iter().find(|error| error.is_of_the_disk()) {
            self.fails(error);
        }
    }

    fn fails(&self, error: &StoreError) {
        *self.failed.lock() = Some(error.to_string());
    }
}

struct Watched {
    store: Box<dyn Store>,
    health: Arc<StoreHealth>,
}

impl Store for Watched {
    fn apply(&mut self, writes: &[Write]) -> Vec<Result<Written, StoreError>> {
        let answers = self.store.apply(writes);
        self.health.note(&answers);
        answers
    }

    fn begin_life(&mut self, at: Timestamp) -> Result<(), StoreError> {
        self.store.begin_life(at)
    }

    fn check(&mut self) -> Result<(), StoreError> {
        self.store.check().inspect_err(|error| self.health.fails(error))
    }

    fn probe(&mut self) -> Result<(), StoreError> {
        self.store.probe().inspect_err(|error| self.health.fails(error))?;
        *self.health.failed.lock() = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rookery_messages::store::CommitAck;

    use super::*;

    /// A store that can be written or not.
    #[derive(Default)]
    struct Disk(Arc<Mutex<bool>>);

    impl Disk {
        fn answer(&self) -> Result<(), StoreError> {
            if *self.0.lock() { Err(StoreError::Full("no space".to_owned())) } else { Ok(()) }
        }
    }

    impl Store for Disk {
        fn apply(&mut self, writes: &[Write]) -> Vec<Result<Written, StoreError>> {
            writes.iter().map(|_| self.answer().map(|()| Written::Done)).collect()
        }

        fn begin_life(&mut self, _: Timestamp) -> Result<(), StoreError> {
            Ok(())
        }

        fn probe(&mut self) -> Result<(), StoreError> {
            self.answer()
        }
    }

    #[test]
    fn a_store_that_cannot_write_is_not_ready_until_it_can() {
        let health = Arc::new(StoreHealth::default());
        let full = Arc::new(Mutex::new(true));
        let mut store = health.watch(Box::new(Disk(Arc::clone(&full))));
        assert_eq!(health.standing(), Ok(()));
        store.apply(&[Write::ReleaseOutbox {
            channel: rookery_messages::ids::ChannelId::new("c"),
            at: Timestamp::UNIX_EPOCH,
            on_unknown: rookery_messages::settings::OnUnknown::Hold,
        }]);
        let why = health.standing().unwrap_err();
        assert!(why.contains("full: no space"), "{why}");
        // One that is refused, or none at all, changes nothing.
        health.note(&[Err(StoreError::Stale)]);
        health.note(&[]);
        health.note(&[Ok(Written::Done), Ok(Written::Committed(CommitAck::default()))]);
        assert!(store.probe().is_err() && health.standing().is_err());
        *full.lock() = false;
        assert!(store.probe().is_ok() && health.standing().is_ok());
    }
}
