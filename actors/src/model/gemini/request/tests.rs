use rookery_messages::settings::ProviderSettings;

use super::*;
use crate::model::gemini::check::check;
use crate::model::http::Ease;
use crate::model::testing::{asks, call, origin_of, result, sent, settings, system, tool};

fn kept(model: &str, block: Value, after_text: usize, after_calls: usize) -> OpaqueBlock {
    OpaqueBlock { origin: origin_of::<Gemini>(model), after_text, after_calls, block }
}

fn on_call(model: &str, after_calls: usize) -> OpaqueBlock {
    kept(model, json!({"on": "call", "thoughtSignature": "Sig=="}), 0, after_calls)
}

// A042, I4
#[test]
fn a_conversation_with_calls_and_signatures_has_the_form_the_api_takes() {
    let (a, b) = (call(1, Some("c1"), "time", r#"{"a":"x"}"#), call(2, None, "9lives", "nope"));
    let own = b.wire_id();
    let blocks = vec![
        kept("gemini-3-pro", json!({"thoughtSignature": "T=="}), 13, 0),
        on_call("gemini-3-pro", 0),
    ];
    let messages = [
        system("be kind"),
        ChatMessage::user("hi"),
        asks("Let me look.", &[a.clone(), b.clone()], blocks),
        result(&a, "noon"),
        result(&b, "refused"),
        ChatMessage::user("hurry"),
    ];
    let settings = ProviderSettings {
        reasoning_effort: Some(ReasoningEffort::Medium),
        max_output_tokens: Some(900),
        ..settings("gemini-3-pro")
    };
    assert_eq!(
        sent::<Gemini>(&settings, &messages, &[tool("time")], Ease::default()).unwrap(),
        json!({
            "systemInstruction": {"parts": [{"text": "be kind"}]},
            "generationConfig": {
                "maxOutputTokens": 900,
                "thinkingConfig": {"includeThoughts": true, "thinkingLevel": "high"},
            },
            "tools": [{"functionDeclarations": [{
                "name": "time", "description": "does it",
                "parametersJsonSchema": {"type": "object", "properties": {"a": {"type": "string"}}},
            }]}],
            "contents": [
                {"role": "user", "parts": [{"text": "hi"}]},
                {"role": "model", "parts": [
                    {"text": "Let me look."},
                    {"text": "", "thoughtSignature": "T=="},
                    {"functionCall": {"id": "c1", "name": "time", "args": {"a": "x"}}, "thoughtSignature": "Sig=="},
                    {"functionCall": {"id": own, "name": "_9lives", "args": {}}},
                ]},
                {"role": "user", "parts": [
                    {"functionResponse": {"id": "c1", "name": "time", "response": {"result": "noon"}}},
                    {"functionResponse": {"id": own, "name": "_9lives", "response": {"result": "refused"}}},
                ]},
                {"role": "user", "parts": [{"text": "hurry"}]},
            ],
        })
    );
}

// A043
#[test]
fn a_signature_of_another_model_stays_at_home_and_who_insists_on_one_gets_the_stand_in() {
    let asked = call(1, Some("c1"), "time", "");
    let signature = |model: &str, from: &str, ease: Ease| {
        let messages = [
            ChatMessage::user("hi"),
            asks("", std::slice::from_ref(&asked), vec![on_call(from, 0)]),
            result(&asked, "noon"),
        ];
        let sent = sent::<Gemini>(&settings(model), &messages, &[], ease).unwrap();
        sent["contents"][1]["parts"][0]["thoughtSignature"].as_str().map(str::to_owned)
    };
    let (new, old) = ("gemini-3-pro", "gemini-2.5-flash");
    assert_eq!(signature(new, new, Ease::default()).as_deref(), Some("Sig=="));
    assert_eq!(signature(old, old, Ease::default()).as_deref(), Some("Sig=="));
    assert_eq!(signature(new, old, Ease::default()).as_deref(), Some(NO_SIGNATURE));
    assert_eq!(signature(old, new, Ease::default()), None);
    let refused = Ease { no_opaque: true, ..Ease::default() };
    assert_eq!(signature(new, new, refused).as_deref(), Some(NO_SIGNATURE));
}

#[test]
fn thinking_is_asked_for_in_the_form_each_generation_knows() {
    let config = |model: &str, effort| {
        let settings = ProviderSettings { reasoning_effort: Some(effort), ..settings(model) };
        let sent =
            sent::<Gemini>(&settings, &[ChatMessage::user("hi")], &[], Ease::default()).unwrap();
        sent["generationConfig"]["thinkingConfig"].clone()
    };
    assert_eq!(config("gemini-2.5-flash", ReasoningEffort::None), json!({"thinkingBudget": 0}));
    assert_eq!(config("gemini-2.5-pro", ReasoningEffort::Low)["thinkingBudget"], 2_048);
    assert_eq!(config("models/gemini-3-flash", ReasoningEffort::Low)["thinkingLevel"], "low");
    let eased = Ease { no_reasoning: true, ..Ease::default() };
    let settings =
        ProviderSettings { reasoning_effort: Some(ReasoningEffort::High), ..settings("m") };
    let sent = sent::<Gemini>(&settings, &[ChatMessage::user("hi")], &[], eased).unwrap();
    assert_eq!(sent.get("generationConfig"), None);
}

#[test]
fn the_address_holds_the_model_and_asks_for_events() {
    use crate::model::http::Dialect as _;
    for (base, want) in [
        (
            None,
            "https://generativelanguage.googleapis.com/v1beta/models/g:streamGenerateContent?alt=sse",
        ),
        (
            Some("http://127.0.0.1:9"),
            "http://127.0.0.1:9/v1beta/models/g:streamGenerateContent?alt=sse",
        ),
        (Some("http://h/x?k=1"), "http://h/x/models/g:streamGenerateContent?k=1&alt=sse"),
    ] {
        assert_eq!(Gemini::endpoint(base, "models/g").unwrap().as_str(), want);
    }
}

// I4
#[test]
fn what_the_api_would_refuse_is_found_before_it_is_sent() {
    let user = |parts: Value| json!({"role": "user", "parts": parts});
    let model = |parts: Value| json!({"role": "model", "parts": parts});
    let hi = || user(json!([{"text": "hi"}]));
    let asks = |name: &str| json!({"functionCall": {"name": name, "args": {}, "id": name}});
    let got = |name: &str| json!({"functionResponse": {"name": name, "response": {"result": "o"}, "id": name}});
    let good = vec![hi(), model(json!([asks("a"), asks("b")])), user(json!([got("a"), got("b")]))];
    assert_eq!(check(&json!({"contents": good})), Ok(()));
    for contents in [
        vec![],
        vec![model(json!([{"text": "hi"}]))],
        vec![hi(), model(json!([{"text": "hi"}]))],
        vec![user(json!([]))],
        vec![user(json!([{"text": " "}]))],
        vec![hi(), model(json!([{"text": "a"}])), model(json!([{"text": "b"}])), hi()],
        vec![hi(), model(json!([asks("a")]))],
        vec![hi(), model(json!([asks("a")])), hi()],
        vec![hi(), model(json!([asks("a"), asks("b")])), user(json!([got("b"), got("a")]))],
        vec![hi(), model(json!([asks("a")])), user(json!([got("a"), {"text": "x"}]))],
        vec![hi(), model(json!([asks("1a")])), user(json!([got("1a")]))],
        vec![user(json!([got("a")]))],
        vec![user(json!([asks("a")])), user(json!([got("a")]))],
    ] {
        assert!(check(&json!({"contents": contents.clone()})).is_err(), "{contents:?}");
    }
}
