use super::*;
use crate::model::gemini::Gemini;
use crate::model::testing::{ended, origin_of, raw, read, said, thought, upstream, used};

fn reader() -> ChunkReader {
    ChunkReader::new(upstream(), origin_of::<Gemini>("m"))
}

fn parts(parts: Value) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}}]})
}

fn finished(reason: &str) -> Value {
    json!({
        "candidates": [{"content": {"parts": []}, "finishReason": reason}],
        "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 2, "thoughtsTokenCount": 4},
    })
}

fn kept(block: Value, after_text: usize, after_calls: usize) -> ModelDelta {
    let origin = origin_of::<Gemini>("m");
    ModelDelta::Opaque(OpaqueBlock { origin, after_text, after_calls, block })
}

// A042
#[test]
fn thoughts_text_calls_and_signatures_are_read() {
    let got = read(
        reader(),
        &[
            parts(json!([{"text": "hm", "thought": true}])),
            parts(json!([{"text": "Hi"}])),
            parts(json!([
                {"functionCall": {"name": "f", "args": {"k": 1}}, "thoughtSignature": "S=="},
                {"functionCall": {"name": "g", "id": "c2"}},
            ])),
            parts(json!([{"text": "", "thoughtSignature": "T=="}])),
            finished("STOP"),
        ],
    );
    let want = vec![
        thought("hm"),
        said("Hi"),
        kept(json!({"on": "call", "thoughtSignature": "S=="}), 2, 0),
        kept(json!({"thoughtSignature": "T=="}), 2, 2),
        used(5, 6),
        ended(FinishReason::ToolCalls, vec![raw("", "f", "{\"k\":1}"), raw("c2", "g", "{}")]),
    ];
    assert_eq!(got, (want, None));
}

// A035
#[test]
fn without_a_finish_reason_nothing_is_complete() {
    let call = parts(json!([{"functionCall": {"name": "f"}}]));
    let got = read(reader(), &[parts(json!([{"text": "Hi"}])), call]);
    assert_eq!(got, (vec![said("Hi")], Some(ModelErrorClass::Truncated)));
    assert_eq!(read(reader(), &[]).1, Some(ModelErrorClass::Empty));
}

// A034, A036, A048
#[test]
fn ends_and_refusals_are_what_the_reason_says() {
    let hi = || parts(json!([{"text": "Hi"}]));
    let with = |first: Option<Value>, reason: &str| {
        let events: Vec<Value> = first.into_iter().chain([finished(reason)]).collect();
        let (deltas, class) = read(reader(), &events);
        class.map_or_else(|| Ok(deltas.into_iter().last().unwrap()), Err)
    };
    assert_eq!(with(Some(hi()), "STOP"), Ok(ended(FinishReason::Stop, vec![])));
    assert_eq!(with(Some(hi()), "MAX_TOKENS"), Ok(ended(FinishReason::Length, vec![])));
    assert_eq!(with(None, "SAFETY"), Ok(ended(FinishReason::ContentFilter, vec![])));
    assert_eq!(with(Some(hi()), "OTHER"), Ok(ended(FinishReason::Other("OTHER".into()), vec![])));
    assert_eq!(with(None, "STOP"), Err(ModelErrorClass::Empty));
    assert_eq!(with(None, "MALFORMED_FUNCTION_CALL"), Err(ModelErrorClass::MalformedCall));
    let blocked = json!({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 3}});
    assert_eq!(
        read(reader(), &[blocked]),
        (vec![used(3, 0)], Some(ModelErrorClass::InvalidRequest))
    );
    for (error, class) in [
        (
            json!({"code": 503, "status": "UNAVAILABLE", "message": "The model is overloaded."}),
            ModelErrorClass::Overloaded,
        ),
        (json!({"code": 500, "status": "INTERNAL", "message": "x"}), ModelErrorClass::Server),
        (
            json!({"code": 400, "status": "INVALID_ARGUMENT", "message": "The input token count (9) exceeds the maximum"}),
            ModelErrorClass::ContextTooLong,
        ),
    ] {
        let got = read(reader(), &[hi(), json!({"error": error})]);
        assert_eq!(got, (vec![said("Hi")], Some(class)), "{error}");
    }
}

// V-L20
#[test]
fn what_no_server_sends_is_a_bounded_failure() {
    for event in [parts(json!([{"functionCall": {"args": {}}}])), json!(1)] {
        let got = read(reader(), &[event.clone(), finished("STOP")]);
        assert_eq!(got.1, Some(ModelErrorClass::Protocol), "{event}");
    }
    let many: Vec<Value> =
        (0..=MAX_CALLS).map(|_| json!({"functionCall": {"name": "f"}})).collect();
    assert_eq!(read(reader(), &[parts(json!(many))]).1, Some(ModelErrorClass::Protocol));
}
