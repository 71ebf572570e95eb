//! Budgets and the time of a model call, as a turn meets them.

use rookery_messages::settings::{BudgetSettings, Price};
use rookery_messages::store::{SpendKey, SpendScope, Spent};

use super::*;

fn tokens(max: u64) -> SpendLimit {
    SpendLimit { max_tokens: Some(max), max_cost: None }
}

fn with(budget: BudgetSettings) -> RuntimeProfile {
    RuntimeProfile { budget, ..RuntimeProfile::default() }
}

/// Calls a tool once, for twelve tokens.
fn asks_for_twelve() -> Reply {
    let Ok(mut deltas) = asks(&[("read", json!({ "do": "a" }))]) else { unreachable!() };
    deltas.insert(0, Ok(ModelDelta::Usage(Usage { input: 10, output: 2 })));
    Ok(deltas)
}

fn over_budget(told: &[Observation]) -> usize {
    told.iter().filter(|seen| matches!(seen, Observation::OverBudget { .. })).count()
}

// V-A10, B11: what was paid for is done, and the next call is not made
#[tokio::test]
async fn a_turn_that_has_used_its_budget_makes_no_further_model_call() {
    let budget = BudgetSettings { turn: tokens(12), ..BudgetSettings::default() };
    let rig = Rig::new(RiskProfile::default(), with(budget)).await;
    rig.script([asks_for_twelve(), says("never")]);
    let (turn, mut events) = rig.accept("m1", "webhook.ci").await;
    assert_eq!(events.end().await.0, Outcome::Failed);
    let record = rig.record(turn).await;
    let error = record.error.unwrap();
    assert_eq!(error.code, "budget");
    assert!(error.message.contains("12 of 12 tokens"), "{error:?}");
    assert_eq!((rig.provider.requests.lock().len(), rig.runs.lock().len()), (1, 1));
    assert_eq!(over_budget(&rig.observed(turn).await), 1);
    // The next turn has a purse of its own.
    rig.script([says("fine")]);
    let (_, mut events) = rig.accept("m2", "webhook.ci").await;
    assert_eq!(events.end().await.0, Outcome::Answered);
    rig.quiet().await;
}

// V-K5
#[tokio::test]
async fn at_the_cap_no_summary_is_asked_for_that_is_not_paid_for() {
    let budget = BudgetSettings { turn: tokens(12), ..BudgetSettings::default() };
    let runtime = RuntimeProfile {
        max_tool_iterations: 1,
        at_cap: rookery_messages::settings::CapBehaviour::Summary,
        ..with(budget)
    };
    let rig = Rig::new(RiskProfile::default(), runtime).await;
    rig.script([asks_for_twelve()]);
    let (turn, mut events) = rig.accept("m1", "webhook.ci").await;
    assert_eq!(events.end().await.0, Outcome::Failed);
    assert_eq!(rig.record(turn).await.error.unwrap().code, "budget");
    assert_eq!(rig.provider.requests.lock().len(), 1);
    rig.quiet().await;
}

// B11: per sender, agent and day, and over all turns
#[tokio::test]
async fn a_days_budget_is_shared_by_the_turns_it_is_for() {
    let change = |setup: &mut Setup| {
        setup.bundle.runtime.budget.sender = tokens(20);
        setup.budget = tokens(40);
    };
    let rig = Rig::with(change).await;
    let outcome = |sender: &'static str, id: &'static str| {
        let rig = &rig;
        async move {
            let (turn, mut events) = rig.arrives(sender, id, |_| Arrival::Waits).await;
            let outcome = events.end().await.0;
            (outcome, rig.record(turn).await.error.map(|error| error.message).unwrap_or_default())
        }
    };
    // Twelve tokens a turn.
    assert_eq!(outcome("ann", "1").await.0, Outcome::Answered);
    assert_eq!(outcome("ann", "2").await.0, Outcome::Answered);
    let (refused, why) = outcome("ann", "3").await;
    assert_eq!(refused, Outcome::Failed);
    assert!(why.contains("today's budget of this sender") && why.contains("24 of 20"), "{why}");
    assert_eq!(outcome("bob", "4").await.0, Outcome::Answered);
    assert_eq!(outcome("bob", "5").await.0, Outcome::Answered);
    let (refused, why) = outcome("eve", "6").await;
    assert_eq!(refused, Outcome::Failed);
    assert!(why.contains("today's budget of the service"), "{why}");
    assert_eq!(rig.provider.requests.lock().len(), 4);
    let sender = SpendKey { scope: SpendScope::Sender, name: "ws/ann".to_owned() };
    let spent = rig.store.spent(rig.spawner.world().now(), vec![sender]).await.unwrap();
    assert_eq!(spent, [Spent { tokens: 24, micros: 0 }]);
    rig.quiet().await;
}

// B11: what it cost stands in the record
#[tokio::test]
async fn the_cost_of_a_turn_is_recorded_and_limited() {
    let change = |setup: &mut Setup| {
        let price = Price { input: 1_000.0, output: 5_000.0 };
        setup.prices = Prices::new([("main".to_owned(), price)]);
        setup.bundle.runtime.budget.agent = SpendLimit { max_tokens: None, max_cost: Some(0.03) };
    };
    let rig = Rig::with(change).await;
    let mut outcomes = Vec::new();
    for id in ["m1", "m2", "m3"] {
        let (turn, mut events) = rig.accept(id, "webhook.ci").await;
        events.end().await;
        let record = rig.record(turn).await;
        outcomes.push((record.outcome.unwrap(), record.cost_micros));
    }
    // Ten in and two out: twenty thousand millionths.
    assert_eq!(
        outcomes,
        [(Outcome::Answered, 20_000), (Outcome::Answered, 20_000), (Outcome::Failed, 0)]
    );
    rig.quiet().await;
}

// V-E22, V-E23: silent or lively, the call ends at its time, and what was spent is kept
#[tokio::test]
async fn a_model_call_that_takes_too_long_is_ended_by_name() {
    let runtime = RuntimeProfile { step_timeout_secs: 1, ..RuntimeProfile::default() };
    for shown in [0, 1, TRICKLES] {
        let mut rig = Rig::new(RiskProfile::default(), runtime.clone()).await;
        let Ok(mut deltas) = asks(&[("read", json!({ "do": "wait" }))]) else { unreachable!() };
        deltas.insert(0, Ok(ModelDelta::Usage(Usage { input: 10, output: 2 })));
        rig.script([Ok(deltas), says("half an ans")]);
        let (turn, mut events) = rig.accept("m1", "webhook.ci").await;
        rig.began.recv().await.unwrap();
        *rig.provider.hang_after.lock() = Some(shown);
        rig.gate.notify_one();
        assert_eq!(events.end().await.0, Outcome::Failed);
        let record = rig.record(turn).await;
        let error = record.error.unwrap();
        assert_eq!(error.code, "step_timeout");
        assert!(error.message.contains("step_timeout_secs"), "{error:?}");
        assert_eq!(record.usage, Usage { input: 10, output: 2 });
        rig.quiet().await;
    }
}

// B11
#[tokio::test]
async fn a_delegate_has_what_its_parent_has_left_and_the_parent_pays_for_it() {
    let budget = BudgetSettings { turn: tokens(20), ..BudgetSettings::default() };
    let rig = Rig::new(RiskProfile::default(), with(budget)).await;
    let Ok(mut hands_on) = asks(&[("delegate", json!({ "task": "inside" }))]) else {
        unreachable!()
    };
    hands_on.insert(0, Ok(ModelDelta::Usage(Usage { input: 10, output: 2 })));
    rig.script([Ok(hands_on), asks_for_twelve(), says("never")]);
    let (turn, mut events) = rig.accept("m1", "ws").await;
    assert_eq!(events.end().await.0, Outcome::Failed);
    let turns = rig.store.turns(None, None, None, 10).await.unwrap();
    let child = turns.iter().find(|turn| turn.is_delegate()).unwrap();
    let why = |record: &TurnRecord| record.error.clone().unwrap().message;
    assert!(why(child).contains("12 of 8 tokens"), "{child:?}");
    let parent = rig.record(turn).await;
    assert!(why(&parent).contains("24 of 20 tokens"), "{parent:?}");
    assert_eq!(rig.provider.requests.lock().len(), 2);
    rig.quiet().await;
}
