//! `ask_user`: a question to the turn's person, and its answer.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails at the place of the fault"
)]

use rookery_messages::tool::text;
use rookery_tests::model::result_texts;
use rookery_tests::ws::Ws;
use rookery_tests::{Call, Config, Reply, World, program};
use serde_json::{Value, json};

fn ask(arguments: Value) -> Reply {
    Reply::calls([Call::new("ask_user", arguments)])
}

fn last_result(world: &World) -> String {
    result_texts(&world.model.last_request()).pop().unwrap()
}

/// Says `words` and gives the question that is put.
async fn asked(ws: &mut Ws, id: &str, words: &str) -> Value {
    ws.say(id, words).await;
    ws.until("approval").await.pop().unwrap()
}

// V-G9
#[tokio::test]
async fn a_question_is_put_where_the_message_came_from_and_the_answer_is_the_result() {
    let world = World::start(program!(), Config::new()).await;
    let mut ws = world.api.ws("c").await;
    let question = json!({"question": "Which one?", "choices": ["red", "blue"]});
    world.model.script("choose", [ask(question.clone()), Reply::text("blue it is")]);
    let shown = asked(&mut ws, "m1", "choose").await;
    assert_eq!((&shown["tool"], &shown["arguments"]), (&json!("ask_user"), &question));
    let turn = shown["turn"].as_str().unwrap();
    assert_eq!(world.api.turn(turn).await.state, "waiting_approval");
    let answer = json!({
        "type": "approval", "id": shown["id"], "decision": "replace", "replacement": "blue"
    });
    ws.send(&answer).await;
    let ended = ws.until("ended").await.pop().unwrap();
    assert_eq!(ended["reply"], "blue it is");
    assert_eq!(last_result(&world), "blue");
    assert_eq!(world.api.turn(turn).await.call_states(), ["succeeded"]);
    world.model.script("once more", [ask(json!({"question": "Sure?"})), Reply::text("fine")]);
    let shown = asked(&mut ws, "m2", "once more").await;
    ws.send(&json!({"type": "approval", "id": shown["id"], "decision": "deny"})).await;
    ws.until("ended").await;
    assert_eq!(last_result(&world), text::QUESTION_DECLINED);
    world.finish().await;
}

#[tokio::test]
async fn without_an_answer_in_time_the_result_says_that_nobody_answered() {
    let world = World::start(program!(), Config::new()).await;
    let mut ws = world.api.ws("c").await;
    let question = json!({"question": "Anybody?", "timeout_secs": 1});
    world.model.script("wait a second", [ask(question), Reply::text("alone")]);
    ws.say("m1", "wait a second").await;
    let ended = ws.until("ended").await.pop().unwrap();
    assert_eq!(
        (&ended["reply"], last_result(&world).as_str()),
        (&json!("alone"), text::QUESTION_NO_ANSWER)
    );
    world.finish().await;
}

// V-G9
#[tokio::test]
async fn where_nobody_can_be_asked_the_call_fails_at_once_and_another_agents_channel_is_refused() {
    let world = World::start(program!(), Config::new()).await;
    let calls = [
        Call::new("ask_user", json!({"question": "Anybody?"})),
        Call::new("ask_user", json!({"question": "You?", "channel": "webhook.other"})),
    ];
    world.model.script("try", [Reply::calls(calls), Reply::text("alone")]);
    let turn = world.api.say("c", "try").await;
    assert_eq!(turn.call_states(), ["failed", "blocked"]);
    let texts = result_texts(&world.model.last_request());
    assert!(texts[0].contains(text::QUESTION_NOBODY), "{texts:?}");
    assert!(texts[1].contains("`channel`"), "{texts:?}");
    assert!(world.api.approvals().await.is_empty());
    world.finish().await;
}

// V-G9
#[tokio::test]
async fn a_question_for_another_of_the_agents_channels_is_put_and_answered_there() {
    let config = Config::new().extra("[channels.ws]\napprovers = [\"admin\"]");
    let world = World::start(program!(), config).await;
    let mut ws = world.api.ws("elsewhere").await;
    let question = json!({"question": "Go on?", "channel": "ws"});
    world.model.script("ask there", [ask(question), Reply::text("going on")]);
    let id = world.api.tell("c", "ask there").await;
    let shown = ws.until("approval").await.pop().unwrap();
    assert_eq!((&shown["turn"], &shown["route"]["channel"]), (&json!(id), &json!("ws")));
    let answer = json!({
        "type": "approval", "id": shown["id"], "decision": "replace", "replacement": "please do"
    });
    ws.send(&answer).await;
    assert_eq!(world.api.ended(&id).await.text(), "going on");
    assert_eq!(last_result(&world), "please do");
    world.finish().await;
}

#[tokio::test]
async fn a_cancel_withdraws_the_question() {
    let world = World::start(program!(), Config::new()).await;
    let mut ws = world.api.ws("c").await;
    world.model.script("never mind", [ask(json!({"question": "Well?"}))]);
    let shown = asked(&mut ws, "m1", "never mind").await;
    world.api.cancel(shown["turn"].as_str().unwrap()).await;
    let ended = ws.until("ended").await.pop().unwrap();
    assert_eq!(ended["outcome"], "cancelled");
    assert_eq!(world.api.approvals().await[0]["state"], "cancelled");
    let late = json!({"decision": "replace", "replacement": "too late"});
    assert_eq!(world.api.decide(&shown, &late).await.status, 409);
    world.finish().await;
}

#[tokio::test]
async fn a_question_survives_a_restart_and_a_crash() {
    let mut world = World::start(program!(), Config::new()).await;
    let mut ws = world.api.ws("c").await;
    world.model.script("patience", [ask(json!({"question": "Well?"})), Reply::text("thanks")]);
    let shown = asked(&mut ws, "m1", "patience").await;
    let turn = shown["turn"].as_str().unwrap().to_owned();
    ws.close().await;
    world.stop().await;
    world.service.restart().await;
    let pending = world.api.approval_of(&turn).await;
    assert_eq!(pending["id"], shown["id"]);
    world.crash().await;
    let pending = world.api.approval_of(&turn).await;
    assert_eq!(pending["id"], shown["id"]);
    let answer = json!({"decision": "replace", "replacement": "it was worth it"});
    assert_eq!(world.api.decide(&pending, &answer).await.status, 200);
    let ended = world.api.ended(&turn).await;
    assert_eq!((ended.text(), last_result(&world).as_str()), ("thanks", "it was worth it"));
    world.finish().await;
}
