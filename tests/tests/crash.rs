//! The process is killed with `kill -9` and started again: nothing is lost, nothing is done twice.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails at the place of the fault"
)]

use rookery_messages::tool::text;
use rookery_tests::api::{fresh_id, message};
use rookery_tests::model::{paired_results, result_texts};
use rookery_tests::service::{alive, gone};
use rookery_tests::wait::until;
use rookery_tests::{Call, Config, Gate, Reply, World, program};
use serde_json::json;

async fn world() -> World {
    World::start(program!(), Config::new()).await
}

// I1, I2
#[tokio::test]
async fn a_message_taken_before_a_kill_is_answered_once_after_it() {
    let mut world = world().await;
    world.model.rule("hello", |_| Reply::text("answer"));
    let body = message(&fresh_id(), "c", "hello");
    let taken = world.api.webhook(&body, "").await;
    assert_eq!(taken.status, 202);
    // At once: how far the turn has come by then is left to chance.
    world.crash().await;
    let again = world.api.webhook(&body, "").await;
    assert_eq!((again.status, &again.body["duplicate"]), (200, &json!(true)), "{again:?}");
    let id = taken.body["turn"].as_str().unwrap();
    let turn = world.api.ended(id).await;
    assert_eq!((turn.result(), turn.text()), ("answered", "answer"));
    assert_eq!(world.api.transcript("c").await, ["user: hello", "assistant: answer"]);
    let ledger = world.api.ledger().await;
    assert_eq!((ledger.accepted, ledger.answered), (1, 1));
    world.finish().await;
}

// I1
#[tokio::test]
async fn a_kill_during_the_stream_leaves_one_answer_and_nothing_of_the_first_try() {
    let mut world = world().await;
    let gate = Gate::new();
    let first = Reply::stream().delta("The first ").delta("try says").gate(&gate).complete("stop");
    world.model.script("hello", [first, Reply::deltas(["The ", "answer."])]);
    let id = world.api.tell("c", "hello").await;
    gate.reached().await;
    world.crash().await;
    let turn = world.api.ended(&id).await;
    assert_eq!((turn.text(), turn.attempts), ("The answer.", 2));
    assert_eq!(world.api.transcript("c").await, ["user: hello", "assistant: The answer."]);
    assert_eq!(world.model.count(), 2);
    gate.open();
    world.finish().await;
}

// V-N1, V-N6, I5, A129
#[tokio::test]
async fn a_kill_mid_batch_keeps_finished_results_and_calls_the_running_once_call_unknown() {
    let mut world = world().await;
    let calls = vec![
        Call::shell("echo one | tee -a log"),
        Call::shell("echo two | tee -a log"),
        Call::shell("echo three >> log; touch up; while [ ! -e crash.go ]; do sleep 0.02; done"),
    ];
    let ids: Vec<String> = calls.iter().map(Call::wire_id).collect();
    world.model.script("go", [Reply::calls(calls), Reply::text("done")]);
    let id = world.api.tell("c", "go").await;
    world.file("up").await;
    let what = "two calls have ended";
    world
        .api
        .turn_when(&id, what, |turn| turn.call_states() == ["succeeded", "succeeded", "running"])
        .await;
    alive("while [ ! -e crash.go ]").await;
    world.crash().await;
    gone("while [ ! -e crash.go ]").await;
    let turn = world.api.ended(&id).await;
    assert_eq!(turn.text(), "done");
    assert_eq!(turn.call_states(), ["succeeded", "succeeded", "unknown"]);
    let mut log: Vec<String> = world.read("log").lines().map(str::to_owned).collect();
    log.sort();
    assert_eq!(log, ["one", "three", "two"], "no call ran twice");
    world.assert_once(&turn, "log", &["one", "two", "three"]);
    let unknown = &turn.calls[2];
    assert!(unknown.started_at.is_some() && unknown.ended_at.is_some(), "{unknown:?}");
    until("the unknown outcome is counted once, and no other", || async {
        let metrics = world.api.metrics().await;
        let count = |labels: &[&str]| metrics.sum("rookery_tool_calls_total", labels);
        match (count(&["state=\"unknown\""]), count(&[])) {
            (1.0, 1.0) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let pairs = paired_results(&world.model.last_request());
    let (found, texts): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    assert_eq!(found, ids);
    assert!(texts[0].contains("one") && texts[1].contains("two"), "{texts:?}");
    assert!(texts[2].contains(text::OUTCOME_UNKNOWN), "{texts:?}");
    world.finish().await;
}

// V-N1
#[tokio::test]
async fn a_call_that_only_reads_runs_again_after_a_kill() {
    let mut world = world().await;
    let calls = [Call::shell("echo one >> log"), Call::new("wait", json!({"seconds": 2}))];
    world.model.script("go", [Reply::calls(calls), Reply::text("done")]);
    let id = world.api.tell("c", "go").await;
    let what = "the second call runs alone";
    world.api.turn_when(&id, what, |turn| turn.call_states() == ["succeeded", "running"]).await;
    world.crash().await;
    let turn = world.api.ended(&id).await;
    assert_eq!((turn.text(), turn.call_states()), ("done", vec!["succeeded"; 2]));
    assert_eq!(world.read("log"), "one\n");
    world.finish().await;
}

// V-N2
#[tokio::test]
async fn a_question_survives_a_kill_and_its_answer_resumes_the_turn() {
    let config = Config::new().level("supervised").agent("approval_route = \"admin\"");
    let mut world = World::start(program!(), config).await;
    world.model.script("go", [Reply::calls([Call::shell("echo ran >> log")]), Reply::text("done")]);
    let id = world.api.tell("c", "go").await;
    let before = world.api.approval_of(&id).await;
    world.crash().await;
    let after = world.api.approval_of(&id).await;
    for field in ["id", "call", "arguments", "asked_at", "expires_at"] {
        assert_eq!(after[field], before[field], "{field}");
    }
    assert!(world.read("log").is_empty());
    assert_eq!(world.api.decide(&after, &json!({"decision": "approve"})).await.status, 200);
    let turn = world.api.ended(&id).await;
    assert_eq!((turn.text(), turn.call_states()), ("done", vec!["succeeded"]));
    assert_eq!((world.read("log").as_str(), world.model.count()), ("ran\n", 2));
    world.finish().await;
}

// V-N2
#[tokio::test]
async fn a_decision_made_before_a_kill_stands_after_it() {
    let config = Config::new().level("supervised").agent("approval_route = \"admin\"");
    let mut world = World::start(program!(), config).await;
    let calls = [Call::shell("echo one >> log"), Call::shell("echo two >> log")];
    world.model.script("go", [Reply::calls(calls), Reply::text("done")]);
    let id = world.api.tell("c", "go").await;
    let first = world.api.approval_of(&id).await;
    world.api.decide(&first, &json!({"decision": "deny"})).await;
    world.crash().await;
    let second = world.api.approval_of(&id).await;
    assert_ne!(second["id"], first["id"]);
    world.api.decide(&second, &json!({"decision": "approve"})).await;
    let mut states = world.api.ended(&id).await.call_states().join(" ");
    if first["arguments"]["command"] != "echo one >> log" {
        states = states.split(' ').rev().collect::<Vec<_>>().join(" ");
    }
    assert_eq!(states, "denied succeeded");
    assert_eq!(world.read("log").lines().count(), 1);
    world.finish().await;
}

// V-N2, V-H10
#[tokio::test]
async fn a_question_that_nobody_answers_keeps_its_deadline_over_a_kill() {
    let config = Config::new()
        .level("supervised")
        .agent("approval_route = \"admin\"")
        .approvals("timeout_secs = 3");
    let mut world = World::start(program!(), config).await;
    let call = Call::shell("echo ran >> log");
    world.model.script("go", [Reply::calls([call]), Reply::text("done")]);
    let id = world.api.tell("c", "go").await;
    world.api.approval_of(&id).await;
    world.crash().await;
    let turn = world.api.ended(&id).await;
    assert_eq!((turn.text(), turn.call_states()), ("done", vec!["denied"]));
    let told = paired_results(&world.model.last_request());
    assert_eq!(told[0].1, text::DENIED_NO_ANSWER);
    assert!(world.read("log").is_empty());
    world.finish().await;
}

// A109
#[tokio::test]
async fn a_conversation_that_was_stopped_mid_batch_goes_on_after_a_kill() {
    let mut world = World::start(program!(), Config::new().runtime("parallel_tools = false")).await;
    let calls = [Call::shell("echo a"), Call::hold("b"), Call::shell("echo c")];
    let ids: Vec<String> = calls.iter().map(Call::wire_id).collect();
    world.model.script("go", [Reply::calls(calls)]);
    let id = world.api.tell("c", "go").await;
    world.file("b.started").await;
    world.api.cancel(&id).await;
    world.api.ended(&id).await;
    world.crash().await;
    assert_eq!(world.api.say("c", "continue").await.text(), "you said: continue");
    let pairs = paired_results(&world.model.last_request());
    assert_eq!(
        pairs.iter().map(|pair| &pair.0).collect::<Vec<_>>(),
        ids.iter().collect::<Vec<_>>()
    );
    assert!(pairs[0].1.contains('a') && pairs[1].1.contains(text::INTERRUPTED_RUNNING));
    assert_eq!(pairs[2].1, text::INTERRUPTED_NOT_STARTED);
    world.finish().await;
}

#[tokio::test]
async fn a_turn_that_takes_the_service_with_it_again_and_again_is_given_up_and_says_so() {
    let mut world = World::start(program!(), Config::new().sessions("max_attempts = 2")).await;
    world.model.script("poison", [Reply::silence(), Reply::silence(), Reply::silence()]);
    let id = world.api.tell("c", "poison").await;
    for tries in 1..=2 {
        world.model.counted(tries).await;
        world.crash().await;
    }
    let turn = world.api.ended(&id).await;
    assert_eq!((turn.result(), world.model.count()), ("failed", 2));
    assert!(turn.error.is_some());
    assert_eq!(world.api.say("c", "and now").await.text(), "you said: and now");
    world.finish().await;
}

// I1, I2, I5
#[tokio::test]
async fn kills_at_every_stage_of_a_turn_lose_nothing_and_repeat_nothing() {
    let mut world = world().await;
    let stages = ["taken", "asked", "tool", "second", "answered"];
    for stage in stages {
        let gate = Gate::new();
        let effect = Call::shell(&format!(
            "echo ran >> {stage}.log; {}",
            match stage {
                "tool" => "touch tool.up; while [ ! -e tool.never ]; do sleep 0.02; done",
                _ => "true",
            }
        ));
        let (ask, close) = (Reply::calls([effect]), Reply::text(format!("{stage} done")));
        let held = |reply: Reply| Reply::stream().gate(&gate).then(reply);
        match stage {
            // Nobody knows which of its requests the killed life has made: each gets what fits it.
            "taken" => world.model.rule(stage, move |body| match result_texts(body).len() {
                0 => ask.clone(),
                _ => close.clone(),
            }),
            "asked" => world.model.script(stage, [held(ask.clone()), ask, close]),
            "second" => world.model.script(stage, [ask, held(close.clone()), close]),
            _ => world.model.script(stage, [ask, close]),
        }
        let id = world.api.tell(stage, stage).await;
        match stage {
            "asked" | "second" => gate.reached().await,
            "tool" => world.file("tool.up").await,
            "answered" => drop(world.api.ended(&id).await),
            _ => {}
        }
        world.crash().await;
        let turn = world.api.ended(&id).await;
        assert_eq!((turn.result(), turn.text()), ("answered", format!("{stage} done").as_str()));
        let ran = world.read(&format!("{stage}.log"));
        // Killed between the begin's record and its effect, nobody knows, and it is not repeated.
        let cut = stage == "taken" && turn.call_states() == ["unknown"] && ran.is_empty();
        assert!(ran == "ran\n" || cut, "{stage}: {ran:?} {turn:?}");
        world.assert_once(&turn, &format!("{stage}.log"), &["ran"]);
        let transcript = world.api.transcript(stage).await;
        assert_eq!(transcript.iter().filter(|line| line.starts_with("user:")).count(), 1);
        assert_eq!(transcript.last(), Some(&format!("assistant: {stage} done")));
    }
    let ledger = world.api.ledger().await;
    assert_eq!((ledger.accepted, ledger.answered), (5, 5));
    world.finish().await;
}

// R14
#[tokio::test]
async fn a_conversation_is_the_same_after_a_kill_for_people_and_for_the_next_request() {
    let mut world = world().await;
    world.model.script("look", [Reply::calls([Call::new("time", json!({}))]), Reply::text("late")]);
    assert_eq!(world.api.say("c", "look at the clock").await.text(), "late");
    world.api.say("c", "thank you").await;
    let before = world.api.messages("webhook.ci", "c").await;
    assert_eq!(before.len(), 6, "{before:?}");
    let sent = world.model.last_request()["messages"].as_array().unwrap().clone();
    world.crash().await;
    assert_eq!(world.api.messages("webhook.ci", "c").await, before);
    world.api.say("c", "and now").await;
    let next = world.model.last_request()["messages"].as_array().unwrap().clone();
    assert_eq!(next[1..sent.len()], sent[1..], "what was sent is sent again");
    assert_eq!(next.len(), sent.len() + 2);
    world.finish().await;
}
