use futures_util::StreamExt;
use reqwest::{Method, StatusCode};
use rookery_messages::event::TurnEventKind;
use serde_json::{Value, json};

use super::rig::*;
use crate::channel::testing::SOON;

/// Reads a stream to its end: `(event, data)` each.
async fn read(rig: &Rig, turn: &Value) -> Vec<(String, Value)> {
    let request = rig.request(Method::GET, &format!("/v1/turns/{}/events", turn.as_str().unwrap()));
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut text = String::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = tokio::time::timeout(SOON, chunks.next()).await.unwrap() {
        text.push_str(std::str::from_utf8(&chunk.unwrap()).unwrap());
    }
    let mut events = Vec::new();
    for block in text.split("\n\n").filter(|block| !block.is_empty() && !block.starts_with(':')) {
        let field = |name: &str| {
            let line = block.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_else(|| panic!("{name} in {block}")).to_owned()
        };
        let data: Value = serde_json::from_str(&field("data: ")).unwrap();
        assert_eq!(field("id: "), data["seq"].to_string());
        assert_eq!(field("event: "), data["type"].as_str().unwrap());
        events.push((field("event: "), data));
    }
    events
}

#[tokio::test]
async fn a_stream_starts_with_what_is_known_goes_on_live_and_ends_with_the_turn() {
    let rig = Rig::new().await;
    let (_, accepted) = rig.say("c", "1").await;
    let (_, next) = rig.say("c", "2").await;
    let turn = accepted["turn"].clone();
    let conversation = rig.conversation_of(&turn).await;
    let claim = rig.base.claim(conversation).await;
    let delta = |text: &str| TurnEventKind::Delta { text: text.to_owned() };
    rig.base.hub.publish(conversation, claim.record.id, delta("before\nline"));
    let live = async {
        // The stream is open once the hub has a follower; what comes then comes live.
        for n in 0..50 {
            rig.base.hub.publish(conversation, claim.record.id, delta(&n.to_string()));
            tokio::task::yield_now().await;
        }
        rig.base.answer(&claim, "done").await;
    };
    let (events, ()) = tokio::join!(read(&rig, &turn), live);
    assert_eq!(events[0].1["id"], "1");
    assert_eq!(events[1].1["text"], "before\nline");
    let last = &events.last().unwrap().1;
    assert_eq!((&last["type"], &last["reply"]), (&json!("ended"), &json!("done")));
    assert_eq!(events.len(), 53);
    assert!(events.iter().all(|(_, event)| event["turn"] == turn && event["turn"] != next["turn"]));
    assert!(events.windows(2).all(|pair| pair[0].1["seq"].as_u64() < pair[1].1["seq"].as_u64()));
    // After its end: the same again, at once.
    assert_eq!(read(&rig, &turn).await, events);
    rig.end().await;
}

#[tokio::test]
async fn what_the_ring_has_lost_comes_as_a_gap_with_a_snapshot() {
    // A080
    let rig = Rig::new().await;
    let (_, accepted) = rig.say("c", "1").await;
    let turn = accepted["turn"].clone();
    let conversation = rig.conversation_of(&turn).await;
    let claim = rig.base.claim(conversation).await;
    for n in 0..600 {
        let text = n.to_string();
        rig.base.hub.publish(conversation, claim.record.id, TurnEventKind::Delta { text });
    }
    rig.base.answer(&claim, "done").await;
    let events = read(&rig, &turn).await;
    let (kind, gap) = &events[0];
    assert_eq!(kind, "gap");
    assert_eq!(gap["snapshot"]["turn"]["reply"], "done");
    assert_eq!(gap["snapshot"]["next_seq"], events[1].1["seq"]);
    assert_eq!((events.len(), events[1].0.as_str()), (2, "ended"));
    // The whole ring is gone, as after a restart: the record alone tells.
    rig.base.hub.rest(conversation);
    let kinds: Vec<_> = read(&rig, &turn).await.into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, ["gap", "ended"]);
    rig.end().await;
}
