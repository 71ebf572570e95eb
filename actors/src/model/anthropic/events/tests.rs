use super::*;
use crate::model::anthropic::Anthropic;
use crate::model::testing::{ended, origin_of, raw, read, said, thought, upstream, used};

fn reader() -> EventReader {
    EventReader::new(upstream(), origin_of::<Anthropic>("m"))
}

fn started() -> Value {
    json!({"type": "message_start", "message": {"id": "msg_1", "usage": {
        "input_tokens": 10, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 30, "output_tokens": 1
    }}})
}

fn begins(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn part(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn text(index: u64, text: &str) -> Value {
    part(index, json!({"type": "text_delta", "text": text}))
}

fn stops(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn reason(reason: &str) -> Value {
    json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 7}})
}

fn stop() -> Value {
    json!({"type": "message_stop"})
}

fn call_block(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "f", "input": {}})
}

fn arguments(index: u64, part_of: &str) -> Value {
    part(index, json!({"type": "input_json_delta", "partial_json": part_of}))
}

fn kept(block: Value, after_text: usize, after_calls: usize) -> ModelDelta {
    let origin = origin_of::<Anthropic>("m");
    ModelDelta::Opaque(OpaqueBlock { origin, after_text, after_calls, block })
}

// A042, V-L18, V-L23
#[test]
fn thinking_text_and_calls_are_read_with_one_usage_before_the_end() {
    let got = read(
        reader(),
        &[
            started(),
            begins(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
            part(0, json!({"type": "thinking_delta", "thinking": "t"})),
            json!({"type": "ping"}),
            part(0, json!({"type": "signature_delta", "signature": "S1"})),
            part(0, json!({"type": "signature_delta", "signature": "=="})),
            stops(0),
            begins(1, json!({"type": "redacted_thinking", "data": "opaque"})),
            stops(1),
            begins(2, json!({"type": "text", "text": ""})),
            text(2, "Hi"),
            part(2, json!({"type": "citations_delta", "citation": {}})),
            stops(2),
            begins(3, call_block("toolu_1")),
            arguments(3, ""),
            arguments(3, "{\"k\":"),
            arguments(3, "1}"),
            stops(3),
            begins(4, call_block("toolu_2")),
            stops(4),
            reason("tool_use"),
            stop(),
        ],
    );
    let want = vec![
        thought("t"),
        kept(json!({"type": "thinking", "thinking": "t", "signature": "S1=="}), 0, 0),
        kept(json!({"type": "redacted_thinking", "data": "opaque"}), 0, 0),
        said("Hi"),
        used(60, 7),
        ended(
            FinishReason::ToolCalls,
            vec![raw("toolu_1", "f", "{\"k\":1}"), raw("toolu_2", "f", "{}")],
        ),
    ];
    assert_eq!(got, (want, None));
}

// V-L22, A035
#[test]
fn without_message_stop_nothing_is_complete_and_no_call_is_given() {
    let whole = [
        started(),
        begins(0, json!({"type": "text", "text": ""})),
        text(0, "The answer is"),
        stops(0),
        begins(1, call_block("toolu_1")),
        arguments(1, "{}"),
        stops(1),
        reason("tool_use"),
        stop(),
    ];
    for cut in 1..whole.len() {
        let (deltas, class) = read(reader(), &whole[..cut]);
        assert_eq!(class, Some(ModelErrorClass::Truncated), "cut at {cut}");
        assert!(!deltas.iter().any(|delta| matches!(delta, ModelDelta::Ended { .. })));
        // What it cost is known all the same.
        assert!(matches!(deltas.last(), Some(ModelDelta::Usage(_))));
    }
    assert_eq!(read(reader(), &[]).1, Some(ModelErrorClass::Empty));
    assert_eq!(read(reader(), &whole).1, None);
}

// A034
#[test]
fn an_error_in_the_stream_has_its_class_and_leaves_the_text() {
    for (kind, class) in [
        ("overloaded_error", ModelErrorClass::Overloaded),
        ("api_error", ModelErrorClass::Server),
        ("rate_limit_error", ModelErrorClass::RateLimited),
        ("invalid_request_error", ModelErrorClass::InvalidRequest),
        ("authentication_error", ModelErrorClass::Auth),
        ("billing_error", ModelErrorClass::Quota),
        ("request_too_large", ModelErrorClass::ContextTooLong),
    ] {
        let error = json!({"type": "error", "error": {"type": kind, "message": "no"}});
        let got = read(reader(), &[started(), text(0, "Hi"), error, stop()]);
        assert_eq!(got, (vec![said("Hi"), used(60, 1)], Some(class)), "{kind}");
    }
}

// A036, A048
#[test]
fn ends_are_what_the_stop_reason_says() {
    let with = |events: &[Value], reason_: &str| {
        let mut all = vec![started()];
        all.extend_from_slice(events);
        all.extend([reason(reason_), stop()]);
        let (deltas, class) = read(reader(), &all);
        class.map_or_else(|| Ok(deltas.into_iter().last().unwrap()), Err)
    };
    let hi = [text(0, "Hi")];
    assert_eq!(with(&hi, "end_turn"), Ok(ended(FinishReason::Stop, vec![])));
    assert_eq!(with(&hi, "stop_sequence"), Ok(ended(FinishReason::Stop, vec![])));
    assert_eq!(with(&hi, "refusal"), Ok(ended(FinishReason::ContentFilter, vec![])));
    assert_eq!(
        with(&hi, "pause_turn"),
        Ok(ended(FinishReason::Other("pause_turn".into()), vec![]))
    );
    assert_eq!(with(&[], "end_turn"), Err(ModelErrorClass::Empty));
    assert_eq!(with(&[text(0, " \n")], "end_turn"), Err(ModelErrorClass::Empty));
    assert_eq!(with(&[], "max_tokens"), Ok(ended(FinishReason::Length, vec![])));
    let cut = with(&[begins(0, call_block("t"))], "max_tokens");
    let calls = vec![raw("t", "f", "[cut off by the output cap]")];
    assert_eq!(cut, Ok(ended(FinishReason::Length, calls)));
    let cut = with(&[begins(0, call_block("t")), arguments(0, "{\"k\":")], "max_tokens");
    assert_eq!(cut, Ok(ended(FinishReason::Length, vec![raw("t", "f", "{\"k\":")])));
}

// V-L20
#[test]
fn what_no_server_sends_is_a_bounded_failure() {
    for events in [
        vec![started(), begins(99_999_999, call_block("t"))],
        vec![started(), arguments(0, "{}")],
        vec![started(), begins(0, json!({"type": "tool_use", "id": "t", "input": {}})), stops(0)],
        vec![started(), json!([1])],
    ] {
        assert_eq!(read(reader(), &events).1, Some(ModelErrorClass::Protocol), "{events:?}");
    }
    // Unknown events, blocks and deltas are none of these.
    let odd = [
        started(),
        json!({"type": "novelty"}),
        begins(0, json!({"type": "server_tool_use", "id": "s", "name": "web", "input": {}})),
        arguments(0, "{}"),
        stops(0),
        text(1, "Hi"),
        stop(),
    ];
    let got = read(reader(), &odd);
    assert_eq!(got, (vec![said("Hi"), used(60, 1), ended(FinishReason::Stop, vec![])], None));
}
