//! What a profile's model was found not to take: learnt from a request that was too long, kept for hours, so
//! that the next turn is not too long again.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How long it is kept since the last request that was too long: servers are reconfigured, and an estimate
/// is only as good as the text it was made of.
const KEPT: Duration = Duration::from_secs(6 * 3_600);

/// The largest request that is sent to a profile unasked, in estimated tokens.
#[derive(Debug, Default)]
pub struct Ceiling(Mutex<Option<Learnt>>);

#[derive(Clone, Copy, Debug)]
struct Learnt {
    tokens: u64,
    until: Instant,
}

impl Ceiling {
    /// The ceiling, if one is known.
    pub fn tokens(&self) -> Option<u64> {
        let mut learnt = self.0.lock();
        if learnt.is_some_and(|learnt| Instant::now() >= learnt.until) {
            *learnt = None;
        }
        learnt.map(|learnt| learnt.tokens)
    }

    /// A request of this size was too long: the next has about two thirds of it.
    pub(super) fn too_long(&self, estimated: u64) {
        if estimated > 0 {
            let tokens = below(estimated);
            *self.0.lock() = Some(Learnt { tokens, until: Instant::now() + KEPT });
        }
    }

    /// A request of this size was taken: a ceiling below it is wrong.
    pub(super) fn fits(&self, estimated: u64) {
        let mut learnt = self.0.lock();
        if learnt.is_some_and(|learnt| learnt.tokens < estimated) {
            *learnt = None;
        }
    }
}

/// What is tried after a request of this size was too long.
pub fn below(estimated: u64) -> u64 {
    (estimated.saturating_mul(2) / 3).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    // V-C7
    #[tokio::test(start_paused = true)]
    async fn a_ceiling_holds_for_hours_and_falls_when_more_is_taken() {
        let ceiling = Ceiling::default();
        assert_eq!(ceiling.tokens(), None);
        ceiling.too_long(9_000);
        ceiling.fits(6_000);
        assert_eq!(ceiling.tokens(), Some(6_000));
        tokio::time::advance(KEPT - Duration::from_secs(1)).await;
        ceiling.too_long(6_000);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(ceiling.tokens(), Some(4_000));
        ceiling.fits(4_001);
        assert_eq!(ceiling.tokens(), None);
        ceiling.too_long(9_000);
        tokio::time::advance(KEPT).await;
        assert_eq!(ceiling.tokens(), None);
        ceiling.too_long(0);
        assert_eq!(ceiling.tokens(), None);
    }
}
