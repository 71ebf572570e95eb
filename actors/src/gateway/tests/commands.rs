//! Commands that come as messages, over a webhook and a socket.

use reqwest::StatusCode;
use rookery_messages::event::TurnEventKind;
use rookery_messages::exit::{ExitReason, StopReason};
use rookery_messages::session::RouterMsg;
use serde_json::{Value, json};

use super::rig::*;

const HOOK: &str = "/v1/channels/webhook/ci";

fn says(conversation: &str, id: &str, text: &str) -> Value {
    json!({ "id": id, "sender": "ann", "conversation": conversation, "text": text })
}

impl Rig {
    async fn command(&self, id: &str, text: &str) -> Value {
        let (status, body) = self.post(HOOK, &says("c", id, text)).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        assert_eq!(body["outcome"], "answered", "{body}");
        body
    }
}

fn reply(body: &Value) -> &str {
    body["reply"].as_str().unwrap()
}

// R19, V-N7: the stop cell is set, the record is marked; the turn writes its own end
#[tokio::test]
async fn stop_stops_the_turn_that_runs_and_drops_what_waits_if_asked_to() {
    let rig = Rig::new().await;
    assert_eq!(reply(&rig.command("s0", "/stop").await), "nothing runs here");
    let (_, first) = rig.say("c", "1").await;
    let conversation = rig.conversation_of(&first["turn"]).await;
    let claim = rig.base.claim(conversation).await;
    let turn = rig.fake_turn(&first["turn"]).await;
    let (_, second) = rig.say("c", "2").await;
    let stopped = rig.command("s1", "/stop").await;
    assert_eq!(reply(&stopped), "stopped; 1 message waits still: /stop all drops what waits");
    while turn.handle.exit().is_none() {
        tokio::task::yield_now().await;
    }
    assert_eq!(turn.handle.exit(), Some(ExitReason::Stopped { reason: StopReason::User }));
    let (_, record) = rig.get(&format!("/v1/turns/{}", claim.record.id)).await;
    assert_eq!(record["state"], "running", "the end is the turn's own to write");
    let dropped = rig.command("s2", "/stop all").await;
    assert_eq!(reply(&dropped), "stopped; 1 message will not begin");
    let (_, record) = rig.get(&format!("/v1/turns/{}", second["turn"].as_str().unwrap())).await;
    assert_eq!(record["outcome"], "cancelled");
    rig.end().await;
}

// R3: a redelivered stop does not stop the turn after
#[tokio::test]
async fn a_command_that_comes_again_does_nothing_again() {
    let rig = Rig::new().await;
    let first = rig.command("s1", "/stop").await;
    let (_, message) = rig.say("c", "1").await;
    let conversation = rig.conversation_of(&message["turn"]).await;
    rig.base.claim(conversation).await;
    let turn = rig.fake_turn(&message["turn"]).await;
    let again = rig.command("s1", "/stop").await;
    assert_eq!((&again["duplicate"], &again["turn"]), (&json!(true), &first["turn"]));
    assert_eq!(again["reply"], first["reply"]);
    let (_, record) = rig.get(&format!("/v1/turns/{}", message["turn"].as_str().unwrap())).await;
    assert_eq!(record["state"], "running");
    turn.address.stop(StopReason::Shutdown);
    rig.end().await;
}

// A088: and nothing of them is a turn's to run
#[tokio::test]
async fn commands_never_reach_a_session() {
    let mut rig = Rig::new().await;
    for (n, text) in ["/help", "/dance", "/approve", "/new", "/status", "/model"].iter().enumerate()
    {
        let body = rig.command(&n.to_string(), text).await;
        assert!(!reply(&body).is_empty(), "{text}");
    }
    assert!(rig.base.routed.try_recv().is_err(), "the router heard of one");
    let ledger = rig.base.store.ledger().await.unwrap();
    assert_eq!((ledger.answered, ledger.open), (6, 0));
    // A path at the beginning makes no command of a message.
    let (status, _) = rig.post(HOOK, &says("c", "7", "/etc/hosts says what?")).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    assert!(matches!(rig.base.routed.recv().await, Some(RouterMsg::Hint { .. })));
    rig.end().await;
}

// T3
#[tokio::test]
async fn a_model_is_chosen_for_the_conversation_and_an_unknown_one_is_named() {
    let rig = Rig::new().await;
    let body = rig.command("1", "/model tiny").await;
    assert_eq!(reply(&body), "there is no model `tiny` for this agent; there is: main, other");
    // By the profile's name, or what the provider calls it.
    let body = rig.command("2", "/model small-2").await;
    assert!(reply(&body).starts_with("other (small-2) answers"), "{body}");
    assert!(reply(&rig.command("3", "/model").await).contains("- other (small-2) (answers here)"));
    assert!(reply(&rig.command("4", "/status").await).contains("model: other (small-2)"));
    let (_, message) = rig.say("c", "5").await;
    let conversation = rig.conversation_of(&message["turn"]).await;
    assert_eq!(rig.base.claim(conversation).await.model.as_deref(), Some("other"));
    rig.command("6", "/model reset").await;
    assert!(reply(&rig.command("7", "/model").await).contains("- main (large-1) (answers here)"));
    rig.end().await;
}

// A076: commands pass the same gate
#[tokio::test]
async fn whoever_is_not_allowed_gets_no_answer_to_a_command() {
    let rig = Rig::new().await;
    let stranger = json!({ "id": "1", "sender": "eve", "conversation": "c", "text": "/help" });
    let (status, body) = rig.post("/v1/channels/webhook/few", &stranger).await;
    assert_eq!((status, &body["error"]["code"]), (StatusCode::FORBIDDEN, &json!("not_allowed")));
    assert_eq!(rig.base.store.ledger().await.unwrap().accepted, 0);
    rig.end().await;
}

#[tokio::test]
async fn over_a_socket_the_answer_is_the_end_of_the_commands_own_envelope() {
    let mut rig = Rig::new().await;
    let mut socket = rig.socket("conversation=c").await;
    socket.send(json!({ "type": "message", "id": "m1", "text": "/help" })).await;
    let accepted = socket.next().await;
    assert_eq!((&accepted["type"], &accepted["id"]), (&json!("accepted"), &json!("m1")));
    let ended = socket.next().await;
    assert_eq!((&ended["type"], &ended["outcome"]), (&json!("ended"), &json!("answered")));
    assert!(ended["reply"].as_str().unwrap().contains("/stop"));
    assert!(rig.base.routed.try_recv().is_err());
    // Afterwards the conversation goes on as ever.
    let turn = socket.say("m2", "hi").await;
    let conversation = rig.conversation_of(&turn).await;
    let claim = rig.base.claim(conversation).await;
    rig.base.hub.publish(
        conversation,
        claim.record.id,
        TurnEventKind::Notice { text: "on".to_owned() },
    );
    assert_eq!(socket.next().await["text"], "on");
    rig.end().await;
}

// A012: what a message says makes it no duplicate, only the platform's id does
#[tokio::test]
async fn the_same_words_under_another_id_are_another_message() {
    let rig = Rig::new().await;
    let mut turns = Vec::new();
    for id in ["10", "11", "10"] {
        let (_, body) = rig.post(HOOK, &says("c", id, "ok")).await;
        turns.push((body["turn"].clone(), body["duplicate"] == true));
    }
    assert_ne!(turns[0].0, turns[1].0);
    assert_eq!(turns[0].0, turns[2].0);
    let duplicates: Vec<bool> = turns.iter().map(|(_, duplicate)| *duplicate).collect();
    assert_eq!(duplicates, [false, false, true]);
    rig.end().await;
}
