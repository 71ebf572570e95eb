use serde_json::json;

use super::*;
use crate::model::testing::{ended, raw, read, said, thought, upstream, used};

fn reader() -> LineReader {
    LineReader::new(upstream())
}

fn line(message: Value) -> Value {
    json!({"model": "m", "message": message, "done": false})
}

fn done(reason: &str) -> Value {
    json!({"message": {"role": "assistant", "content": ""}, "done": true, "done_reason": reason,
           "prompt_eval_count": 5, "eval_count": 6})
}

#[test]
fn thinking_text_and_calls_are_read() {
    let got = read(
        reader(),
        &[
            line(json!({"role": "assistant", "content": "", "thinking": "hm"})),
            line(json!({"content": "Hi"})),
            line(json!({"content": "", "tool_calls": [
                {"function": {"name": "f", "arguments": {"k": 1}}},
                {"id": "c2", "function": {"name": "g", "arguments": "{\"k\":2}"}},
                {"function": {"name": "h"}},
            ]})),
            done("stop"),
        ],
    );
    let calls = vec![raw("", "f", "{\"k\":1}"), raw("c2", "g", "{\"k\":2}"), raw("", "h", "{}")];
    let want = vec![thought("hm"), said("Hi"), used(5, 6), ended(FinishReason::ToolCalls, calls)];
    assert_eq!(got, (want, None));
}

// A034, A035, A036, A048
#[test]
fn only_a_line_that_says_done_completes() {
    let hi = || line(json!({"content": "Hi"}));
    let call = line(json!({"tool_calls": [{"function": {"name": "f"}}]}));
    assert_eq!(read(reader(), &[hi(), call]), (vec![said("Hi")], Some(ModelErrorClass::Truncated)));
    assert_eq!(read(reader(), &[]).1, Some(ModelErrorClass::Empty));
    assert_eq!(read(reader(), &[done("stop")]).1, Some(ModelErrorClass::Empty));
    assert_eq!(
        read(reader(), &[done("length")]).0.last(),
        Some(&ended(FinishReason::Length, vec![]))
    );
    let load = ended(FinishReason::Other("unload".into()), vec![]);
    assert_eq!(read(reader(), &[hi(), done("unload")]).0.last(), Some(&load));
    let error = json!({"error": "an error was encountered while running the model"});
    assert_eq!(
        read(reader(), &[hi(), error, done("stop")]),
        (vec![said("Hi")], Some(ModelErrorClass::Server))
    );
    let nameless = line(json!({"tool_calls": [{"function": {}}]}));
    assert_eq!(read(reader(), &[nameless]).1, Some(ModelErrorClass::Protocol));
}
