//! What a turn may spend, and what it has (B11).
//!
//! Two kinds of limits are held against the next model call before it is made. The turn's own is known
//! here: what it spent, what its delegates spent, and what it was given. Those of a day, for a sender, an
//! agent and the whole service, are sums in the store, which every step adds to; they are looked up only
//! if there is such a limit. A budget that can't be read is a refusal (V-A12). Several calls may be under
//! way when a limit is reached, so a day's may be overrun by what these cost.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rookery_messages::chat::Usage;
use rookery_messages::delegation::Allowance;
use rookery_messages::ids::TurnId;
use rookery_messages::settings::{BudgetSettings, Price, SpendLimit};
use rookery_messages::store::{SpendKey, SpendScope, Spent, StoreError};
use rookery_messages::turn::{TurnError, TurnRecord};

/// The code of a turn that was ended by a budget.
pub const CODE: &str = "budget";

/// What each provider profile's tokens cost.
#[derive(Clone, Debug, Default)]
pub struct Prices(Arc<HashMap<String, Price>>);

impl Prices {
    /// By profile.
    pub fn new(prices: impl IntoIterator<Item = (String, Price)>) -> Self {
        Self(Arc::new(prices.into_iter().collect()))
    }

    /// What a response of `profile` cost, in millionths.
    pub fn of(&self, profile: &str, usage: Usage) -> u64 {
        self.0.get(profile).map_or(0, |price| price.of(usage))
    }

    /// What attempts of unknown profiles cost at most: never too little.
    pub fn at_most(&self, usage: Usage) -> u64 {
        self.0.values().map(|price| price.of(usage)).max().unwrap_or(0)
    }
}

/// A turn's purse: what it may spend, and what it and its delegates have spent. Shared with what hands work
/// on.
#[derive(Debug, Default)]
pub struct Purse {
    limit: Allowance,
    spent: Mutex<Both>,
}

#[derive(Debug, Default)]
struct Both {
    own: Spent,
    /// By turn: what a former attempt's delegate spent counts once, however often its end is seen.
    children: HashMap<TurnId, Spent>,
}

impl Purse {
    /// By the profile's limit, and, for a child, by what its parent had left.
    pub fn new(
        limit: SpendLimit,
        given: Option<Allowance>,
        children: impl IntoIterator<Item = (TurnId, Spent)>,
    ) -> Arc<Self> {
        let own = Allowance { tokens: limit.max_tokens, micros: limit.max_micros() };
        let limit = given.map_or(own, |given| own.and(given));
        let children = children.into_iter().collect();
        Arc::new(Self { limit, spent: Mutex::new(Both { children, ..Both::default() }) })
    }

    /// What the turn itself has spent by now.
    pub fn set_own(&self, spent: Spent) {
        self.spent.lock().own = spent;
    }

    /// A delegate has ended.
    pub fn add_child(&self, record: &TurnRecord) {
        let of = Spent { tokens: record.usage.total(), micros: record.cost_micros };
        self.spent.lock().children.insert(record.id, of);
    }

    /// What is left, for whoever it hands work on to.
    pub fn left(&self) -> Allowance {
        let spent = self.total();
        Allowance {
            tokens: self.limit.tokens.map(|limit| limit.saturating_sub(spent.tokens)),
            micros: self.limit.micros.map(|limit| limit.saturating_sub(spent.micros)),
        }
    }

    /// Why the turn makes no model call any more, if it doesn't.
    pub fn exhausted(&self) -> Option<TurnError> {
        over("this turn", self.limit, self.total())
    }

    fn total(&self) -> Spent {
        let spent = self.spent.lock();
        spent.children.values().fold(spent.own, |sum, one| sum.and(*one))
    }
}

/// The limits of a day that hold for a turn.
#[derive(Clone, Debug, Default)]
pub struct DayLimits(Vec<(SpendKey, Allowance)>);

impl DayLimits {
    /// For a turn of this sender and agent.
    pub fn new(
        budget: &BudgetSettings,
        service: &SpendLimit,
        (channel, sender): (&str, &str),
        agent: &str,
    ) -> Self {
        let limits = [
            (SpendScope::Sender, format!("{channel}/{sender}"), &budget.sender),
            (SpendScope::Agent, agent.to_owned(), &budget.agent),
            (SpendScope::Service, String::new(), service),
        ];
        let set = limits.into_iter().filter(|(_, _, limit)| limit.is_set());
        Self(
            set.map(|(scope, name, limit)| {
                let allowance = Allowance { tokens: limit.max_tokens, micros: limit.max_micros() };
                (SpendKey { scope, name }, allowance)
            })
            .collect(),
        )
    }

    /// With those that hold for others who pay for it, each sum once: its smallest limit counts.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        for (key, limit) in others.0 {
            match self.0.iter_mut().find(|(own, _)| *own == key) {
                Some((_, own)) => *own = own.and(limit),
                None => self.0.push((key, limit)),
            }
        }
        self
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is added up for them.
    pub fn keys(&self) -> Vec<SpendKey> {
        self.0.iter().map(|(key, _)| key.clone()).collect()
    }

    /// Why no model call is made today any more, if none is. A sum that can't be read counts as used up.
    pub fn exhausted(&self, found: Result<Vec<Spent>, StoreError>) -> Option<TurnError> {
        let spent = match found {
            Ok(spent) => spent,
            Err(error) => {
                let message = format!(
                    "the budget can't be read ({error}), so nothing is spent; send the message again later"
                );
                return Some(TurnError::new(CODE, message));
            }
        };
        self.0.iter().zip(spent).find_map(|((key, limit), spent)| {
            let whose = match key.scope {
                SpendScope::Sender => "today's budget of this sender",
                SpendScope::Agent => "today's budget of this agent",
                SpendScope::Service => "today's budget of the service",
            };
            over(whose, *limit, spent)
        })
    }
}

fn over(whose: &str, limit: Allowance, spent: Spent) -> Option<TurnError> {
    let what = match limit {
        Allowance { tokens: Some(most), .. } if spent.tokens >= most => {
            format!("{} of {most} tokens", spent.tokens)
        }
        Allowance { micros: Some(most), .. } if spent.micros >= most => {
            format!("{} of {} in cost", amount(spent.micros), amount(most))
        }
        _ => return None,
    };
    let again = if whose == "this turn" {
        "ask for less, or raise the turn's limit in the runtime profile"
    } else {
        "it begins anew at midnight UTC; until then its limit can be raised in the configuration"
    };
    let message =
        format!("{whose} has used what it may ({what}), so no model was called again; {again}");
    Some(TurnError::new(CODE, message))
}

fn amount(micros: u64) -> String {
    format!("{:.4}", micros as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn limit(tokens: Option<u64>, cost: Option<f64>) -> SpendLimit {
        SpendLimit { max_tokens: tokens, max_cost: cost }
    }

    fn spent(tokens: u64, micros: u64) -> Spent {
        Spent { tokens, micros }
    }

    // B11
    #[test]
    fn a_purse_is_empty_at_its_limit_and_delegates_count() {
        let purse =
            Purse::new(limit(Some(100), Some(0.5)), None, [(TurnId(Uuid::nil()), spent(10, 0))]);
        assert_eq!(purse.exhausted(), None);
        purse.set_own(spent(80, 499_999));
        assert_eq!(purse.exhausted(), None);
        assert_eq!(purse.left(), Allowance { tokens: Some(10), micros: Some(1) });
        purse.set_own(spent(90, 0));
        let error = purse.exhausted().unwrap();
        assert_eq!(error.code, "budget");
        assert!(error.message.contains("100 of 100 tokens"), "{error:?}");
        purse.set_own(spent(0, 500_000));
        assert!(purse.exhausted().unwrap().message.contains("0.5000 of 0.5000 in cost"));
    }

    // B11: a child never has more than its parent has left
    #[test]
    fn a_child_has_the_smaller_of_its_own_limit_and_what_is_left() {
        let given = Allowance { tokens: Some(10), micros: None };
        let own = limit(Some(100), Some(1.0));
        let left = Purse::new(own, Some(given), []).left();
        assert_eq!(left, Allowance { tokens: Some(10), micros: Some(1_000_000) });
        let nothing = Purse::new(limit(None, None), None, []);
        assert_eq!(nothing.left(), Allowance::default());
        let none_left = Allowance { tokens: Some(0), micros: None };
        assert!(Purse::new(own, Some(none_left), []).exhausted().is_some());
    }

    // B11: nothing is added up twice
    #[test]
    fn of_two_limits_of_one_sum_the_smaller_holds() {
        let of = |sender: u64, agent: &str| {
            let budget = BudgetSettings {
                sender: limit(Some(sender), None),
                agent: limit(Some(9), None),
                ..BudgetSettings::default()
            };
            DayLimits::new(&budget, &limit(None, None), ("ws", "ann"), agent)
        };
        let both = of(50, "helper").and(of(20, "home"));
        let names: Vec<String> = both.keys().into_iter().map(|key| key.name).collect();
        assert_eq!(names, ["ws/ann", "helper", "home"]);
        assert_eq!(both.exhausted(Ok(vec![spent(19, 0), spent(8, 0), spent(8, 0)])), None);
        assert!(both.exhausted(Ok(vec![spent(20, 0), spent(8, 0), spent(8, 0)])).is_some());
        assert!(both.exhausted(Ok(vec![spent(0, 0), spent(0, 0), spent(9, 0)])).is_some());
    }

    // V-A12
    #[test]
    fn a_budget_that_cannot_be_read_is_used_up_and_one_that_is_not_set_is_not_asked_for() {
        let budget = BudgetSettings { agent: limit(Some(50), None), ..BudgetSettings::default() };
        let days = DayLimits::new(&budget, &limit(None, None), ("ws", "ann"), "home");
        assert_eq!(days.keys(), [SpendKey { scope: SpendScope::Agent, name: "home".to_owned() }]);
        assert_eq!(days.exhausted(Ok(vec![spent(49, 0)])), None);
        let error = days.exhausted(Ok(vec![spent(50, 0)])).unwrap();
        assert!(error.message.contains("today's budget of this agent"), "{error:?}");
        assert!(days.exhausted(Err(StoreError::Busy)).is_some());
        let none = DayLimits::new(&Default::default(), &limit(None, None), ("ws", "a"), "b");
        assert!(none.is_empty());
    }

    #[test]
    fn attempts_of_unknown_profiles_cost_what_the_dearest_takes() {
        let price = |input| Price { input, output: 0.0 };
        let prices = Prices::new([("a".to_owned(), price(1.0)), ("b".to_owned(), price(5.0))]);
        let usage = Usage { input: 10, output: 0 };
        assert_eq!((prices.of("a", usage), prices.at_most(usage)), (10, 50));
        assert_eq!((prices.of("?", usage), Prices::default().at_most(usage)), (0, 0));
    }
}
