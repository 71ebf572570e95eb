use rookery_messages::chat::OpaqueBlock;
use rookery_messages::settings::ProviderSettings;

use super::*;
use crate::model::http::Ease;
use crate::model::responses::check::check;
use crate::model::testing::{asks, call, origin_of, result, sent, settings, system, tool};

fn reasoning(id: &str) -> Value {
    json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": "gAAAA=="})
}

fn block(model: &str, id: &str, after_calls: usize) -> OpaqueBlock {
    let origin = origin_of::<Responses>(model);
    OpaqueBlock { origin, after_text: 0, after_calls, block: reasoning(id) }
}

// A042, I4
#[test]
fn a_conversation_with_calls_and_reasoning_has_the_form_the_api_takes() {
    let (a, b) = (call(1, Some("call_1"), "time", r#"{"a":"x"}"#), call(2, None, "time", "nope"));
    let own = b.wire_id();
    let blocks = vec![block("m", "rs_1", 0), block("m", "rs_2", 1), block("m", "rs_3", 2)];
    let messages = [
        system("be kind"),
        ChatMessage::user("hi"),
        asks("Let me look.", &[a.clone(), b.clone()], blocks),
        result(&a, "noon"),
        result(&b, "refused"),
        ChatMessage::assistant("It is noon."),
        ChatMessage::user("thanks"),
    ];
    let settings = ProviderSettings {
        reasoning_effort: Some(ReasoningEffort::High),
        max_output_tokens: Some(900),
        ..settings("m")
    };
    assert_eq!(
        sent::<Responses>(&settings, &messages, &[tool("time")], Ease::default()).unwrap(),
        json!({
            "model": "m",
            "stream": true,
            "store": false,
            "include": ["reasoning.encrypted_content"],
            "instructions": "be kind",
            "max_output_tokens": 900,
            "reasoning": {"effort": "high", "summary": "auto"},
            "tools": [{
                "type": "function", "name": "time", "description": "does it", "strict": false,
                "parameters": {"type": "object", "properties": {"a": {"type": "string"}}},
            }],
            "input": [
                {"role": "user", "content": "hi"},
                reasoning("rs_1"),
                {"role": "assistant", "content": "Let me look."},
                {"type": "function_call", "call_id": "call_1", "name": "time", "arguments": "{\"a\":\"x\"}"},
                reasoning("rs_2"),
                {"type": "function_call", "call_id": own, "name": "time", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "call_1", "output": "noon"},
                {"type": "function_call_output", "call_id": own, "output": "refused"},
                {"role": "assistant", "content": "It is noon."},
                {"role": "user", "content": "thanks"},
            ],
        })
    );
}

// A043, V-L25
#[test]
fn reasoning_of_another_model_stays_at_home_and_what_was_refused_is_left_out() {
    let asked = call(1, Some("call_1"), "time", "");
    let messages = |model: &str| {
        let blocks = vec![block(model, "rs_1", 0)];
        [
            ChatMessage::user("hi"),
            asks("", std::slice::from_ref(&asked), blocks),
            result(&asked, "noon"),
        ]
    };
    let items = |model: &str, ease: Ease| {
        let sent = sent::<Responses>(&settings("m"), &messages(model), &[], ease).unwrap();
        (
            sent["input"].as_array().unwrap().len(),
            sent["reasoning"].clone(),
            sent.get("include").is_some(),
        )
    };
    assert_eq!(items("m", Ease::default()), (4, Value::Null, true));
    assert_eq!(items("other", Ease::default()), (3, Value::Null, true));
    assert_eq!(items("m", Ease { no_opaque: true, ..Ease::default() }).0, 3);
    let eased = Ease { no_reasoning: true, no_state: true, ..Ease::default() };
    assert_eq!(items("m", eased), (4, json!({"effort": "none"}), false));
}

// I4
#[test]
fn what_the_api_would_refuse_is_found_before_it_is_sent() {
    let says = |role: &str| json!({"role": role, "content": "hi"});
    let asks =
        |id: &str| json!({"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"});
    let got = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": "o"});
    let good = vec![
        says("user"),
        reasoning("r"),
        asks("a"),
        asks("b"),
        got("a"),
        got("b"),
        says("assistant"),
    ];
    assert_eq!(check(&json!({"input": good})), Ok(()));
    for input in [
        vec![],
        vec![says("assistant"), says("user")],
        vec![json!({"role": "user", "content": " "})],
        vec![json!({"role": "tool", "content": "x"})],
        vec![says("user"), asks("a")],
        vec![says("user"), asks("a"), says("user")],
        vec![says("user"), asks("a"), asks("b"), got("b"), got("a")],
        vec![says("user"), asks("a"), asks("b"), got("a"), asks("c"), got("b"), got("c")],
        vec![says("user"), asks("a"), got("a"), asks("a"), got("a")],
        vec![says("user"), asks(&"x".repeat(65)), got(&"x".repeat(65))],
        vec![says("user"), got("a")],
        vec![says("user"), reasoning("r")],
        vec![says("user"), reasoning("r"), says("user")],
        vec![
            says("user"),
            json!({"type": "reasoning", "id": "r", "summary": []}),
            says("assistant"),
        ],
        vec![
            says("user"),
            json!({"type": "function_call", "call_id": "a", "name": "f", "arguments": "{"}),
            got("a"),
        ],
        vec![says("user"), json!({"type": "novelty"})],
    ] {
        assert!(check(&json!({"input": input.clone()})).is_err(), "{input:?}");
    }
    assert!(check(&json!({"input": good, "max_output_tokens": 0})).is_err());
    assert!(check(&json!({"input": good, "instructions": ""})).is_err());
}
