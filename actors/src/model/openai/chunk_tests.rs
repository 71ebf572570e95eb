//! One table row a case: the chunks as they came, and what must be made of them.

use rookery_messages::model::RawCall;
use rookery_messages::settings::Secret;

use super::*;
use crate::model::stream::reading::MAX_RESPONSE_BYTES;

type Read = Result<(String, Vec<RawCall>, FinishReason, Usage), ModelErrorClass>;

fn parser() -> ChunkParser {
    ChunkParser::new(Upstream::new("main", Some(Secret::new("my-secret-key"))))
}

fn read_all(
    chunks: &[&str],
) -> Result<(Vec<ModelDelta>, ModelDelta), (Vec<ModelDelta>, ModelError)> {
    let mut parser = parser();
    let mut out = Vec::new();
    for chunk in chunks {
        if let Err(error) = parser.push(None, chunk, &mut out) {
            return Err((out, error));
        }
    }
    match parser.end() {
        Ok(end) => Ok((out, end)),
        Err(error) => Err((out, error)),
    }
}

fn text_of(deltas: &[ModelDelta]) -> String {
    deltas
        .iter()
        .filter_map(|delta| match delta {
            ModelDelta::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect()
}

fn read(chunks: &[&str]) -> Read {
    let (deltas, end) = read_all(chunks).map_err(|(_, error)| error.class)?;
    let ModelDelta::Ended { calls, finish } = end else { panic!("{end:?} is no end") };
    let usage = deltas.iter().rev().find_map(|delta| match delta {
        ModelDelta::Usage(usage) => Some(*usage),
        _ => None,
    });
    Ok((text_of(&deltas), calls, finish, usage.unwrap_or_default()))
}

fn call(id: &str, name: &str, arguments: &str) -> RawCall {
    RawCall {
        provider_id: (!id.is_empty()).then(|| id.to_owned()),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    }
}

/// A chunk with these `tool_calls`.
fn calls_chunk(entries: &str) -> String {
    format!(r#"{{"choices":[{{"delta":{{"tool_calls":[{entries}]}}}}]}}"#)
}

const FINISH_CALLS: &str = r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#;
const FINISH_STOP: &str = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;

#[track_caller]
fn assert_calls(entries: &[&str], want: &[RawCall]) {
    let mut chunks: Vec<String> = entries.iter().map(|entry| calls_chunk(entry)).collect();
    chunks.push(FINISH_CALLS.to_owned());
    let chunks: Vec<&str> = chunks.iter().map(String::as_str).collect();
    let want = (String::new(), want.to_vec(), FinishReason::ToolCalls, Usage::default());
    assert_eq!(read(&chunks), Ok(want), "{entries:?}");
}

// A027
#[test]
fn calls_without_index_are_told_apart_by_id() {
    let want =
        [call("a", "get_weather", r#"{"city":"Paris"}"#), call("b", "get_time", r#"{"tz":"JST"}"#)];
    assert_calls(
        &[
            r#"{"id":"a","function":{"name":"get_weather","arguments":"{\"city\":\"Paris\"}"}}"#,
            r#"{"id":"b","function":{"name":"get_time","arguments":"{\"tz\":\"JST\"}"}}"#,
        ],
        &want,
    );
    // In pieces: without id, the last call goes on; with its id, that call does.
    assert_calls(
        &[
            r#"{"id":"a","function":{"name":"get_weather","arguments":"{\"city\":"}}"#,
            r#"{"function":{"arguments":"\"Pa"}}"#,
            r#"{"id":"a","function":{"arguments":"ris\"}"}}"#,
            r#"{"id":"b","function":{"name":"get_time"}}"#,
            r#"{"function":{"arguments":"{\"tz\":\"JST\"}"}}"#,
        ],
        &want,
    );
    // Neither index nor id: two complete calls of one tool.
    let piece = r#"{"function":{"name":"f","arguments":"{\"n\":1}"}}"#;
    assert_calls(&[piece, piece], &[call("", "f", r#"{"n":1}"#), call("", "f", r#"{"n":1}"#)]);
}

// A027
#[test]
fn deltas_with_and_without_index_may_be_mixed() {
    assert_calls(
        &[
            r#"{"id":"a","function":{"name":"f","arguments":""}}"#,
            r#"{"index":0,"function":{"arguments":"{\"k\":1}"}}"#,
            r#"{"index":1,"id":"b","function":{"name":"g","arguments":"{"}}"#,
            r#"{"function":{"arguments":"}"}}"#,
        ],
        &[call("a", "f", r#"{"k":1}"#), call("b", "g", "{}")],
    );
}

// A028
#[test]
fn one_index_for_all_calls_is_not_taken_for_one_call() {
    assert_calls(
        &[
            r#"{"index":0,"id":"c1","function":{"name":"s","arguments":"{\"q\":\"x\"}"}}"#,
            r#"{"index":0,"id":"c2","function":{"name":"s","arguments":"{\"q\":"}}"#,
            r#"{"index":0,"function":{"arguments":"\"y\"}"}}"#,
        ],
        &[call("c1", "s", r#"{"q":"x"}"#), call("c2", "s", r#"{"q":"y"}"#)],
    );
    // Without ids: a complete call followed by a name.
    assert_calls(
        &[
            r#"{"index":0,"function":{"name":"s","arguments":"{\"q\":\"x\"}"}}"#,
            r#"{"index":0,"function":{"name":"s","arguments":"{\"q\":\"y\"}"}}"#,
            r#"{"index":0,"function":{"name":"t"}}"#,
        ],
        &[call("", "s", r#"{"q":"x"}"#), call("", "s", r#"{"q":"y"}"#), call("", "t", "{}")],
    );
    // Interleaved pieces find their own call.
    assert_calls(
        &[
            r#"{"index":0,"id":"c1","function":{"name":"s","arguments":"{\"q\":"}}"#,
            r#"{"index":0,"id":"c2","function":{"name":"s","arguments":"{\"q\":"}}"#,
            r#"{"index":0,"id":"c1","function":{"arguments":"1}"}}"#,
            r#"{"index":0,"id":"c2","function":{"arguments":"2}"}}"#,
        ],
        &[call("c1", "s", r#"{"q":1}"#), call("c2", "s", r#"{"q":2}"#)],
    );
}

// A029
#[test]
fn two_entries_of_one_index_in_one_chunk_are_one_call() {
    assert_calls(
        &[
            r#"{"index":0,"id":"a","function":{"name":"f"}},{"index":0,"function":{"arguments":"{\"k\":"}}"#,
            r#"{"index":0,"function":{"arguments":"1}"}}"#,
        ],
        &[call("a", "f", r#"{"k":1}"#)],
    );
}

// A030, V-L18
#[test]
fn a_call_is_given_only_once_the_response_is_complete() {
    let mut parser = parser();
    let mut out = Vec::new();
    for piece in [
        r#"{"index":0,"id":"a","function":{"name":"get_weather","arguments":""}}"#,
        r#"{"index":0,"function":{"arguments":"{\"loc"}}"#,
        r#"{"index":0,"function":{"arguments":"ation\":\"X\"}"}}"#,
    ] {
        assert_eq!(parser.push(None, &calls_chunk(piece), &mut out), Ok(true));
        assert_eq!((out.as_slice(), parser.phase()), ([].as_slice(), Phase::Open));
    }
    assert_eq!(parser.push(None, FINISH_CALLS, &mut out), Ok(true));
    assert_eq!(
        parser.end(),
        Ok(ModelDelta::Ended {
            calls: vec![call("a", "get_weather", r#"{"location":"X"}"#)],
            finish: FinishReason::ToolCalls,
        })
    );
}

// A031, V-L18
#[test]
fn absent_and_blank_arguments_are_an_empty_object_and_malformed_ones_stay_raw() {
    for arguments in ["", r#","arguments":"""#, r#","arguments":"  ""#, r#","arguments":null"#] {
        let piece = format!(r#"{{"index":0,"id":"a","function":{{"name":"list"{arguments}}}}}"#);
        assert_calls(&[&piece], &[call("a", "list", "{}")]);
    }
    assert_calls(
        &[r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{\"q\""}}"#],
        &[call("a", "f", r#"{"q""#)],
    );
    assert_calls(
        &[r#"{"index":0,"id":"a","function":{"name":"f","arguments":{"q":1}}}"#],
        &[call("a", "f", r#"{"q":1}"#)],
    );
}

// A032
#[test]
fn an_empty_id_or_name_is_absent() {
    assert_calls(
        &[
            r#"{"index":0,"id":"call_1","function":{"name":"B","arguments":"{\"a"}}"#,
            r#"{"index":0,"id":"","function":{"name":"","arguments":"\": 1}"}}"#,
        ],
        &[call("call_1", "B", r#"{"a": 1}"#)],
    );
    assert_calls(
        &[
            r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{\"a"}}"#,
            r#"{"index":0,"id":"a","function":{"name":"f","arguments":"\":1}"}}"#,
        ],
        &[call("a", "f", r#"{"a":1}"#)],
    );
}

// V-L18
#[test]
fn arguments_over_many_deltas_are_combined_by_index() {
    assert_calls(
        &[
            r#"{"index":0,"id":"a","function":{"name":"f","arguments":""}}"#,
            r#"{"index":1,"id":"b","function":{"name":"g","arguments":"{\"y\":"}}"#,
            r#"{"index":0,"function":{"arguments":"{\"x\":"}}"#,
            r#"{"index":1,"function":{"arguments":"2}"}},{"index":0,"function":{"arguments":"1}"}}"#,
        ],
        &[call("a", "f", r#"{"x":1}"#), call("b", "g", r#"{"y":2}"#)],
    );
}

// V-L20
#[test]
fn giant_indexes_and_floods_of_calls_are_bounded() {
    let giant = calls_chunk(r#"{"index":18446744073709551615,"id":"a","function":{"name":"f"}}"#);
    assert_eq!(read(&[&giant, FINISH_CALLS]), Err(ModelErrorClass::Protocol));
    // What is no index at all counts as absent.
    assert_calls(
        &[
            r#"{"index":99999999999999999999999,"id":"b","function":{"name":"g"}}"#,
            r#"{"index":-1,"id":"c","function":{"name":"h"}}"#,
        ],
        &[call("b", "g", "{}"), call("c", "h", "{}")],
    );
    let entry = |n: usize| format!(r#"{{"index":{n},"id":"{n}","function":{{"name":"f"}}}}"#);
    let at_cap: Vec<String> = (0..MAX_CALLS).map(entry).collect();
    let full = calls_chunk(&at_cap.join(","));
    assert_eq!(read(&[&full, FINISH_CALLS]).unwrap().1.len(), MAX_CALLS);
    let more = calls_chunk(&entry(MAX_CALLS));
    assert_eq!(read(&[&full, &more, FINISH_CALLS]), Err(ModelErrorClass::Protocol));
}

// V-L20
#[test]
fn an_endless_response_is_bounded() {
    let chunk = format!(r#"{{"choices":[{{"delta":{{"content":"{}"}}}}]}}"#, "x".repeat(1 << 20));
    let chunks = vec![chunk.as_str(); (MAX_RESPONSE_BYTES >> 20) + 1];
    assert_eq!(read(&chunks), Err(ModelErrorClass::Protocol));
}

// A033
#[test]
fn chunks_without_choices_are_no_fault() {
    let read = read(&[
        r#"{"choices":[],"prompt_filter_results":[]}"#,
        r#"{"choices":[{"delta":{"content":"Hi"}}]}"#,
        FINISH_STOP,
        r#"{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#,
        "[DONE]",
    ]);
    let usage = Usage { input: 1, output: 1 };
    assert_eq!(read, Ok(("Hi".to_owned(), vec![], FinishReason::Stop, usage)));
}

// A034
#[test]
fn an_error_inside_a_stream_is_typed_and_keeps_the_text_before_it() {
    let hi = r#"{"choices":[{"delta":{"content":"Hi"}}]}"#;
    for (chunk, class) in [
        (
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            ModelErrorClass::Overloaded,
        ),
        (r#"{"error":{"code":502,"message":"x"},"choices":[]}"#, ModelErrorClass::Server),
        (r#"{"error":"boom"}"#, ModelErrorClass::Server),
        (
            r#"{"error":{"type":"invalid_request_error","message":"no"},"choices":[{"delta":{}}]}"#,
            ModelErrorClass::InvalidRequest,
        ),
        (
            r#"{"choices":[{"delta":{"content":""},"finish_reason":"error","error":{"code":429,"message":"x"}}]}"#,
            ModelErrorClass::RateLimited,
        ),
        (r#"{"choices":[{"delta":{},"finish_reason":"error"}]}"#, ModelErrorClass::Server),
        (r#"{"object":"error","message":"m","code":400}"#, ModelErrorClass::InvalidRequest),
    ] {
        let (deltas, error) = read_all(&[hi, chunk, "[DONE]"]).unwrap_err();
        assert_eq!((text_of(&deltas).as_str(), error.class), ("Hi", class), "{chunk}");
    }
    for data in ["plain words", r#"{"message":"bare"}"#] {
        let error = parser().push(Some("error"), data, &mut Vec::new()).unwrap_err();
        assert_eq!(error.class, ModelErrorClass::Server, "{data}");
    }
    let fine = r#"{"error":null,"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}"#;
    assert_eq!(read(&[fine]).unwrap().0, "Hi");
}

// V-L24
#[test]
fn a_configured_key_does_not_leave_with_an_error() {
    let chunk = r#"{"error":"the key my-secret-key is wrong"}"#;
    let (_, error) = read_all(&[chunk]).unwrap_err();
    assert!(!error.message.contains("my-secret-key"), "{error}");
}

// A035, V-L16
#[test]
fn an_end_without_finish_reason_is_a_truncation_and_gives_no_calls() {
    let text = r#"{"choices":[{"delta":{"content":"The answer is"}}]}"#;
    assert_eq!(read(&[text]), Err(ModelErrorClass::Truncated));
    let complete = calls_chunk(r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}"#);
    assert_eq!(read(&[&complete]), Err(ModelErrorClass::Truncated));
}

// A036
#[test]
fn the_output_cap_is_told_and_a_call_it_cut_is_not_runnable() {
    let capped = r#"{"choices":[{"delta":{},"finish_reason":"length"}]}"#;
    for arguments in [r#""{\"content\":\"abc""#, r#""""#] {
        let piece =
            format!(r#"{{"index":0,"id":"a","function":{{"name":"f","arguments":{arguments}}}}}"#);
        let (_, calls, finish, _) = read(&[&calls_chunk(&piece), capped]).unwrap();
        assert_eq!(finish, FinishReason::Length);
        let parsed = rookery_messages::chat::Arguments::parse(&calls[0].arguments);
        assert!(
            matches!(parsed, rookery_messages::chat::Arguments::Invalid { .. }),
            "{parsed:?} would run"
        );
    }
    let thought = r#"{"choices":[{"delta":{"reasoning_content":"hm"}}]}"#;
    assert_eq!(read(&[thought, capped]).unwrap().2, FinishReason::Length);
}

// A040
#[test]
fn an_empty_finish_reason_is_absent_and_an_unknown_one_is_told() {
    assert_eq!(
        read(&[
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\""}}]},"finish_reason":""}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]},"finish_reason":null}]}"#,
            FINISH_CALLS,
        ])
        .unwrap()
        .1,
        vec![call("a", "f", r#"{"x":1}"#)]
    );
    let open = r#"{"choices":[{"delta":{"content":"x"},"finish_reason":""}]}"#;
    assert_eq!(read(&[open]), Err(ModelErrorClass::Truncated));
    let odd = r#"{"choices":[{"delta":{"content":"x"},"finish_reason":"eos"}]}"#;
    assert_eq!(read(&[odd]).unwrap().2, FinishReason::Other("eos".to_owned()));
}

// A041
#[test]
fn what_stands_beside_the_finish_reason_is_kept() {
    let last = r#"{"choices":[{"delta":{"content":" end."},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":4}}"#;
    let want = (" end.".to_owned(), vec![], FinishReason::Stop, Usage { input: 3, output: 4 });
    assert_eq!(read(&[last]), Ok(want));
}

// V-L14, V-L15
#[test]
fn done_or_a_finish_reason_alone_completes() {
    let text = r#"{"choices":[{"delta":{"content":"x"}}]}"#;
    assert_eq!(read(&[text, "[DONE]"]).unwrap().2, FinishReason::Stop);
    assert_eq!(read(&[text, FINISH_STOP]).unwrap().2, FinishReason::Stop);
    assert_eq!(read(&[text, "[DONE]", "not read any more"]).unwrap().0, "x");
    // Some servers say `stop` although they ask for tools.
    let asks = calls_chunk(r#"{"index":0,"function":{"name":"f"}}"#);
    assert_eq!(read(&[&asks, FINISH_STOP]).unwrap().2, FinishReason::ToolCalls);
    assert_eq!(read(&[&asks, "[DONE]"]).unwrap().2, FinishReason::ToolCalls);
}

// A038, V-L7 (the typed error), A048
#[test]
fn nothing_at_all_is_no_success() {
    assert_eq!(read(&[]), Err(ModelErrorClass::Empty));
    assert_eq!(read(&["[DONE]"]), Err(ModelErrorClass::Empty));
    assert_eq!(read(&[FINISH_STOP]), Err(ModelErrorClass::Empty));
    let blank = r#"{"choices":[{"delta":{"content":"\n"}}]}"#;
    assert_eq!(read(&[blank, FINISH_STOP]), Err(ModelErrorClass::Empty));
    let filtered = r#"{"choices":[{"delta":{},"finish_reason":"content_filter"}]}"#;
    assert_eq!(read(&[filtered]).unwrap().2, FinishReason::ContentFilter);
}

#[test]
fn reasoning_is_never_text() {
    let (deltas, _) = read_all(&[
        r#"{"choices":[{"delta":{"reasoning":"a","content":null}}]}"#,
        r#"{"choices":[{"delta":{"reasoning_content":"b","reasoning":"b"}}]}"#,
        r#"{"choices":[{"delta":{"content":[{"type":"text","text":"c"}]},"finish_reason":"stop"}]}"#,
    ])
    .unwrap();
    let thought = |text: &str| ModelDelta::Thinking(text.to_owned());
    assert_eq!(deltas, vec![thought("a"), thought("b"), ModelDelta::Text("c".to_owned())]);
}

#[test]
fn garbage_is_a_protocol_error_with_a_bounded_excerpt() {
    let long = "x".repeat(5_000);
    for data in ["{\"choices\":[", "<html>", "17", "[]", long.as_str()] {
        let (_, error) = read_all(&[data]).unwrap_err();
        assert_eq!(error.class, ModelErrorClass::Protocol, "{data}");
        assert!(error.message.len() < 900, "{} bytes", error.message.len());
    }
    for odd in [
        r#"{"choices":null}"#,
        r#"{"choices":{}}"#,
        r#"{"choices":[null,7]}"#,
        r#"{"choices":[{"delta":[]}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":{}}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[null,3,{}]}}]}"#,
        r#"{"choices":[{"index":1,"delta":{"content":"other choice"}}]}"#,
        r#"{"usage":{}}"#,
        "null",
    ] {
        let mut out = Vec::new();
        assert_eq!(parser().push(None, odd, &mut out), Ok(false), "{odd}");
        assert_eq!(out, vec![], "{odd}");
    }
    let nameless = calls_chunk(r#"{"index":0,"id":"a","function":{"arguments":"{}"}}"#);
    assert_eq!(read(&[&nameless, FINISH_CALLS]), Err(ModelErrorClass::Protocol));
}
