//! Turns from message to reply.

use super::*;

#[tokio::test]
async fn a_message_is_answered_and_the_next_turn_sees_the_history_with_one_system_message() {
    // V-A2, V-A3
    let rig = Rig::plain().await;
    rig.script([says("hello"), says("again")]);
    let (turn, mut events) = rig.accept("m1", "webhook.ci").await;
    assert_eq!(events.end().await, (Outcome::Answered, Some("hello".into())));
    assert_eq!(rig.record(turn).await.usage, Usage { input: 10, output: 2 });
    let (_, mut events) = rig.accept("m2", "webhook.ci").await;
    events.end().await;
    let messages = rig.provider.requests.lock()[1].messages.clone();
    let texts: Vec<_> = messages.iter().map(|m| m.text()).collect();
    assert_eq!(texts, ["You are Rookery.", "message m1", "hello", "message m2"]);
    rig.quiet().await;
}

#[tokio::test]
async fn every_call_of_a_parallel_batch_has_its_own_result_in_order() {
    // A112, V-I5, V-I6, V-I7, V-I8, V-I10, V-N3, I4
    let rig = Rig::plain().await;
    let mut calls: Vec<(&str, Value)> =
        (0..24).map(|n| ("read", json!({ "do": n.to_string() }))).collect();
    calls[3] = ("read", json!({ "do": "fail" }));
    calls[7] = ("read", json!({ "do": "panic" }));
    calls[9] = ("read", json!({ "do": "empty" }));
    calls[11] = ("nothing", json!({}));
    rig.script([asks(&calls), says("done")]);
    let (turn, mut events) = rig.accept("m1", "webhook.ci").await;
    assert_eq!(events.end().await.0, Outcome::Answered);
    let expected: Vec<String> = (0..24)
        .map(|n| match n {
            3 => "error: exit 1".to_owned(),
            7 => format!("error: {}", text::CRASHED),
            9 => text::NO_OUTPUT.to_owned(),
            11 => "Unknown tool: nothing".to_owned(),
            n => format!("said {n}"),
        })
        .collect();
    assert_eq!(rig.last_results(), expected);
    let record = rig.record(turn).await;
    let failed = states(&record).iter().filter(|s| **s == CallState::Failed).count();
    assert_eq!((record.calls.len(), failed), (24, 3));
    let opened = events.kinds().iter().filter(|k| **k == "tool_call").count();
    let closed = events.kinds().iter().filter(|k| **k == "tool_result").count();
    assert_eq!((opened, closed), (24, 24));
    rig.quiet().await;
}

#[tokio::test]
async fn a_stop_keeps_what_finished_and_marks_the_rest_in_order() {
    // V-I11, V-I12, V-I14, A109, I6
    let sequential = RuntimeProfile { parallel_tools: false, ..RuntimeProfile::default() };
    let mut rig = Rig::new(RiskProfile::default(), sequential).await;
    let calls =
        [("read", json!({})), ("read", json!({ "do": "hang" })), ("read", json!({ "do": "c" }))];
    rig.script([asks(&calls)]);
    let (turn, mut events) = rig.accept("m1", "webhook.ci").await;
    rig.began.recv().await.unwrap();
    rig.stop(turn, StopReason::User);
    assert_eq!(events.end().await.0, Outcome::Cancelled);
    let record = rig.record(turn).await;
    assert_eq!(
        states(&record),
        [CallState::Succeeded, CallState::Interrupted, CallState::Interrupted]
    );
    assert_eq!(record.error.unwrap().code, "cancelled");
    let opened = events.kinds().iter().filter(|k| **k == "tool_call").count();
    let closed = events.kinds().iter().filter(|k| **k == "tool_result").count();
    assert_eq!((opened, closed), (2, 2));
    rig.script([says("fine")]);
    let (_, mut next) = rig.accept("m2", "webhook.ci").await;
    assert_eq!(next.end().await.0, Outcome::Answered);
    assert_eq!(
        rig.last_results(),
        ["said say", text::INTERRUPTED_RUNNING, text::INTERRUPTED_NOT_STARTED]
    );
    rig.quiet().await;
}

#[tokio::test]
async fn a_stop_during_the_stream_keeps_the_shown_text_with_the_marker() {
    // V-E15, V-E17
    let rig = Rig::plain().await;
    *rig.provider.hang_after.lock() = Some(1);
    rig.script([says("half an ans")]);
    let (turn, mut events) = rig.accept("m1", "webhook.ci").await;
    events.until(|kind| matches!(kind, TurnEventKind::Delta { .. })).await;
    rig.stop(turn, StopReason::User);
    assert_eq!(events.end().await.0, Outcome::Cancelled);
    let history =
        rig.store.messages(ChannelId::new("webhook.ci"), "c1".into(), 10).await.unwrap().unwrap();
    let last = history.last().unwrap().message.text().to_owned();
    assert_eq!(last, format!("half an ans\n{}", text::INTERRUPTED_MARKER));
    rig.quiet().await;
}

#[tokio::test]
async fn an_approval_asked_and_given_runs_the_call_once() {
    // V-H3, I5, I7
    let rig = Rig::plain().await;
    rig.script([asks(&[("once", json!({ "do": "write" }))]), says("done")]);
    let (turn, mut events) = rig.accept("m1", "ws").await;
    let asked = events.until(|kind| matches!(kind, TurnEventKind::Approval { .. })).await;
    let TurnEventKind::Approval { approval } = asked else { unreachable!() };
    assert!(rig.runs.lock().is_empty());
    assert_eq!(approval.turn, turn);
    rig.decide(&approval, Decision::Approve).await;
    assert_eq!(events.end().await.0, Outcome::Answered);
    assert_eq!(*rig.runs.lock(), ["write"]);
    assert_eq!(rig.last_results(), ["said write"]);
    rig.quiet().await;
}

#[tokio::test]
async fn where_nobody_can_be_asked_the_call_is_denied_at_once() {
    // V-H6
    let rig = Rig::plain().await;
    rig.script([asks(&[("once", json!({}))]), says("done")]);
    let (turn, mut events) = rig.accept("m1", "webhook.ci").await;
    assert_eq!(events.end().await.0, Outcome::Answered);
    assert_eq!(rig.last_results(), [text::DENIED_NOBODY_ASKED]);
    assert_eq!(states(&rig.record(turn).await), [CallState::Denied]);
    assert!(rig.runs.lock().is_empty());
    rig.quiet().await;
}

#[tokio::test]
async fn a_duplicate_runs_once_and_has_the_first_ones_result_but_reads_may_repeat() {
    // V-G10, V-G12
    let profile = RiskProfile { auto_approve: vec!["once".into()], ..RiskProfile::default() };
    let rig = Rig::new(profile, RuntimeProfile::default()).await;
    let same = json!({ "do": "x" });
    let calls =
        [("once", same.clone()), ("once", same.clone()), ("read", same.clone()), ("read", same)];
    rig.script([asks(&calls), says("done")]);
    let (turn, mut events) = rig.accept("m1", "webhook.ci").await;
    assert_eq!(events.end().await.0, Outcome::Answered);
    assert_eq!(rig.runs.lock().len(), 3);
    let twin = format!("{}said x", text::DUPLICATE_PREFIX);
    assert_eq!(rig.last_results(), ["said x", &twin, "said x", "said x"]);
    assert_eq!(states(&rig.record(turn).await)[1], CallState::Duplicate);
    rig.quiet().await;
}

#[tokio::test]
async fn a_turn_stopped_by_shutdown_resumes_and_runs_no_finished_call_again() {
    // V-N1
    let mut rig = Rig::plain().await;
    let calls = [("read", json!({ "do": "a" })), ("read", json!({ "do": "hang" }))];
    rig.script([asks(&calls)]);
    let (turn, mut events) = rig.accept("m1", "webhook.ci").await;
    rig.began.recv().await.unwrap();
    events.until(|kind| matches!(kind, TurnEventKind::ToolResult { .. })).await;
    rig.stop(turn, StopReason::Shutdown);
    // Its session goes on at once, as after a restart; the same call hangs again.
    rig.began.recv().await.unwrap();
    assert_eq!(rig.record(turn).await.attempts, 2);
    assert_eq!(*rig.runs.lock(), ["a", "hang", "hang"]);
    rig.stop(turn, StopReason::User);
    assert_eq!(events.end().await.0, Outcome::Cancelled);
    assert_eq!(states(&rig.record(turn).await), [CallState::Succeeded, CallState::Interrupted]);
    rig.quiet().await;
}

#[tokio::test]
async fn turns_of_one_conversation_run_one_after_the_other() {
    // V-N8, I3
    let mut rig = Rig::plain().await;
    rig.script([asks(&[("read", json!({ "do": "wait" }))]), says("one"), says("two")]);
    let (_, mut first) = rig.accept("m1", "webhook.ci").await;
    rig.began.recv().await.unwrap();
    let (second_turn, mut second) = rig.accept("m2", "webhook.ci").await;
    assert_eq!(rig.spawner.directory().of_kind("turn").len(), 1);
    assert_eq!(rig.record(second_turn).await.attempts, 0);
    rig.gate.notify_one();
    assert_eq!(first.end().await, (Outcome::Answered, Some("one".into())));
    assert_eq!(second.end().await, (Outcome::Answered, Some("two".into())));
    rig.quiet().await;
}

#[tokio::test]
async fn a_failure_before_any_text_is_tried_again_and_an_empty_answer_is_never_a_success() {
    // V-E18
    let rig = Rig::plain().await;
    let cut = ModelError::new(ModelErrorClass::Network, "connection refused");
    rig.script([Err(cut), says("second try")]);
    let (_, mut events) = rig.accept("m1", "webhook.ci").await;
    assert_eq!(events.end().await, (Outcome::Answered, Some("second try".into())));
    rig.script([Ok(vec![ended(vec![])]), Ok(vec![ended(vec![])])]);
    let (turn, mut events) = rig.accept("m2", "webhook.ci").await;
    assert_eq!(events.end().await.0, Outcome::Failed);
    assert_eq!(rig.record(turn).await.error.unwrap().code, "provider_empty");
    rig.quiet().await;
}
