//! The real clock, ids and randomness.

use std::sync::Arc;

use jiff::Timestamp;
use rookery_messages::time::{Clock, Ids, Rng, World};
use uuid::Uuid;

struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the one real clock")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

struct UuidV7;

impl Ids for UuidV7 {
    #[allow(clippy::disallowed_methods, reason = "this is the one real source of ids")]
    fn next(&self) -> Uuid {
        Uuid::now_v7()
    }
}

struct OsRng;

impl Rng for OsRng {
    fn fraction(&self) -> f64 {
        let mut bytes = [0_u8; 4];
        // Without entropy the jitter is the middle of its range, which is still a jitter's mean.
        if getrandom::fill(&mut bytes).is_err() {
            return 0.5;
        }
        f64::from(u32::from_le_bytes(bytes)) / (f64::from(u32::MAX) + 1.0)
    }
}

/// The sources a running service uses.
pub fn system_world() -> World {
    World { clock: Arc::new(SystemClock), ids: Arc::new(UuidV7), rng: Arc::new(OsRng) }
}
