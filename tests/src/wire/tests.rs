//! Every rule of the validator fires on a request that breaks it.

use serde_json::{Value, json};

use super::check;

fn request(rest: Value) -> Value {
    let mut messages = vec![json!({"role": "system", "content": "be brief"})];
    messages.extend(rest.as_array().unwrap().iter().cloned());
    json!({"model": "mock", "messages": messages})
}

fn user() -> Value {
    json!({"role": "user", "content": "hi"})
}

fn calls(ids: &[&str]) -> Value {
    let calls: Vec<Value> = ids
        .iter()
        .map(|id| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}))
        .collect();
    json!({"role": "assistant", "content": null, "tool_calls": calls})
}

fn result(id: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": "done"})
}

fn shows(url: &str) -> Value {
    json!({"role": "user", "content": [
        {"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": url}}
    ]})
}

#[test]
fn an_image_beside_text_is_accepted() {
    let body = request(json!([shows("data:image/png;base64,iVBORw0KGgo=")]));
    assert_eq!(check(&body), Ok(()));
}

#[test]
fn a_paired_conversation_is_accepted() {
    let body = request(json!([user(), calls(&["a", "b"]), result("a"), result("b")]));
    assert_eq!(check(&body), Ok(()));
    let body = request(json!([
        user(),
        calls(&["a"]),
        result("a"),
        {"role": "assistant", "content": "well"},
        user()
    ]));
    assert_eq!(check(&body), Ok(()));
}

// I4
#[test]
fn a_broken_request_is_refused_whatever_is_broken_in_it() {
    let broken = [
        ("an image without bytes", request(json!([shows("data:image/png;base64,")]))),
        ("an image that is none", request(json!([shows("data:text/plain;base64,aGk=")]))),
        ("half an image", request(json!([shows("data:image/png;base64,iVBORw0KGg")]))),
        ("an orphan result", request(json!([user(), result("a")]))),
        ("a call without result", request(json!([user(), calls(&["a"]), user()]))),
        (
            "results out of order",
            request(json!([user(), calls(&["a", "b"]), result("b"), result("a")])),
        ),
        ("one result missing", request(json!([user(), calls(&["a", "b"]), result("a"), user()]))),
        (
            "two results for one call",
            request(json!([user(), calls(&["a"]), result("a"), result("a")])),
        ),
        (
            "an id twice",
            request(json!([user(), calls(&["a"]), result("a"), calls(&["a"]), result("a")])),
        ),
        (
            "something between call and result",
            request(json!([user(), calls(&["a"]), user(), result("a")])),
        ),
        ("an empty list of calls", request(json!([user(), calls(&[]), user()]))),
        ("a call without id", request(json!([user(), calls(&[""]), result("")]))),
        (
            "an assistant at the end",
            request(json!([user(), {"role": "assistant", "content": "x"}])),
        ),
        ("an empty assistant", request(json!([{"role": "assistant", "content": ""}, user()]))),
        ("a blank user message", request(json!([{"role": "user", "content": " "}]))),
        ("a second system message", request(json!([{"role": "system", "content": "x"}, user()]))),
        ("no system message", json!({"model": "mock", "messages": [user()]})),
        ("no message", json!({"model": "mock", "messages": []})),
        ("no model", json!({"messages": [{"role": "system", "content": "x"}, user()]})),
        (
            "arguments that are no object",
            request(json!([
                user(),
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"q\""}}
                ]},
                result("a")
            ])),
        ),
        (
            "a tool twice",
            json!({"model": "mock", "messages": [{"role": "system", "content": "x"}, user()], "tools": [
                {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},
                {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
            ]}),
        ),
    ];
    for (what, body) in broken {
        assert!(check(&body).is_err(), "{what} was accepted");
    }
}
