//! Generators: any text, any split, any size.

use std::time::Duration;

use proptest::prelude::*;
use tokio::time::Instant;

use super::super::MAX_HELD;
use super::*;
use crate::generated::Generated;

fn piece() -> impl Strategy<Value = String> {
    let marks = prop::sample::select(vec![
        "<tool_call>",
        "</tool_call>",
        "<tool_calls>",
        "</invoke>",
        "<invoke name=\"shell\">",
        "<invoke name='",
        "<tool-call ",
        "<ns:toolcall>",
        "<FunctionCall>",
        "</FunctionCall>",
        "<parameter name=\"command\">",
        "</parameter>",
        "<shell>",
        "</shell>",
        "<command>",
        "</command>",
        "<function=shell>",
        "<code>",
        "</code>",
        "path>/x",
        "<tools>",
        "</tools>",
        "<tool_result>",
        "</tool_result>",
        "<think>",
        "</think>",
        "<thi",
        "[TOOL_CALL]",
        "[/TOOL_CALL]",
        "TOOL_CALL",
        "/TOOL_CALL",
        "{tool => \"shell\", args => {--command \"ls\"}}",
        "```",
        "````",
        "```tool_call\n",
        "```tool shell\n",
        "\n```\n",
        "~~~",
        "`",
        "``",
        "\n",
        "\n\n",
        " ",
        "example",
        "{",
        "}",
        "[",
        "]",
        "\"",
        "\\",
        ",",
        ":",
        "=",
        "'",
        "<",
        ">",
        "/",
        "</",
        "{\"name\":\"shell\",\"arguments\":{\"command\":\"ls\"}}",
        "{\"name\":\"time\"}",
        "{\"tool_calls\":[",
        "{\"content\":\"x\",\"tool_calls\":[]}",
        "shell",
        "shell>ls",
        "command: ls",
        "name: shell",
        "shell(command=\"ls\")",
        "T",
        "TOOL",
        "ü",
        "語",
        "plain words ",
    ]);
    prop_oneof![8 => marks.prop_map(str::to_owned), 1 => "\\PC{0,12}"]
}

fn reply() -> impl Strategy<Value = String> {
    let nested = piece().prop_recursive(4, 24, 4, |inner| {
        let around = prop::sample::select(vec![
            ("<tool_call>", "</tool_call>"),
            ("<invoke name=\"shell\">", "</invoke>"),
            ("<tools>", "</tools>"),
            ("<think>", "</think>"),
            ("\n```tool_call\n", "\n```\n"),
            ("\n```\n", "\n```\n"),
            ("[TOOL_CALL]", "[/TOOL_CALL]"),
            ("{\"a\":\"", "\"}"),
            ("`", "`"),
        ]);
        (around, prop::collection::vec(inner, 0..4))
            .prop_map(|((open, close), parts)| format!("{open}{}{close}", parts.concat()))
    });
    prop::collection::vec(nested, 0..8).prop_map(|parts| parts.concat())
}

/// Checks replies, and where they are cut.
fn boxed(check: impl Fn(String, Vec<prop::sample::Index>) -> Result<(), TestCaseError>) {
    let input = (reply(), prop::collection::vec(any::<prop::sample::Index>(), 0..6));
    Generated::TextCalls.check(20_000, &input, |(text, cuts)| check(text, cuts));
}

fn pieces<'a>(text: &'a str, cuts: &[prop::sample::Index]) -> Vec<&'a str> {
    let bounds: Vec<usize> = (0..=text.len()).filter(|at| text.is_char_boundary(*at)).collect();
    let mut at: Vec<usize> = cuts.iter().map(|cut| bounds[cut.index(bounds.len())]).collect();
    at.extend([0, text.len()]);
    at.sort_unstable();
    at.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()
}

/// What is released and what is withheld add up to the reading of the whole text, wherever it is cut.
// V-E9, V-E10, V-E12
#[test]
fn every_split_of_a_reply_reads_as_the_whole_of_it() {
    boxed(|text, cuts| {
        let whole = read(&text);
        prop_assert_eq!(&read_pieces(pieces(&text, &cuts)), &whole);
        prop_assert_eq!(&by_character(&text), &whole);
        Ok(())
    });
}

/// What is shown is a part of what was written, in order; what is broken shows and runs nothing of it.
// V-F16, V-F9
#[test]
fn what_is_shown_was_written_in_that_order() {
    boxed(|text, _| {
        let end = read(&text);
        prop_assert!(end.malformed.is_none() || end.calls.is_empty());
        let mut written = text.chars();
        // The content of a JSON reply is unescaped; nothing else is changed.
        let unchanged = text.contains("\"content\"")
            || end.text.chars().all(|shown| written.any(|c| c == shown));
        prop_assert!(unchanged, "{:?}", end.text);
        Ok(())
    });
}

fn took(text: &str, by: usize) -> Duration {
    let began = Instant::now();
    let mut reader = ReplyReader::with_tools(&tools());
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(by.min(rest.len()));
        reader.push(piece);
        rest = after;
    }
    reader.finish();
    began.elapsed()
}

/// Nine times the text may take nine times as long, and as much again and more for noise.
fn grows_linearly(what: &str, text: impl Fn(usize) -> String, size: usize, by: usize) {
    let quick = took(&text(size / 9), by);
    let slow = took(&text(size), by);
    let limit = (quick * 9 * 4).max(Duration::from_secs(3));
    assert!(slow < limit, "{what} by {by}: {quick:?}, then {slow:?}");
}

// V-F25, V-F26
#[test]
fn a_megabyte_of_anything_takes_linear_time_in_one_piece_or_many() {
    let units = [
        "{",
        "[",
        "{\"a\":",
        "<tool_call>",
        "<tool_call>\n",
        "<tool_call>{",
        "<tool_call>{\"a\":\"",
        "<invoke name=\"shell\">",
        "<invoke name=\"",
        "<tool_call ",
        "</tool_call>",
        "</FunctionCall>",
        "<FunctionCall>a",
        "<FunctionCall>shell<code>",
        "<tool_call>shell>",
        "<a>",
        "<",
        "</",
        "`",
        "`a",
        "``a`",
        "```\n",
        "```tool_call\n",
        "~",
        "[TOOL_CALL]",
        "[TOOL_CALL]{",
        "TOOL_CALL\n",
        "TOOL_CALL {",
        "<tools>",
        "<tools></tools>",
        "<think>",
        "<think></think>",
        "\"",
        "'",
        " ",
        "\n",
        "<tool_call>{\"name\":\"time\"} ",
    ];
    for unit in units {
        let whole = |size: usize| unit.repeat(size / unit.len());
        let long = matches!(unit.as_bytes()[0], b'{' | b'[') || unit.contains("<tool_call>");
        let size = if long { MAX_HELD + MAX_HELD / 8 } else { MAX_HELD / 4 };
        grows_linearly(unit, whole, size, usize::MAX);
        grows_linearly(unit, whole, MAX_HELD / 8, 7);
    }
    for open in
        ["<tool_call>", "<invoke name=\"shell\">", "{}", "<tool_call>{\"a\":", "[TOOL_CALL]{"]
    {
        for unit in ["{", "[", "<", " ", "\"", "`", "a", "<a>", "</a>", "{},"] {
            let whole = |size: usize| format!("{open}{}", unit.repeat(size / unit.len()));
            grows_linearly(&format!("{open}{unit}"), whole, MAX_HELD / 8, 7);
        }
    }
}

// V-F26
#[test]
fn closed_forms_of_a_megabyte_take_linear_time() {
    for (open, unit, close) in [
        ("<tool_call><shell>", "<a>", "</shell></tool_call>"),
        ("<tool_call><shell>", "<a>x</a>", "</shell></tool_call>"),
        ("<tool_call>", "<shell/>", "</tool_call>"),
        ("<tool_call>shell ", "a=b ", "</tool_call>"),
        ("<tool_call>shell\n", "a: b\n", "</tool_call>"),
        ("<tool_call>shell<code>", "a>b\n", "</code></tool_call>"),
        ("<tool_call>{\"name\":\"shell\",\"a\":\"", "\\\"", "\"}</tool_call>"),
        ("[TOOL_CALL]{tool => 'shell', ", "a => 1, ", "}[/TOOL_CALL]"),
        ("[TOOL_CALL]{tool => 'shell', ", "a ", "}[/TOOL_CALL]"),
        ("<tool_call><shell>", "</", "</shell></tool_call>"),
        ("<tool_call><shell a='", "</shell   ", "'></tool_call>"),
    ] {
        let text = |size: usize| format!("{open}{}{close}", unit.repeat(size / unit.len()));
        grows_linearly(&format!("{open}{unit}"), text, MAX_HELD / 4, usize::MAX);
    }
}
