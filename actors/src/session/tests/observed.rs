//! What clients and observers are told of a turn: of everything its begin and its end, once.

use std::collections::BTreeMap;

use rookery_messages::ids::CallId;
use rookery_messages::journal::JournalKind;
use rookery_messages::observe::TurnScope;

use super::*;

/// The turn an observation belongs to, if it belongs to one.
pub(super) fn scope_of(observation: &Observation) -> Option<&TurnScope> {
    match observation {
        Observation::TurnStarted { scope, .. }
        | Observation::TurnEnded { scope, .. }
        | Observation::ModelCall { scope, .. }
        | Observation::ToolCallStart { scope, .. }
        | Observation::ToolCall { scope, .. }
        | Observation::Gate { scope, .. }
        | Observation::Hook { scope, .. }
        | Observation::Loop { scope, .. }
        | Observation::Approval { scope, .. }
        | Observation::Trimmed { scope, .. }
        | Observation::Cost { scope, .. }
        | Observation::OverBudget { scope }
        | Observation::Recalled { scope, .. }
        | Observation::Repaired { scope, .. } => Some(scope),
        Observation::Accepted { .. }
        | Observation::Refused { .. }
        | Observation::StoreFailed { .. }
        | Observation::MeaningFailed { .. }
        | Observation::Delivery { .. }
        | Observation::ActorExit { .. } => None,
    }
}

/// How often each call began and ended, and how it ended last.
type Ends = BTreeMap<CallId, (usize, usize, Option<CallState>)>;

fn ends_observed(told: &[Observation]) -> Ends {
    let mut ends = Ends::new();
    for observation in told {
        match observation {
            Observation::ToolCallStart { call, .. } => ends.entry(*call).or_default().0 += 1,
            Observation::ToolCall { call, state, .. } => {
                let end = ends.entry(*call).or_default();
                (end.1, end.2) = (end.1 + 1, Some(*state));
            }
            _ => {}
        }
    }
    ends
}

fn ends_shown(following: &Following) -> Ends {
    let mut ends = Ends::new();
    for event in &following.seen {
        match &event.kind {
            TurnEventKind::ToolCall { call, .. } => ends.entry(*call).or_default().0 += 1,
            TurnEventKind::ToolResult { call, state, .. } => {
                let end = ends.entry(*call).or_default();
                (end.1, end.2) = (end.1 + 1, Some(*state));
            }
            _ => {}
        }
    }
    ends
}

/// What every call is expected to have: one begin, one end, the state of the record.
fn once_each(record: &TurnRecord) -> Ends {
    record.calls.iter().map(|call| (call.id, (1, 1, Some(call.state)))).collect()
}

fn spends(reply: Reply, usage: Usage) -> Reply {
    let mut deltas = reply?;
    deltas.insert(0, Ok(ModelDelta::Usage(usage)));
    Ok(deltas)
}

#[tokio::test]
async fn all_that_is_observed_of_a_turn_carries_its_scope_and_it_begins_and_ends_once() {
    // V-A6, V-A7, V-E25
    let rig = Rig::plain().await;
    let calls = [("read", json!({})), ("read", json!({ "do": "fail" })), ("once", json!({}))];
    let spent = Usage { input: 7, output: 3 };
    let unknown = ModelError::new(ModelErrorClass::InvalidRequest, "no such model");
    rig.script([spends(asks(&calls), spent), says("done"), Err(unknown)]);
    let (first, mut events) = rig.accept("m1", "ws").await;
    let asked = events.until(|kind| matches!(kind, TurnEventKind::Approval { .. })).await;
    let TurnEventKind::Approval { approval } = asked else { unreachable!() };
    rig.decide(&approval, Decision::Approve).await;
    assert_eq!(events.end().await.0, Outcome::Answered);
    let (second, mut events) = rig.accept("m2", "ws").await;
    assert_eq!(events.end().await.0, Outcome::Failed);

    for (turn, outcome, usages) in [
        (first, Outcome::Answered, vec![spent, Usage { input: 10, output: 2 }]),
        (second, Outcome::Failed, vec![Usage::default()]),
    ] {
        let told = rig.observed(turn).await;
        let scope = TurnScope {
            turn,
            conversation_id: rig.conversation,
            channel: ChannelId::new("ws"),
            agent: AgentName::new("home"),
        };
        assert!(told.iter().all(|seen| scope_of(seen) == Some(&scope)), "{told:#?}");
        let begins: Vec<usize> = positions(&told, |o| matches!(o, Observation::TurnStarted { .. }));
        assert_eq!(begins, [0]);
        let ends = positions(
            &told,
            |o| matches!(o, Observation::TurnEnded { outcome: how, .. } if *how == outcome),
        );
        assert_eq!(ends, [told.len() - 1], "{told:#?}");
        // One usage a provider call.
        let spent: Vec<Usage> = told
            .iter()
            .filter_map(|seen| match seen {
                Observation::ModelCall { usage, .. } => Some(*usage),
                _ => None,
            })
            .collect();
        assert_eq!(spent, usages);
    }
    let told = rig.observed(first).await;
    assert_eq!(ends_observed(&told), once_each(&rig.record(first).await));
    assert_eq!(positions(&told, |o| matches!(o, Observation::Gate { .. })).len(), 3);
    assert_eq!(positions(&told, |o| matches!(o, Observation::Approval { .. })).len(), 1);
    rig.quiet().await;
}

fn positions(told: &[Observation], wanted: impl Fn(&Observation) -> bool) -> Vec<usize> {
    told.iter().enumerate().filter(|(_, seen)| wanted(seen)).map(|(at, _)| at).collect()
}

#[tokio::test]
async fn every_call_that_began_has_one_end_for_clients_and_observers_however_it_ended() {
    // V-N6, V-I13, V-I15, V-I16
    let mut rig = Rig::plain().await;
    let calls = ["a", "fail", "panic", "empty", "hang"].map(|what| ("read", json!({ "do": what })));
    let spent = Usage { input: 21, output: 4 };
    rig.script([spends(asks(&calls), spent)]);
    let (turn, mut events) = rig.accept("m1", "webhook.ci").await;
    rig.began.recv().await.unwrap();
    for _ in 0..4 {
        events.until(|kind| matches!(kind, TurnEventKind::ToolResult { .. })).await;
    }
    rig.stop(turn, StopReason::User);
    assert_eq!(events.end().await.0, Outcome::Cancelled);
    let record = rig.record(turn).await;
    assert_eq!(
        states(&record),
        [
            CallState::Succeeded,
            CallState::Failed,
            CallState::Failed,
            CallState::Succeeded,
            CallState::Interrupted
        ]
    );
    let told = rig.observed(turn).await;
    assert_eq!(ends_observed(&told), once_each(&record));
    assert_eq!(ends_shown(&events), once_each(&record));
    let Some(Observation::TurnEnded { outcome, usage, .. }) = told.last() else {
        panic!("{told:#?}")
    };
    assert_eq!((*outcome, *usage), (Outcome::Cancelled, spent));
    rig.quiet().await;
}

#[tokio::test]
async fn a_resumed_turn_tells_again_of_no_call_whose_end_was_told_and_an_unknown_end_is_told_once()
{
    // V-N1, V-N6, I5
    let profile = RiskProfile { auto_approve: vec!["once".into()], ..RiskProfile::default() };
    let mut rig = Rig::new(profile, RuntimeProfile::default()).await;
    let calls = [
        ("read", json!({ "do": "a" })),
        ("nothing", json!({})),
        ("once", json!({ "do": "hang" })),
        ("read", json!({ "do": "hang" })),
    ];
    rig.script([asks(&calls), says("done")]);
    let (turn, mut events) = rig.accept("m1", "webhook.ci").await;
    for _ in 0..2 {
        rig.began.recv().await.unwrap();
        // `nothing` and `a` have ended by then, or do so now.
        events.until(|kind| matches!(kind, TurnEventKind::ToolResult { .. })).await;
    }
    // Twice: what the second attempt found out is not found out again by the third.
    for attempt in 2..=3 {
        rig.stop(turn, StopReason::Shutdown);
        rig.began.recv().await.unwrap();
        assert_eq!(rig.record(turn).await.attempts, attempt);
        if attempt == 2 {
            let unknown = |kind: &TurnEventKind| {
                matches!(kind, TurnEventKind::ToolResult { state: CallState::Unknown, .. })
            };
            events.until(unknown).await;
        }
    }
    rig.stop(turn, StopReason::User);
    assert_eq!(events.end().await.0, Outcome::Cancelled);
    let record = rig.record(turn).await;
    assert_eq!(
        states(&record),
        [CallState::Succeeded, CallState::Failed, CallState::Unknown, CallState::Interrupted]
    );
    let unknown = &record.calls[2];
    assert!(unknown.started_at.is_some() && unknown.ended_at.is_some(), "{unknown:?}");
    let shown = ends_shown(&events);
    let ends: Vec<_> = record.calls.iter().map(|call| shown[&call.id].1).collect();
    assert_eq!(ends, [1; 4], "{shown:?}");
    let observed = ends_observed(&rig.observed(turn).await);
    let ends: Vec<_> =
        record.calls.iter().map(|call| observed.get(&call.id).map_or(0, |end| end.1)).collect();
    // A tool that does not exist never began.
    assert_eq!(ends, [1, 0, 1, 1], "{observed:?}");
    let runs = rig.runs.lock().iter().filter(|what| *what == "a").count();
    assert_eq!((runs, rig.runs.lock().len()), (1, 5), "`a` once, `once` once, the other thrice");
    rig.quiet().await;
}

#[tokio::test]
async fn a_call_that_does_not_run_has_its_pair_of_events_although_it_is_alone() {
    // V-H6, V-H11, V-N6
    for (channel, end) in [("webhook.ci", CallState::Denied), ("ws", CallState::Replaced)] {
        let rig = Rig::plain().await;
        rig.script([asks(&[("once", json!({}))]), says("done")]);
        let (turn, mut events) = rig.accept("m1", channel).await;
        if end == CallState::Replaced {
            let asked = events.until(|kind| matches!(kind, TurnEventKind::Approval { .. })).await;
            let TurnEventKind::Approval { approval } = asked else { unreachable!() };
            rig.decide(&approval, Decision::Replace { replacement: "do less".into() }).await;
        }
        assert_eq!(events.end().await.0, Outcome::Answered);
        let record = rig.record(turn).await;
        assert_eq!(states(&record), [end]);
        assert_eq!(ends_shown(&events), once_each(&record));
        // Nothing began, so that no observer is told of an end.
        assert_eq!(ends_observed(&rig.observed(turn).await), Ends::new());
        assert!(rig.runs.lock().is_empty());
        rig.quiet().await;
    }
}

#[tokio::test]
async fn a_batch_in_which_a_call_needed_approval_runs_one_by_one_whatever_the_decision() {
    // V-I2
    let calls = [("once", json!({})), ("read", json!({})), ("again", json!({ "do": "fail" }))];
    let auto = RiskProfile { auto_approve: vec!["again".into()], ..RiskProfile::default() };
    for decision in [Decision::Approve, Decision::Deny { reason: None }] {
        let rig = Rig::new(auto.clone(), RuntimeProfile::default()).await;
        rig.script([asks(&calls), says("done")]);
        let (_, mut events) = rig.accept("m1", "ws").await;
        let asked = events.until(|kind| matches!(kind, TurnEventKind::Approval { .. })).await;
        let TurnEventKind::Approval { approval } = asked else { unreachable!() };
        rig.decide(&approval, decision).await;
        assert_eq!(events.end().await.0, Outcome::Answered);
        assert_eq!(events.cards(), ["tool_call", "tool_result"].repeat(3));
        rig.quiet().await;
    }
}

#[tokio::test]
async fn no_calls_end_is_written_before_its_begin_although_the_store_refused_that_at_first() {
    // I4
    let rig = Rig::plain().await;
    let begins = |write: &Write| match write {
        Write::Commit(commit) => {
            commit.entries.iter().any(|e| matches!(e.kind, JournalKind::CallStarted { .. }))
        }
        _ => false,
    };
    *rig.refuse.lock() = Some(Box::new(begins));
    rig.script([asks(&[("read", json!({ "do": "a" })), ("again", json!({ "do": "b" }))])]);
    let (turn, mut events) = rig.accept("m1", "ws").await;
    let asked = events.until(|kind| matches!(kind, TurnEventKind::Approval { .. })).await;
    let TurnEventKind::Approval { approval } = asked else { unreachable!() };
    rig.decide(&approval, Decision::Approve).await;
    assert_eq!(events.end().await, (Outcome::Answered, Some("done".into())));
    assert!(rig.refuse.lock().is_none(), "no begin came to the store");
    assert_eq!(ends_shown(&events), once_each(&rig.record(turn).await));
    rig.quiet().await;
}
