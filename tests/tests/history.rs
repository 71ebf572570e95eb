//! What the provider is sent of a conversation's past, and what stays on record.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails at the place of the fault"
)]

use rookery_messages::tool::text;
use rookery_tests::model::{paired_results, result_texts};
use rookery_tests::sse::kinds;
use rookery_tests::{Call, Config, Reply, World, program, wire};
use serde_json::{Value, json};

fn messages(body: &Value) -> &[Value] {
    body["messages"].as_array().unwrap()
}

fn whole(body: &Value) -> String {
    messages(body).iter().filter_map(wire::text).collect::<Vec<_>>().join("\n")
}

fn breadcrumbs(body: &Value) -> usize {
    messages(body).iter().filter(|m| wire::text(m) == Some(text::BREADCRUMB)).count()
}

/// A message of about a thousand tokens that begins with its name.
fn long(name: &str) -> String {
    format!("{name} {}", "lorem ipsum dolor sit ".repeat(180))
}

/// Each turn calls one tool.
fn one_tool_a_turn(body: &Value) -> Reply {
    match result_texts(body).len() {
        0 => Reply::calls([Call::new("time", json!({}))]),
        _ => Reply::text("noted"),
    }
}

// V-C1
#[tokio::test]
async fn a_conversation_within_its_window_or_without_one_is_sent_whole() {
    for window in ["100000", "0"] {
        let config = Config::new().runtime(&format!("max_context_tokens = {window}"));
        let world = World::start(program!(), config).await;
        for name in ["alpha", "beta", "gamma"] {
            world.api.say("c", &long(name)).await;
        }
        let request = world.model.last_request();
        let sent = whole(&request);
        assert!(["alpha", "beta", "gamma"].iter().all(|name| sent.contains(name)), "{window}");
        assert_eq!(breadcrumbs(&request), 0);
        world.finish().await;
    }
}

// V-C2, V-C4, V-C5, A113
#[tokio::test]
async fn over_the_window_the_oldest_whole_turns_go_and_one_breadcrumb_says_so() {
    let world = World::start(program!(), Config::new().runtime("max_context_tokens = 5000")).await;
    world.model.rule("", one_tool_a_turn);
    let names = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"];
    for name in names {
        assert_eq!(world.api.say("c", &long(name)).await.text(), "noted");
        let request = world.model.last_request();
        assert!(breadcrumbs(&request) <= 1, "{request}");
        assert!(whole(&request).contains(name), "the newest turn is kept");
    }
    let request = world.model.last_request();
    assert_eq!(messages(&request)[0]["role"], "system");
    assert_eq!(wire::text(&messages(&request)[1]), Some(text::BREADCRUMB), "{request}");
    assert_eq!(messages(&request)[2]["role"], "user", "a kept turn begins with its message");
    assert!(!whole(&request).contains("alpha"), "the oldest turn is gone");
    // The record keeps all of it.
    let kept = world.api.transcript("c").await;
    assert!(names.iter().all(|name| kept.iter().any(|m| m.starts_with(&format!("user: {name}")))));
    world.finish().await;
}

// V-C3
#[tokio::test]
async fn a_single_turn_over_the_window_is_kept_and_its_oldest_results_are_shortened() {
    let world = World::start(program!(), Config::new().runtime("max_context_tokens = 4000")).await;
    world.put("first.txt", &"first line of the first file\n".repeat(700));
    world.put("second.txt", &"line of the second file\n".repeat(100));
    world.model.script(
        "compare",
        [
            Reply::calls([Call::new("file_read", json!({"path": "first.txt"}))]),
            Reply::calls([Call::new("file_read", json!({"path": "second.txt"}))]),
            Reply::text("compared"),
        ],
    );
    assert_eq!(world.api.say("c", "compare these files").await.text(), "compared");
    let requests = world.model.requests();
    let request = requests.last().unwrap();
    let results = result_texts(request);
    assert_eq!(results.len(), 2);
    assert!(results[0].len() < 15_000, "the oldest result was not shortened: {}", results[0].len());
    assert!(results[1].contains("line of the second file"));
    assert_eq!(breadcrumbs(request), 0, "no whole turn was left out");
    world.finish().await;
}

fn too_long() -> Reply {
    let why =
        "This model's maximum context length is 8192 tokens, however you requested 9042 tokens";
    Reply::error(400, why)
}

// V-C7, A051
#[tokio::test]
async fn a_request_the_provider_finds_too_long_is_sent_again_without_the_oldest_turns() {
    let world = World::start(program!(), Config::new()).await;
    let mut ws = world.api.ws("c").await;
    for name in ["alpha", "beta", "gamma"] {
        ws.say(name, &long(name)).await;
        ws.until("ended").await;
    }
    world.model.script("delta", [too_long(), too_long(), Reply::text("it fits")]);
    ws.say("delta", "delta").await;
    let told = ws.until("ended").await;
    assert_eq!(told.last().unwrap()["reply"], "it fits");
    let notices = told.iter().filter(|event| event["type"] == "notice");
    assert_eq!(notices.filter(|event| event["text"] == text::TRIMMED_NOTICE).count(), 2);
    let requests = world.model.requests_for("delta");
    let sizes: Vec<usize> = requests.iter().map(|request| whole(request).len()).collect();
    assert!(sizes.len() == 3 && sizes[0] > sizes[1] && sizes[1] > sizes[2], "{sizes:?}");
    assert_eq!(requests.iter().map(breadcrumbs).collect::<Vec<_>>(), [0, 1, 1]);
    let kept = world.api.messages("ws", "c").await;
    assert_eq!(kept.len(), 8, "the record is whole");
    ws.close().await;
    world.finish().await;
}

// V-L8
#[tokio::test]
async fn after_an_overflow_the_oldest_turns_go_with_their_calls_and_results_and_nothing_else_changes()
 {
    let world = World::start(program!(), Config::new()).await;
    world.model.rule("", one_tool_a_turn);
    for name in ["alpha", "beta", "gamma"] {
        world.api.say("c", &long(name)).await;
    }
    world.model.script("delta", [too_long(), Reply::text("it fits")]);
    assert_eq!(world.api.say("c", "delta").await.text(), "it fits");
    let requests = world.model.requests_for("delta");
    let [first, second] = &requests[..] else { panic!("{} requests", requests.len()) };
    let (first, second) = (messages(first), messages(second));
    assert_eq!(second[0], first[0]);
    assert_eq!(wire::text(&second[1]), Some(text::BREADCRUMB));
    let kept = &second[2..];
    assert!(kept.len() > 4 && kept.len() < first.len() - 1, "{kept:?}");
    assert_eq!(kept, &first[first.len() - kept.len()..]);
    assert_eq!(kept[0]["role"], "user", "whole turns");
    world.model.assert_well_formed();
    world.finish().await;
}

// V-C8, V-L8, A049
#[tokio::test]
async fn a_single_message_that_is_too_long_fails_once_with_the_sizes_and_the_next_starts_clean() {
    let world = World::start(program!(), Config::new()).await;
    world.model.script("alpha", [too_long()]);
    let turn = world.api.say("c", &long("alpha")).await;
    assert_eq!((turn.result(), turn.fault()), ("failed", "provider_context_too_long"));
    let message = &turn.error.as_ref().unwrap().message;
    assert!(message.contains("nothing more can be left out"), "{message}");
    assert_eq!(world.model.count(), 1);
    assert_eq!(world.api.say("c", "beta").await.result(), "answered");
    world.finish().await;
}

// V-C9
#[tokio::test]
async fn an_unrelated_provider_error_starts_no_recovery() {
    let world = World::start(program!(), Config::new()).await;
    world.model.script("go", [Reply::error(400, "the parameter `stream` is not known")]);
    let mut ws = world.api.ws("c").await;
    ws.say("1", "go").await;
    let events = ws.until("ended").await;
    assert_eq!(kinds(&events), ["accepted", "ended"], "nothing else is said");
    let turn = world.api.turn(events[0]["turn"].as_str().unwrap()).await;
    assert_eq!((turn.result(), turn.fault()), ("failed", "provider_invalid_request"));
    assert_eq!(world.model.count(), 1);
    ws.close().await;
    world.finish().await;
}

// V-C14
#[tokio::test]
async fn a_turn_whose_requests_were_trimmed_stands_whole_in_the_record() {
    let config =
        Config::new().runtime("max_context_tokens = 4000").runtime("max_tool_iterations = 10");
    let world = World::start(program!(), config).await;
    world.put("page.txt", &"a line of the page\n".repeat(300));
    world.model.rule("read on", |body| match result_texts(body).len() {
        step @ 0..6 => {
            Reply::calls([Call::new("file_read", json!({"path": "page.txt", "offset": step + 1}))])
        }
        _ => Reply::text("the end"),
    });
    let turn = world.api.say("c", "read on").await;
    assert_eq!((turn.text(), turn.calls.len()), ("the end", 6));
    let sent = result_texts(&world.model.last_request());
    assert!(sent[0].len() < 1_000 && sent.len() == 6, "the last request was not trimmed");
    let kept = world.api.messages("webhook.ci", "c").await;
    let results: Vec<_> = kept.iter().filter(|m| m["role"] == "tool").collect();
    assert_eq!(results.len(), 6, "{kept:#?}");
    assert!(results.iter().all(|m| m["content"].as_str().unwrap().len() > 3_000));
    world.finish().await;
}

// V-C15
#[tokio::test]
async fn a_tool_round_stays_in_the_history_when_the_provider_fails_after_it() {
    let world = World::start(program!(), Config::new()).await;
    let call = Call::shell("echo counted");
    let id = call.wire_id();
    world.model.script("go", [Reply::calls([call]), Reply::error(400, "no")]);
    assert_eq!(world.api.say("c", "go").await.result(), "failed");
    world.api.say("c", "what was it").await;
    let request = world.model.last_request();
    let results = paired_results(&request);
    assert_eq!(results.len(), 1, "{request}");
    assert_eq!(results[0].0, id);
    assert!(results[0].1.contains("counted"));
    world.finish().await;
}

#[tokio::test]
async fn a_system_prompt_of_the_agent_is_part_of_the_one_leading_system_message() {
    let config = Config::new().agent("system_prompt = \"Speak like a rook.\"");
    let world = World::start(program!(), config).await;
    world.api.say("c", "one").await;
    world.api.say("c", "two").await;
    for request in world.model.requests() {
        let system: Vec<_> = messages(&request).iter().filter(|m| m["role"] == "system").collect();
        assert_eq!(system.len(), 1);
        assert!(wire::text(system[0]).unwrap().contains("Speak like a rook."));
    }
    world.finish().await;
}
