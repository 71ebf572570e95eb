use reqwest::StatusCode;
use rookery_messages::event::TurnEventKind;
use rookery_messages::exit::{ExitReason, StopReason};
use rookery_messages::session::{Arrival, RouterMsg};
use rookery_messages::settings::AuthRole;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::rig::*;

fn delta(text: impl Into<String>) -> TurnEventKind {
    TurnEventKind::Delta { text: text.into() }
}

#[tokio::test]
async fn a_message_over_a_socket_becomes_a_turn_whose_events_come_back_in_order() {
    let mut rig = Rig::new().await;
    let mut socket = rig.socket("conversation=c&channel=cli").await;
    let turn = socket.say("m1", "hi").await;
    assert!(matches!(rig.base.routed.recv().await, Some(RouterMsg::Hint { .. })));
    let conversation = rig.conversation_of(&turn).await;
    let claim = rig.base.claim(conversation).await;
    let record = &claim.record;
    assert_eq!((record.channel.as_str(), record.conversation.as_str()), ("cli", "c"));
    assert_eq!((claim.sender.as_str(), record.origin.as_str()), ("local", "interactive"));
    for text in ["a", "b"] {
        rig.base.hub.publish(conversation, record.id, delta(text));
    }
    socket.send(json!({ "type": "steer", "text": "left" })).await;
    // It is a row of its own until a turn takes it in: whoever said it is answered in any case.
    let steer = rig.base.routed.recv().await.unwrap();
    let RouterMsg::Hint { conversation: c, arrival: Arrival::Steers(steering) } = steer else {
        panic!("{steer:?}")
    };
    assert_eq!((c, steering.inbound.text.as_str()), (conversation, "left"));
    let mut frames = vec![socket.next().await, socket.next().await];
    let accepted = socket.next().await;
    assert_eq!(accepted["type"], "accepted");
    assert_eq!(accepted["turn"], json!(steering.turn));
    rig.base.answer(&claim, "ab").await;
    frames.push(socket.next().await);
    let seq = frames[0]["seq"].as_u64().unwrap();
    let usage = json!({ "input": 0, "output": 0 });
    assert_eq!(
        frames,
        [
            json!({ "seq": seq, "turn": turn, "type": "delta", "text": "a" }),
            json!({ "seq": seq + 1, "turn": turn, "type": "delta", "text": "b" }),
            json!({ "seq": seq + 3, "turn": turn, "type": "ended", "outcome": "answered", "reply": "ab", "usage": usage }),
        ]
    );
    // Sent again it is the same message, and only its sender hears of it.
    socket.send(json!({ "type": "message", "id": "m1", "text": "hi" })).await;
    let again = socket.next().await;
    assert_eq!(
        (&again["type"], &again["duplicate"], &again["turn"]),
        (&json!("accepted"), &json!(true), &turn)
    );
    assert_eq!(socket.next().await["reply"], "ab");
    // The same id in another conversation is another message.
    let mut other = rig.socket("conversation=d&channel=cli").await;
    assert_ne!(other.say("m1", "hi").await, turn);
    rig.end().await;
}

#[tokio::test]
async fn what_cannot_be_used_is_answered_by_name_and_the_socket_goes_on() {
    let rig = Rig::new().await;
    let mut socket = rig.socket("").await;
    let unknown = "0190a000-0000-7000-8000-000000000000";
    let cases: [(Value, &str); 9] = [
        (json!({ "type": "dance" }), "invalid_field"),
        (json!({ "type": "message", "id": "1" }), "invalid_field"),
        (json!({ "type": "message", "id": "1", "text": "t", "x": 1 }), "invalid_field"),
        // V-A1
        (json!({ "type": "message", "id": "1", "text": " " }), "blank"),
        (json!({ "type": "message", "id": "1", "text": "a\u{0}b" }), "nul_character"),
        (json!({ "type": "message", "id": "x".repeat(300), "text": "t" }), "too_long"),
        (json!({ "type": "steer", "text": "left" }), "no_turn"),
        (json!({ "type": "cancel", "turn": unknown }), "not_found"),
        (json!({ "type": "resume", "seq": 7 }), "nothing_to_resume"),
    ];
    for (frame, code) in cases {
        socket.send(frame.clone()).await;
        let error = socket.next().await;
        assert_eq!(
            (&error["type"], &error["code"]),
            (&json!("error"), &json!(code)),
            "{frame}: {error}"
        );
    }
    socket.raw(Message::text("{")).await;
    assert_eq!(socket.next().await["code"], "invalid_json");
    socket.raw(Message::binary(vec![1, 2, 3])).await;
    assert_eq!(socket.next().await["code"], "not_text");
    socket.say("1", "still here").await;
    // Too large ends it: the rest of the stream can't be trusted.
    let large = json!({ "type": "message", "id": "2", "text": "x".repeat(20_000) });
    socket.raw(Message::text(large.to_string())).await;
    let Message::Close(Some(close)) = socket.message().await else { panic!("a close") };
    assert_eq!(close.code, CloseCode::Size);
    assert_eq!(rig.base.store.ledger().await.unwrap().accepted, 1);
    rig.end().await;
}

#[tokio::test]
async fn everybody_in_a_conversation_hears_its_first_message_also_who_came_before_it() {
    let rig = Rig::new().await;
    let mut early = rig.socket("conversation=c").await;
    let mut elsewhere = rig.socket("conversation=d").await;
    let mut speaker = rig.socket("conversation=c").await;
    let turn = speaker.say("1", "hi").await;
    assert_eq!(early.next_of("accepted").await["turn"], turn);
    let claim = rig.base.claim(rig.conversation_of(&turn).await).await;
    rig.base.answer(&claim, "hello").await;
    for socket in [&mut early, &mut speaker] {
        assert_eq!(socket.next_of("ended").await["reply"], "hello");
    }
    // And may answer in it.
    assert_ne!(early.say("2", "and?").await, turn);
    elsewhere.send(json!({ "type": "message", "id": "3", "text": "hi" })).await;
    let first = elsewhere.next().await;
    assert_eq!((&first["type"], &first["id"]), (&json!("accepted"), &json!("3")));
    rig.end().await;
}

// A080
#[tokio::test]
async fn who_comes_back_gets_the_missing_events_or_a_gap_with_a_snapshot() {
    let rig = Rig::new().await;
    let mut socket = rig.socket("conversation=c").await;
    let turn = socket.say("1", "hi").await;
    let conversation = rig.conversation_of(&turn).await;
    let claim = rig.base.claim(conversation).await;
    let publish =
        |n: usize| rig.base.hub.publish(conversation, claim.record.id, delta(n.to_string()));
    publish(0);
    let last = socket.next_of("delta").await["seq"].as_u64().unwrap();
    drop(socket);
    for n in 1..=5 {
        publish(n);
    }
    let mut back = rig.socket("conversation=c").await;
    back.send(json!({ "type": "resume", "seq": last })).await;
    publish(6);
    for n in 1..=6_u64 {
        let frame = back.next().await;
        assert_eq!((&frame["seq"], &frame["text"]), (&json!(last + n), &json!(n.to_string())));
    }
    drop(back);
    for n in 7..700 {
        publish(n);
    }
    let mut late = rig.socket("conversation=c").await;
    late.send(json!({ "type": "resume", "seq": last + 6 })).await;
    let gap = late.next().await;
    assert_eq!((&gap["type"], &gap["turn"]), (&json!("gap"), &turn));
    assert_eq!(gap["snapshot"]["turn"]["state"], "running");
    // The turn still runs: what the ring has left of it follows.
    let next = late.next().await;
    assert_eq!(gap["snapshot"]["next_seq"], next["seq"]);
    assert_eq!(gap["seq"].as_u64().unwrap() + 1, next["seq"].as_u64().unwrap());
    rig.end().await;
}

// V-E24
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_slows_nobody_and_its_cancel_works() {
    let rig = Rig::new().await;
    let mut socket = rig.socket("conversation=c").await;
    let turn = socket.say("1", "hi").await;
    let conversation = rig.conversation_of(&turn).await;
    let claim = rig.base.claim(conversation).await;
    let actor = rig.fake_turn(&turn).await;
    // More than socket buffers hold, and more events than the ring holds; the client reads nothing.
    for n in 0..2_000 {
        let text = format!("{n} {}", "x".repeat(16_000));
        rig.base.hub.publish(conversation, claim.record.id, delta(text));
        if n % 100 == 0 {
            tokio::task::yield_now().await;
        }
    }
    socket.send(json!({ "type": "cancel", "turn": turn })).await;
    assert_eq!(ended(&actor).await, ExitReason::Stopped { reason: StopReason::User });
    // When it reads again: some events, a gap with a snapshot, then the newest to the end.
    rig.base.answer(&claim, "stopped").await;
    let gap = socket.next_of("gap").await;
    assert_eq!(gap["snapshot"]["turn"]["id"], turn);
    let ended = socket.next_of("ended").await;
    assert_eq!(ended["reply"], "stopped");
    rig.end().await;
}

#[tokio::test]
async fn a_client_that_goes_away_cancels_nothing() {
    let rig = Rig::new().await;
    let mut socket = rig.socket("conversation=c").await;
    let turn = socket.say("1", "hi").await;
    let actor = rig.fake_turn(&turn).await;
    drop(socket);
    while !rig.base.spawner.directory().of_kind("connection").is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(actor.handle.exit(), None);
    let path = format!("/v1/turns/{}", turn.as_str().unwrap());
    assert_eq!(rig.get(&path).await.1["state"], "queued");
    rig.end().await;
}

#[tokio::test]
async fn connections_are_bounded_and_named_parameters_are_checked() {
    // I10
    let rig = Rig::new().await;
    let mut open = Vec::new();
    for n in 0..4 {
        open.push(rig.socket(&format!("conversation={n}")).await);
    }
    let refused = async |query: &str| {
        let url = format!("ws://{}/v1/ws?{query}", rig.address);
        match tokio_tungstenite::connect_async(url).await {
            Err(tokio_tungstenite::tungstenite::Error::Http(answer)) => answer.status().as_u16(),
            other => panic!("{query}: {other:?}"),
        }
    };
    assert_eq!(refused("conversation=5").await, 503);
    open.clear();
    while !rig.base.spawner.directory().of_kind("connection").is_empty() {
        tokio::task::yield_now().await;
    }
    for (query, status) in [
        ("channel=webhook.ci", 400),
        ("colour=red", 400),
        ("conversation=~cat/c", 400),
        ("agent=nobody", 404),
    ] {
        assert_eq!(refused(query).await, status, "{query}");
    }
    rig.socket("agent=home").await.say("1", "hi").await;
    rig.end().await;
}

#[tokio::test]
async fn a_token_comes_as_header_or_as_subprotocol_and_says_goodbye_at_a_stop() {
    use base64::Engine;
    use tokio_tungstenite::tungstenite::client::IntoClientRequest;
    let mut settings = settings();
    settings.gateway.tokens = vec![token("cat", AuthRole::Chat)];
    let rig = Rig::with(settings).await;
    let url = format!("ws://{}/v1/ws?conversation=c", rig.address);
    let Err(error) = tokio_tungstenite::connect_async(&url).await else { panic!("refused") };
    let tokio_tungstenite::tungstenite::Error::Http(answer) = error else { panic!("{error}") };
    assert_eq!(answer.status().as_u16(), StatusCode::UNAUTHORIZED.as_u16());
    let mut first = rig.socket_as(&token_of("cat"), "conversation=c").await;
    let turn = first.say("1", "hi").await;
    let encoded = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(token_of("cat"));
    let mut request = url.into_client_request().unwrap();
    let protocols = format!("rookery.v1, rookery.token.{encoded}").parse().unwrap();
    request.headers_mut().insert("sec-websocket-protocol", protocols);
    let (socket, answer) = tokio_tungstenite::connect_async(request).await.unwrap();
    assert_eq!(answer.headers()["sec-websocket-protocol"], "rookery.v1");
    let mut second = Socket(socket);
    second.send(json!({ "type": "message", "id": "1", "text": "hi" })).await;
    assert_eq!(second.next_of("accepted").await["turn"], turn);
    rig.gateway.address.stop(StopReason::Shutdown);
    let Message::Close(Some(close)) = first.message().await else { panic!("a close") };
    assert_eq!(close.code, CloseCode::Restart);
    ended(&rig.gateway).await;
    rig.end().await;
}
