use rookery_messages::chat::{ChatMessage, OpaqueBlock};
use rookery_messages::settings::ProviderSettings;

use super::*;
use crate::model::anthropic::check::check;
use crate::model::http::Ease;
use crate::model::testing::{asks, call, origin_of, result, sent, settings, system, tool};

const OLD: &str = "claude-sonnet-4-5";
const NEW: &str = "claude-opus-4-7";

fn of(settings: &ProviderSettings, messages: &[ChatMessage]) -> Value {
    sent::<Anthropic>(settings, messages, &[tool("time")], Ease::default()).unwrap()
}

fn thinking(model: &str, block: Value) -> OpaqueBlock {
    OpaqueBlock { origin: origin_of::<Anthropic>(model), after_text: 0, after_calls: 0, block }
}

fn signed() -> Value {
    json!({"type": "thinking", "thinking": "t \u{fc}\n", "signature": "S1=="})
}

fn effort(model: &str, effort: ReasoningEffort) -> ProviderSettings {
    ProviderSettings { reasoning_effort: Some(effort), ..settings(model) }
}

// A109, I4
#[test]
fn a_conversation_with_calls_has_the_form_the_api_takes() {
    let (a, b) = (
        call(1, Some("toolu_1"), "time", r#"{"a":"x"}"#),
        call(2, Some("functions.b:0"), "a.b", "nope"),
    );
    let messages = [
        system("be kind"),
        ChatMessage::user("hi"),
        asks("Let me look.", &[a.clone(), b.clone()], vec![]),
        result(&a, "noon"),
        result(&b, "refused"),
        ChatMessage::of_kind(rookery_messages::chat::UserKind::Steering, "hurry"),
    ];
    let own = format!("call_{}", b.id.0.simple());
    assert_eq!(
        of(&settings(OLD), &messages),
        json!({
            "model": OLD,
            "max_tokens": 16_384,
            "stream": true,
            "system": [{"type": "text", "text": "be kind", "cache_control": {"type": "ephemeral"}}],
            "tools": [{"name": "time", "description": "does it", "input_schema": {
                "type": "object", "properties": {"a": {"type": "string"}}
            }}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "hi"}]},
                {"role": "assistant", "content": [
                    {"type": "text", "text": "Let me look."},
                    {"type": "tool_use", "id": "toolu_1", "name": "time", "input": {"a": "x"}},
                    {"type": "tool_use", "id": own, "name": "a_b", "input": {}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "toolu_1", "content": "noon"},
                    {"type": "tool_result", "tool_use_id": own, "content": "refused"},
                    {"type": "text", "text": "hurry", "cache_control": {"type": "ephemeral"}},
                ]},
            ],
        })
    );
}

// A042
#[test]
fn thinking_goes_back_first_and_byte_for_byte() {
    let asked = call(1, Some("toolu_1"), "time", "");
    let redacted = json!({"type": "redacted_thinking", "data": "opaque=="});
    let blocks = vec![thinking(OLD, signed()), thinking(OLD, redacted.clone())];
    let messages = [
        ChatMessage::user("hi"),
        asks("Text.", std::slice::from_ref(&asked), blocks),
        result(&asked, "noon"),
    ];
    let sent = of(&effort(OLD, ReasoningEffort::Low), &messages);
    assert_eq!(sent["thinking"], json!({"type": "enabled", "budget_tokens": 2_048}));
    assert_eq!(sent["max_tokens"], 18_432);
    let blocks = sent["messages"][1]["content"].as_array().unwrap();
    assert_eq!(blocks[..2], [signed(), redacted]);
    assert_eq!((&blocks[2]["type"], &blocks[3]["type"]), (&json!("text"), &json!("tool_use")));
}

// A042, A043
#[test]
fn blocks_of_another_model_or_refused_ones_are_left_out_and_the_loop_goes_on_without_thinking() {
    let asked = call(1, Some("toolu_1"), "time", "");
    let loop_of = |block: OpaqueBlock| {
        [
            ChatMessage::user("hi"),
            asks("", std::slice::from_ref(&asked), vec![block]),
            result(&asked, "noon"),
        ]
    };
    let settings = effort(OLD, ReasoningEffort::Medium);
    let mut other = thinking(OLD, signed());
    other.origin.profile = "backup".to_owned();
    for (messages, ease) in [
        (loop_of(thinking("claude-3-7-sonnet-20250219", signed())), Ease::default()),
        (loop_of(other), Ease::default()),
        (loop_of(thinking(OLD, signed())), Ease { no_opaque: true, ..Ease::default() }),
    ] {
        let sent = sent::<Anthropic>(&settings, &messages, &[tool("time")], ease).unwrap();
        assert_eq!(sent.get("thinking"), None);
        assert_eq!(sent["messages"][1]["content"].as_array().unwrap().len(), 1);
    }
    // The next question begins a loop of its own.
    let mut messages = loop_of(thinking("other", signed())).to_vec();
    messages.extend([ChatMessage::assistant("It is noon."), ChatMessage::user("and now?")]);
    assert_eq!(of(&settings, &messages)["thinking"]["type"], "enabled");
}

#[test]
fn thinking_is_asked_for_in_the_form_each_model_knows() {
    for (model, budget) in [
        ("claude-3-7-sonnet-20250219", true),
        ("claude-sonnet-4-20250514", true),
        ("claude-opus-4-5", true),
        ("claude-opus-4-1-20250805", true),
        ("claude-opus-4-6", false),
        (NEW, false),
        ("claude-next", false),
    ] {
        let sent = of(&effort(model, ReasoningEffort::High), &[ChatMessage::user("hi")]);
        let want = if budget { "enabled" } else { "adaptive" };
        assert_eq!(sent["thinking"]["type"], want, "{model}");
        assert_eq!(sent["output_config"]["effort"] == "high", !budget, "{model}");
    }
    let none = of(&effort(NEW, ReasoningEffort::None), &[ChatMessage::user("hi")]);
    assert_eq!(none.get("thinking").or(none.get("output_config")), None);
}

// A052, V-L25
#[test]
fn what_was_refused_is_left_out_and_the_budget_stays_below_the_cap() {
    let settings =
        ProviderSettings { max_output_tokens: Some(4_096), ..effort(OLD, ReasoningEffort::High) };
    let with = |ease| sent::<Anthropic>(&settings, &[ChatMessage::user("hi")], &[], ease).unwrap();
    let plain = with(Ease::default());
    assert_eq!(
        (&plain["max_tokens"], &plain["thinking"]["budget_tokens"]),
        (&json!(4_096), &json!(2_048))
    );
    let small = with(Ease { output_cap: Some(1_500), ..Ease::default() });
    assert_eq!((&small["max_tokens"], small.get("thinking")), (&json!(1_500), None));
    assert_eq!(with(Ease { no_reasoning: true, ..Ease::default() }).get("thinking"), None);
}

#[test]
fn a_round_without_tools_names_those_of_its_history_and_lets_none_be_called() {
    let asked = call(1, Some("toolu_1"), "time", "");
    let messages = [
        ChatMessage::user("hi"),
        asks("", std::slice::from_ref(&asked), vec![]),
        result(&asked, "noon"),
        ChatMessage::user("sum up"),
    ];
    let sent = sent::<Anthropic>(&settings(OLD), &messages, &[], Ease::default()).unwrap();
    assert_eq!(sent["tool_choice"], json!({"type": "none"}));
    assert_eq!(sent["tools"][0]["name"], "time");
    assert_eq!(sent["tools"][0]["cache_control"], json!({"type": "ephemeral"}));
}

#[test]
fn the_person_speaks_first_and_last() {
    let sent = of(
        &settings(OLD),
        &[ChatMessage::user("hi"), ChatMessage::user("there"), ChatMessage::assistant("yes")],
    );
    let roles: Vec<&str> =
        sent["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
    assert_eq!(sent["messages"][0]["content"].as_array().unwrap().len(), 2);
    assert_eq!(sent["messages"][2]["content"][0]["text"], GO_ON);
}

// I4
#[test]
fn what_the_api_would_refuse_is_found_before_it_is_sent() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let used = |id: &str| json!({"type": "tool_use", "id": id, "name": "time", "input": {}});
    let got = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": "noon"});
    let user = |blocks: Vec<Value>| json!({"role": "user", "content": blocks});
    let model = |blocks: Vec<Value>| json!({"role": "assistant", "content": blocks});
    let body = |messages: Vec<Value>| {
        json!({
            "model": OLD, "max_tokens": 9_000, "messages": messages,
            "tools": [{"name": "time", "input_schema": {"type": "object"}}],
        })
    };
    let hi = || user(vec![text("hi")]);
    let good = body(vec![
        hi(),
        model(vec![text("so"), used("a"), used("b")]),
        user(vec![got("a"), got("b"), text("x")]),
    ]);
    assert_eq!(check(&good), Ok(()));
    for messages in [
        vec![],
        vec![model(vec![text("hi")])],
        vec![hi(), hi()],
        vec![hi(), model(vec![text("so")])],
        vec![user(vec![])],
        vec![user(vec![text(" ")])],
        vec![hi(), model(vec![used("a")])],
        vec![hi(), model(vec![used("a")]), hi()],
        vec![hi(), model(vec![used("a"), used("b")]), user(vec![got("b"), got("a")])],
        vec![hi(), model(vec![used("a"), used("b")]), user(vec![got("a")])],
        vec![hi(), model(vec![used("a")]), user(vec![text("x"), got("a")])],
        vec![hi(), model(vec![used("a"), used("a")]), user(vec![got("a"), got("a")])],
        vec![hi(), model(vec![used("a b")]), user(vec![got("a b")])],
        vec![user(vec![got("a")])],
        vec![
            hi(),
            model(vec![json!({"type": "thinking", "thinking": "t", "signature": ""}), text("so")]),
            hi(),
        ],
        vec![hi(), model(vec![text("so"), signed()]), hi()],
        vec![user(vec![signed(), text("hi")])],
    ] {
        assert!(check(&body(messages.clone())).is_err(), "{messages:?}");
    }
    let mut wrong = good.clone();
    wrong["tools"] = json!([]);
    assert!(check(&wrong).is_err(), "calls without tools");
    let mut wrong = good.clone();
    wrong["max_tokens"] = json!(0);
    assert!(check(&wrong).is_err(), "no cap");
    let mut wrong = good.clone();
    wrong["thinking"] = json!({"type": "enabled", "budget_tokens": 9_000});
    assert!(check(&wrong).is_err(), "a budget that leaves nothing");
    wrong["thinking"]["budget_tokens"] = json!(2_000);
    assert!(check(&wrong).is_err(), "a loop without thinking");
    wrong["messages"][1]["content"].as_array_mut().unwrap().insert(0, signed());
    assert_eq!(check(&wrong), Ok(()));
    let mut wrong = good;
    wrong["tools"] = json!([{"name": "time", "input_schema": {"type": "object"}}, {"name": "time", "input_schema": {"type": "object"}}]);
    assert!(check(&wrong).is_err(), "one name twice");
}
