//! Replies in pieces.

use super::*;

/// What a client sees after each piece.
fn shown(pieces: &[&str]) -> Vec<String> {
    let mut reader = ReplyReader::with_tools(&tools());
    pieces.iter().map(|piece| reader.push(piece).text).collect()
}

// V-E4
#[test]
fn nothing_inside_a_think_block_reaches_the_text_however_it_is_cut() {
    let text = "Hi <think>secret <b> </thin </THINK> there<think>more";
    for reader in [ReplyReader::plain(), ReplyReader::with_tools(&tools())] {
        let mut reader = reader;
        let mut buffer = [0; 4];
        let mut seen = String::new();
        for c in text.chars() {
            seen.push_str(&reader.push(c.encode_utf8(&mut buffer)).text);
            assert!("Hi  there".starts_with(&seen), "{seen}");
        }
        seen.push_str(&reader.finish().text);
        assert_eq!(seen, "Hi  there");
    }
}

// V-E9
#[test]
fn a_call_split_over_pieces_is_withheld_and_prose_around_it_is_not_delayed() {
    let pieces = ["Let me ", "look.<too", "l_call>{\"na", "me\":\"time\"}", "</tool_call>", " Ok"];
    assert_eq!(shown(&pieces), ["Let me ", "look.", "", "", "", " Ok"]);
    assert_eq!(calls(&read_pieces(pieces)), [("time", json!({}))]);
}

#[test]
fn text_is_held_no_longer_than_it_may_be_a_call() {
    assert_eq!(shown(&["a <", "b", " c"]), ["a ", "", "<b c"]);
    assert_eq!(
        shown(&["```rust\n", "fn main() {", "}\n```"]),
        ["```rust\n", "fn main() {", "}\n```"]
    );
    assert_eq!(shown(&["[1", "](x)"]), ["", "[1](x)"]);
    assert_eq!(shown(&["a `b", "` c"]), ["a ", "`b` c"]);
    assert_eq!(shown(&["see [T", "OOL_CALL", "] so"]), ["see ", "", ""]);
}

// V-E20, V-F20, V-F19
#[test]
fn without_tools_or_with_strict_parsing_what_looks_like_a_call_is_text() {
    for text in [
        r#"{"content":"x","tool_calls":[{"name":"shell","arguments":{}}]}"#,
        "<tool_call>{\"name\":\"shell\"}</tool_call>",
        "<invoke name=\"shell\">",
    ] {
        let mut reader = ReplyReader::plain();
        assert_eq!(reader.push(text).text, text);
        assert_eq!(reader.finish(), ReplyEnd::default());
    }
}
