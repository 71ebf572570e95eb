use std::time::Duration;

use reqwest::{Method, StatusCode};
use rookery_messages::session::{Arrival, RouterMsg};
use rookery_messages::store::StoreError;
use serde_json::{Value, json};

use super::rig::*;
use crate::channel::testing::SOON;
use crate::channel::webhook::signature;

const HOOK: &str = "/v1/channels/webhook/ci";

#[tokio::test]
async fn a_message_is_accepted_once_and_its_session_is_told_once() {
    // I2, R3
    let mut rig = Rig::new().await;
    let (status, first) = rig.say("c", "1").await;
    assert_eq!(status, StatusCode::ACCEPTED);
    let turn = first["turn"].clone();
    let conversation = rig.conversation_of(&turn).await;
    let (status, again) = rig.say("c", "1").await;
    let expected = json!({
        "duplicate": true, "envelope": first["envelope"], "turn": turn,
        "state": "queued", "outcome": null, "reply": null,
    });
    assert_eq!((status, again), (StatusCode::OK, expected));
    let hint = rig.base.routed.recv().await.unwrap();
    assert!(
        matches!(hint, RouterMsg::Hint { conversation: c, arrival: Arrival::Waits } if c == conversation)
    );
    let claim = rig.base.claim(conversation).await;
    rig.base.answer(&claim, "done").await;
    let (_, again) = rig.say("c", "1").await;
    assert_eq!((&again["outcome"], &again["reply"]), (&json!("answered"), &json!("done")));
    assert!(rig.base.routed.try_recv().is_err());
    let ledger = rig.base.store.ledger().await.unwrap();
    assert_eq!((ledger.accepted, ledger.answered), (1, 1));
    rig.end().await;
}

#[tokio::test]
async fn a_waiting_caller_gets_the_outcome_or_the_202() {
    let mut rig = Rig::new().await;
    let path = format!("{HOOK}?wait=0");
    let (status, body) = rig.post(&path, &message("c", "0")).await;
    assert_eq!((status, body.get("outcome")), (StatusCode::ACCEPTED, None));
    rig.base.routed.recv().await.unwrap();
    let conversation = rig.conversation_of(&body["turn"]).await;
    let claim = rig.base.claim(conversation).await;
    rig.base.answer(&claim, "zero").await;

    let path = format!("{HOOK}?wait=300");
    let one = message("c", "1");
    let asked = rig.post(&path, &one);
    let answered = async {
        rig.base.store.turns(None, None, None, 1).await.unwrap();
        while !rig.base.store.has_open(conversation).await.unwrap() {
            tokio::task::yield_now().await;
        }
        let claim = rig.base.claim(conversation).await;
        rig.base.answer(&claim, "one").await;
        claim
    };
    let ((status, body), claim) = tokio::join!(asked, answered);
    let expected = json!({
        "envelope": claim.record.envelope, "turn": claim.record.id,
        "state": "ended", "outcome": "answered", "reply": "one",
    });
    assert_eq!((status, body), (StatusCode::OK, expected));
    // A turn that has ended already is answered at once.
    let (status, body) = rig.post(&path, &one).await;
    assert_eq!(
        (status, &body["duplicate"], &body["reply"]),
        (StatusCode::OK, &json!(true), &json!("one"))
    );
    rig.end().await;
}

#[tokio::test]
async fn a_full_queue_rejects_and_says_so_durably() {
    let rig = Rig::new().await;
    for id in ["1", "2"] {
        assert_eq!(rig.say("c", id).await.0, StatusCode::ACCEPTED);
    }
    let (status, body) = rig.say("c", "3").await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(
        (&body["outcome"], &body["error"]["code"]),
        (&json!("rejected"), &json!("queue_full"))
    );
    // I1: it has its end, and the ledger knows.
    let path = format!("/v1/turns/{}", body["turn"].as_str().unwrap());
    assert_eq!(rig.get(&path).await.1["outcome"], "rejected");
    assert!(rig.base.store.ledger().await.unwrap().adds_up());
    // Sent again it is the same message; waiting for it answers whatever the outcome.
    assert_eq!(rig.say("c", "3").await.1["outcome"], "rejected");
    let (status, body) = rig.post(&format!("{HOOK}?wait=5"), &message("c", "4")).await;
    assert_eq!((status, &body["outcome"]), (StatusCode::OK, &json!("rejected")));
    // Another conversation has room.
    assert_eq!(rig.say("d", "5").await.0, StatusCode::ACCEPTED);
    rig.end().await;
}

#[tokio::test]
async fn a_paused_channel_and_a_store_that_cannot_write_accept_nothing() {
    let rig = Rig::new().await;
    let intake = rig.base.spawner.directory().find("intake/webhook.ci").unwrap();
    intake.set_paused(true);
    let paused = rig.request(Method::POST, HOOK).json(&message("c", "1")).send().await.unwrap();
    assert_eq!(paused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(paused.headers().contains_key("retry-after"));
    assert_eq!(paused.json::<Value>().await.unwrap()["error"]["code"], "paused");
    intake.set_paused(false);
    // Nobody paused a service that ends.
    intake.drain();
    let (status, body) = rig.say("c", "1").await;
    assert_eq!(
        (status, &body["error"]["code"]),
        (StatusCode::SERVICE_UNAVAILABLE, &json!("draining"))
    );
    rig.end().await;
    let rig = Rig::new().await;
    *rig.base.fault.lock() = Some(StoreError::Full("no space".to_owned()));
    let full = rig.request(Method::POST, HOOK).json(&message("c", "1")).send().await.unwrap();
    assert_eq!(full.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(full.headers().contains_key("retry-after"));
    assert_eq!(full.json::<Value>().await.unwrap()["error"]["code"], "store_full");
    *rig.base.fault.lock() = None;
    assert_eq!(rig.base.store.ledger().await.unwrap().accepted, 0);
    assert_eq!(rig.say("c", "1").await.0, StatusCode::ACCEPTED);
    rig.end().await;
}

// A072
#[tokio::test]
async fn a_signed_webhook_takes_what_is_signed_freshly_and_once() {
    let rig = Rig::new().await;
    let now = rig.base.world.now();
    let body = message("c", "1").to_string();
    let post = |signed: Option<String>, body: String| {
        let mut request = rig
            .request(Method::POST, "/v1/channels/webhook/signed")
            .header("content-type", "application/json")
            .body(body);
        if let Some(signed) = signed {
            request = request.header("x-rookery-signature", signed);
        }
        answer(request)
    };
    let sign = |secret, at, body: &str| Some(signature::sign(secret, at, body.as_bytes()));
    let old = now - Duration::from_secs(301);
    // The signature is looked at before the body: this one is no JSON at all.
    let garbage = "not json".to_owned();
    for (name, signed, body) in [
        ("none", None, body.clone()),
        ("wrong", sign("other-secret", now, &body), body.clone()),
        ("other body", sign(SECRET, now, "{}"), body.clone()),
        ("stale", sign(SECRET, old, &body), body.clone()),
        ("garbage", Some("t=1,v1=zz".to_owned()), garbage.clone()),
    ] {
        let (status, answer) = post(signed, body).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{name}: {answer}");
        assert_eq!(answer["error"]["code"], "bad_signature", "{name}");
    }
    let (status, _) = post(sign(SECRET, now, &garbage), garbage).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(rig.base.store.ledger().await.unwrap().accepted, 0);
    let (status, first) = post(sign(SECRET, now, &body), body.clone()).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    // The very same request again is a duplicate; once its time is past it is refused, see above.
    let (status, replay) = post(sign(SECRET, now, &body), body.clone()).await;
    assert_eq!((status, &replay["turn"]), (StatusCode::OK, &first["turn"]));
    assert_eq!(rig.base.store.ledger().await.unwrap().accepted, 1);
    let refused = rig.refusals().into_iter().filter(|(_, reason)| *reason == "signature").count();
    assert_eq!(refused, 5);
    // Spelt another way, the name leads to the same lock.
    let request =
        rig.request(Method::POST, "/v1/channels/webhook/sign%65d").json(&message("c", "2"));
    assert_eq!(answer(request).await.0, StatusCode::UNAUTHORIZED);
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_stops_answers_who_waits_and_its_next_life_serves_the_same_port() {
    let rig = Rig::new().await;
    let waiting = rig.request(Method::POST, &format!("{HOOK}?wait=300")).json(&message("c", "1"));
    let stop = async {
        while rig.base.store.ledger().await.unwrap().accepted == 0 {
            tokio::task::yield_now().await;
        }
        rig.gateway.address.stop(rookery_messages::exit::StopReason::Shutdown);
        ended(&rig.gateway).await
    };
    let (answered, reason) = tokio::join!(answer(waiting), stop);
    assert_eq!(answered.0, StatusCode::ACCEPTED);
    assert_eq!(reason.as_str(), "stopped");
    assert_eq!(rig.listener().local_addr().unwrap(), rig.address);
    let _next = start(&rig.base, &rig.args).await;
    let again = tokio::time::timeout(SOON, rig.say("c", "1")).await.unwrap();
    assert_eq!(again.1["duplicate"], true);
    rig.end().await;
}

// R2
#[tokio::test]
async fn files_that_are_posted_are_in_the_workspace_once_and_go_with_the_message() {
    let rig = Rig::new().await;
    let mut body = message("c", "1");
    body["attachments"] = json!([
        { "name": "../a b.png", "media_type": "text/plain", "data": "iVBORw0KGgo=" },
        { "name": "note", "data": "aGk=" },
    ]);
    let (status, first) = rig.post(HOOK, &body).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{first}");
    let claim = rig.base.claim(rig.conversation_of(&first["turn"]).await).await;
    let attached = claim.history[0].message.attachments().to_vec();
    let told: Vec<_> = attached.iter().map(|one| (one.media_type.as_str(), one.size)).collect();
    assert_eq!(told, [("image/png", 8), ("text/plain", 2)]);
    assert_eq!(std::fs::read(rig.work.path().join(&attached[1].path)).unwrap(), b"hi");
    for one in &attached {
        let line = format!("[attached: {} ({}, {} bytes)]", one.path, one.media_type, one.size);
        assert!(claim.text.contains(&line), "{}", claim.text);
    }
    // Posted again it is known, and leaves nothing behind.
    let (status, again) = rig.post(HOOK, &body).await;
    assert_eq!((status, &again["duplicate"]), (StatusCode::OK, &json!(true)));
    let kept = std::fs::read_dir(rig.work.path().join("attachments")).unwrap().count();
    assert_eq!(kept, 2);
    for (bad, code) in [
        (json!([{ "name": "a", "data": "not base64" }]), "invalid_field"),
        (json!([{ "name": "a", "data": "aGk=", "path": "/etc/x" }]), "invalid_field"),
        (json!(vec![json!({ "name": "a", "data": "aGk=" }); 17]), "invalid_field"),
    ] {
        let mut body = message("c", "2");
        body["attachments"] = bad;
        let (status, refused) = rig.post(HOOK, &body).await;
        assert_eq!((status, &refused["error"]["code"]), (StatusCode::BAD_REQUEST, &json!(code)));
    }
    rig.base.answer(&claim, "seen").await;
    rig.end().await;
}
