//! What a call's body begins with: whether somebody calls a tool, or talks about the tag.

use super::body;
use super::known::Known;
use super::names::{Kind, Name, kind, read_name};

/// Most white space before a body.
const MAX_SPACE: usize = 1_024;
/// Longest word a body may begin with.
const MAX_WORD: usize = 64;

/// What a body begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sniffed {
    More,
    /// JSON, or something in braces.
    Braces(usize),
    /// Elements, or lines led by a name.
    Markup,
    /// Prose: somebody talks about the tag.
    Prose,
    /// The reply ends here.
    Nothing,
}

/// Looks at a bounded part of a body.
pub(super) fn sniff(text: &str, end: bool, known: &Known) -> Sniffed {
    let space = text.bytes().take(MAX_SPACE + 1).take_while(u8::is_ascii_whitespace).count();
    let more = if end { Sniffed::Nothing } else { Sniffed::More };
    if space > MAX_SPACE {
        return Sniffed::Prose;
    }
    let body = &text[space..];
    match body.bytes().next() {
        None => more,
        Some(b'{' | b'[') => Sniffed::Braces(space),
        Some(b'<') => match read_name(body) {
            Name::Open(_) => more,
            Name::Read { closing, name, .. } => match (closing, kind(name)) {
                (true, Kind::Call(_)) | (false, Kind::Call(_) | Kind::Other) => Sniffed::Markup,
                _ => Sniffed::Prose,
            },
            // `<function=name>`
            Name::None if body.starts_with("<function=") => Sniffed::Markup,
            Name::None => Sniffed::Prose,
        },
        Some(byte) if byte.is_ascii_alphabetic() || byte == b'_' => {
            word_led(body, end, known, more)
        }
        Some(_) => Sniffed::Prose,
    }
}

fn word(text: &str) -> usize {
    let of_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
    text.bytes().take(MAX_WORD + 1).take_while(of_word).count()
}

fn word_led(body: &str, end: bool, known: &Known, more: Sniffed) -> Sniffed {
    let length = word(body);
    if length > MAX_WORD {
        return Sniffed::Prose;
    }
    let (name, after) = body.split_at(length);
    if after.is_empty() {
        return more;
    }
    let is_tool = known.find(name).is_some();
    let space = after.bytes().take(MAX_WORD + 1).take_while(u8::is_ascii_whitespace).count();
    let rest = &after[space..];
    let Some(next) = rest.bytes().next() else {
        return if space > MAX_WORD { Sniffed::Prose } else { more };
    };
    let sure = match next {
        b':' | b'=' => is_tool || body::is_name_key(name),
        b'<' | b'(' | b'>' | b'/' => is_tool || space == 0,
        b'{' => is_tool,
        byte if is_tool && space > 0 && (byte.is_ascii_alphabetic() || byte == b'_') => {
            let key = word(rest);
            match rest.as_bytes().get(key) {
                None if key <= MAX_WORD && !end => return Sniffed::More,
                next => key <= MAX_WORD && matches!(next, Some(b':' | b'=')),
            }
        }
        _ => false,
    };
    if sure { Sniffed::Markup } else { Sniffed::Prose }
}
