//! Receipts of tool results: where they stand, where they don't, and who can check them for how long.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails at the place of the fault"
)]

use rookery_messages::tool::text;
use rookery_tests::model::result_texts;
use rookery_tests::wait::until;
use rookery_tests::{Call, Config, Reply, World, program};
use serde_json::{Value, json};

fn config(show: bool) -> Config {
    Config::new()
        .extra(&format!("[agents.home.tool_receipts]\nenabled = true\nshow_in_response = {show}"))
}

/// The receipt on a result's last line.
fn receipt_of(result: &str) -> Option<&str> {
    result.lines().last()?.strip_prefix("[receipt: ")?.strip_suffix(']')
}

async fn verify(world: &World, receipt: &str, turn: &str, call: &str) -> Value {
    let body = json!({ "receipt": receipt, "turn": turn, "call": call });
    let answer = world.api.post("/admin/v1/receipts/verify", &body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body
}

fn asks(world: &World, key: &str, calls: Vec<Call>) {
    world.model.script(key, [Reply::calls(calls), Reply::text("done")]);
}

// V-J8, V-J10, R12
#[tokio::test]
async fn only_what_ran_and_succeeded_has_a_receipt_and_the_reply_lists_them_if_configured() {
    let lists = "excluded_tools = [\"file_list\"]\nalways_ask = [\"file_write\"]";
    let config = config(true).risk(lists).agent("approval_route = \"admin\"");
    let world = World::start(program!(), config).await;
    let write = |path: &str| Call::new("file_write", json!({"path": path, "content": "x"}));
    let calls = vec![
        Call::shell("echo hello"),
        Call::shell("echo hello"),
        Call::shell("exit 3"),
        Call::new("file_list", json!({})),
        write("replaced.txt"),
        write("denied.txt"),
    ];
    asks(&world, "go", calls);
    let id = world.api.tell("c", "go").await;
    world
        .api
        .turn_when(&id, "it waits for two decisions", |turn| {
            turn.call_states().iter().filter(|state| **state == "waiting").count() == 2
        })
        .await;
    for approval in world.api.approvals().await {
        let decision = match approval["arguments"]["path"].as_str() {
            Some("replaced.txt") => json!({"decision": "replace", "replacement": "as if written"}),
            _ => json!({"decision": "deny"}),
        };
        assert_eq!(world.api.decide(&approval, &decision).await.status, 200);
    }
    let turn = world.api.ended(&id).await;
    let states = ["succeeded", "duplicate", "failed", "blocked", "replaced", "denied"];
    assert_eq!(turn.call_states(), states);
    let texts = result_texts(&world.model.last_request());
    let receipt = receipt_of(&texts[0]).unwrap_or_else(|| panic!("{texts:?}"));
    assert!(texts[0].starts_with("hello\n"), "{texts:?}");
    for text in &texts[1..] {
        assert!(!text.contains("rk-receipt-"), "{text}");
    }
    assert_eq!(turn.text(), format!("done\n\n{}\n- shell: {receipt}", text::RECEIPTS_HEADING));
    // Neither the history nor the model takes the block for the model's own words.
    assert_eq!(world.api.transcript("c").await.last().unwrap(), "assistant: done");
    for (call, state) in turn.calls.iter().zip(states) {
        let said = verify(&world, receipt, &turn.id, &call.id).await;
        let expected = match state {
            "succeeded" => json!({ "valid": true }),
            _ => json!({ "valid": false, "reason": "no_receipt" }),
        };
        assert_eq!(said, expected, "{state}");
    }
    world.finish().await;
}

// V-J9
#[tokio::test]
async fn without_receipts_there_is_none_anywhere() {
    let world = World::start(program!(), Config::new()).await;
    asks(&world, "go", vec![Call::shell("echo hello")]);
    let turn = world.api.say("c", "go").await;
    assert_eq!((turn.text(), turn.call_states()), ("done", vec!["succeeded"]));
    assert_eq!(result_texts(&world.model.last_request()), ["hello\n"]);
    let history = world.api.messages("webhook.ci", "c").await;
    assert!(!json!(history).to_string().contains("receipt"), "{history:?}");
    world.finish().await;
}

// V-J11, V-J8, B10, T17
#[tokio::test]
async fn a_cut_result_is_verified_against_the_history_and_only_while_the_process_lives() {
    let config = config(false).runtime("max_tool_result_chars = 60");
    let mut world = World::start(program!(), config).await;
    asks(&world, "go", vec![Call::shell("seq 1 500")]);
    let turn = world.api.say("c", "go").await;
    assert_eq!(turn.text(), "done");
    let events = world.api.events(&turn.id).await.until("ended").await;
    let shown = events.iter().find(|event| event["type"] == "tool_result").unwrap();
    let history = world.api.messages("webhook.ci", "c").await;
    let result = history.iter().find(|message| message["role"] == "tool").unwrap();
    let result = result["content"].as_str().unwrap();
    assert!(result.contains("characters left out"), "{result}");
    let receipt = receipt_of(result).unwrap().to_owned();
    assert_eq!(receipt_of(shown["output"].as_str().unwrap()), Some(receipt.as_str()));
    let call = turn.calls[0].id.clone();
    assert_eq!(verify(&world, &receipt, &turn.id, &call).await, json!({ "valid": true }));

    let args = |receipt: &'static str| ["receipts", "verify", "--receipt", receipt, "--turn"];
    let printed = world
        .cli(&["receipts", "verify", "--receipt", &receipt, "--turn", &turn.id, "--call", &call])
        .await;
    assert_eq!((printed.code, printed.out.as_str()), (Some(0), "valid\n"), "{printed:?}");
    let mut forged = args("rk-receipt-1-AAAA").to_vec();
    forged.extend([turn.id.as_str(), "--call", &call, "--json"]);
    let printed = world.cli(&forged).await;
    assert_eq!(printed.code, Some(1), "{printed:?}");
    assert_eq!(printed.json(), json!({ "valid": false, "reason": "malformed" }));
    let said = verify(&world, &receipt, &turn.id, "not an id").await;
    assert_eq!(said, json!({ "valid": false, "reason": "malformed" }));
    let (head, last) = receipt.split_at(receipt.len() - 2);
    let other = format!("{head}{}", if last == "AA" { "BA" } else { "AA" });
    let said = verify(&world, &other, &turn.id, &call).await;
    assert_eq!(said["valid"], false, "{said}");

    // A new life has new keys: the record is there, the key is not.
    world.crash().await;
    let gone = json!({ "valid": null, "reason": "key_gone" });
    assert_eq!(verify(&world, &receipt, &turn.id, &call).await, gone);
    world.finish().await;
}

// T17, V-J12
#[tokio::test]
async fn a_direct_conversations_key_ends_when_it_goes_to_rest_and_a_channels_does_not() {
    let world = World::start(program!(), config(false)).await;
    let twice = vec![Call::new("time", json!({})), Call::new("time", json!({}))];
    asks(&world, "go", twice.clone());
    asks(&world, "post", twice);
    let mut ws = world.api.ws("sat").await;
    ws.say("m1", "go").await;
    let ended = ws.until("ended").await.pop().unwrap();
    let direct = world.api.turn(ended["turn"].as_str().unwrap()).await;
    let texts = result_texts(&world.model.last_request());
    let receipts: Vec<&str> = texts.iter().map(|text| receipt_of(text).unwrap()).collect();
    // Two identical calls in one moment.
    assert_ne!(receipts[0], receipts[1]);
    let valid = json!({ "valid": true });
    assert_eq!(verify(&world, receipts[0], &direct.id, &direct.calls[0].id).await, valid);
    let swapped = verify(&world, receipts[0], &direct.id, &direct.calls[1].id).await;
    assert_eq!(swapped, json!({ "valid": false, "reason": "mismatch" }));

    let posted = world.api.say("c", "post").await;
    let texts = result_texts(&world.model.last_request());
    let of_channel = receipt_of(&texts[0]).unwrap();
    ws.close().await;
    let gone = json!({ "valid": null, "reason": "key_gone" });
    until("the conversation's key is gone", || async {
        let said = verify(&world, receipts[0], &direct.id, &direct.calls[0].id).await;
        if said == gone { Ok(()) } else { Err(said.to_string()) }
    })
    .await;
    world.assert_quiet().await;
    assert_eq!(verify(&world, of_channel, &posted.id, &posted.calls[0].id).await, valid);
    world.finish().await;
}

// V-J10, V-I12
#[tokio::test]
async fn an_interrupted_call_has_no_receipt_and_the_one_that_was_done_keeps_its_own() {
    let world = World::start(program!(), config(false)).await;
    asks(&world, "go", vec![Call::shell("echo hello"), Call::hold("a")]);
    let id = world.api.tell("c", "go").await;
    world.file("a.started").await;
    let states = ["succeeded", "running"];
    world.api.turn_when(&id, "one call is done", |turn| turn.call_states() == states).await;
    world.api.cancel(&id).await;
    let turn = world.api.ended(&id).await;
    assert_eq!(turn.call_states(), ["succeeded", "interrupted"]);
    let history = world.api.messages("webhook.ci", "c").await;
    let results: Vec<&str> = history
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    let receipt = receipt_of(results[0]).unwrap();
    let said = verify(&world, receipt, &turn.id, &turn.calls[0].id).await;
    assert_eq!(said, json!({ "valid": true }));
    assert!(!results[1].contains("receipt"), "{results:?}");
    world.finish().await;
}
