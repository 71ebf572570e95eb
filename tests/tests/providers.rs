//! Every wire protocol, spoken with a provider nobody here wrote (`@copilotkit/aimock`): a text turn, a
//! call, four parallel calls, a stream that breaks, a stop mid-batch, and the request after it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails at the place of the fault"
)]

use rookery_tests::peer::Aimock;
use rookery_tests::{Config, World, program};
use serde_json::{Value, json};

fn first(text: &str, response: Value) -> Value {
    json!({"match": {"userMessage": text, "hasToolResult": false}, "response": response})
}

fn after(text: &str, answer: &str) -> Value {
    json!({"match": {"userMessage": text, "hasToolResult": true}, "response": {"content": answer}})
}

fn fixtures() -> Value {
    let shell = |id: &str, command: &str| json!({"id": id, "name": "shell", "arguments": {"command": command}});
    let meet = |name: &str| {
        format!(
            "touch {name}.here; while [ $(ls *.here | wc -l) -lt 4 ]; do sleep 0.02; done; echo {name} met"
        )
    };
    let mut breaks =
        first("break off", json!({"content": "This sentence is long and never comes to its end."}));
    breaks["chunkSize"] = json!(5);
    breaks["truncateAfterChunks"] = json!(6);
    let read = json!({"id": "call_look", "name": "file_read", "arguments": {"path": "note.txt"}});
    json!({"fixtures": [
        first("say something", json!({"content": "Rooks nest together, many to a tree, each in its own."})),
        first("look", json!({"toolCalls": [read]})),
        after("look", "The note was read."),
        first("four", json!({"toolCalls": [
            shell("call_a", &meet("a")), shell("call_b", &meet("b")),
            shell("call_c", &meet("c")), shell("call_d", &meet("d"))
        ]})),
        after("four", "All four met."),
        first("ponder", json!({
            "reasoning": "The note will tell.", "reasoningSignature": "c2lnbmVkIGJ5IG5vYm9keQ==",
            "toolCalls": [{"id": "call_think", "name": "file_read", "arguments": {"path": "note.txt"}}]
        })),
        after("ponder", "It was worth the thought."),
        breaks,
        {"match": {"userMessage": "refuse me"}, "response": {
            "error": {"message": "Overloaded", "type": "overloaded_error"}, "status": 529
        }},
        first("stop me", json!({"toolCalls": [
            shell("call_quick", "echo quick"),
            shell("call_slow", "touch slow.started; while [ ! -e slow.go ]; do sleep 0.02; done"),
        ]})),
        after("stop me", "never asked"),
        {"match": {"userMessage": "continue"}, "response": {"content": "Going on."}},
    ]})
}

/// Drives a whole day of one provider. `base` makes the profile's address of the peer's.
async fn drive(kind: &str, model: &str, base: fn(&str) -> String) {
    let dir = tempfile::tempdir().unwrap();
    let Some(peer) = Aimock::start(dir.path(), &fixtures(), 2).await else { return };
    let config = Config::new()
        .provider(&format!("kind = \"{kind}\""))
        .provider(&format!("model = \"{model}\""))
        .provider("max_attempts = 2")
        .provider(&format!("base_url = \"{}\"", base(&peer.root_url())));
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

    // What was shown can't be taken back: no second try, and no answer that looks like one.
    let broken = world.api.say("e", "break off").await;
    assert_eq!(broken.result(), "failed");
    assert!(["provider_truncated", "provider_network"].contains(&broken.fault()), "{broken:?}");
    assert_eq!(world.api.say("e", "continue").await.text(), "Going on.");

    let refused = world.api.say("f", "refuse me").await;
    assert_eq!((refused.result(), refused.fault()), ("failed", "provider_overloaded"));

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

// R17
#[tokio::test]
async fn openai_drives_text_calls_parallel_calls_a_broken_stream_and_a_stop() {
    drive("openai", "gpt-4.1-mini", |root| format!("{root}/v1")).await;
}

// R17
#[tokio::test]
async fn openai_responses_drives_text_calls_parallel_calls_a_broken_stream_and_a_stop() {
    drive("openai_responses", "gpt-5", |root| format!("{root}/v1")).await;
}

// R17, A109
#[tokio::test]
async fn anthropic_drives_text_calls_parallel_calls_a_broken_stream_and_a_stop() {
    drive("anthropic", "claude-sonnet-4-5", |root| format!("{root}/v1")).await;
}

// R17
#[tokio::test]
async fn gemini_drives_text_calls_parallel_calls_a_broken_stream_and_a_stop() {
    drive("gemini", "gemini-2.5-flash", |root| format!("{root}/v1beta")).await;
}

// R17
#[tokio::test]
async fn ollama_drives_text_calls_parallel_calls_a_broken_stream_and_a_stop() {
    drive("ollama", "qwen3", str::to_owned).await;
}

// A042
#[tokio::test]
async fn thinking_that_was_signed_goes_back_in_a_tool_loop_and_after_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let Some(peer) = Aimock::start(dir.path(), &fixtures(), 2).await else { return };
    let config = Config::new()
        .provider("kind = \"anthropic\"")
        .provider("model = \"claude-sonnet-4-5\"")
        .provider("reasoning_effort = \"low\"")
        .provider(&format!("base_url = \"{}/v1\"", peer.root_url()));
    let mut world = World::start(program!(), config).await;
    world.put("note.txt", "remember the milk\n");
    // The peer refuses a loop whose answers don't begin with their signed thinking.
    let mut ws = world.api.ws("a").await;
    ws.say("w1", "ponder").await;
    let told = ws.until("ended").await;
    let thought: String = told
        .iter()
        .filter(|frame| frame["type"] == "thinking")
        .map(|frame| frame["text"].as_str().unwrap())
        .collect();
    assert_eq!(thought, "The note will tell.");
    assert_eq!(told.last().unwrap()["reply"], "It was worth the thought.");
    world.crash().await;
    let mut ws = world.api.ws("a").await;
    ws.say("w2", "ponder").await;
    assert_eq!(ws.until("ended").await.last().unwrap()["reply"], "It was worth the thought.");
    world.finish().await;
}
