//! Budgets of senders, on whole turns.

use std::collections::BTreeMap;

use rookery_messages::settings::RateLimit;

use super::*;

async fn rig(parallel: bool) -> Rig {
    let limits = BTreeMap::from([("read".to_owned(), RateLimit { per_minute: 1 })]);
    let profile = RiskProfile { rate_limits: limits, ..RiskProfile::default() };
    Rig::new(profile, RuntimeProfile { parallel_tools: parallel, ..RuntimeProfile::default() })
        .await
}

fn reads(whats: &[&str]) -> Reply {
    let calls: Vec<_> = whats.iter().map(|what| ("read", json!({ "do": what }))).collect();
    asks(&calls)
}

#[tokio::test]
async fn of_two_parallel_calls_with_a_budget_of_one_one_runs_and_the_next_message_gets_none() {
    // V-M24, V-M28
    let rig = rig(true).await;
    rig.script([reads(&["a", "b"]), says("done"), reads(&["c"]), says("done")]);
    let (turn, mut events) = rig.accept("m1", "webhook.ci").await;
    assert_eq!(events.end().await.0, Outcome::Answered);
    assert_eq!(states(&rig.record(turn).await), [CallState::Succeeded, CallState::Blocked]);
    let refused = rig.last_results()[1].clone();
    assert!(refused.starts_with(text::BLOCKED_PREFIX), "{refused}");
    assert!(refused.contains("`read`") && refused.contains("`rate_limits`"), "{refused}");
    assert_eq!(events.cards(), ["tool_call", "tool_result", "tool_call", "tool_result"]);
    let (turn, mut events) = rig.accept("m2", "webhook.ci").await;
    assert_eq!(events.end().await.0, Outcome::Answered);
    assert_eq!(states(&rig.record(turn).await), [CallState::Blocked]);
    assert_eq!(*rig.runs.lock(), ["a"]);
    rig.quiet().await;
}

#[tokio::test]
async fn a_call_that_fails_panics_or_is_cancelled_gives_its_place_back() {
    // V-M25
    let mut rig = rig(false).await;
    rig.script([reads(&["hang"])]);
    let (turn, mut events) = rig.accept("m1", "webhook.ci").await;
    rig.began.recv().await.unwrap();
    rig.stop(turn, StopReason::User);
    assert_eq!(events.end().await.0, Outcome::Cancelled);
    rig.script([reads(&["fail", "panic", "x", "y"]), says("done")]);
    let (turn, mut events) = rig.accept("m2", "webhook.ci").await;
    assert_eq!(events.end().await.0, Outcome::Answered);
    let ends = [CallState::Failed, CallState::Failed, CallState::Succeeded, CallState::Blocked];
    assert_eq!(states(&rig.record(turn).await), ends);
    assert_eq!(*rig.runs.lock(), ["hang", "fail", "panic", "x"]);
    rig.quiet().await;
}
