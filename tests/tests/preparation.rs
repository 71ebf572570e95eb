//! Calls on their way: hooks outside the process, arguments against schemas, repeats, circles.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails at the place of the fault"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "the hook's server is no actor: it is a plain task of the test"
)]

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use parking_lot::Mutex;
use rookery_messages::tool::text;
use rookery_tests::model::{paired_results, result_texts};
use rookery_tests::{Call, Config, Gate, Reply, World, program};
use serde_json::{Value, json};

fn script(world: &World, key: &str, calls: Vec<Call>) {
    world.model.script(key, [Reply::calls(calls), Reply::text("done")]);
}

fn write(path: &str, content: &str) -> Call {
    Call::new("file_write", json!({ "path": path, "content": content }))
}

/// An agent with one hook, whose settings are these lines.
fn hooked(lines: &str) -> Config {
    Config::new().agent("hooks = [\"rules\"]").extra(&format!("[hooks.rules]\n{lines}"))
}

// V-G1, V-G2, T9
#[tokio::test]
async fn a_command_cancels_one_call_and_rewrites_another_which_is_judged_as_rewritten() {
    let config = hooked(
        "event = \"before_tool_call\"\ncommand = [\"/bin/sh\", \"{dir}/hook.sh\"]\ntimeout_ms = 20000",
    )
    .risk("forbidden_paths = [\"{dir}/work/closed\"]");
    let world = World::start(program!(), config).await;
    let hook = r#"question=$(cat)
case "$question" in
  *secret.txt*) echo '{"action":"cancel","reason":"that file is not yours"}';;
  *a.txt*) echo '{"action":"rewrite","tool":"file_write","arguments":{"path":"b.txt","content":"hook"}}';;
  *c.txt*) echo '{"action":"rewrite","tool":"file_write","arguments":{"path":"closed/x","content":"hook"}}';;
esac"#;
    std::fs::write(world.dir().join("hook.sh"), hook).unwrap();
    let calls = ["secret.txt", "a.txt", "c.txt", "d.txt"].map(|path| write(path, "model")).to_vec();
    script(&world, "go", calls);
    let turn = world.api.say("c", "go").await;
    assert_eq!(turn.call_states(), ["failed", "succeeded", "blocked", "succeeded"]);
    let results = result_texts(&world.model.last_request());
    assert!(results[0].contains("`rules`") && results[0].contains("not yours"), "{results:?}");
    assert_eq!((world.read("b.txt").as_str(), world.read("d.txt").as_str()), ("hook", "model"));
    assert!(!world.work("a.txt").exists() && !world.work("c.txt").exists());
    let metrics = world.api.metrics().await;
    let hooks = |result: &str| {
        let labels = ["event=\"before_tool_call\"".to_owned(), format!("result=\"{result}\"")];
        metrics.sum("rookery_hooks_total", &labels.each_ref().map(String::as_str))
    };
    assert_eq!((hooks("cancelled"), hooks("rewrote"), hooks("continued")), (1.0, 2.0, 1.0));
    world.finish().await;
}

// V-G3
#[tokio::test]
async fn without_its_hooks_word_no_call_runs() {
    for (command, why) in [
        ("exit 7", "exit status: 7"),
        ("sleep 600", "did not answer"),
        ("echo maybe", "can't be read"),
    ] {
        let config = hooked(&format!(
            "event = \"before_tool_call\"\ncommand = [\"/bin/sh\", \"-c\", \"{command}\"]\ntimeout_ms = 2000"
        ));
        let world = World::start(program!(), config).await;
        script(&world, "go", vec![write("a.txt", "x")]);
        let turn = world.api.say("c", "go").await;
        assert_eq!((turn.text(), turn.call_states()), ("done", vec!["blocked"]));
        let results = result_texts(&world.model.last_request());
        assert!(results[0].starts_with(text::BLOCKED_PREFIX), "{results:?}");
        assert!(results[0].contains(why), "{results:?}");
        assert!(!world.work("a.txt").exists());
        world.finish().await;
    }
}

/// The `Authorization` header and the question of each request.
type Asked = Arc<Mutex<Vec<(String, Value)>>>;

/// A hook's server: keeps what it is asked, answers as told.
struct Hook {
    url: String,
    asked: Asked,
    server: tokio::task::JoinHandle<()>,
}

impl Drop for Hook {
    fn drop(&mut self) {
        self.server.abort();
    }
}

type Answer = fn(&Value) -> Value;

impl Hook {
    async fn start(answer: Answer) -> Self {
        let asked = Asked::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let app = Router::new().route("/hook", post(take)).with_state((answer, Arc::clone(&asked)));
        let server = tokio::spawn(async move {
            let _ = axum::serve(listener, app).await;
        });
        Self { url, asked, server }
    }

    fn asked(&self) -> Vec<Value> {
        self.asked.lock().iter().map(|(_, question)| question.clone()).collect()
    }
}

type Shared = (Answer, Asked);

async fn take(
    State((answer, asked)): State<Shared>,
    headers: HeaderMap,
    body: String,
) -> (StatusCode, String) {
    let token = headers.get("authorization").and_then(|value| value.to_str().ok());
    let question: Value = serde_json::from_str(&body).unwrap();
    let said = answer(&question);
    asked.lock().push((token.unwrap_or_default().to_owned(), question));
    match said {
        Value::Null => (StatusCode::INTERNAL_SERVER_ERROR, String::new()),
        said => (StatusCode::OK, said.to_string()),
    }
}

// V-A13, I12
#[tokio::test]
async fn a_hook_over_http_edits_a_request_and_then_cancels_the_next() {
    let hook = Hook::start(|question| {
        let mut messages = question["messages"].clone();
        if messages.as_array().unwrap().iter().any(|message| message["role"] == "tool") {
            return json!({ "action": "cancel", "reason": "one call is enough" });
        }
        messages[0]["text"] = json!("You are brief.");
        json!({ "action": "edit", "messages": messages })
    })
    .await;
    let lines = "event = \"before_model_call\"\ntoken = \"the-hooks-own-token\"";
    let config = hooked(&format!("{lines}\nurl = \"{}\"", hook.url));
    let world = World::start(program!(), config).await;
    world.model.script("go", [Reply::calls([Call::shell("echo once")])]);
    let turn = world.api.say("c", "go, my password=hunter2-hunter2").await;
    assert_eq!((turn.result(), turn.fault()), ("failed", "hook_cancelled"));
    let message = turn.error.unwrap().message;
    assert!(message.contains("`rules`") && message.contains("one call is enough"), "{message}");
    let requests = world.model.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0]["messages"][0]["content"], "You are brief.");
    let asked = hook.asked.lock().clone();
    assert_eq!(asked.len(), 2);
    assert!(asked.iter().all(|(token, _)| token == "Bearer the-hooks-own-token"));
    let shown = asked[0].1.to_string();
    assert!(!shown.contains("hunter2-hunter2"), "{shown}");
    assert!(requests[0].to_string().contains("hunter2-hunter2"), "what it left alone is as it was");
    let log = world.service.log();
    assert!(!log.contains("the-hooks-own-token"));
    world.finish().await;
}

// T19, T25
#[tokio::test]
async fn a_hook_after_calls_sees_those_that_ran_without_their_secrets_and_its_failure_costs_nothing()
 {
    let hook = Hook::start(|_| Value::Null).await;
    let config = hooked(&format!("event = \"after_tool_call\"\nurl = \"{}\"", hook.url));
    let world = World::start(program!(), config.risk("excluded_tools = [\"time\"]")).await;
    let calls = vec![
        Call::shell("echo --password=hunter2-hunter2"),
        Call::new("time", json!({})),
        Call::shell("exit 3"),
    ];
    script(&world, "go", calls);
    let id = world.api.tell("c", "go").await;
    let turn = world.api.ended(&id).await;
    assert_eq!((turn.text(), turn.call_states()), ("done", vec!["succeeded", "blocked", "failed"]));
    let mut asked = hook.asked();
    asked.sort_by_key(|question| question["call"]["arguments"].to_string().len());
    let states: Vec<&Value> = asked.iter().map(|question| &question["call"]["state"]).collect();
    assert_eq!(states, ["failed", "succeeded"]);
    assert_eq!(asked[0]["call"]["arguments"], json!({ "command": "exit 3" }));
    assert_eq!((&asked[0]["event"], &asked[0]["turn"]), (&json!("after_tool_call"), &json!(id)));
    assert!(!json!(asked).to_string().contains("hunter2-hunter2"), "{asked:?}");
    world.finish().await;
}

// T8
#[tokio::test]
async fn arguments_that_do_not_fit_are_refused_by_field_and_the_turn_goes_on() {
    let world = World::start(program!(), Config::new()).await;
    let calls = vec![
        Call::new("file_write", json!({ "path": "a.txt" })),
        Call::new("file_write", json!({ "path": 5, "content": "x" })),
        Call::new("shell", json!({ "command": "echo ok", "approved": true })),
    ];
    script(&world, "go", calls);
    let turn = world.api.say("c", "go").await;
    assert_eq!(turn.call_states(), ["failed", "failed", "succeeded"]);
    let results = result_texts(&world.model.last_request());
    for (result, field) in results.iter().zip(["`content`", "`path`"]) {
        assert!(result.starts_with(text::INVALID_ARGUMENTS_PREFIX), "{results:?}");
        assert!(result.contains(field), "{results:?}");
    }
    world.finish().await;
}

/// What the model does after a note to it: the note is the last user message then.
const NOTED: &str = "Note: ";

fn same() -> Reply {
    Reply::calls([Call::shell("echo same")])
}

// T21, V-J14, V-J20, V-J21, V-J22, A117
#[tokio::test]
async fn a_turn_that_asks_the_same_for_ever_is_told_held_up_and_ended_with_its_rounds_kept() {
    let world = World::start(program!(), Config::new()).await;
    world.model.rule("go", |_| same());
    world.model.rule(NOTED, |_| same());
    let turn = world.api.say("c", "go").await;
    assert_eq!((turn.result(), turn.fault()), ("failed", "loop_detected"));
    let states = ["succeeded", "succeeded", "succeeded", "succeeded", "blocked"];
    assert_eq!(turn.call_states(), states);
    assert_eq!(world.model.count(), 5);
    let metrics = world.api.metrics().await;
    for verdict in ["warn", "block", "break"] {
        let labels = ["pattern=\"repeat\"", &format!("verdict=\"{verdict}\"")];
        assert_eq!(metrics.sum("rookery_loop_verdicts_total", &labels), 1.0, "{verdict}");
    }
    world.model.script("and now", [Reply::text("sorry")]);
    assert_eq!(world.api.say("c", "and now").await.text(), "sorry");
    let results = paired_results(&world.model.last_request());
    assert_eq!(results.len(), 5, "the rounds are in the history");
    assert!(results[4].1.starts_with(text::LOOP_REFUSED_PREFIX), "{results:?}");
    world.finish().await;
}

// A116, V-J18, V-J19
#[tokio::test]
async fn a_poll_that_changes_and_a_provider_that_fails_are_no_circle() {
    let config = Config::new().runtime("max_tool_iterations = 20");
    let world = World::start(program!(), config).await;
    let poll = || Reply::calls([Call::shell("echo line >> log; cat log")]);
    let mut replies = Vec::new();
    for _ in 0..8 {
        replies.extend([Reply::error(503, "busy"), poll()]);
    }
    replies.push(Reply::text("done"));
    world.model.script("go", replies);
    let turn = world.api.say("c", "go").await;
    assert_eq!((turn.text(), turn.call_states()), ("done", vec!["succeeded"; 8]));
    world.finish().await;

    let off = Config::new().extra("[runtime_profiles.default.loop_detection]\nenabled = false");
    let world = World::start(program!(), off).await;
    let replies = (0..6).map(|_| same()).chain([Reply::text("done")]);
    world.model.script("go", replies.collect::<Vec<_>>());
    assert_eq!(world.api.say("c", "go").await.text(), "done");
    world.finish().await;
}

// T21, V-J22
#[tokio::test]
async fn a_kill_does_not_make_the_service_forget_how_far_round_a_turn_was() {
    let mut world = World::start(program!(), Config::new()).await;
    let gate = Gate::new();
    world.model.script("go", [same(), same(), same()]);
    let cut = Reply::stream().gate(&gate).complete("stop");
    world.model.script(NOTED, [cut, same(), same()]);
    let id = world.api.tell("c", "go").await;
    gate.reached().await;
    world.crash().await;
    let turn = world.api.ended(&id).await;
    assert_eq!((turn.result(), turn.fault(), turn.attempts), ("failed", "loop_detected", 2));
    let states = ["succeeded", "succeeded", "succeeded", "succeeded", "blocked"];
    assert_eq!(turn.call_states(), states);
    gate.open();
    world.finish().await;
}

// T12, V-G13, V-G14, A118
#[tokio::test]
async fn a_command_that_was_refused_is_not_asked_about_again() {
    let config = Config::new().level("supervised").agent("approval_route = \"admin\"");
    let world = World::start(program!(), config).await;
    let twice = Reply::calls([Call::shell("touch a"), Call::shell("touch a")]);
    world.model.script("go", [twice, Reply::calls([Call::shell("touch a")])]);
    let id = world.api.tell("c", "go").await;
    let approval = world.api.approval_of(&id).await;
    assert_eq!(world.api.approvals().await.len(), 1, "one question for both");
    assert_eq!(world.api.decide(&approval, &json!({ "decision": "deny" })).await.status, 200);
    let turn = world.api.ended(&id).await;
    assert_eq!((turn.result(), turn.fault()), ("failed", "repeated_request"));
    assert_eq!(turn.call_states(), ["denied", "duplicate", "denied"]);
    assert_eq!(world.api.approvals().await.len(), 1, "no second question");
    assert!(!world.work("a").exists());
    world.finish().await;
}
