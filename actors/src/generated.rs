//! Generators with a time box: how long each of them runs is counted here, so that all together take the
//! minute that CI gives them. `ROOKERY_GENERATOR_SECS` gives them another time, for a longer search.

use std::cell::Cell;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};
use tokio::time::Instant;

/// Gives all generators together so many seconds.
const VARIABLE: &str = "ROOKERY_GENERATOR_SECS";
/// Without it.
const TOTAL_SECS: u32 = 60;

/// Cases of one runner.
const AT_ONCE: u32 = 128;

/// What is generated; each kind has two properties.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Generated {
    /// Calls that a model writes as text.
    TextCalls,
    /// Commands of a shell.
    Commands,
    /// Streams of the providers.
    Streams,
}

impl Generated {
    /// One property's share of the time, in sixtieths.
    const fn share(self) -> u32 {
        match self {
            Self::TextCalls => 5,
            Self::Commands => 12,
            Self::Streams => 13,
        }
    }

    fn time_box(self) -> Duration {
        let total = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok());
        Duration::from_secs(u64::from(total.unwrap_or(TOTAL_SECS))) * self.share() / 60
    }

    /// Checks cases until there are `most` or their time is over; gives how many there were. A failure
    /// shrinks, and names its input.
    pub(crate) fn check<S: Strategy>(
        self,
        most: u32,
        inputs: &S,
        check: impl Fn(S::Value) -> Result<(), TestCaseError>,
    ) -> u32 {
        let over = Instant::now() + self.time_box();
        let count = Cell::new(0);
        // A runner can't be told to stop, and making inputs takes its time too.
        while count.get() < most && Instant::now() < over {
            let cases = (most - count.get()).min(AT_ONCE);
            let config =
                ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
            let result = TestRunner::new(config).run(inputs, |input| {
                if Instant::now() >= over {
                    return Ok(());
                }
                count.set(count.get() + 1);
                check(input)
            });
            result.unwrap_or_else(|error| panic!("{error}"));
        }
        count.get()
    }
}

#[test]
fn the_generators_take_all_of_their_time_and_no_more() {
    let kinds = [Generated::TextCalls, Generated::Commands, Generated::Streams];
    assert_eq!(kinds.iter().map(|kind| 2 * kind.share()).sum::<u32>(), 60);
}
