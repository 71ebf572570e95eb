//! The model does what its scripts say, and sees what its clients do.

use futures_util::StreamExt;
use serde_json::{Value, json};

use super::{Call, MockModel, Reply};
use crate::gate::Gate;
use crate::http_client;
use crate::wait::within;

fn request(text: &str) -> Value {
    json!({"model": "mock", "messages": [
        {"role": "system", "content": "x"}, {"role": "user", "content": text}
    ]})
}

async fn post(model: &MockModel, body: &Value) -> reqwest::Response {
    http_client()
        .post(format!("{}/chat/completions", model.base_url()))
        .bearer_auth("k")
        .json(body)
        .send()
        .await
        .unwrap()
}

#[tokio::test]
async fn a_script_is_used_up_reply_by_reply_and_then_the_model_echoes() {
    let model = MockModel::start().await;
    model.script(
        "hello",
        [Reply::text("one"), Reply::error(429, "slow down").header("retry-after", "1")],
    );
    let first = post(&model, &request("well hello")).await;
    assert_eq!(first.status(), 200);
    let text = first.text().await.unwrap();
    assert!(text.contains("\"content\":\"one\"") && text.ends_with("data: [DONE]\n\n"), "{text}");
    let second = post(&model, &request("hello")).await;
    assert_eq!(
        (second.status().as_u16(), &second.headers()["retry-after"]),
        (429, &"1".parse().unwrap())
    );
    let third = post(&model, &request("hello")).await.text().await.unwrap();
    assert!(third.contains("you said: hello"));
    assert_eq!((model.count(), model.authorizations()), (3, vec!["Bearer k".to_owned()]));
    model.assert_well_formed();
}

#[tokio::test]
async fn a_rule_makes_its_reply_from_the_request() {
    let model = MockModel::start().await;
    model.rule("steps", |body| match super::results_since_user(body).len() {
        0 => Reply::calls([Call::new("time", json!({})).without_id()]),
        _ => Reply::text("done"),
    });
    let text = post(&model, &request("steps")).await.text().await.unwrap();
    assert!(text.contains("\"name\":\"time\"") && !text.contains("\"id\":\"call_"), "{text}");
}

#[tokio::test]
async fn the_model_notices_a_client_that_goes_away_at_a_gate() {
    let model = MockModel::start().await;
    let gate = Gate::new();
    model.script("wait", [Reply::stream().delta("a").gate(&gate).complete("stop")]);
    let response = post(&model, &request("wait")).await;
    let mut body = response.bytes_stream();
    within("the first delta", body.next()).await.unwrap().unwrap();
    gate.reached().await;
    assert_eq!(model.streaming(), 1);
    drop(body);
    model.dropped(0).await;
    assert_eq!(model.streaming(), 0);
}

#[tokio::test]
async fn a_cut_stream_is_an_error_for_the_client() {
    let model = MockModel::start().await;
    model.script("cut", [Reply::stream().delta("half").cut()]);
    let response = post(&model, &request("cut")).await;
    assert!(response.text().await.is_err());
}

// I4
#[tokio::test]
#[should_panic(expected = "malformed requests to the provider")]
async fn a_malformed_request_fails_the_test() {
    let model = MockModel::start().await;
    let orphan = json!({"role": "tool", "tool_call_id": "a", "content": "x"});
    let mut body = request("hi");
    body["messages"].as_array_mut().unwrap().push(orphan);
    post(&model, &body).await;
    model.assert_well_formed();
}
