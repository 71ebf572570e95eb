//! A provider nobody here wrote: `@copilotkit/aimock` drives a text turn, one call, four parallel calls,
//! and a stop mid-batch.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails at the place of the fault"
)]

use rookery_tests::peer::Aimock;
use rookery_tests::{Config, World, program};
use serde_json::{Value, json};

fn fixtures() -> Value {
    let first = |text: &str, response: Value| json!({"match": {"userMessage": text, "hasToolResult": false}, "response": response});
    let after = |text: &str, answer: &str| json!({"match": {"userMessage": text, "hasToolResult": true}, "response": {"content": answer}});
    let shell = |id: &str, command: &str| json!({"id": id, "name": "shell", "arguments": {"command": command}});
    let meet = |name: &str| {
        format!(
            "touch {name}.here; while [ $(ls *.here | wc -l) -lt 4 ]; do sleep 0.02; done; echo {name} met"
        )
    };
    json!({"fixtures": [
        first("say something", json!({"content": "Rooks nest together, many to a tree, each in its own."})),
        first("look", json!({"toolCalls": [{"id": "call_look", "name": "file_read", "arguments": {"path": "note.txt"}}]})),
        after("look", "The note was read."),
        first("four", json!({"toolCalls": [
            shell("call_a", &meet("a")), shell("call_b", &meet("b")),
            shell("call_c", &meet("c")), shell("call_d", &meet("d"))
        ]})),
        after("four", "All four met."),
        first("stop me", json!({"toolCalls": [
            shell("call_quick", "echo quick"),
            shell("call_slow", "touch slow.started; while [ ! -e slow.go ]; do sleep 0.02; done"),
        ]})),
        after("stop me", "never asked"),
        {"match": {"userMessage": "continue"}, "response": {"content": "Going on."}},
    ]})
}

#[tokio::test]
async fn a_third_party_provider_drives_text_calls_parallel_calls_and_a_stop() {
    let dir = tempfile::tempdir().unwrap();
    let Some(peer) = Aimock::start(dir.path(), &fixtures(), 2).await else { return };
    let config = Config::new().provider(&format!("base_url = \"{}\"", peer.base_url()));
    let world = World::start(program!(), config).await;
    world.put("note.txt", "remember the milk\n");

    let text = world.api.say("a", "say something").await;
    assert_eq!(text.text(), "Rooks nest together, many to a tree, each in its own.");

    let one = world.api.say("b", "look").await;
    assert_eq!((one.text(), one.call_states()), ("The note was read.", vec!["succeeded"]));

    // Each waits for the three others: they end only if all four run at once.
    let four = world.api.say("c", "four").await;
    assert_eq!((four.text(), four.call_states()), ("All four met.", vec!["succeeded"; 4]));
    let kept = world.api.messages("webhook.ci", "c").await;
    let results: Vec<&str> = kept
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| message["content"].as_str().unwrap().trim())
        .collect();
    assert_eq!(results, ["a met", "b met", "c met", "d met"]);

    let id = world.api.tell("d", "stop me").await;
    world.file("slow.started").await;
    let what = "the quick call has ended";
    world.api.turn_when(&id, what, |turn| turn.call_states() == ["succeeded", "running"]).await;
    world.api.cancel(&id).await;
    let stopped = world.api.ended(&id).await;
    assert_eq!(stopped.result(), "cancelled");
    assert_eq!(stopped.call_states(), ["succeeded", "interrupted"]);
    // The peer takes the history of the stopped turn: each call has its result.
    assert_eq!(world.api.say("d", "continue").await.text(), "Going on.");
    world.finish().await;
}
