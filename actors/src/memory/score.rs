//! How much an entry has to do with a question, and how that fades.
//!
//! Relevance is absolute: how many of the words asked for an entry holds, each by how much it tells. Asked
//! for many words, [`ENOUGH`] of them are enough: a long message rarely finds all of its words in one entry.
//! The numbers a word's weight is made of are those of the entries the question may see, so that no score
//! says anything about others.

use jiff::{SignedDuration, Timestamp};
use rookery_messages::memory::Category;

/// So many telling words make an entry fully relevant.
pub const ENOUGH: usize = 4;

/// How much a word tells that stands in `holding` of `all` entries: 1 if it is in one alone, near a half if
/// it is in all of many.
pub fn weight(holding: u64, all: u64) -> f64 {
    let holding = holding.max(1);
    let all = all.max(holding);
    let (holding, all) = (holding as f64, all as f64);
    let rare = (1.0 + all / holding).ln() / (1.0 + all).ln();
    f64::midpoint(1.0, rare)
}

/// The relevance of an entry that holds words of these weights together, of `asked` words.
pub fn relevance(weights: f64, asked: usize) -> f64 {
    if asked == 0 {
        return 0.0;
    }
    let wanted = asked.min(ENOUGH) as f64;
    (weights / wanted).clamp(0.0, 1.0)
}

/// A score that fades by half in each half-life. Core entries don't fade, and nothing is from the future.
pub fn decayed(
    score: f64,
    category: &Category,
    written: Timestamp,
    now: Timestamp,
    half_life: SignedDuration,
) -> f64 {
    let age = now.duration_since(written).as_secs_f64().max(0.0);
    let half_life = half_life.as_secs_f64();
    if *category == Category::Core || half_life <= 0.0 {
        return score;
    }
    score * (-age / half_life).exp2()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WEEK: SignedDuration = SignedDuration::from_hours(7 * 24);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn a_word_tells_the_more_the_fewer_entries_hold_it() {
        assert_eq!(weight(1, 1), 1.0);
        assert_eq!(weight(1, 1_000), 1.0);
        assert!(weight(2, 10) > weight(5, 10) && weight(5, 10) > weight(10, 10));
        assert!(weight(10_000, 10_000) > 0.5);
    }

    #[test]
    fn one_word_of_many_that_were_asked_for_is_little_and_four_are_all() {
        assert_eq!(relevance(1.0, 1), 1.0);
        assert_eq!(relevance(1.0, 2), 0.5);
        assert_eq!(relevance(1.0, 9), 0.25);
        assert_eq!(relevance(4.0, 9), 1.0);
        assert_eq!(relevance(0.0, 0), 0.0);
    }

    // R6
    #[test]
    fn a_score_halves_in_seven_days_and_that_of_a_core_entry_stays() {
        let week = 7 * 24 * 3_600;
        let faded = |category: &Category, age| decayed(0.8, category, at(0), at(age), WEEK);
        assert_eq!(faded(&Category::Daily, 0), 0.8);
        assert!((faded(&Category::Daily, week) - 0.4).abs() < 1e-12);
        assert!((faded(&Category::Custom("x".into()), 2 * week) - 0.2).abs() < 1e-12);
        assert!((faded(&Category::Conversation, 3 * week) - 0.1).abs() < 1e-12);
        assert_eq!(faded(&Category::Core, 100 * week), 0.8);
        // A clock that was set back makes nothing better than new.
        assert_eq!(faded(&Category::Daily, -week), 0.8);
    }

    proptest! {
        // R6
        #[test]
        fn scores_stay_within_their_range_and_never_fall_for_one_more_word(
            weights in prop::collection::vec(0.5f64..=1.0, 0..30),
            more in 0.5f64..=1.0, spare in 1usize..20, age in 0i64..100_000_000,
        ) {
            let asked = weights.len() + spare;
            let sum: f64 = weights.iter().sum();
            let (fewer, more) = (relevance(sum, asked), relevance(sum + more, asked));
            prop_assert!((0.0..=1.0).contains(&fewer) && (0.0..=1.0).contains(&more));
            prop_assert!(more >= fewer);
            let faded = decayed(more, &Category::Daily, at(0), at(age), WEEK);
            let later = decayed(more, &Category::Daily, at(0), at(age + 60), WEEK);
            prop_assert!((0.0..=more).contains(&faded) && later <= faded);
        }

        #[test]
        fn a_words_weight_is_between_a_half_and_one(holding in 0u64..5_000, all in 0u64..5_000) {
            let weight = weight(holding, all);
            prop_assert!((0.5..=1.0).contains(&weight), "{weight}");
        }
    }
}
