//! How often a sender may have a tool run: one budget a tool and sender, whatever the conversation (V-M28).
//!
//! A call takes its place before it starts and keeps it if it succeeds; a call that fails, panics or is
//! stopped gives it back (V-M25). The counts live in memory: a restart begins anew.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rookery_messages::ids::ChannelId;
use rookery_messages::settings::RiskProfile;
use tokio::time::Instant;

/// The time the budget is for.
const WINDOW: Duration = Duration::from_secs(60);
/// Most senders and tools counted at once.
const MOST_BUCKETS: usize = 4_096;

/// Whose calls of what.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RateKey {
    /// The sender's channel: ids of different platforms are different people.
    pub channel: ChannelId,
    /// The sender's id there.
    pub sender: String,
    /// The tool's resolved name.
    pub tool: String,
}

#[derive(Default)]
struct Bucket {
    running: u32,
    /// When those that succeeded within the window were started, the oldest first.
    used: VecDeque<Instant>,
}

impl Bucket {
    fn forget_old(&mut self, now: Instant) {
        while self.used.pop_front_if(|at| *at + WINDOW <= now).is_some() {}
    }

    fn is_idle(&self) -> bool {
        self.running == 0 && self.used.is_empty()
    }
}

/// The service's counts.
pub struct RateLimiter {
    buckets: Mutex<HashMap<RateKey, Bucket>>,
    most: usize,
}

impl Default for RateLimiter {
    fn default() -> Self {
        Self::with_room(MOST_BUCKETS)
    }
}

impl fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimiter").field("buckets", &self.buckets.lock().len()).finish()
    }
}

/// A place in a budget. Given back when it is dropped, unless the call succeeded.
#[must_use]
#[derive(Debug)]
pub struct RatePermit {
    limiter: Arc<RateLimiter>,
    key: RateKey,
    taken: Instant,
}

impl RatePermit {
    /// The call succeeded: its place stays taken until the window has passed.
    pub fn used(self) {
        let mut buckets = self.limiter.buckets.lock();
        if let Some(bucket) = buckets.get_mut(&self.key) {
            // Those that ended earlier may have begun later.
            let place = bucket.used.partition_point(|at| *at <= self.taken);
            bucket.used.insert(place, self.taken);
        }
    }
}

impl Drop for RatePermit {
    fn drop(&mut self) {
        let mut buckets = self.limiter.buckets.lock();
        if let Some(bucket) = buckets.get_mut(&self.key) {
            bucket.running = bucket.running.saturating_sub(1);
            if bucket.is_idle() {
                buckets.remove(&self.key);
            }
        }
    }
}

impl RateLimiter {
    fn with_room(most: usize) -> Self {
        Self { buckets: Mutex::default(), most }
    }

    /// A place for one call, or why there is none.
    pub fn take(self: &Arc<Self>, key: RateKey, per_minute: u32) -> Result<RatePermit, String> {
        let limit = format!(
            "tool `{}` may be called {per_minute} times a minute by one sender (`rate_limits`)",
            key.tool
        );
        if per_minute == 0 {
            // No bucket for what never runs (V-M26).
            return Err(limit);
        }
        let now = Instant::now();
        let mut buckets = self.buckets.lock();
        if !buckets.contains_key(&key) && buckets.len() >= self.most {
            make_room(&mut buckets, now);
            if buckets.len() >= self.most {
                return Err(format!("{limit}, and too many senders are counted; try again later"));
            }
        }
        let bucket = buckets.entry(key.clone()).or_default();
        bucket.forget_old(now);
        let taken = bucket.used.len() + bucket.running as usize;
        if taken >= per_minute as usize {
            let wait = bucket.used.front().map(|at| (*at + WINDOW).duration_since(now).as_secs());
            let when = match wait {
                Some(secs) => format!("try again in {} s", secs + 1),
                None => "wait until one that runs has ended".to_owned(),
            };
            return Err(format!("{limit}; {when}"));
        }
        bucket.running += 1;
        Ok(RatePermit { limiter: Arc::clone(self), key, taken: now })
    }
}

/// Drops what counts nothing any more; if nothing does, the bucket whose newest call is the oldest. A bucket
/// with a running call stays.
fn make_room(buckets: &mut HashMap<RateKey, Bucket>, now: Instant) {
    let before = buckets.len();
    buckets.retain(|_, bucket| {
        bucket.forget_old(now);
        !bucket.is_idle()
    });
    if buckets.len() < before {
        return;
    }
    let resting = buckets.iter().filter(|(_, bucket)| bucket.running == 0);
    let oldest = resting.min_by_key(|(_, bucket)| bucket.used.back().copied());
    if let Some(key) = oldest.map(|(key, _)| key.clone()) {
        buckets.remove(&key);
    }
}

/// The budgets of one turn's sender.
#[derive(Clone)]
pub struct SenderRates {
    /// The service's counts.
    pub limiter: Arc<RateLimiter>,
    /// Holds the limits.
    pub profile: Arc<RiskProfile>,
    /// The sender's channel.
    pub channel: ChannelId,
    /// The sender's id there.
    pub sender: String,
}

impl SenderRates {
    /// A place for a call of `tool`, nothing if it has no limit, or why there is none.
    pub fn take(&self, tool: &str) -> Result<Option<RatePermit>, String> {
        let Some(limit) = self.profile.rate_limits.get(tool) else { return Ok(None) };
        let key = RateKey {
            channel: self.channel.clone(),
            sender: self.sender.clone(),
            tool: tool.to_owned(),
        };
        self.limiter.take(key, limit.per_minute).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(sender: &str, tool: &str) -> RateKey {
        RateKey {
            channel: ChannelId::new("webhook.ci"),
            sender: sender.to_owned(),
            tool: tool.to_owned(),
        }
    }

    fn limiter(most: usize) -> Arc<RateLimiter> {
        Arc::new(RateLimiter::with_room(most))
    }

    // V-M24, V-M25
    #[tokio::test(start_paused = true)]
    async fn a_place_is_taken_while_a_call_runs_and_for_a_minute_after_it_succeeded() {
        let limiter = limiter(8);
        let take = || limiter.take(key("ann", "shell"), 1);
        let running = take().unwrap();
        assert!(take().unwrap_err().contains("wait until one that runs"));
        drop(running);
        // It failed, panicked or was stopped: its place is free.
        let second = take().unwrap();
        tokio::time::advance(Duration::from_secs(10)).await;
        second.used();
        let why = take().unwrap_err();
        assert!(why.contains("1 times a minute") && why.contains("in 51 s"), "{why}");
        tokio::time::advance(Duration::from_secs(49)).await;
        assert!(take().is_err());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(take().is_ok());
        assert!(limiter.buckets.lock().is_empty());
    }

    // V-M25
    #[tokio::test(start_paused = true)]
    async fn a_panic_and_an_aborted_task_give_the_place_back() {
        let limiter = limiter(8);
        let place = limiter.take(key("ann", "shell"), 1).unwrap();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _held = place;
            panic!("the call panics");
        }));
        assert!(panicked.is_err());
        let place = limiter.take(key("ann", "shell"), 1).unwrap();
        let held = async move {
            let _held = place;
            std::future::pending::<()>().await;
        };
        assert!(tokio::time::timeout(Duration::from_secs(1), held).await.is_err());
        assert!(limiter.take(key("ann", "shell"), 1).is_ok());
    }

    // V-M26
    #[tokio::test(start_paused = true)]
    async fn a_limit_of_zero_blocks_always_and_counts_nothing() {
        let limiter = limiter(8);
        for _ in 0..3 {
            assert!(limiter.take(key("ann", "shell"), 0).unwrap_err().contains("`rate_limits`"));
            tokio::time::advance(WINDOW).await;
        }
        assert!(limiter.buckets.lock().is_empty());
    }

    // V-M27
    #[tokio::test(start_paused = true)]
    async fn senders_channels_and_tools_have_their_own_budgets() {
        let limiter = limiter(8);
        limiter.take(key("ann", "shell"), 1).unwrap().used();
        limiter.take(key("bob", "shell"), 1).unwrap().used();
        limiter.take(key("ann", "file_write"), 1).unwrap().used();
        let elsewhere = RateKey { channel: ChannelId::new("ws"), ..key("ann", "shell") };
        limiter.take(elsewhere, 1).unwrap().used();
        assert!(limiter.take(key("ann", "shell"), 1).is_err());
        assert!(limiter.take(key("bob", "shell"), 1).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn the_counts_are_bounded_and_what_counts_least_goes_first() {
        let limiter = limiter(3);
        let names: Vec<String> = (0..50).map(|n| format!("sender {n}")).collect();
        for name in &names {
            limiter.take(key(name, "shell"), 1).unwrap().used();
            tokio::time::advance(Duration::from_millis(1)).await;
            assert!(limiter.buckets.lock().len() <= 3);
        }
        // The newest are still counted.
        assert!(limiter.take(key(&names[49], "shell"), 1).is_err());
        assert!(limiter.take(key(&names[0], "shell"), 1).is_ok());
        // Running calls are never forgotten: then nobody new comes in.
        let held: Vec<_> =
            ["a", "b", "c"].iter().map(|name| limiter.take(key(name, "t"), 1).unwrap()).collect();
        assert!(limiter.take(key("d", "t"), 1).unwrap_err().contains("too many senders"));
        drop(held);
        assert!(limiter.take(key("d", "t"), 1).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_end_out_of_order_free_their_places_in_order_of_their_start() {
        let limiter = limiter(3);
        let take = || limiter.take(key("ann", "shell"), 2);
        let first = take().unwrap();
        tokio::time::advance(Duration::from_secs(30)).await;
        take().unwrap().used();
        first.used();
        tokio::time::advance(Duration::from_secs(30)).await;
        take().unwrap().used();
        assert!(take().is_err());
    }
}
