use reqwest::StatusCode;
use rookery_messages::exit::{ExitReason, StopReason};
use rookery_messages::store::StoreError;
use serde_json::json;

use super::rig::*;

#[tokio::test]
async fn a_turn_is_shown_in_full_and_lists_are_filtered() {
    let rig = Rig::new().await;
    let (_, first) = rig.say("a/b ü", "1").await;
    rig.say("other", "2").await;
    let conversation = rig.conversation_of(&first["turn"]).await;
    let (_, turn) = rig.get(&format!("/v1/turns/{}", first["turn"].as_str().unwrap())).await;
    let expected = json!({
        "id": first["turn"], "envelope": first["envelope"], "conversation": "a/b ü",
        "conversation_id": conversation, "agent": "home", "channel": "webhook.ci",
        "origin": "channel", "state": "queued", "outcome": null, "reply": null, "attempts": 0,
        "started_at": null, "ended_at": null, "usage": { "input": 0, "output": 0 }, "calls": [],
    });
    assert_eq!(turn, expected);
    let claim = rig.base.claim(conversation).await;
    rig.base.answer(&claim, "done").await;
    let count = async |query: &str| {
        rig.get(&format!("/v1/turns?{query}")).await.1.as_array().unwrap().len()
    };
    assert_eq!(count("").await, 2);
    assert_eq!(count("limit=1").await, 1);
    assert_eq!(count("state=ended").await, 1);
    assert_eq!(count("state=queued&conversation=a%2Fb%20%C3%BC").await, 0);
    assert_eq!(count("conversation=a%2Fb%20%C3%BC").await, 1);
    let path = "/v1/conversations/webhook.ci/a%2Fb%20%C3%BC/messages";
    let (status, history) = rig.get(path).await;
    assert_eq!(status, StatusCode::OK);
    let messages = history["messages"].as_array().unwrap();
    let shown: Vec<_> = messages.iter().map(|m| (&m["role"], &m["content"], &m["turn"])).collect();
    let turn = &first["turn"];
    assert_eq!(
        shown,
        [(&json!("user"), &json!("say 1"), turn), (&json!("assistant"), &json!("done"), turn)]
    );
    let at = messages[0]["at"].as_str().unwrap();
    assert!(at.len() == 24 && at.ends_with('Z'), "{at}");
    let (_, newest) = rig.get(&format!("{path}?limit=1")).await;
    assert_eq!(newest["messages"][0]["content"], "done");
    rig.end().await;
}

#[tokio::test]
async fn a_cancel_sets_the_stop_cell_and_asking_again_changes_nothing() {
    let rig = Rig::new().await;
    let (_, accepted) = rig.say("c", "1").await;
    let claim = rig.base.claim(rig.conversation_of(&accepted["turn"]).await).await;
    let turn = rig.fake_turn(&accepted["turn"]).await;
    let path = format!("/v1/turns/{}/cancel", accepted["turn"].as_str().unwrap());
    let (status, body) = rig.post(&path, &json!({})).await;
    let expected = json!({ "turn": accepted["turn"], "result": "stopping" });
    assert_eq!((status, body), (StatusCode::ACCEPTED, expected));
    assert_eq!(ended(&turn).await, ExitReason::Stopped { reason: StopReason::User });
    assert_eq!(rig.post(&path, &json!({})).await.0, StatusCode::ACCEPTED);
    rig.base.answer(&claim, "too late").await;
    let (status, body) = rig.post(&path, &json!({})).await;
    assert_eq!((status, &body["result"]), (StatusCode::ACCEPTED, &json!("already_ended")));
    let audit = rig.get_as(ADMIN, "/admin/v1/audit").await.1;
    let rows: Vec<_> = audit.as_array().unwrap().iter().map(|row| &row["action"]).collect();
    assert_eq!(rows, [&json!("turn.cancel")]);
    rig.end().await;
}

#[tokio::test]
async fn an_operator_stops_a_turn_although_the_store_answers_nobody() {
    let rig = Rig::new().await;
    let (_, accepted) = rig.say("c", "1").await;
    rig.base.claim(rig.conversation_of(&accepted["turn"]).await).await;
    let turn = rig.fake_turn(&accepted["turn"]).await;
    *rig.base.fault.lock() = Some(StoreError::Unavailable("locked".to_owned()));
    let path = format!("/v1/turns/{}/cancel", accepted["turn"].as_str().unwrap());
    let (status, _) = rig.post_as(ADMIN, &path, &json!({})).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    assert_eq!(ended(&turn).await, ExitReason::Stopped { reason: StopReason::User });
    // Nothing runs any more, and nothing can be written: that is said.
    assert_eq!(rig.post_as(ADMIN, &path, &json!({})).await.0, StatusCode::SERVICE_UNAVAILABLE);
    *rig.base.fault.lock() = None;
    rig.end().await;
}

#[tokio::test]
async fn a_waiting_turn_is_cancelled_at_once_and_its_followers_are_told() {
    let rig = Rig::new().await;
    let mut socket = rig.socket("conversation=c").await;
    let turn = socket.say("1", "hi").await;
    let path = format!("/v1/turns/{}/cancel", turn.as_str().unwrap());
    assert_eq!(rig.post(&path, &json!({})).await.1["result"], "ended");
    let ended = socket.next_of("ended").await;
    assert_eq!((&ended["turn"], &ended["outcome"]), (&turn, &json!("cancelled")));
    assert!(rig.base.store.ledger().await.unwrap().adds_up());
    rig.end().await;
}
