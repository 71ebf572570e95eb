//! The gate and its questions: who is asked, what a decision does, what happens when nobody decides.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails at the place of the fault"
)]

use rookery_messages::tool::text;
use rookery_tests::model::result_texts;
use rookery_tests::{Call, Config, Reply, World, program};
use serde_json::{Value, json};

/// Level supervised, asked over the admin API.
fn supervised() -> Config {
    Config::new().level("supervised").agent("approval_route = \"admin\"")
}

fn write(path: &str) -> Call {
    Call::new("file_write", json!({"path": path, "content": "written\n"}))
}

fn script(world: &World, key: &str, calls: Vec<Call>) {
    world.model.script(key, [Reply::calls(calls), Reply::text("done")]);
}

fn last_result(world: &World) -> String {
    result_texts(&world.model.last_request()).pop().unwrap()
}

// V-H1
#[tokio::test]
async fn at_level_full_nothing_asks_but_lists_and_closed_paths_hold() {
    let config = Config::new()
        .agent("approval_route = \"admin\"")
        .risk("always_ask = [\"file_edit\"]")
        .risk("excluded_tools = [\"glob_search\"]")
        .risk("forbidden_paths = [\"{dir}/work/closed\"]");
    let world = World::start(program!(), config).await;
    std::fs::create_dir(world.work("closed")).unwrap();
    let calls = vec![
        write("open.txt"),
        Call::shell("echo free"),
        Call::new("glob_search", json!({"pattern": "*"})),
        write("closed/x.txt"),
        write("../outside.txt"),
    ];
    script(&world, "go", calls);
    let turn = world.api.say("c", "go").await;
    assert_eq!(turn.call_states(), ["succeeded", "succeeded", "blocked", "blocked", "blocked"]);
    assert!(last_result(&world).starts_with(text::BLOCKED_PREFIX), "{}", last_result(&world));
    assert!(world.work("open.txt").exists() && !world.work("closed/x.txt").exists());
    assert!(!world.dir().join("outside.txt").exists());
    let edit =
        Call::new("file_edit", json!({"path": "open.txt", "old": "written", "new": "edited"}));
    script(&world, "edit", vec![edit]);
    let id = world.api.tell("c", "edit").await;
    let approval = world.api.approval_of(&id).await;
    assert_eq!(approval["tool"], "file_edit");
    assert_eq!(world.read("open.txt"), "written\n", "it waits for the answer");
    assert_eq!(world.api.decide(&approval, &json!({"decision": "approve"})).await.status, 200);
    world.api.ended(&id).await;
    assert_eq!(world.read("open.txt"), "edited\n");
    world.finish().await;
}

// V-H2
#[tokio::test]
async fn at_level_readonly_only_tools_that_read_run() {
    let world = World::start(program!(), Config::new().level("readonly")).await;
    world.put("note.txt", "text\n");
    let calls = vec![
        Call::new("file_read", json!({"path": "note.txt"})),
        write("new.txt"),
        Call::shell("touch shell.txt"),
    ];
    script(&world, "go", calls);
    let turn = world.api.say("c", "go").await;
    assert_eq!(turn.call_states(), ["succeeded", "blocked", "blocked"]);
    assert!(!world.work("new.txt").exists() && !world.work("shell.txt").exists());
    world.finish().await;
}

// V-H3, V-H4
#[tokio::test]
async fn supervised_calls_ask_unless_listed_and_always_ask_beats_every_list() {
    let config = supervised()
        .risk("auto_approve = [\"file_write\", \"file_edit\"]")
        .risk("always_ask = [\"file_edit\"]")
        .risk("allowed_commands = [\"echo\"]");
    let world = World::start(program!(), config).await;
    let edit = Call::new("file_edit", json!({"path": "a.txt", "old": "written", "new": "edited"}));
    world.model.script(
        "go",
        [
            Reply::calls([write("a.txt")]),
            Reply::calls([Call::shell("echo plain and listed")]),
            Reply::calls([edit]),
            Reply::text("done"),
        ],
    );
    let id = world.api.tell("c", "go").await;
    let approval = world.api.approval_of(&id).await;
    assert_eq!(approval["tool"], "file_edit", "nothing before it asked");
    assert_eq!(approval["arguments"]["path"], "a.txt");
    assert!(approval["risk"].is_string() && !approval["reason"].as_str().unwrap().is_empty());
    let waiting = world.api.turn(&id).await;
    assert_eq!(waiting.state, "waiting_approval");
    assert_eq!(waiting.call_states(), ["succeeded", "succeeded", "waiting"]);
    world.api.decide(&approval, &json!({"decision": "approve"})).await;
    let turn = world.api.ended(&id).await;
    assert_eq!(turn.call_states(), ["succeeded"; 3]);
    assert_eq!(world.api.approvals().await.iter().filter(|a| a["state"] == "pending").count(), 0);
    world.finish().await;
}

// V-H5
#[tokio::test]
async fn always_lets_the_same_call_run_again_without_a_question_and_yes_does_not() {
    let world = World::start(program!(), supervised()).await;
    for (key, decision, asks_again) in [("yes", "approve", true), ("always", "always", false)] {
        let text = format!("{key} {decision}");
        let path = format!("{key}.txt");
        world.model.script(
            key,
            [
                Reply::calls([write(&path)]),
                Reply::text("done"),
                Reply::calls([write(&path)]),
                Reply::text("done"),
            ],
        );
        let first = world.api.tell(key, &text).await;
        let approval = world.api.approval_of(&first).await;
        world.api.decide(&approval, &json!({"decision": decision})).await;
        assert_eq!(world.api.ended(&first).await.call_states(), ["succeeded"]);
        let second = world.api.tell(key, &text).await;
        if asks_again {
            let approval = world.api.approval_of(&second).await;
            world.api.decide(&approval, &json!({"decision": "deny"})).await;
            assert_eq!(world.api.ended(&second).await.call_states(), ["denied"]);
        } else {
            assert_eq!(world.api.ended(&second).await.call_states(), ["succeeded"]);
        }
    }
    // The grant's scope is its conversation and its arguments.
    script(&world, "elsewhere", vec![write("always.txt")]);
    let other = world.api.tell("another", "elsewhere").await;
    let approval = world.api.approval_of(&other).await;
    world.api.decide(&approval, &json!({"decision": "deny"})).await;
    assert_eq!(world.api.ended(&other).await.call_states(), ["denied"]);
    world.finish().await;
}

// V-H6
#[tokio::test]
async fn a_turn_nobody_can_be_asked_about_is_denied_at_once_and_says_so() {
    let world = World::start(program!(), Config::new().level("supervised")).await;
    script(&world, "go", vec![write("a.txt")]);
    let turn = world.api.say("c", "go").await;
    assert_eq!((turn.result(), turn.call_states()), ("answered", vec!["denied"]));
    assert!(last_result(&world).contains(text::DENIED_NOBODY_ASKED), "{}", last_result(&world));
    assert!(!world.work("a.txt").exists());
    assert!(world.api.approvals().await.is_empty());
    world.finish().await;
}

// V-H6: who only sends a message has refused nothing.
#[tokio::test]
async fn a_message_from_a_script_leaves_the_request_to_where_it_is_asked() {
    let world = World::start(program!(), supervised()).await;
    script(&world, "go", vec![write("a.txt")]);
    let decided = async {
        let asked = async || world.api.approvals().await.first().cloned();
        let approval = loop {
            match asked().await {
                Some(approval) => break approval,
                None => tokio::task::yield_now().await,
            }
        };
        assert_eq!(approval["route"]["channel"], "admin", "{approval}");
        world.api.decide(&approval, &json!({"decision": "approve"})).await
    };
    let (printed, answer) = tokio::join!(world.cli(&["chat", "-m", "go"]), decided);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!((printed.code, printed.out.as_str()), (Some(0), "done\n"), "{printed:?}");
    assert!(printed.err.contains("rookery approvals approve"), "{printed:?}");
    assert!(world.work("a.txt").exists());
    world.finish().await;
}

#[tokio::test]
async fn a_message_from_a_script_that_nobody_can_be_asked_about_is_said_to_be_just_that() {
    let world = World::start(program!(), Config::new().level("supervised")).await;
    script(&world, "go", vec![write("a.txt")]);
    let printed = world.cli(&["chat", "-m", "go"]).await;
    assert_eq!(printed.code, Some(3), "{printed:?}");
    assert_eq!(last_result(&world), text::DENIED_NOBODY_ASKED);
    let audit = world.cli(&["audit", "--json"]).await;
    assert!(audit.out.contains("approval.nobody_asked"), "{audit:?}");
    assert!(!audit.out.contains("approval.deny"), "{audit:?}");
    assert!(!world.work("a.txt").exists());
    world.finish().await;
}

// V-H9
#[tokio::test]
async fn a_refused_call_does_not_run_and_the_model_reads_that_a_user_refused() {
    let world = World::start(program!(), supervised()).await;
    script(&world, "go", vec![write("a.txt")]);
    let id = world.api.tell("c", "go").await;
    let approval = world.api.approval_of(&id).await;
    world.api.decide(&approval, &json!({"decision": "deny", "reason": "not today"})).await;
    let turn = world.api.ended(&id).await;
    assert_eq!((turn.result(), turn.call_states()), ("answered", vec!["denied"]));
    assert!(last_result(&world).starts_with(text::DENIED_BY_USER), "{}", last_result(&world));
    assert!(!world.work("a.txt").exists());
    world.finish().await;
}

// V-H10
#[tokio::test]
async fn a_question_nobody_answers_in_time_is_no_refusal_and_names_no_settings() {
    let world = World::start(program!(), supervised().approvals("timeout_secs = 1")).await;
    script(&world, "go", vec![write("a.txt")]);
    let turn = world.api.say("c", "go").await;
    assert_eq!((turn.result(), turn.call_states()), ("answered", vec!["denied"]));
    assert_eq!(last_result(&world), text::DENIED_NO_ANSWER);
    assert!(!world.work("a.txt").exists());
    world.finish().await;
}

// V-H11
#[tokio::test]
async fn a_replacement_is_the_result_and_the_call_does_not_run() {
    let world = World::start(program!(), supervised()).await;
    script(&world, "go", vec![write("a.txt")]);
    let mut ws = world.api.ws("c").await;
    ws.say("1", "go").await;
    let asked = ws.until("approval").await.pop().unwrap();
    let id = asked["approval"]["id"].as_str().or_else(|| asked["id"].as_str()).unwrap().to_owned();
    ws.send(&json!({
        "type": "approval", "id": id, "decision": "replace",
        "replacement": "use b.txt \u{1b}[31minstead\u{7}"
    }))
    .await;
    let events = ws.until("ended").await;
    let expected = format!("{}use b.txt instead", text::REPLACED_PREFIX);
    assert_eq!(last_result(&world), expected);
    let results: Vec<_> = events.iter().filter(|event| event["type"] == "tool_result").collect();
    assert_eq!(results.len(), 1, "{events:#?}");
    let (state, output) = (&results[0]["state"], &results[0]["output"]);
    assert_eq!((state, output), (&json!("replaced"), &json!(expected)));
    let kept = world.api.messages("ws", "c").await;
    assert!(kept.iter().any(|message| message["content"] == *expected), "{kept:#?}");
    assert!(!world.work("a.txt").exists());
    ws.close().await;
    world.finish().await;
}

// V-I2
#[tokio::test]
async fn a_batch_with_a_question_is_asked_together_and_runs_one_after_the_other() {
    let world = World::start(program!(), supervised()).await;
    let calls = vec![
        Call::shell("sleep 0.2; echo one >> log"),
        Call::new("time", json!({})),
        Call::shell("echo two >> log"),
    ];
    script(&world, "go", calls);
    let id = world.api.tell("c", "go").await;
    world.api.approval_of(&id).await;
    let pending = world.api.approvals().await;
    assert_eq!(pending.iter().filter(|a| a["state"] == "pending").count(), 2, "{pending:#?}");
    for approval in pending.iter().rev() {
        world.api.decide(approval, &json!({"decision": "approve"})).await;
    }
    let turn = world.api.ended(&id).await;
    assert_eq!(turn.call_states(), ["succeeded"; 3]);
    assert!(turn.calls.windows(2).all(|pair| pair[0].ended_at <= pair[1].started_at), "{turn:?}");
    assert_eq!(world.read("log"), "one\ntwo\n");
    world.finish().await;
}

// I7
#[tokio::test]
async fn the_first_decision_wins_and_only_those_who_may_decide_do() {
    let tokens = [
        "[[gateway.tokens]]\nname = \"op\"\ntoken = \"operator-operator-1\"\nrole = \"operator\"",
        "[[gateway.tokens]]\nname = \"view\"\ntoken = \"viewer-viewer-view-1\"\nrole = \"viewer\"",
        "[[gateway.tokens]]\nname = \"chat\"\ntoken = \"chat-chat-chat-chat-1\"\nrole = \"chat\"",
        "[[gateway.tokens]]\nname = \"root\"\ntoken = \"admin-admin-admin-1\"\nrole = \"admin\"",
    ]
    .join("\n");
    let mut world = World::start(program!(), supervised().extra(&tokens)).await;
    world.api = world.api.with_token(Some("admin-admin-admin-1"));
    script(&world, "go", vec![write("a.txt")]);
    let id = world.api.tell("c", "go").await;
    let approval = world.api.approval_of(&id).await;
    let yes: Value = json!({"decision": "approve"});
    for token in [Some("viewer-viewer-view-1"), Some("chat-chat-chat-chat-1")] {
        let answer = world.api.with_token(token).decide(&approval, &yes).await;
        assert_eq!(answer.status, 403, "{answer:?}");
    }
    assert_eq!(world.api.with_token(None).decide(&approval, &yes).await.status, 401);
    assert_eq!(world.api.turn(&id).await.state, "waiting_approval");
    let operator = world.api.with_token(Some("operator-operator-1"));
    assert_eq!(operator.decide(&approval, &json!({"decision": "deny"})).await.status, 200);
    let late = operator.decide(&approval, &yes).await;
    assert_eq!(late.status, 409, "{late:?}");
    assert_eq!(world.api.ended(&id).await.call_states(), ["denied"]);
    assert!(!world.work("a.txt").exists());
    world.finish().await;
}

// V-H19
#[tokio::test]
async fn a_cancel_withdraws_the_question_and_nobody_is_said_to_have_refused() {
    let world = World::start(program!(), supervised()).await;
    script(&world, "go", vec![write("a.txt")]);
    let id = world.api.tell("c", "go").await;
    let approval = world.api.approval_of(&id).await;
    world.api.cancel(&id).await;
    let turn = world.api.ended(&id).await;
    assert_eq!((turn.result(), turn.call_states()), ("cancelled", vec!["interrupted"]));
    let late = world.api.decide(&approval, &json!({"decision": "approve"})).await;
    assert_eq!(late.status, 409, "{late:?}");
    world.api.say("c", "and now").await;
    assert!(!world.work("a.txt").exists());
    world.finish().await;
}

// V-D1, V-D2
#[tokio::test]
async fn a_tool_outside_the_lists_is_neither_offered_nor_run() {
    let config = Config::new()
        .risk("allowed_tools = [\"time\", \"file_read\"]")
        .risk("excluded_tools = [\"file_read\"]");
    let world = World::start(program!(), config).await;
    script(
        &world,
        "go",
        vec![Call::new("time", json!({})), Call::new("file_read", json!({"path": "x"}))],
    );
    let turn = world.api.say("c", "go").await;
    assert_eq!(turn.call_states(), ["succeeded", "blocked"]);
    let request = world.model.last_request();
    let names: Vec<&Value> =
        request["tools"].as_array().unwrap().iter().map(|tool| &tool["function"]["name"]).collect();
    assert_eq!(names, ["time"]);
    world.finish().await;
}
