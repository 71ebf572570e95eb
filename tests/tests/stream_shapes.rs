//! The shapes in which OpenAI-compatible servers stream, from the provider's socket to the tool.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails at the place of the fault"
)]

use bytes::Bytes;
use rookery_tests::model::{paired_results, result_texts};
use rookery_tests::sse::{kinds, visible};
use rookery_tests::{Config, Gate, Reply, World, program};
use serde_json::{Value, json};

async fn world() -> World {
    World::start(
        program!(),
        Config::new().provider("max_attempts = 1").runtime("parallel_tools = false"),
    )
    .await
}

fn chunk(delta: Value, finish: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
}

fn calls(entries: Value) -> Value {
    chunk(json!({ "tool_calls": entries }), Value::Null)
}

fn events(list: &[Value]) -> Reply {
    list.iter().fold(Reply::stream(), |reply, event| reply.event(event))
}

/// A call of `shell` that prints `word`, as the arguments' text.
fn echo(word: &str) -> String {
    json!({"command": format!("echo {word}")}).to_string()
}

/// Plays a stream that asks for calls; gives the results the model then reads.
async fn results(world: &World, case: &str, reply: Reply) -> Vec<String> {
    let reply = reply.complete("tool_calls");
    world.model.script(case, [reply, Reply::text("done")]);
    let turn = world.api.say(case, case).await;
    assert_eq!(turn.text(), "done", "{case}: {turn:?}");
    result_texts(&world.model.last_request())
}

// V-L18, A027, A028, A029, A030, A032, A040
#[tokio::test]
async fn calls_are_put_together_however_their_deltas_are_numbered() {
    let world = world().await;
    let f = |name: &str, arguments: &str| json!({"name": name, "arguments": arguments});
    let (one, two) = (echo("one"), echo("two"));
    let cut = one.len() / 2;
    let (head, rest) = one.split_at(cut);
    let cases: Vec<(&str, Reply, Vec<&str>)> = vec![
        (
            "no index",
            events(&[
                calls(json!([{"id": "a1", "function": f("shell", &one)}])),
                calls(json!([{"id": "a2", "function": f("shell", &two)}])),
            ]),
            vec!["one", "two"],
        ),
        (
            "index 0 for all",
            events(&[
                calls(json!([{"index": 0, "id": "b1", "function": f("shell", &one)}])),
                calls(json!([{"index": 0, "id": "b2", "function": f("shell", &two)}])),
            ]),
            vec!["one", "two"],
        ),
        (
            "one index twice in a delta",
            events(&[
                calls(json!([
                    {"index": 0, "id": "c1", "function": {"name": "shell"}},
                    {"index": 0, "function": {"arguments": head}}
                ])),
                calls(json!([{"index": 0, "function": {"arguments": rest}}])),
            ]),
            vec!["one"],
        ),
        (
            "empty arguments first",
            events(&[
                calls(json!([{"index": 0, "id": "d1", "function": f("shell", "")}])),
                calls(json!([{"index": 0, "function": {"arguments": head}}])),
                calls(json!([{"index": 0, "function": {"arguments": rest}}])),
            ]),
            vec!["one"],
        ),
        (
            "empty id later",
            events(&[
                calls(json!([{"index": 0, "id": "e1", "function": f("shell", head)}])),
                calls(json!([{"index": 0, "id": "", "function": {"name": "", "arguments": rest}}])),
            ]),
            vec!["one"],
        ),
        (
            "empty finish reasons",
            events(&[
                chunk(
                    json!({"tool_calls": [{"index": 0, "id": "g1", "function": f("shell", head)}]}),
                    json!(""),
                ),
                chunk(
                    json!({"tool_calls": [{"index": 0, "function": {"arguments": rest}}]}),
                    json!(""),
                ),
            ]),
            vec!["one"],
        ),
    ];
    for (case, reply, words) in cases {
        let texts = results(&world, case, reply).await;
        assert_eq!(texts.len(), words.len(), "{case}: {texts:?}");
        for (text, word) in texts.iter().zip(words) {
            assert!(text.contains(word), "{case}: {texts:?}");
        }
    }
    world.finish().await;
}

// A031
#[tokio::test]
async fn no_arguments_are_an_empty_object_and_broken_ones_are_told_to_the_model() {
    let world = world().await;
    for (case, arguments) in [("absent", None), ("empty", Some("")), ("blank", Some("  "))] {
        let mut function = json!({"name": "time"});
        if let Some(arguments) = arguments {
            function["arguments"] = json!(arguments);
        }
        let entry = json!([{"index": 0, "id": format!("id-{case}"), "function": function}]);
        let texts = results(&world, case, events(&[calls(entry)])).await;
        assert!(texts[0].contains("UTC"), "{case}: {texts:?}");
    }
    let entry =
        json!([{"index": 0, "id": "x", "function": {"name": "time", "arguments": "{\"q\""}}]);
    let texts = results(&world, "broken", events(&[calls(entry)])).await;
    assert!(
        texts[0].starts_with(rookery_messages::tool::text::INVALID_ARGUMENTS_PREFIX),
        "{texts:?}"
    );
    world.finish().await;
}

// A033, A038, A039, A041, A037, V-L14, V-L15, V-L17
#[tokio::test]
async fn complete_answers_are_taken_whole_whatever_surrounds_them() {
    let world = world().await;
    let text = |text: &str, finish: Value| chunk(json!({ "content": text }), finish);
    let stop = || text("", json!("stop"));
    let rocket = format!("data: {}\n\n", text("\u{d6}\u{1f680}", Value::Null)).into_bytes();
    let split = rocket.iter().position(|byte| *byte == 0xc3).unwrap() + 1;
    let (first, rest) = rocket.split_at(split);
    let (second, third) = rest.split_at(3);
    let crlf = |event: &Value| format!("data: {event}\r\n\r\n");
    let cases: Vec<(&str, Reply, &str)> = vec![
        (
            "empty choices",
            events(&[
                json!({"choices": [], "prompt_filter_results": []}),
                text("Hi", Value::Null),
                stop(),
                json!({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}),
            ])
            .done(),
            "Hi",
        ),
        (
            "comments",
            Reply::stream()
                .raw(": ping\n\n: OPENROUTER PROCESSING\n\n")
                .event(&text("x", Value::Null))
                .raw(":\n\n")
                .event(&stop())
                .done(),
            "x",
        ),
        (
            "split characters",
            Reply::stream()
                .raw(first.to_vec())
                .raw(second.to_vec())
                .raw(third.to_vec())
                .event(&stop())
                .done(),
            "\u{d6}\u{1f680}",
        ),
        (
            "text with the finish",
            events(&[text("The", Value::Null), text(" end.", json!("stop"))]).done(),
            "The end.",
        ),
        (
            "carriage returns",
            Reply::stream()
                .raw(crlf(&text("a", Value::Null)).trim_end_matches('\n').to_owned())
                .raw("\n")
                .raw(crlf(&text("b", json!("stop"))))
                .done(),
            "ab",
        ),
        ("done without an end", events(&[text("well", Value::Null), stop()]).done().hang(), "well"),
        ("an end without done", events(&[text("well", Value::Null), stop()]), "well"),
        ("finished and left open", events(&[text("well", Value::Null), stop()]).hang(), "well"),
    ];
    for (case, reply, expected) in cases {
        world.model.script(case, [reply]);
        let turn = world.api.say(case, case).await;
        assert_eq!((turn.result(), turn.text()), ("answered", expected), "{case}: {turn:?}");
        if case == "empty choices" {
            assert_eq!((turn.usage.input, turn.usage.output), (7, 3), "{case}");
        }
    }
    world.finish().await;
}

// V-L16, A034, A035, A036, V-L20
#[tokio::test]
async fn what_is_incomplete_or_broken_is_an_error_and_none_of_its_calls_run() {
    let world = world().await;
    let call = |index: Value| json!([{"index": index, "id": "z", "function": {"name": "shell", "arguments": "{\"command\":\"touch ran\"}"}}]);
    let cases: Vec<(&str, Reply)> = vec![
        ("text without an end", events(&[chunk(json!({"content": "The answer is"}), Value::Null)])),
        ("a call without an end", events(&[calls(call(json!(0)))])),
        ("comments only", Reply::stream().raw(": ping\n\n: ping\n\n")),
        ("overloaded", Reply::stream().raw(
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
        )),
        ("an error as text", Reply::stream().raw("data: {\"error\":\"boom\"}\n\n").done()),
        ("a giant index", events(&[calls(call(json!(4_000_000_000_u64)))]).complete("tool_calls")),
        ("an invalid byte", Reply::stream().raw(Bytes::from_static(
            b"data: {\"choices\":[{\"delta\":{\"content\":\"a\xff\xfeb\"}}]}\n\n",
        ))),
    ];
    for (case, reply) in cases {
        world.model.script(case, [reply]);
        let turn = world.api.say(case, case).await;
        assert_eq!(turn.result(), "failed", "{case}: {turn:?}");
        assert!(turn.fault().starts_with("provider_"), "{case}: {turn:?}");
    }
    let cut = calls(json!([{"index": 0, "id": "y", "function": {
        "name": "file_write", "arguments": "{\"path\": \"cut.txt\", \"content\": \"abc"
    }}]));
    world.model.script(
        "cut by the cap",
        [events(&[cut]).complete("length"), Reply::text("I will write less")],
    );
    let turn = world.api.say("cap", "cut by the cap").await;
    assert_eq!(turn.call_states(), ["failed"]);
    let told = result_texts(&world.model.last_request());
    assert!(told[0].contains("output limit"), "{told:?}");
    assert!(!world.work("cut.txt").exists() && !world.work("ran").exists());
    world.finish().await;
}

// A036
#[tokio::test]
async fn an_answer_that_the_output_cap_cut_says_so_and_one_it_cut_to_nothing_fails() {
    let world = world().await;
    let chunk = |delta: Value| chunk(delta, Value::Null);
    let thought = events(&[chunk(json!({"reasoning_content": "on and on"}))]).complete("length");
    world.model.script("think", [thought]);
    let turn = world.api.say("a", "think").await;
    assert_eq!((turn.result(), turn.fault()), ("failed", "output_cap"));
    let half = events(&[chunk(json!({"content": "Once upon a"}))]).complete("length");
    world.model.script("tell", [half]);
    let turn = world.api.say("b", "tell").await;
    assert_eq!((turn.result(), turn.fault()), ("answered", "output_cap"));
    assert!(turn.text().starts_with("Once upon a\n\n["), "{turn:?}");
    assert!(turn.text().contains("output limit"), "{turn:?}");
    world.finish().await;
}

#[tokio::test]
async fn a_retry_before_the_first_byte_succeeds_and_follows_the_providers_advice() {
    let world = World::start(program!(), Config::new()).await;
    world.model.script(
        "busy",
        [
            Reply::error(429, "slow down").header("retry-after", "1"),
            Reply::error(503, "busy"),
            Reply::text("at last"),
        ],
    );
    let began = tokio::time::Instant::now();
    let turn = world.api.say("c", "busy").await;
    assert_eq!((turn.text(), world.model.count()), ("at last", 3));
    assert!(began.elapsed().as_millis() >= 1_000, "the advice was not followed");
    world.finish().await;
}

// R8
#[tokio::test]
async fn text_is_shown_before_the_call_behind_it_is_whole_and_the_call_runs_once_the_stream_has_ended()
 {
    let world = world().await;
    let (half, end) = (Gate::new(), Gate::new());
    let part = |arguments: &str| {
        calls(
            json!([{"index": 0, "id": "z", "function": {"name": "file_write", "arguments": arguments}}]),
        )
    };
    let more = |arguments: &str| calls(json!([{"index": 0, "function": {"arguments": arguments}}]));
    let first = events(&[chunk(json!({"content": "Let me write it down. "}), Value::Null)])
        .then(events(&[part("{\"path\": \"a.txt\", ")]))
        .gate(&half)
        .then(events(&[more("\"content\": \"down\"}")]))
        .gate(&end)
        .complete("tool_calls");
    world.model.script("note", [first, Reply::deltas(["It is ", "down."])]);
    let mut ws = world.api.ws("c").await;
    ws.say("1", "note this").await;
    let mut told = ws.until("delta").await;
    assert_eq!(visible(&told), "Let me write it down. ");
    half.open();
    end.reached().await;
    // All of the call has come, and the stream is still open.
    assert!(!world.work("a.txt").exists());
    end.open();
    told.extend(ws.until("ended").await);
    assert_eq!(world.read("a.txt"), "down");
    let shown: Vec<_> = kinds(&told).into_iter().filter(|kind| *kind != "usage").collect();
    let order = ["delta", "tool_call", "tool_result", "delta", "ended"];
    let mut rest = shown.iter();
    assert!(order.iter().all(|kind| rest.any(|seen| seen == kind)), "{shown:?}");
    // A new stream, with the result.
    let requests = world.model.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(paired_results(&requests[1]).len(), 1, "{}", requests[1]);
    assert_eq!(told.last().unwrap()["reply"], "It is down.");
    ws.close().await;
    world.finish().await;
}
