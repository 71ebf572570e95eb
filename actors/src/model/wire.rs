//! What the requests of several protocols are made of.

use std::borrow::Cow;

use rookery_messages::attachment::{Attachment, Image, ImageFormat};
use rookery_messages::chat::{ChatMessage, OpaqueBlock, ToolCall};
use rookery_messages::ids::CallId;
use rookery_messages::tool::{head, text};
use serde_json::Value;

use super::http::Ask;

/// Longest function name that every API takes.
const MAX_NAME: usize = 64;
/// What stands in the person's place where an API insists that they speak last.
pub(super) const GO_ON: &str = "[continue]";

/// A name a model made up may be one the API refuses, and with it every later request of the conversation.
pub(super) fn wire_name(name: &str) -> Cow<'_, str> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(allowed) {
        return Cow::Borrowed(name);
    }
    let name: String =
        name.chars().take(MAX_NAME).map(|c| if allowed(c) { c } else { '_' }).collect();
    Cow::Owned(if name.is_empty() { "unknown".to_owned() } else { name })
}

/// A call's id as an API takes it: the one it came with if that will do, else one made of our own. Both
/// halves of a pair get the same, in every request (A047).
pub(super) fn wire_id(call: CallId, known: &str, takes: fn(&str) -> bool) -> String {
    if takes(known) { known.to_owned() } else { format!("call_{}", call.0.simple()) }
}

/// A partial answer says that it is one.
pub(super) fn marked(answer: &str, interrupted: bool) -> Cow<'_, str> {
    if interrupted && !answer.trim_end().ends_with(text::INTERRUPTED_MARKER) {
        Cow::Owned(format!("{answer} {}", text::INTERRUPTED_MARKER))
    } else {
        Cow::Borrowed(answer)
    }
}

/// A part of an answer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Piece<'a> {
    /// Text that is not blank.
    Text(&'a str),
    /// A call.
    Call(&'a ToolCall),
    /// A block that goes back as it came.
    Own(&'a OpaqueBlock),
}

/// The opaque blocks that may go back to who is asked: its own, and no other's (A043).
pub(super) fn own<'a>(
    ask: &'a Ask<'_>,
    opaque: &'a [OpaqueBlock],
) -> impl Iterator<Item = &'a OpaqueBlock> {
    opaque.iter().filter(|block| !ask.ease.no_opaque && block.origin == *ask.origin)
}

/// An answer's parts in the order in which they came: its text, then its calls, and `own` blocks where
/// they stood. Places behind a text that has become shorter since move to its end.
pub(super) fn pieces<'a>(
    text: &'a str,
    calls: &'a [ToolCall],
    own: impl Iterator<Item = &'a OpaqueBlock>,
) -> Vec<Piece<'a>> {
    let mut out = Vec::new();
    let (mut text, mut at, mut called) = (text, 0, 0);
    for block in own {
        let after_calls = block.after_calls.min(calls.len());
        let until = if after_calls > 0 { usize::MAX } else { block.after_text };
        let said = head(text, until.saturating_sub(at));
        text = &text[said.len()..];
        at += said.len();
        out.extend(Some(said).filter(|said| !said.trim().is_empty()).map(Piece::Text));
        if called < after_calls {
            out.extend(calls[called..after_calls].iter().map(Piece::Call));
            called = after_calls;
        }
        out.push(Piece::Own(block));
    }
    out.extend(Some(text).filter(|said| !said.trim().is_empty()).map(Piece::Text));
    // Text that stood behind calls would have been before them: text is kept in one piece in front.
    out.extend(calls[called..].iter().map(Piece::Call));
    out
}

/// The images of a message that go along with it, in order.
pub(super) fn images<'a>(
    ask: &'a Ask<'_>,
    attachments: &'a [Attachment],
) -> impl Iterator<Item = &'a Image> {
    let shown = attachments.iter().filter(|_| !ask.ease.no_images);
    shown.filter_map(|attachment| ask.images.get(&attachment.path))
}

/// An image as an address that holds it (RFC 2397).
pub(super) fn data_url(image: &Image) -> String {
    format!("data:{};base64,{}", image.format.media_type(), image.data)
}

/// Whether an address holds an image that models are sent (I4).
pub(super) fn is_data_url(url: &str) -> bool {
    let parts = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    parts.is_some_and(|(media_type, data)| is_image(media_type, data))
}

/// Whether this is an image of a kind that models are sent, in base64 with its padding (I4).
pub(super) fn is_image(media_type: &str, data: &str) -> bool {
    let known = ImageFormat::ALL.iter().any(|format| format.media_type() == media_type);
    known && !data.is_empty() && data.len().is_multiple_of(4)
}

/// The text of the leading system message, and the conversation behind it.
pub(super) fn split_system(messages: &[ChatMessage]) -> (Option<&str>, &[ChatMessage]) {
    match messages {
        [ChatMessage::System { text }, rest @ ..] => (Some(text), rest),
        rest => (None, rest),
    }
}

/// Appends `parts` to the last entry of `list` if that is of the same role, else as an entry of its own:
/// APIs whose roles alternate get what was said in a row as one.
pub(super) fn push_parts(list: &mut Vec<Value>, role: &str, key: &str, mut parts: Vec<Value>) {
    if parts.is_empty() {
        return;
    }
    let last = list.last_mut().filter(|entry| entry["role"] == role);
    match last.and_then(|entry| entry[key].as_array_mut()) {
        Some(before) => before.append(&mut parts),
        None => list.push(serde_json::json!({ "role": role, key: parts })),
    }
}

#[cfg(test)]
mod tests {
    use rookery_messages::chat::{Arguments, Origin};
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    fn call(id: u128) -> ToolCall {
        ToolCall {
            id: CallId(Uuid::from_u128(id)),
            provider_id: None,
            name: "time".to_owned(),
            arguments: Arguments::parse(""),
        }
    }

    fn block(after_text: usize, after_calls: usize) -> OpaqueBlock {
        let origin = Origin { profile: "p".into(), kind: "k".into(), model: "m".into() };
        OpaqueBlock { origin, after_text, after_calls, block: json!([after_text, after_calls]) }
    }

    // A042
    #[test]
    fn blocks_stand_where_they_stood_also_in_a_text_that_was_shortened() {
        let calls = [call(1), call(2)];
        let blocks = [block(0, 0), block(5, 0), block(9, 1)];
        let [first, second, third] = &blocks;
        let got = pieces("Hello you", &calls, blocks.iter());
        assert_eq!(
            got,
            [
                Piece::Own(first),
                Piece::Text("Hello"),
                Piece::Own(second),
                Piece::Text(" you"),
                Piece::Call(&calls[0]),
                Piece::Own(third),
                Piece::Call(&calls[1]),
            ]
        );
        let got = pieces("Häl", &calls[..1], blocks.iter());
        assert_eq!(
            got,
            [
                Piece::Own(first),
                Piece::Text("Häl"),
                Piece::Own(second),
                Piece::Call(&calls[0]),
                Piece::Own(third),
            ]
        );
        assert_eq!(pieces(" ", &[], [].iter()), []);
    }

    #[test]
    fn names_the_api_would_refuse_are_made_acceptable() {
        assert_eq!(wire_name("file_read"), "file_read");
        assert_eq!(wire_name(""), "unknown");
        assert_eq!(wire_name("ü.x"), "__x");
        assert_eq!(wire_name(&"n".repeat(100)).len(), MAX_NAME);
    }
}
