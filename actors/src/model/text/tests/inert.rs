//! What is no call, and what is a broken one.

use super::*;

const CALL: &str = r#"<tool_call>{"name":"shell","arguments":{"command":"ls"}}</tool_call>"#;
const JSON: &str = r#"{"name":"shell","arguments":{"command":"ls"}}"#;

// V-F8
#[test]
fn raw_json_amid_prose_is_no_call() {
    for text in [
        format!("I would call {JSON} next."),
        format!("{JSON} is what I would call."),
        format!("{JSON}\n{JSON}"),
        format!("```json\n{JSON}\n```"),
        format!("```\n{JSON}\n```\n"),
    ] {
        holds(&text, &[], &text);
    }
}

// V-F9, V-E11
#[test]
fn declarations_results_and_examples_are_inert_whatever_they_contain() {
    for text in [
        format!("<tools>\n{JSON}\n{CALL}\n</tools> so"),
        format!("<tools>{CALL} never closed {CALL}"),
        format!("<tool_result>{CALL}</tool_result>"),
        format!("<tool_result id=\"a\">[TOOL_CALL]{JSON}[/TOOL_CALL]</tool_result>"),
        format!("```xml\n{CALL}\n```"),
        format!("````\n```tool_call\n{JSON}\n```\n````\n"),
        format!("~~~\n```tool_call\n{JSON}\n```\n~~~\n"),
        format!("For example:\n```tool_call\n{JSON}\n```\nThat is all."),
        format!("Two examples follow.\n\n```invoke\n{JSON}\n```"),
        format!("```tool_call example\n{JSON}\n```"),
        format!("```tool_call\nExample: {JSON}\n```"),
        format!("Write `{CALL}` and wait."),
        format!("Write ``{CALL}`` and wait."),
    ] {
        holds(&text, &[], &text);
    }
    let after = format!("<tools>x</tools>{CALL}");
    holds(&after, &[ls()], "<tools>x</tools>");
    let after = format!("```\nx\n```\n{CALL}");
    holds(&after, &[ls()], "```\nx\n```\n");
}

// V-E10
#[test]
fn ordinary_json_and_business_data_with_such_keys_are_released_unchanged() {
    for text in [
        r#"[1, 2, {"a": "b"}]"#,
        r#"{"name": "Ada", "age": 36}"#,
        r#"[{"name": "Ada", "arguments": "many"}]"#,
        r#"{"name": "Widget", "parameters": {"size": 3}}"#,
        r#"{"name": "time", "zone": "UTC"}"#,
        r#"[{"name": "shell", "price": 3}]"#,
        r#"{"tool_calls": 3, "cost": 1.5}"#,
        r#"{"tool_calls": [1, 2]}"#,
        r#"{"tool_calls": [], "total": 0}"#,
        r#"{"function": "sin", "x": 1}"#,
        "{not json}",
        "[a link](https://example.org) and [another]",
        "[1] is a footnote",
        "{",
        "[[[",
        "{\"a\": \"unclosed",
        "TOOL_CALL is a word",
        "[TOOL_CALL] is a mark",
        "a < b, <b>bold</b>, <tool>, <toolbox>, </tool_call>",
        "Use the <tool_call> tag to call: it is a tag.",
        "a `b` ``c ` d`` e ` f",
    ] {
        holds(text, &[], text);
    }
}

// V-F15
#[test]
fn an_empty_list_of_calls_is_no_call_and_no_fault() {
    holds(r#"{"content":"Hello.","tool_calls":[]}"#, &[], "Hello.");
    holds(r#"{"content":"Hello.","tool_calls":null}"#, &[], "Hello.");
    holds(r#"{"tool_calls":[]}"#, &[], "");
    holds("Hello.<tool_calls>[]</tool_calls>", &[], "Hello.");
    holds("Hello.<tool_calls></tool_calls>", &[], "Hello.");
}

// V-F16
#[test]
fn an_envelope_that_cannot_be_read_is_malformed_and_nothing_of_it_is_shown() {
    for text in [
        "a <tool_call>{\"name\":\"shell\",\"arguments\":{\"command\":\"ls\"}</tool_call> b",
        "a <tool_call>{name: shell command}</tool_call> b",
        "a <tool_call>{\"command\":\"ls\"}</tool_call> b",
        "a <tool_call><shell><command>ls</shell command></tool_call> b",
        "a <invoke name=\"time\">12 o'clock</invoke> b",
        "a [TOOL_CALL]{nothing of note}[/TOOL_CALL] b",
    ] {
        malformed(text, "a ");
    }
    malformed("a\n```tool_call\nnot a call\n```\nb", "a\n");
    malformed(r#"{"tool_calls":[{"name":"shell","arguments":{}},{"nom":"x"}]}"#, "");
    // A good call beside it is not run either: the model writes all of it again.
    malformed(&format!("a {CALL}<tool_call>{{]</tool_call>"), "a ");
}

// V-E12
#[test]
fn a_truncated_call_at_the_end_is_dropped_from_display() {
    for cut in CALL.char_indices().map(|(at, _)| at).filter(|at| *at >= 5) {
        let text = format!("Sure. {}", &CALL[..cut]);
        let end = read(&text);
        assert_eq!(end.text, "Sure. ", "{text}");
        assert_eq!(by_character(&text), end);
    }
    for text in ["a\n```tool_call\n{\"name\":\"sh", "a\n[TOOL_CALL]{tool => \"sh"] {
        malformed(text, "a\n");
    }
    malformed(r#"{"tool_calls":[{"name":"sh"#, "");
}

// V-F25
#[test]
fn stray_closing_tags_before_a_valid_block_change_nothing() {
    let text = format!("</FunctionCall>{CALL}");
    holds(&text, &[ls()], "</FunctionCall>");
    let text = format!("{}{CALL}", "</FunctionCall>".repeat(1_000));
    let end = read(&text);
    assert_eq!((calls(&end), end.text.len()), (vec![ls()], 15_000));
}
