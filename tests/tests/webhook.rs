//! The webhook channel: signatures on the way in, replies on the way out.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails at the place of the fault"
)]

use reqwest::Method;
use rookery_tests::api::{Answer, fresh_id, message};
use rookery_tests::receiver::{Receiver, is_signed, sign, unix_now};
use rookery_tests::{Config, Reply, World, program};
use serde_json::json;

const SECRET: &str = "a-secret-for-the-webhook";

fn signed() -> Config {
    Config::new().webhook(&format!("secret = \"{SECRET}\""))
}

async fn post(world: &World, body: &[u8], signature: Option<&str>) -> Answer {
    let api = world.api.with_token(None);
    let mut request = api
        .request(Method::POST, "/v1/channels/webhook/ci?wait=30")
        .header("content-type", "application/json")
        .body(body.to_vec());
    if let Some(signature) = signature {
        request = request.header("x-rookery-signature", signature);
    }
    api.send(request).await
}

// A072
#[tokio::test]
async fn a_signed_message_is_taken_once_and_a_stale_or_wrong_signature_never() {
    let world = World::start(program!(), signed()).await;
    let body = message(&fresh_id(), "c", "hello").to_string().into_bytes();
    let now = unix_now();
    let refused = [
        None,
        Some("nonsense".to_owned()),
        Some(sign("another-secret", now, &body)),
        Some(sign(SECRET, now, b"another body")),
        Some(sign(SECRET, now - 301, &body)),
        Some(sign(SECRET, now + 400, &body)),
        Some(
            sign(SECRET, now - 600, &body)
                .replace(&format!("t={}", now - 600), &format!("t={now}")),
        ),
    ];
    for signature in &refused {
        let answer = post(&world, &body, signature.as_deref()).await;
        assert_eq!(answer.status, 401, "{signature:?}: {answer:?}");
        assert!(!answer.code().is_empty());
    }
    assert_eq!((world.model.count(), world.api.ledger().await.accepted), (0, 0));
    let signature = sign(SECRET, now, &body);
    let first = post(&world, &body, Some(&signature)).await;
    assert_eq!((first.status, &first.body["outcome"]), (200, &json!("answered")), "{first:?}");
    let replayed = post(&world, &body, Some(&signature)).await;
    assert_eq!((replayed.status, &replayed.body["duplicate"]), (200, &json!(true)));
    assert_eq!(world.model.count(), 1);
    world.finish().await;
}

// A072
#[tokio::test]
async fn a_replay_is_known_after_a_restart_too() {
    let mut world = World::start(program!(), signed()).await;
    let body = message(&fresh_id(), "c", "hello").to_string().into_bytes();
    let signature = sign(SECRET, unix_now(), &body);
    assert_eq!(post(&world, &body, Some(&signature)).await.status, 200);
    world.crash().await;
    let replayed = post(&world, &body, Some(&signature)).await;
    assert_eq!((replayed.status, &replayed.body["duplicate"]), (200, &json!(true)));
    assert_eq!(world.model.count(), 1);
    world.finish().await;
}

// I11
#[tokio::test]
async fn a_reply_is_posted_signed_and_again_until_the_receiver_takes_it() {
    let receiver = Receiver::start([503]).await;
    let config = signed().webhook(&format!("reply_url = \"{}\"", receiver.url()));
    let world = World::start(program!(), config).await;
    world.model.script("hello", [Reply::text("the whole answer")]);
    let body = message(&fresh_id(), "c", "hello").to_string().into_bytes();
    post(&world, &body, Some(&sign(SECRET, unix_now(), &body))).await;
    let posts = receiver.got(2).await;
    for delivery in &posts {
        assert!(is_signed(delivery, SECRET), "{delivery:?}");
        assert_eq!(delivery.body["reply"], "the whole answer");
        assert_eq!(delivery.body["conversation"], "c");
    }
    world.finish().await;
}

// I11
#[tokio::test]
async fn a_reply_the_receiver_refuses_for_good_is_a_dead_letter_with_its_cause() {
    let receiver = Receiver::start([410]).await;
    let config = signed().webhook(&format!("reply_url = \"{}\"", receiver.url()));
    let world = World::start(program!(), config).await;
    let body = message(&fresh_id(), "c", "hello").to_string().into_bytes();
    let answer = post(&world, &body, Some(&sign(SECRET, unix_now(), &body))).await;
    receiver.got(1).await;
    let letter = rookery_tests::wait::until("the dead letter is listed", || async {
        let list = world.api.get("/admin/v1/deadletters").await;
        list.as_array().and_then(|list| list.first().cloned()).ok_or_else(|| list.to_string())
    })
    .await;
    assert_eq!(letter["channel"], "webhook.ci");
    assert_eq!(letter["class"], "permanent");
    assert_eq!(letter["turn"], answer.body["turn"]);
    assert!(letter["cause"].as_str().unwrap().contains("410"), "{letter}");
    let id = letter["id"].as_str().unwrap();
    let retried = world.api.post(&format!("/admin/v1/deadletters/{id}/retry"), &json!({})).await;
    assert!((200..300).contains(&retried.status), "{retried:?}");
    receiver.got(2).await;
    rookery_tests::wait::until("the dead letter is gone", || async {
        let list = world.api.get("/admin/v1/deadletters").await;
        if list == json!([]) { Ok(()) } else { Err(list.to_string()) }
    })
    .await;
    world.finish().await;
}

// I11
#[tokio::test]
async fn a_reply_that_was_not_delivered_before_a_kill_is_delivered_after_it() {
    let receiver = Receiver::start([503, 503, 503]).await;
    let config = signed().webhook(&format!("reply_url = \"{}\"", receiver.url()));
    let mut world = World::start(program!(), config).await;
    let body = message(&fresh_id(), "c", "hello").to_string().into_bytes();
    post(&world, &body, Some(&sign(SECRET, unix_now(), &body))).await;
    receiver.got(1).await;
    world.crash().await;
    let posts = receiver.got(4).await;
    assert!(posts.iter().all(|delivery| delivery.body["reply"] == "you said: hello"), "{posts:?}");
    world.finish().await;
}

#[tokio::test]
async fn senders_that_are_not_allowed_are_refused_before_anything_happens() {
    let world =
        World::start(program!(), Config::new().webhook("allowed_users = [\"alice\"]")).await;
    let mut body = message(&fresh_id(), "c", "hello");
    body["sender"] = json!("mallory");
    let answer = world.api.webhook(&body, "").await;
    assert_eq!(answer.status, 403, "{answer:?}");
    assert_eq!((world.model.count(), world.api.ledger().await.accepted), (0, 0));
    assert_eq!(world.api.say("c", "hello").await.result(), "answered");
    world.finish().await;
}
