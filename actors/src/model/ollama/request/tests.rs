use rookery_messages::settings::ProviderSettings;

use super::*;
use crate::model::http::{Dialect as _, Ease};
use crate::model::testing::{asks, call, result, sent, settings, system, tool};

// I4
#[test]
fn a_conversation_with_calls_has_the_form_the_api_takes() {
    let (a, b) = (call(1, Some("c1"), "time", r#"{"a":"x"}"#), call(2, None, "a.b", "nope"));
    let messages = [
        system("be kind"),
        ChatMessage::user("hi"),
        asks("", &[a.clone(), b.clone()], vec![]),
        result(&a, "noon"),
        result(&b, "refused"),
    ];
    let settings =
        ProviderSettings { max_output_tokens: Some(900), num_ctx: Some(32_768), ..settings("m") };
    assert_eq!(
        sent::<Ollama>(&settings, &messages, &[tool("time")], Ease::default()).unwrap(),
        json!({
            "model": "m",
            "stream": true,
            "options": {"num_predict": 900, "num_ctx": 32_768},
            "tools": [{"type": "function", "function": {
                "name": "time", "description": "does it",
                "parameters": {"type": "object", "properties": {"a": {"type": "string"}}},
            }}],
            "messages": [
                {"role": "system", "content": "be kind"},
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": "", "tool_calls": [
                    {"function": {"name": "time", "arguments": {"a": "x"}}},
                    {"function": {"name": "a_b", "arguments": {}}},
                ]},
                {"role": "tool", "tool_name": "time", "content": "noon"},
                {"role": "tool", "tool_name": "a_b", "content": "refused"},
            ],
        })
    );
}

// V-L25
#[test]
fn thinking_is_asked_for_as_each_model_takes_it() {
    let think = |model: &str, effort, ease| {
        let settings = ProviderSettings { reasoning_effort: effort, ..settings(model) };
        let sent = sent::<Ollama>(&settings, &[ChatMessage::user("hi")], &[], ease).unwrap();
        sent.get("think").cloned()
    };
    let plain = Ease::default();
    assert_eq!(think("qwen3", None, plain), None);
    assert_eq!(think("qwen3", Some(ReasoningEffort::Low), plain), Some(json!(true)));
    assert_eq!(think("qwen3", Some(ReasoningEffort::None), plain), Some(json!(false)));
    assert_eq!(think("gpt-oss:20b", Some(ReasoningEffort::Low), plain), Some(json!("low")));
    let refused = Ease { no_reasoning: true, ..plain };
    assert_eq!(think("llama3", Some(ReasoningEffort::High), refused), None);
}

#[test]
fn the_address_is_made_from_the_host() {
    for (base, want) in [
        (None, "http://127.0.0.1:11434/api/chat"),
        (Some("http://h:1/"), "http://h:1/api/chat"),
        (Some("http://h:1/api"), "http://h:1/api/chat"),
        (Some("http://h:1/api/chat"), "http://h:1/api/chat"),
        (Some("https://h/proxy"), "https://h/proxy/api/chat"),
    ] {
        assert_eq!(Ollama::endpoint(base, "m").unwrap().as_str(), want);
    }
}

// I4
#[test]
fn what_a_template_could_not_pair_is_found_before_it_is_sent() {
    let says = |role: &str, text: &str| json!({"role": role, "content": text});
    let asks =
        |n: usize| json!({"role": "assistant", "content": "", "tool_calls": vec![json!({}); n]});
    let good = vec![
        says("system", "s"),
        says("user", "hi"),
        asks(2),
        says("tool", "a"),
        says("tool", "b"),
    ];
    assert_eq!(check(&json!({"messages": good})), Ok(()));
    for messages in [
        vec![],
        vec![says("assistant", "hi"), says("user", "hi")],
        vec![says("user", " ")],
        vec![says("user", "hi"), asks(0)],
        vec![says("user", "hi"), says("system", "late")],
        vec![says("user", "hi"), asks(1)],
        vec![says("user", "hi"), asks(1), says("user", "x")],
        vec![says("user", "hi"), says("tool", "a")],
        vec![says("user", "hi"), says("developer", "a")],
    ] {
        assert!(check(&json!({"messages": messages.clone()})).is_err(), "{messages:?}");
    }
}
