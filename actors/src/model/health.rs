//! What is known of a provider's health, and whether a call may begin now. Pure: times come in.
//!
//! Three things can say *later*: a cooldown (the provider said so, or is overloaded), the circuit (it has
//! failed many times in a row, so that now and then a single call finds out whether it is back), and the
//! profile's own limit of calls a minute. Only real upstream calls are evidence (A045).

use std::collections::VecDeque;
use std::time::Duration;

use rookery_messages::model::{ModelError, ModelErrorClass};
use tokio::time::Instant;

/// Cooldown after a refusal that came without a time; doubles while the refusals go on.
const FIRST_COOLDOWN: Duration = Duration::from_secs(2);
/// The longest cooldown of our own making.
const LONGEST_OWN_COOLDOWN: Duration = Duration::from_secs(60);
/// Failures in a row that open the circuit.
const MOST_FAILURES: u32 = 8;
/// How long an open circuit lets nobody through; doubles while its probes fail.
const FIRST_BREAK: Duration = Duration::from_secs(5);
/// The longest break.
const LONGEST_BREAK: Duration = Duration::from_secs(120);
/// A probe that has not reported after so long was stopped: another may try.
const PROBE_PATIENCE: Duration = Duration::from_secs(30);
/// When to ask again while a probe is out.
const PROBE_WAIT: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// Why a call has to wait, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Wait {
    pub(super) wait: Duration,
    pub(super) cause: ModelErrorClass,
    /// The provider asked for longer than it is believed.
    pub(super) capped: bool,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Health {
    per_minute: Option<usize>,
    /// The longest cooldown that is believed.
    longest: Duration,
    /// When the calls of the last minute began.
    begun: VecDeque<Instant>,
    cooling: Option<Until>,
    /// Refusals without a time, in a row.
    refusals: u32,
    /// Failures in a row.
    failures: u32,
    circuit: Circuit,
}

#[derive(Clone, Copy, Debug)]
struct Until {
    at: Instant,
    cause: ModelErrorClass,
    capped: bool,
}

#[derive(Clone, Copy, Debug)]
enum Circuit {
    Closed,
    Open {
        until: Instant,
        cause: ModelErrorClass,
        breaks: u32,
    },
    /// One call is out to see.
    Probing {
        since: Instant,
        cause: ModelErrorClass,
        breaks: u32,
    },
}

impl Health {
    pub(super) fn new(requests_per_minute: Option<u32>, longest: Duration) -> Self {
        Self {
            longest,
            per_minute: requests_per_minute.and_then(|most| usize::try_from(most).ok()),
            begun: VecDeque::new(),
            cooling: None,
            refusals: 0,
            failures: 0,
            circuit: Circuit::Closed,
        }
    }

    /// Whether a call may begin. Asking changes nothing.
    pub(super) fn look(&self, now: Instant) -> Result<(), Wait> {
        let left = |at: Instant| at.saturating_duration_since(now);
        if let Some(cooling) = self.cooling
            && !left(cooling.at).is_zero()
        {
            let Until { at, cause, capped } = cooling;
            return Err(Wait { wait: left(at), cause, capped });
        }
        match self.circuit {
            Circuit::Open { until, cause, .. } if !left(until).is_zero() => {
                return Err(Wait { wait: left(until), cause, capped: false });
            }
            Circuit::Probing { since, cause, .. } if now < since + PROBE_PATIENCE => {
                return Err(Wait { wait: PROBE_WAIT, cause, capped: false });
            }
            Circuit::Closed | Circuit::Open { .. } | Circuit::Probing { .. } => {}
        }
        if let Some(most) = self.per_minute {
            let recent = self.begun.iter().filter(|at| now < **at + MINUTE).count();
            if recent >= most
                && let Some(oldest) = self.begun.get(self.begun.len().saturating_sub(most))
            {
                let wait = left(*oldest + MINUTE);
                let cause = ModelErrorClass::RateLimited;
                return Err(Wait { wait, cause, capped: false });
            }
        }
        Ok(())
    }

    /// A call begins.
    pub(super) fn begin(&mut self, now: Instant) {
        if let Circuit::Open { cause, breaks, .. } | Circuit::Probing { cause, breaks, .. } =
            self.circuit
        {
            self.circuit = Circuit::Probing { since: now, cause, breaks };
        }
        if let Some(most) = self.per_minute {
            while self.begun.len() >= most.max(1) {
                self.begun.pop_front();
            }
            self.begun.push_back(now);
        }
    }

    /// A call went well.
    pub(super) fn went_well(&mut self) {
        self.failures = 0;
        self.refusals = 0;
        self.circuit = Circuit::Closed;
    }

    /// A call failed. Gives back the cooldown or break that this began.
    pub(super) fn failed(&mut self, now: Instant, error: &ModelError) -> Option<Wait> {
        use ModelErrorClass as Class;
        let cause = error.class;
        let cooled = match cause {
            Class::RateLimited | Class::Overloaded | Class::Server => self.cool(now, error),
            _ => None,
        };
        // What says something of the provider, and not of the request or the key.
        let broken = matches!(
            cause,
            Class::Network
                | Class::IdleTimeout
                | Class::Overloaded
                | Class::Server
                | Class::Truncated
                | Class::Protocol
        );
        if !broken {
            if matches!(self.circuit, Circuit::Probing { .. }) {
                // It answered, if only with a refusal: it is back.
                self.failures = 0;
                self.circuit = Circuit::Closed;
            }
            return cooled;
        }
        self.failures = self.failures.saturating_add(1);
        let breaks = match self.circuit {
            Circuit::Probing { breaks, .. } => breaks,
            Circuit::Closed if self.failures >= MOST_FAILURES => 0,
            // Calls that were out already when it opened say nothing new.
            Circuit::Closed | Circuit::Open { .. } => return cooled,
        };
        let wait = doubled(FIRST_BREAK, breaks, LONGEST_BREAK);
        self.circuit = Circuit::Open { until: now + wait, cause, breaks: breaks.saturating_add(1) };
        let capped = cooled.is_some_and(|cooled| cooled.capped && cooled.wait >= wait);
        Some(Wait { wait: cooled.map_or(wait, |cooled| cooled.wait.max(wait)), cause, capped })
    }

    fn cool(&mut self, now: Instant, error: &ModelError) -> Option<Wait> {
        let is_cooling = self.cooling.is_some_and(|cooling| now < cooling.at);
        let wait = match (error.retry_after, error.class) {
            (Some(after), _) => after.min(self.longest),
            (None, ModelErrorClass::Server) => return None,
            // Of many in flight the first one counts: the others met the same wall.
            (None, _) if is_cooling => return None,
            (None, _) => {
                let wait = doubled(FIRST_COOLDOWN, self.refusals, LONGEST_OWN_COOLDOWN);
                self.refusals = self.refusals.saturating_add(1);
                wait
            }
        };
        let capped = error.retry_after.is_some_and(|after| after > self.longest);
        let at = now + wait;
        if self.cooling.is_some_and(|cooling| cooling.at >= at) {
            return None;
        }
        self.cooling = Some(Until { at, cause: error.class, capped });
        Some(Wait { wait, cause: error.class, capped })
    }

    /// For the tree: `closed`, `open` or `probing`.
    pub(super) fn circuit(&self) -> &'static str {
        match self.circuit {
            Circuit::Closed => "closed",
            Circuit::Open { .. } => "open",
            Circuit::Probing { .. } => "probing",
        }
    }
}

fn doubled(first: Duration, times: u32, most: Duration) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(times.min(16))).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = secs(3_600);

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn error(class: ModelErrorClass, retry_after: Option<u64>) -> ModelError {
        ModelError { retry_after: retry_after.map(secs), ..ModelError::new(class, "no") }
    }

    fn wait(health: &Health, now: Instant) -> Option<Duration> {
        health.look(now).err().map(|wait| wait.wait)
    }

    // A045, V-L6
    #[test]
    fn one_refusal_with_a_time_cools_down_for_just_that_time() {
        let (mut health, now) = (Health::new(None, LONGEST), Instant::now());
        let limited = error(ModelErrorClass::RateLimited, Some(7));
        assert_eq!(health.failed(now, &limited).map(|wait| wait.wait), Some(secs(7)));
        // However often it is asked meanwhile.
        for _ in 0..15 {
            assert_eq!(wait(&health, now + secs(1)), Some(secs(6)));
        }
        assert_eq!(wait(&health, now + secs(7)), None);
        // What is absurd is not believed.
        let absurd = error(ModelErrorClass::RateLimited, Some(999_999));
        health.failed(now, &absurd);
        assert_eq!(wait(&health, now), Some(LONGEST));
    }

    // A045
    #[test]
    fn refusals_without_a_time_double_once_a_cooldown_and_not_once_a_call() {
        let (mut health, mut now) = (Health::new(None, LONGEST), Instant::now());
        for want in [2, 4, 8, 16, 32, 60, 60] {
            let overloaded = error(ModelErrorClass::RateLimited, None);
            assert!(health.failed(now, &overloaded).is_some());
            for _ in 0..20 {
                assert_eq!(health.failed(now, &overloaded), None);
            }
            assert_eq!(wait(&health, now), Some(secs(want)));
            now += secs(want);
        }
        health.went_well();
        health.failed(now, &error(ModelErrorClass::RateLimited, None));
        assert_eq!(wait(&health, now), Some(secs(2)));
    }

    #[test]
    fn failures_in_a_row_open_the_circuit_and_one_probe_at_a_time_closes_it() {
        let (mut health, mut now) = (Health::new(None, LONGEST), Instant::now());
        let down = error(ModelErrorClass::Network, None);
        for _ in 1..MOST_FAILURES {
            assert_eq!(health.failed(now, &down), None);
            assert_eq!(health.look(now), Ok(()));
        }
        for want in [5, 10, 20, 40, 80, 120, 120] {
            assert_eq!(health.failed(now, &down).map(|wait| wait.wait), Some(secs(want)));
            // Those that were out already make it no longer.
            assert_eq!(health.failed(now, &down), None);
            assert_eq!((wait(&health, now), health.circuit()), (Some(secs(want)), "open"));
            now += secs(want);
            assert_eq!(health.look(now), Ok(()));
            health.begin(now);
            assert_eq!((wait(&health, now), health.circuit()), (Some(PROBE_WAIT), "probing"));
        }
        health.went_well();
        assert_eq!((health.look(now), health.circuit()), (Ok(()), "closed"));
        assert_eq!(health.failed(now, &down), None);
    }

    #[test]
    fn a_probe_that_never_reports_does_not_keep_the_circuit_open() {
        let (mut health, now) = (Health::new(None, LONGEST), Instant::now());
        for _ in 0..MOST_FAILURES {
            health.failed(now, &error(ModelErrorClass::Server, None));
        }
        let later = now + FIRST_BREAK;
        health.begin(later);
        assert_eq!(wait(&health, later + secs(29)), Some(PROBE_WAIT));
        assert_eq!(wait(&health, later + PROBE_PATIENCE), None);
        // An answer that refuses the request shows that the provider is back.
        health.failed(later, &error(ModelErrorClass::InvalidRequest, None));
        assert_eq!(health.circuit(), "closed");
    }

    #[test]
    fn what_is_wrong_with_a_request_or_a_key_is_no_evidence_against_the_provider() {
        let (mut health, now) = (Health::new(None, LONGEST), Instant::now());
        for class in [
            ModelErrorClass::Auth,
            ModelErrorClass::Quota,
            ModelErrorClass::InvalidRequest,
            ModelErrorClass::ContextTooLong,
            ModelErrorClass::Empty,
            ModelErrorClass::MalformedCall,
        ] {
            for _ in 0..20 {
                assert_eq!(health.failed(now, &error(class, None)), None);
            }
        }
        assert_eq!(health.look(now), Ok(()));
    }

    #[test]
    fn no_minute_has_more_calls_than_the_limit() {
        let (mut health, start) = (Health::new(Some(3), LONGEST), Instant::now());
        let mut begun = Vec::new();
        for second in 0..200 {
            let now = start + secs(second);
            if health.look(now).is_ok() {
                health.begin(now);
                begun.push(second);
            } else {
                let next = begun[begun.len() - 3] + 60;
                assert_eq!(wait(&health, now), Some(secs(next - second)));
            }
        }
        assert_eq!(begun, [0, 1, 2, 60, 61, 62, 120, 121, 122, 180, 181, 182]);
    }
}
