//! Tool calls: order, batches, failures, duplicates, results, and their end when a turn is stopped.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails at the place of the fault"
)]

use rookery_messages::tool::text;
use rookery_tests::apart::check_apart;
use rookery_tests::model::{paired_results, result_texts};
use rookery_tests::quiet::live_of_kind;
use rookery_tests::service::{alive, gone};
use rookery_tests::sse::kinds;
use rookery_tests::wait::until;
use rookery_tests::{Call, Config, Reply, Turn, World, program};
use serde_json::{Value, json};

async fn world() -> World {
    World::start(program!(), Config::new()).await
}

/// The model asks for these calls, then says "done".
fn script(world: &World, key: &str, calls: Vec<Call>) -> Vec<String> {
    let ids = calls.iter().map(Call::wire_id).collect();
    world.model.script(key, [Reply::calls(calls), Reply::text("done")]);
    ids
}

/// The turn's results in the model's next request, whose ids must be those of the calls, in order.
fn results(world: &World, ids: &[String]) -> Vec<String> {
    let pairs = paired_results(&world.model.last_request());
    let (found, texts): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    assert_eq!(found, ids, "each call has its result, in the model's order");
    texts
}

fn overlap(turn: &Turn) -> bool {
    turn.calls.windows(2).any(|pair| pair[1].started_at < pair[0].ended_at)
}

// V-I5, V-I4, T14, T16
#[tokio::test]
async fn parallel_calls_that_finish_out_of_order_are_recorded_in_the_models_order() {
    let world = world().await;
    let first = Call::shell("while [ ! -e second ]; do sleep 0.02; done; echo one");
    let second = Call::shell("echo two; touch second");
    let third = Call::shell("while [ ! -e second ]; do sleep 0.02; done; echo three");
    let ids = script(&world, "go", vec![first, second, third]);
    let turn = world.api.say("c", "go").await;
    assert_eq!((turn.text(), turn.call_states()), ("done", vec!["succeeded"; 3]));
    let texts = results(&world, &ids);
    for (text, word) in texts.iter().zip(["one", "two", "three"]) {
        assert!(text.contains(word), "{texts:?}");
    }
    world.finish().await;
}

// V-I4
#[tokio::test]
async fn without_parallel_tools_each_call_begins_after_the_one_before_it_ended() {
    let world = World::start(program!(), Config::new().runtime("parallel_tools = false")).await;
    let calls = (0..3).map(|n| Call::shell(&format!("echo {n} >> log"))).collect();
    script(&world, "go", calls);
    let turn = world.api.say("c", "go").await;
    assert!(!overlap(&turn), "{turn:?}");
    assert_eq!(world.read("log"), "0\n1\n2\n");
    world.finish().await;
}

// V-I3
#[tokio::test]
async fn one_call_runs_and_its_result_goes_back_under_its_id() {
    let world = world().await;
    world.put("note.txt", "remember the milk\n");
    let ids = script(&world, "go", vec![Call::new("file_read", json!({"path": "note.txt"}))]);
    let turn = world.api.say("c", "go").await;
    assert_eq!((turn.text(), turn.call_states()), ("done", vec!["succeeded"]));
    assert!(results(&world, &ids)[0].contains("remember the milk"));
    world.finish().await;
}

// V-I6, V-I7, V-I8
#[tokio::test]
async fn failures_become_texts_for_the_model_and_the_turn_goes_on() {
    let world = world().await;
    let calls = vec![
        Call::new("teleport", json!({"to": "mars"})),
        Call::new("file_read", json!({"path": "missing.txt"})),
        Call::shell("echo it went wrong >&2; exit 3"),
        Call::shell("true"),
        Call { arguments: "{\"command\": \"ls".to_owned(), ..Call::shell("ls") },
    ];
    let ids = script(&world, "go", calls);
    let turn = world.api.say("c", "go").await;
    assert_eq!(turn.text(), "done");
    assert_eq!(turn.call_states(), ["failed", "failed", "failed", "succeeded", "failed"]);
    let texts = results(&world, &ids);
    assert_eq!(
        texts[0].lines().next(),
        Some(format!("{}teleport", text::UNKNOWN_TOOL_PREFIX).as_str())
    );
    assert!(texts[1].contains("missing.txt"), "{texts:?}");
    assert!(texts[2].contains("it went wrong") && texts[2].contains("exit code 3"), "{texts:?}");
    assert_eq!(texts[3], text::NO_OUTPUT);
    assert!(texts[4].starts_with(text::INVALID_ARGUMENTS_PREFIX), "{texts:?}");
    world.finish().await;
}

// V-N3, I8
#[tokio::test]
async fn a_tool_actor_that_dies_ends_its_own_call_alone() {
    let world = world().await;
    let ids =
        script(&world, "go", vec![Call::hold("a"), Call::hold("b"), Call::shell("echo free")]);
    let other = world.api.tell("other", "unrelated").await;
    let id = world.api.tell("c", "go").await;
    world.file("a.started").await;
    world.file("b.started").await;
    let before = world.api.tree().await;
    let tools = live_of_kind(&before, "tool");
    let running = world.api.turn(&id).await;
    let victim = tools.iter().find(|path| path.contains(&running.calls[0].id));
    let victim = victim.unwrap_or_else(|| panic!("{tools:?} for {running:?}"));
    assert!((200..300).contains(&world.api.act(victim, "kill").await.status));
    let states = ["failed", "running", "succeeded"];
    world.api.turn_when(&id, "the killed call has its end", |t| t.call_states() == states).await;
    check_apart(&before, &world.api.tree().await, victim, 0).unwrap();
    world.put("b.go", "");
    let turn = world.api.ended(&id).await;
    assert_eq!(turn.text(), "done");
    assert_eq!(turn.call_states(), ["failed", "succeeded", "succeeded"]);
    let texts = results(&world, &ids);
    assert!(texts[0].contains(text::KILLED), "{texts:?}");
    assert!(texts[1].contains("b done") && texts[2].contains("free"), "{texts:?}");
    assert_eq!(world.api.ended(&other).await.result(), "answered");
    gone("while [ ! -e a.go ]").await;
    world.finish().await;
}

// A112
#[tokio::test]
async fn one_failing_call_among_27_takes_no_other_with_it() {
    let world = world().await;
    let calls = (0..27)
        .map(|n| match n {
            5 => Call::shell("exit 1"),
            11 => Call::new("shell", json!({"command": "sleep 30", "timeout_secs": 1})),
            _ => Call::shell(&format!("sleep 0.0{}; echo out {n}", n % 7)),
        })
        .collect();
    let ids = script(&world, "go", calls);
    let turn = world.api.say("c", "go").await;
    assert_eq!(turn.text(), "done");
    let texts = results(&world, &ids);
    for (n, (state, text)) in turn.call_states().iter().zip(&texts).enumerate() {
        match n {
            5 | 11 => assert_eq!(*state, "failed", "{n}: {text}"),
            _ => {
                assert!(*state == "succeeded" && text.contains(&format!("out {n}")), "{n}: {text}")
            }
        }
    }
    assert!(texts[11].contains("timed out after 1 seconds"), "{}", texts[11]);
    world.finish().await;
}

// V-I11, V-I14, A109, T15
#[tokio::test]
async fn a_cancel_in_a_sequential_batch_leaves_one_result_a_call_and_starts_nothing_more() {
    let world = World::start(program!(), Config::new().runtime("parallel_tools = false")).await;
    let calls = vec![Call::shell("echo first"), Call::hold("mid"), Call::shell("echo c > c.ran")];
    let ids = script(&world, "go", calls);
    let id = world.api.tell("c", "go").await;
    world.file("mid.started").await;
    let mut stream = world.api.events(&id).await;
    world.api.cancel(&id).await;
    let events = stream.until("ended").await;
    let turn = world.api.ended(&id).await;
    assert_eq!(turn.result(), "cancelled");
    assert_eq!(turn.call_states(), ["succeeded", "interrupted", "interrupted"]);
    let unopened = &turn.calls[2].id;
    let about = |event: &&Value| event["call"] == **unopened;
    assert_eq!(
        events.iter().filter(about).count(),
        0,
        "nothing is said of a call that never began"
    );
    world.api.say("c", "continue").await;
    let texts = results(&world, &ids);
    assert!(texts[0].contains("first"), "{texts:?}");
    assert!(texts[1].contains(text::INTERRUPTED_RUNNING), "{texts:?}");
    assert_eq!(texts[2], text::INTERRUPTED_NOT_STARTED);
    assert!(!world.work("c.ran").exists());
    world.finish().await;
}

// V-I12, V-I13, V-I16, I6, T13, T15
#[tokio::test]
async fn a_cancel_in_a_parallel_batch_keeps_the_finished_result_and_interrupts_the_other() {
    let world = world().await;
    let ids = script(&world, "go", vec![Call::shell("echo real"), Call::hold("par")]);
    let mut ws = world.api.ws("c").await;
    ws.say("1", "go").await;
    world.file("par.started").await;
    let mut events = ws.until("tool_result").await;
    let id = events[0]["turn"].as_str().unwrap().to_owned();
    world.api.cancel(&id).await;
    events.extend(ws.until("ended").await);
    let turn = world.api.ended(&id).await;
    assert_eq!(turn.call_states(), ["succeeded", "interrupted"]);
    assert_eq!((turn.usage.input, turn.usage.output), (10, 5), "tokens used so far are on record");
    let of_first = |kind: &str| {
        events.iter().filter(|e| e["type"] == kind && e["call"] == *turn.calls[0].id).count()
    };
    assert_eq!((of_first("tool_call"), of_first("tool_result")), (1, 1), "{events:#?}");
    gone("touch par.started").await;
    ws.say("2", "continue").await;
    ws.until("ended").await;
    let texts = results(&world, &ids);
    assert!(texts[0].contains("real"), "{texts:?}");
    assert!(texts[1].contains(text::INTERRUPTED_RUNNING), "{texts:?}");
    ws.close().await;
    world.finish().await;
}

// V-N6, V-I15, T18
#[tokio::test]
async fn every_call_that_began_is_reported_ended_exactly_once_however_it_ends() {
    let world = world().await;
    let calls = vec![
        Call::shell("echo fine"),
        Call::shell("exit 9"),
        Call::new("nonsense", json!({})),
        Call::hold("h"),
    ];
    script(&world, "go", calls);
    let mut ws = world.api.ws("c").await;
    ws.say("1", "go").await;
    world.file("h.started").await;
    let mut events = ws.until("tool_result").await;
    let id = events[0]["turn"].as_str().unwrap().to_owned();
    let states = ["succeeded", "failed", "failed", "running"];
    world.api.turn_when(&id, "three have ended", |turn| turn.call_states() == states).await;
    world.api.cancel(&id).await;
    events.extend(ws.until("ended").await);
    let calls_of = |kind: &str| -> Vec<Value> {
        let mut calls: Vec<Value> =
            events.iter().filter(|e| e["type"] == kind).map(|e| e["call"].clone()).collect();
        calls.sort_by_key(Value::to_string);
        calls
    };
    let (opened, closed) = (calls_of("tool_call"), calls_of("tool_result"));
    assert!(opened.windows(2).all(|pair| pair[0] != pair[1]), "{opened:?}");
    assert!(closed.windows(2).all(|pair| pair[0] != pair[1]), "{closed:?}");
    assert!(opened.iter().all(|call| closed.contains(call)), "{:?}", kinds(&events));
    // The metrics are another sink: three commands began, three ended, one of them interrupted.
    until("the metrics hold one end a call", || async {
        let metrics = world.api.metrics().await;
        let ends = |state| metrics.sum("rookery_tool_calls_total", &["tool=\"shell\"", state]);
        let seen =
            (ends("state=\"succeeded\""), ends("state=\"failed\""), ends("state=\"interrupted\""));
        if seen == (1.0, 1.0, 1.0) { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await;
    ws.close().await;
    world.finish().await;
}

// V-I18
#[tokio::test]
async fn calls_without_an_id_get_one_each_shared_by_both_halves() {
    let world = world().await;
    let calls = [Call::shell("echo one"), Call::shell("echo two")].map(Call::without_id);
    world.model.script("go", [Reply::calls(calls), Reply::text("done")]);
    let mut ws = world.api.ws("c").await;
    ws.say("1", "go").await;
    let events = ws.until("ended").await;
    let mut opened: Vec<&Value> =
        events.iter().filter(|e| e["type"] == "tool_call").map(|e| &e["call"]).collect();
    for call in &opened {
        let closed = events.iter().filter(|e| e["type"] == "tool_result" && e["call"] == **call);
        assert_eq!(closed.count(), 1);
    }
    opened.dedup();
    assert_eq!(opened.len(), 2);
    let pairs = paired_results(&world.model.last_request());
    assert_eq!(pairs.len(), 2);
    assert!(pairs[0].0 != pairs[1].0 && !pairs[0].0.is_empty());
    assert!(pairs[0].1.contains("one") && pairs[1].1.contains("two"));
    ws.close().await;
    world.finish().await;
}

// V-G10
#[tokio::test]
async fn the_same_call_twice_in_one_response_runs_once() {
    let world = world().await;
    let twice = vec![Call::shell("echo ran >> log"), Call::shell("echo ran >> log")];
    let ids = script(&world, "go", twice);
    let turn = world.api.say("c", "go").await;
    assert_eq!(turn.call_states(), ["succeeded", "duplicate"]);
    assert_eq!(world.read("log"), "ran\n");
    let texts = results(&world, &ids);
    assert_eq!(texts[1], format!("{}{}", text::DUPLICATE_PREFIX, texts[0]));
    world.finish().await;
}

// V-G11, V-G12
#[tokio::test]
async fn exempt_and_read_only_tools_and_a_guard_that_is_off_let_both_run() {
    for line in ["duplicate_exempt = [\"shell\"]", "duplicate_guard = false"] {
        let world = World::start(program!(), Config::new().runtime(line)).await;
        world.put("note.txt", "text\n");
        let calls = vec![
            Call::shell("echo ran >> log"),
            Call::shell("echo ran >> log"),
            Call::new("file_read", json!({"path": "note.txt"})),
            Call::new("file_read", json!({"path": "note.txt"})),
        ];
        script(&world, "go", calls);
        let turn = world.api.say("c", "go").await;
        assert_eq!(turn.call_states(), ["succeeded"; 4], "{line}");
        assert_eq!(world.read("log"), "ran\nran\n", "{line}");
        world.finish().await;
    }
}

// A013
#[tokio::test]
async fn the_same_read_in_a_later_response_runs_again() {
    let world = world().await;
    world.put("state.txt", "before\n");
    let read = || Call::new("file_read", json!({"path": "state.txt"}));
    world.model.script(
        "go",
        [
            Reply::calls([read()]),
            Reply::calls([Call::shell("echo after > state.txt")]),
            Reply::calls([read()]),
            Reply::text("done"),
        ],
    );
    let turn = world.api.say("c", "go").await;
    assert_eq!(turn.call_states(), ["succeeded"; 3]);
    let texts = result_texts(&world.model.last_request());
    assert!(texts[0].contains("before") && texts[2].contains("after"), "{texts:?}");
    world.finish().await;
}

// V-J1, V-J2, V-J4, A136, T20
#[tokio::test]
async fn a_long_result_is_cut_visibly_between_its_head_and_tail_and_never_inside_a_character() {
    let config = Config::new().runtime("max_tool_result_chars = 3000");
    let world = World::start(program!(), config).await;
    let exact = format!("{}\u{1f600}", "s".repeat(2_999));
    let long = format!("HEAD{}\u{1f600}{}TAIL", "a".repeat(1_995), "\u{2014}".repeat(4_000));
    world.put("exact.txt", &exact);
    world.put("long.txt", &long);
    let calls = vec![Call::shell("cat exact.txt"), Call::shell("cat long.txt")];
    let ids = script(&world, "go", calls);
    assert_eq!(world.api.say("c", "go").await.text(), "done");
    let texts = results(&world, &ids);
    assert_eq!(texts[0], exact, "at the limit nothing is cut");
    let cut = &texts[1];
    assert!(cut.starts_with("HEAD") && cut.ends_with("TAIL"), "{cut}");
    assert!(cut.contains("3004 characters left out"), "{cut}");
    assert!(!cut.contains('\u{fffd}') && cut.chars().count() < 3_100);
    let head = cut.find('\n').unwrap();
    assert!(cut[..head].chars().count() > cut[head..].chars().count(), "two thirds are head");
    world.finish().await;
}

// A128, I6
#[tokio::test]
async fn whatever_a_command_left_behind_is_gone_after_a_cancel_and_after_its_time_is_over() {
    let world = world().await;
    let nonce = std::process::id();
    let commands = [
        format!("sleep 7{nonce}1 & echo $!; touch up0; wait"),
        format!("(sleep 7{nonce}2 &); touch up1; sleep 7{nonce}3"),
        format!("yes | sleep 7{nonce}4 & touch up2; wait"),
        format!("trap '' TERM; touch up3; while true; do sleep 7{nonce}5; done"),
    ];
    script(&world, "cancel me", commands.iter().map(|command| Call::shell(command)).collect());
    let id = world.api.tell("c", "cancel me").await;
    for n in 0..4 {
        world.file(&format!("up{n}")).await;
    }
    alive(&format!("sleep 7{nonce}1")).await;
    world.api.cancel(&id).await;
    assert_eq!(world.api.ended(&id).await.call_states(), ["interrupted"; 4]);
    gone(&format!("sleep 7{nonce}")).await;

    let late =
        |command: &String| Call::new("shell", json!({"command": command, "timeout_secs": 1}));
    script(&world, "too long", commands.iter().map(late).collect());
    let turn = world.api.say("c", "too long").await;
    assert_eq!(turn.call_states(), ["failed"; 4]);
    gone(&format!("sleep 7{nonce}")).await;
    world.finish().await;
}

// V-N7, I6
#[tokio::test]
async fn a_cancel_ends_the_turn_in_bounded_time_from_every_state_and_history_stays_paired() {
    let world = World::start(
        program!(),
        Config::new().level("supervised").agent("approval_route = \"admin\""),
    )
    .await;
    let ask = || Reply::calls([Call::shell("touch x")]);
    let wait = || Reply::calls([Call::new("wait", json!({"seconds": 200}))]);
    world.model.script("no answer", [Reply::silence()]);
    world.model.script("streaming", [Reply::stream().delta("a").hang()]);
    let busy = Reply::error(503, "busy").header("retry-after", "100");
    world.model.script("retrying", [busy]);
    world.model.script("approval", [ask()]);
    world.model.script("running", [wait()]);
    world
        .model
        .script("second call", [Reply::calls([Call::new("time", json!({}))]), Reply::silence()]);
    for (at, state) in ["no answer", "streaming", "approval", "running", "second call", "retrying"]
        .iter()
        .enumerate()
    {
        let before = world.model.count();
        let id = world.api.tell("c", state).await;
        match *state {
            "approval" => drop(world.api.approval_of(&id).await),
            "running" => drop(
                world
                    .api
                    .turn_when(&id, "its tool runs", |turn| turn.call_states() == ["running"])
                    .await,
            ),
            "second call" => world.model.counted(before + 2).await,
            _ => world.model.counted(before + 1).await,
        }
        let began = tokio::time::Instant::now();
        world.api.cancel(&id).await;
        assert_eq!(world.api.ended(&id).await.result(), "cancelled", "{state}");
        assert!(began.elapsed().as_secs() < 10, "{state}: {:?}", began.elapsed());
        // The provider asked for a pause of 100 seconds: nobody calls it now.
        if *state != "retrying" {
            let after = world.api.say("c", &format!("after {at}")).await;
            assert_eq!(after.result(), "answered", "{state}");
        }
    }
    world.finish().await;
}

#[tokio::test]
async fn arguments_and_results_reach_the_clients_and_a_configured_secret_does_not() {
    // I12
    let world = world().await;
    let secret = rookery_tests::world::MODEL_KEY;
    script(&world, "go", vec![Call::shell(&format!("echo leaked {secret}"))]);
    let mut ws = world.api.ws("c").await;
    ws.say("1", "go").await;
    let events = ws.until("ended").await;
    let shown = json!(events).to_string();
    assert!(shown.contains("echo leaked") && !shown.contains(secret), "{shown}");
    assert!(!world.model.last_request()["messages"].to_string().contains(secret));
    ws.close().await;
    world.finish().await;
}
