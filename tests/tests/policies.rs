//! Messages that arrive while a turn runs, and commands, as a sender sees them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test fails at the place of the fault, and its tasks are no actors"
)]

use rookery_tests::api::{fresh_id, message};
use rookery_tests::wait::until;
use rookery_tests::{Api, Config, Gate, Reply, World, program};
use serde_json::Value;

async fn world(policy: &str) -> World {
    let config = Config::new()
        .agent("models = [\"other\"]")
        .webhook(&format!("queue = \"{policy}\""))
        .webhook("debounce_ms = 300")
        .extra(
            "[providers.other]\nkind = \"openai\"\nbase_url = \"{model}\"\napi_key = \"key-of-the-other\"\n\
             model = \"mock-2\"\n",
        );
    World::start(program!(), config).await
}

async fn command(api: &Api, text: &str) -> String {
    let answer = api.webhook(&message(&fresh_id(), "c", text), "").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.body["outcome"], "answered", "{answer:?}");
    answer.body["reply"].as_str().unwrap().to_owned()
}

fn said(request: &Value) -> Vec<&str> {
    let messages = request["messages"].as_array().unwrap();
    messages
        .iter()
        .filter(|m| m["role"] == "user")
        .map(|m| m["content"].as_str().unwrap())
        .collect()
}

// V-K9: and each message of the person has its answer (I1)
#[tokio::test]
async fn a_message_to_a_steered_channel_is_answered_by_the_turn_that_runs() {
    let world = world("steer").await;
    let gate = Gate::new();
    world.model.script("go", [Reply::stream().delta("one").gate(&gate).complete("stop")]);
    world.model.script("and then", [Reply::text("two")]);
    let turn = world.api.tell("c", "go").await;
    gate.reached().await;
    let api = world.api.clone();
    let waiting =
        tokio::spawn(
            async move { api.webhook(&message("second", "c", "and then"), "?wait=30").await },
        );
    // It waits in the inbox until the model has said its part.
    let steered = until("the message waits", || async {
        let turns = world.api.get("/v1/turns?conversation=c&state=queued").await;
        match turns[0]["id"].as_str() {
            Some(id) => Ok(id.to_owned()),
            None => Err(turns.to_string()),
        }
    })
    .await;
    gate.open();
    let answer = waiting.await.unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.body["outcome"], "merged", "{answer:?}");
    assert_eq!(answer.body["into"].as_str(), Some(turn.as_str()), "{answer:?}");
    assert_eq!(answer.body["reply"], "two");
    assert_eq!(world.api.turn(&steered).await.result(), "merged");
    assert_eq!(world.api.ended(&turn).await.text(), "two");
    assert_eq!(
        world.api.transcript("c").await,
        ["user: go", "assistant: one", "user: and then", "assistant: two"]
    );
    assert_eq!(world.api.ledger().await.merged, 1);
    world.finish().await;
}

// I1: no id is left without an end
#[tokio::test]
async fn messages_in_quick_succession_are_one_turn_of_a_channel_that_coalesces() {
    let world = world("coalesce").await;
    let ids = [
        world.api.tell("c", "look at").await,
        world.api.tell("c", "this and").await,
        world.api.tell("c", "that").await,
    ];
    assert_eq!(world.api.ended(&ids[0]).await.result(), "answered");
    for id in &ids[1..] {
        assert_eq!(world.api.turn(id).await.result(), "merged");
    }
    assert_eq!(world.model.count(), 1);
    assert_eq!(said(&world.model.last_request()), ["look at", "this and", "that"]);
    world.finish().await;
}

// R19
#[tokio::test]
async fn stop_ends_the_turn_and_new_forgets_it_also_after_a_crash() {
    let mut world = world("queue").await;
    world.model.script("first", [Reply::text("noted")]);
    world.api.say("c", "first").await;
    let gate = Gate::new();
    world.model.script("long", [Reply::stream().delta("on").gate(&gate).complete("stop")]);
    let turn = world.api.tell("c", "long").await;
    gate.reached().await;
    assert!(command(&world.api, "/status").await.contains("turn: calling"));
    assert_eq!(command(&world.api, "/stop").await, "stopped");
    assert_eq!(world.api.ended(&turn).await.result(), "cancelled");
    assert!(command(&world.api, "/new").await.starts_with("the next message begins"));
    assert!(command(&world.api, "/model nobody").await.contains("there is: main, other"));
    assert!(command(&world.api, "/model other").await.starts_with("other (mock-2) answers"));
    world.service.kill_9().await;
    world.service.restart().await;
    world.api.say("c", "fresh").await;
    let request = world.model.last_request();
    assert_eq!((said(&request), &request["model"]), (vec!["fresh"], &Value::from("mock-2")));
    assert!(
        world.api.get("/v1/conversations/webhook.ci/c/messages").await["messages"]
            .as_array()
            .unwrap()
            .len()
            > 4
    );
    world.finish().await;
}
