//! The reader of textual calls: each form, what is no form, streams, and generators.

mod forms;
mod generated;
mod inert;
mod request;
mod stream;

use std::sync::Arc;

use rookery_messages::chat::Arguments;
use rookery_messages::tool::ToolSpec;
use serde_json::{Value, json};

use super::{ReplyEnd, ReplyReader};

fn tool(name: &str, properties: Value, required: Value) -> Arc<ToolSpec> {
    Arc::new(ToolSpec {
        name: name.to_owned(),
        description: String::new(),
        parameters: json!({"type": "object", "properties": properties, "required": required}),
    })
}

fn tools() -> Vec<Arc<ToolSpec>> {
    let text = json!({"type": "string"});
    vec![
        tool("shell", json!({"command": text, "timeout": {"type": "integer"}}), json!(["command"])),
        tool("file_read", json!({"path": text}), json!(["path"])),
        tool("file_write", json!({"path": text, "content": text}), json!(["path", "content"])),
        tool("time", json!({}), json!([])),
    ]
}

/// Reads a whole text; the end holds all of what was released.
fn read(text: &str) -> ReplyEnd {
    read_pieces([text])
}

fn read_pieces<'a>(pieces: impl IntoIterator<Item = &'a str>) -> ReplyEnd {
    let mut reader = ReplyReader::with_tools(&tools());
    let (mut text, mut thinking) = (String::new(), String::new());
    for piece in pieces {
        let released = reader.push(piece);
        text.push_str(&released.text);
        thinking.push_str(&released.thinking);
    }
    let end = reader.finish();
    ReplyEnd { text: text + &end.text, thinking: thinking + &end.thinking, ..end }
}

fn by_character(text: &str) -> ReplyEnd {
    let mut buffer = [0; 4];
    let mut reader = ReplyReader::with_tools(&tools());
    let (mut shown, mut thinking) = (String::new(), String::new());
    for c in text.chars() {
        let released = reader.push(c.encode_utf8(&mut buffer));
        shown.push_str(&released.text);
        thinking.push_str(&released.thinking);
    }
    let end = reader.finish();
    ReplyEnd { text: shown + &end.text, thinking: thinking + &end.thinking, ..end }
}

/// Names and arguments of the calls.
fn calls(end: &ReplyEnd) -> Vec<(&str, Value)> {
    let calls = end.calls.iter();
    calls.map(|call| (call.name.as_str(), Arguments::parse(&call.arguments).to_value())).collect()
}

fn ls() -> (&'static str, Value) {
    ("shell", json!({"command": "ls"}))
}

/// The text holds exactly these calls and shows exactly this, whole or by the character.
#[track_caller]
fn holds(text: &str, expected: &[(&str, Value)], shown: &str) {
    let end = read(text);
    assert_eq!(end.malformed, None, "{text}");
    assert_eq!(calls(&end), expected, "{text}");
    assert_eq!(end.text, shown, "{text}");
    assert_eq!(by_character(text), end, "by the character: {text}");
}

#[track_caller]
fn malformed(text: &str, shown: &str) {
    let end = read(text);
    assert!(end.malformed.is_some(), "{text}: {end:?}");
    assert_eq!(end.calls, [], "{text}");
    assert_eq!(end.text, shown, "{text}");
    assert_eq!(by_character(text), end, "by the character: {text}");
}
