//! Turns below calls of other turns, when things go wrong inside.

use tokio::time::Instant;

use super::*;

fn delegate(task: &str) -> (&'static str, Value) {
    ("delegate", json!({ "task": task }))
}

// R15, V-N3
#[tokio::test]
async fn a_delegate_whose_actor_is_killed_goes_on_from_its_journal_and_the_parent_does_not_notice()
{
    let mut rig = Rig::plain().await;
    let read = || asks(&[("read", json!({ "do": "wait" }))]);
    rig.script([asks(&[delegate("inside")]), read(), says("inner"), says("outer")]);
    let (turn, mut events) = rig.accept("m1", "ws").await;
    rig.began.recv().await.unwrap();
    let turns = rig.spawner.directory().of_kind("turn");
    let inner = turns.iter().find(|entry| entry.path.matches("/turn/").count() == 2).unwrap();
    inner.kill();
    // It runs again, for it only reads.
    rig.began.recv().await.unwrap();
    rig.gate.notify_one();
    assert_eq!(events.end().await, (Outcome::Answered, Some("outer".to_owned())));
    assert_eq!(rig.last_results(), ["inner"]);
    assert_eq!(rig.record(turn).await.attempts, 1);
    let turns = rig.store.turns(None, None, None, 10).await.unwrap();
    let child = turns.iter().find(|turn| turn.is_delegate()).unwrap();
    assert_eq!((child.attempts, states(child)), (2, vec![CallState::Succeeded]));
    rig.quiet().await;
}

// I6
#[tokio::test]
async fn a_tool_that_is_deaf_two_turns_below_does_not_outlive_the_grace_of_the_turn_that_is_stopped()
 {
    let runtime = RuntimeProfile { stop_grace_ms: 100, ..RuntimeProfile::default() };
    let rig = Rig::new(RiskProfile::default(), runtime).await;
    let deaf = asks(&[("read", json!({ "do": "deaf" }))]);
    rig.script([asks(&[delegate("first")]), asks(&[delegate("second")]), deaf]);
    let (turn, mut events) = rig.accept("m1", "ws").await;
    while rig.runs.lock().is_empty() {
        tokio::task::yield_now().await;
    }
    let began = Instant::now();
    rig.stop(turn, StopReason::User);
    assert_eq!(events.end().await.0, Outcome::Cancelled);
    // The tools' grace, and what a batch gets beyond it.
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(rig.spawner.directory().of_kind("tool").len(), 0);
    assert_eq!(rig.spawner.directory().of_kind("delegate").len(), 0);
    for record in rig.store.turns(None, None, None, 10).await.unwrap() {
        assert_eq!(record.outcome, Some(Outcome::Cancelled), "{record:?}");
        assert_eq!(states(&record), [CallState::Interrupted], "{record:?}");
    }
    rig.quiet().await;
}
