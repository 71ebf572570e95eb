use serde_json::json;

use super::*;
use crate::model::responses::Responses;
use crate::model::testing::{ended, origin_of, raw, read, said, thought, upstream, used};

fn reader() -> EventReader {
    EventReader::new(upstream(), origin_of::<Responses>("m"))
}

fn created() -> Value {
    json!({"type": "response.created", "response": {"id": "resp_1"}})
}

fn text(index: u64, delta: &str) -> Value {
    json!({"type": "response.output_text.delta", "output_index": index, "delta": delta})
}

fn item(event: &str, index: u64, item: Value) -> Value {
    json!({"type": format!("response.output_item.{event}"), "output_index": index, "item": item})
}

fn call(arguments: &str) -> Value {
    json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": arguments})
}

fn message(text: &str) -> Value {
    json!({"type": "message", "content": [{"type": "output_text", "text": text}]})
}

fn completed(output: Value) -> Value {
    json!({"type": "response.completed", "response": {
        "output": output, "usage": {"input_tokens": 5, "output_tokens": 6}
    }})
}

// A042, V-L18
#[test]
fn reasoning_text_and_calls_are_read_in_the_order_of_their_items() {
    let reasoning = json!({
        "type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "s"}],
        "encrypted_content": "gAAAA==", "status": null,
    });
    let got = read(
        reader(),
        &[
            created(),
            json!({"type": "response.in_progress", "response": {}}),
            item("added", 0, json!({"type": "reasoning", "id": "rs_1", "summary": []})),
            json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "s"}),
            item("done", 0, reasoning),
            item("added", 1, json!({"type": "message", "content": []})),
            text(1, "Hi"),
            item("done", 1, message("Hi")),
            item(
                "added",
                3,
                json!({"type": "function_call", "call_id": "call_2", "name": "g", "arguments": ""}),
            ),
            item("added", 2, call("")),
            json!({"type": "response.function_call_arguments.delta", "output_index": 2, "delta": "{\"k\":"}),
            json!({"type": "response.function_call_arguments.delta", "output_index": 2, "delta": "1}"}),
            json!({"type": "response.function_call_arguments.done", "output_index": 2, "arguments": "{\"k\":1}"}),
            item("done", 2, call("{\"k\":1}")),
            completed(json!([])),
        ],
    );
    let kept = OpaqueBlock {
        origin: origin_of::<Responses>("m"),
        after_text: 0,
        after_calls: 0,
        block: json!({
            "type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "s"}],
            "encrypted_content": "gAAAA==",
        }),
    };
    let want = vec![
        thought("s"),
        ModelDelta::Opaque(kept),
        said("Hi"),
        used(5, 6),
        ended(
            FinishReason::ToolCalls,
            vec![raw("call_1", "f", "{\"k\":1}"), raw("call_2", "g", "{}")],
        ),
    ];
    assert_eq!(got, (want, None));
}

// I4, A042: it goes back with the next request, which would be refused
#[test]
fn a_reasoning_item_without_its_empty_parts_is_kept_whole_and_one_without_content_is_not_kept() {
    let kept = |reasoning: Value| {
        let (deltas, error) = read(
            reader(),
            &[created(), item("done", 0, reasoning), text(1, "Hi"), completed(json!([]))],
        );
        assert_eq!(error, None);
        deltas.into_iter().find_map(|delta| match delta {
            ModelDelta::Opaque(kept) => Some(kept.block),
            _ => None,
        })
    };
    let whole =
        json!({"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "gA=="});
    for summary in [None, Some(Value::Null), Some(json!("s"))] {
        let mut given = json!({"type": "reasoning", "id": "rs", "encrypted_content": "gA=="});
        if let Some(summary) = summary {
            given["summary"] = summary;
        }
        assert_eq!(kept(given), Some(whole.clone()));
    }
    for content in [json!(" "), json!(null), json!(7)] {
        let given =
            json!({"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": content});
        assert_eq!(kept(given), None);
    }
}

// V-E3
#[test]
fn text_that_did_not_come_as_deltas_is_told_once() {
    let end = || ended(FinishReason::Stop, vec![]);
    let all = read(reader(), &[created(), completed(json!([message("Hi there")]))]);
    assert_eq!(all, (vec![said("Hi there"), used(5, 6), end()], None));
    let tail = read(reader(), &[created(), text(0, "Hi"), completed(json!([message("Hi there")]))]);
    assert_eq!(tail, (vec![said("Hi"), said(" there"), used(5, 6), end()], None));
    let same = read(
        reader(),
        &[
            created(),
            text(0, "Hi"),
            item("done", 0, message("Hi")),
            completed(json!([message("Hi")])),
        ],
    );
    assert_eq!(same, (vec![said("Hi"), used(5, 6), end()], None));
    let calls = read(reader(), &[created(), completed(json!([call("{}")]))]).0;
    assert_eq!(calls.last(), Some(&ended(FinishReason::ToolCalls, vec![raw("call_1", "f", "{}")])));
}

// A035
#[test]
fn without_its_terminal_event_nothing_is_complete_and_no_call_is_given() {
    let whole = [
        created(),
        text(0, "The answer is"),
        item("done", 0, message("The answer is")),
        item("added", 1, call("")),
        item("done", 1, call("{}")),
        completed(json!([])),
    ];
    for cut in 1..whole.len() {
        let (deltas, class) = read(reader(), &whole[..cut]);
        assert_eq!(class, Some(ModelErrorClass::Truncated), "cut at {cut}");
        assert!(!deltas.iter().any(|delta| matches!(delta, ModelDelta::Ended { .. })));
    }
    assert_eq!(read(reader(), &[]).1, Some(ModelErrorClass::Empty));
}

// A034
#[test]
fn failures_have_their_class() {
    let failed = |code: &str| json!({"type": "response.failed", "response": {"error": {"code": code, "message": "no"}}});
    for (event, class) in [
        (failed("server_error"), ModelErrorClass::Server),
        (failed("rate_limit_exceeded"), ModelErrorClass::RateLimited),
        (failed("insufficient_quota"), ModelErrorClass::Quota),
        (failed("context_length_exceeded"), ModelErrorClass::ContextTooLong),
        (failed("invalid_prompt"), ModelErrorClass::InvalidRequest),
        (
            json!({"type": "error", "code": "rate_limit_exceeded", "message": "slow"}),
            ModelErrorClass::RateLimited,
        ),
        (
            json!({"type": "error", "error": {"type": "server_error", "message": "x"}}),
            ModelErrorClass::Server,
        ),
        (json!({"error": {"code": 502, "message": "x"}}), ModelErrorClass::Server),
    ] {
        let got = read(reader(), &[created(), text(0, "Hi"), event.clone()]);
        assert_eq!(got, (vec![said("Hi")], Some(class)), "{event}");
    }
}

// A036, A048
#[test]
fn an_incomplete_response_says_why() {
    let with = |reason: &str, events: &[Value]| {
        let mut all = vec![created()];
        all.extend_from_slice(events);
        all.push(json!({"type": "response.incomplete", "response": {"incomplete_details": {"reason": reason}}}));
        read(reader(), &all).0.into_iter().last()
    };
    assert_eq!(
        with("max_output_tokens", &[text(0, "Hi")]),
        Some(ended(FinishReason::Length, vec![]))
    );
    assert_eq!(with("content_filter", &[]), Some(ended(FinishReason::ContentFilter, vec![])));
    let cut = with("max_output_tokens", &[item("added", 0, call(""))]);
    let calls = vec![raw("call_1", "f", "[cut off by the output cap]")];
    assert_eq!(cut, Some(ended(FinishReason::Length, calls)));
    assert_eq!(read(reader(), &[created(), completed(json!([]))]).1, Some(ModelErrorClass::Empty));
}

// V-L20
#[test]
fn what_no_server_sends_is_a_bounded_failure() {
    for event in [
        text(99_999_999, "x"),
        item("done", 0, json!({"type": "function_call", "call_id": "c"})),
        json!("x"),
    ] {
        let got = read(reader(), &[created(), event.clone(), completed(json!([]))]);
        assert_eq!(got.1, Some(ModelErrorClass::Protocol), "{event}");
    }
}
