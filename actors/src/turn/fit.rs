//! Requests that fit the model's window: what a provider reported of the last one anchors the estimate of
//! the next, and a request that was too long all the same is sent again, smaller.
//!
//! Trimming only: no model is asked for a summary, and no retry is as large as the one before.

use parking_lot::Mutex;
use rookery_messages::chat::Usage;

use crate::model::ceiling::below;

/// A report far below the estimate says nothing: some providers leave out what they had at hand.
const PLAUSIBLE: u64 = 4;

/// What an agent's provider counted in the last request, beside what was estimated. Shared by the agent's
/// turns: the estimate errs in the same way for all that write in the same scripts.
#[derive(Debug, Default)]
pub struct Anchor(Mutex<Option<Counted>>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Counted {
    estimated: u64,
    reported: u64,
}

impl Anchor {
    /// A provider counted `reported` tokens in a request that was estimated at `estimated`.
    pub(super) fn note(&self, estimated: u64, reported: u64) {
        if estimated > 0 && reported >= estimated / PLAUSIBLE {
            *self.0.lock() = Some(Counted { estimated, reported });
        }
    }

    /// Whether the last request took more than a window of so many tokens.
    fn is_over(&self, window: u64) -> bool {
        window > 0 && self.0.lock().is_some_and(|counted| counted.reported > window)
    }

    /// A window of so many real tokens in estimated ones (0: no limit).
    fn budget(&self, window: u64) -> u64 {
        match *self.0.lock() {
            Some(counted) if window > 0 => anchored(window, counted),
            _ => window,
        }
    }
}

/// Over the window the estimate was too small in proportion (V-C6); below it, what is left is left.
fn anchored(window: u64, Counted { estimated, reported }: Counted) -> u64 {
    let budget = if reported > window {
        let budget = u128::from(window) * u128::from(estimated) / u128::from(reported);
        u64::try_from(budget).unwrap_or(u64::MAX)
    } else {
        estimated.saturating_add(window - reported)
    };
    budget.clamp((window / 4).max(1), window.saturating_mul(2))
}

/// The requests of one turn.
#[derive(Debug, Default)]
pub(super) struct Fit {
    /// What the last request was estimated at.
    sent: u64,
    /// The next one has to stay below.
    ceiling: Option<u64>,
    /// Tokens of requests that were sent again.
    pub(super) spent: Usage,
}

impl Fit {
    /// What the next request may be estimated at (0: no limit). `learnt`: more was found not to
    /// be taken by any profile.
    pub(super) fn budget(&self, window: u64, anchor: &Anchor, learnt: Option<u64>) -> u64 {
        let ceiling = self.ceiling.into_iter().chain(learnt).min();
        match (anchor.budget(window), ceiling) {
            (0, Some(ceiling)) => ceiling,
            (budget, Some(ceiling)) => budget.min(ceiling),
            (budget, None) => budget,
        }
    }

    /// A request of this size is on its way.
    pub(super) fn sending(&mut self, estimated: u64) {
        self.sent = estimated;
    }

    /// The provider counted its tokens.
    pub(super) fn counted(&self, reported: u64, anchor: &Anchor) {
        anchor.note(self.sent, reported);
    }

    /// Whether people are told of a trim: the estimate was wrong.
    pub(super) fn announces(&self, window: u64, anchor: &Anchor) -> bool {
        self.ceiling.is_some() || anchor.is_over(window)
    }

    /// The provider says that the request was too long: the next one has to be about two thirds of it.
    pub(super) fn too_long(&mut self) {
        self.ceiling = Some(below(self.sent));
    }

    /// Whether a request of this size gets on from the last one.
    pub(super) fn is_progress(&self, estimated: u64) -> bool {
        estimated < self.sent
    }

    /// What the last request was estimated at.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn budget(window: u64, estimated: u64, reported: u64) -> u64 {
        let anchor = Anchor::default();
        anchor.note(estimated, reported);
        Fit::default().budget(window, &anchor, None)
    }

    // V-C6, A051
    #[test]
    fn a_report_over_the_window_shrinks_the_budget_in_proportion_and_one_below_leaves_what_is_left()
    {
        assert_eq!(budget(8_000, 0, 0), 8_000);
        // Twice as many tokens as estimated: half the budget.
        assert_eq!(budget(8_000, 5_000, 10_000), 4_000);
        // 3000 are left.
        assert_eq!(budget(8_000, 4_000, 5_000), 7_000);
        // The estimate was too high: a usable conversation is not cut.
        assert_eq!(budget(8_000, 5_000, 3_000), 10_000);
        // What can't be true is not believed, and no report takes all of the window.
        assert_eq!(budget(8_000, 5_000, 12), 8_000);
        assert_eq!(budget(8_000, 1_000, 1_000_000), 2_000);
        assert_eq!(budget(0, 5_000, 10_000), 0);
    }

    // V-C7, V-C8
    #[test]
    fn after_an_overflow_the_next_request_is_smaller_until_nothing_is_left_to_take_away() {
        let (mut fit, anchor) = (Fit::default(), Anchor::default());
        fit.sending(9_000);
        fit.too_long();
        assert_eq!(fit.budget(0, &anchor, None), 6_000);
        assert_eq!(fit.budget(100_000, &anchor, Some(7_000)), 6_000);
        assert_eq!(fit.budget(5_000, &anchor, Some(4_000)), 4_000);
        assert!(fit.is_progress(5_900) && !fit.is_progress(9_000));
    }

    proptest! {
        #[test]
        fn a_budget_is_within_a_quarter_and_twice_of_the_window(
            window in 1u64..10_000_000, estimated in any::<u64>(), reported in any::<u64>(),
        ) {
            let budget = budget(window, estimated, reported);
            prop_assert!(budget >= (window / 4).max(1) && budget <= window * 2);
        }
    }
}
