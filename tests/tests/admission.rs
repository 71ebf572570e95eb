//! Who may come in, and what may be spent, as operators and senders see it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails at the place of the fault"
)]

use rookery_tests::cli::run;
use rookery_tests::{Call, Config, Reply, World, program};
use serde_json::{Value, json};

async fn rookery(world: &World, args: &[&str]) -> rookery_tests::cli::Printed {
    run(program!().as_ref(), world.dir(), args, &[]).await
}

async fn eve(world: &World, id: &str, text: &str) -> (u16, Value) {
    let body = json!({ "id": id, "sender": "eve", "conversation": "of-eve", "text": text });
    let answer = world.api.webhook(&body, "?wait=30").await;
    (answer.status, answer.body)
}

// R4: also over a restart
#[tokio::test]
async fn an_operator_lets_somebody_in_by_a_code_and_puts_them_out_again() {
    let config =
        Config::new().webhook("allowed_users = [\"ann\", \"tester\"]").webhook("pairing = true");
    let mut world = World::start(program!(), config).await;
    let (status, body) = eve(&world, "1", "hello").await;
    assert_eq!((status, &body["error"]["code"]), (403, &json!("not_allowed")), "{body}");
    assert_eq!(world.model.count(), 0);

    let made = rookery(&world, &["pair", "new", "webhook.ci", "--json"]).await;
    assert_eq!(made.code, Some(0), "{made:?}");
    let code = made.json()["code"].as_str().unwrap().to_owned();
    assert_eq!(eve(&world, "2", "/pair 00000000").await.0, 403);
    world.service.kill_9().await;
    world.service.restart().await;
    let (status, body) = eve(&world, "3", &format!("/pair {code}")).await;
    assert_eq!((status, &body["paired"]), (200, &json!(true)), "{body}");
    assert_eq!(eve(&world, "4", "hello").await.1["outcome"], "answered");

    let listed = rookery(&world, &["pair", "list"]).await;
    assert!(listed.out.contains("webhook.ci") && listed.out.contains("eve"), "{listed:?}");
    let checked = rookery(&world, &["channels", "check", "--json"]).await;
    assert_eq!(checked.code, Some(0), "{checked:?}");
    let rows = checked.json();
    let down = rookery(&world, &["actor", "pause", "webhook.ci/intake"]).await;
    assert_eq!(down.code, Some(0), "{down:?}");
    let paused = rookery(&world, &["channels", "check"]).await;
    assert!(paused.code == Some(1) && paused.out.contains("down: "), "{paused:?}");
    rookery(&world, &["actor", "resume", "webhook.ci/intake"]).await;
    let ci = rows.as_array().unwrap().iter().find(|row| row["id"] == "webhook.ci").unwrap();
    assert_eq!(ci, &json!({ "id": "webhook.ci", "agent": "home", "state": "up", "pairs": true }));

    let gone = rookery(&world, &["pair", "revoke", "webhook.ci", "eve"]).await;
    assert_eq!((gone.code, gone.out.as_str()), (Some(0), "ok\n"), "{gone:?}");
    assert_eq!(eve(&world, "5", "hello again").await.0, 403);
    world.finish().await;
}

// R19: a bound on how many conversations are in memory is none on who is answered
#[tokio::test]
async fn who_finds_all_places_taken_by_idle_conversations_is_answered_all_the_same() {
    let world = World::start(program!(), Config::new().sessions("max_active = 2")).await;
    // Resting takes a minute: nobody waits for that.
    for round in 0..2 {
        for conversation in ["p", "q", "r", "s", "t"] {
            let turn = world.api.say(conversation, &format!("hello {round}")).await;
            assert_eq!((turn.result(), turn.attempts), ("answered", 1), "{turn:?}");
        }
    }
    world.finish().await;
}

// B11, V-A10: the sender is told, and what was spent stands in the record
#[tokio::test]
async fn a_turn_over_its_budget_says_so_and_shows_what_it_cost() {
    let config = Config::new()
        .provider("price = { input = 1000.0, output = 2000.0 }")
        .runtime("budget = { turn = { max_cost = 0.05 } }");
    let world = World::start(program!(), config).await;
    let asks = Reply::stream().ask([Call::new("time", json!({}))]).finish("tool_calls");
    world.model.script("go", [asks.usage(30, 10).done(), Reply::text("never asked for")]);
    let turn = world.api.say("c", "go").await;
    assert_eq!((turn.result(), turn.fault()), ("failed", "budget"), "{turn:?}");
    assert_eq!(world.model.count(), 1);
    let record = world.api.get(&format!("/v1/turns/{}", turn.id)).await;
    assert_eq!(record["cost"], json!(0.05), "{record}");
    let shown = rookery(&world, &["turns", "show", &turn.id]).await;
    assert!(shown.out.contains("0.050000"), "{shown:?}");
    world.finish().await;
}
