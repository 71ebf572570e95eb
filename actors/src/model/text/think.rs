//! Think blocks taken out of a stream: `<think>…</think>`, an unclosed one to the end (V-E4, V-F12).

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// A piece of a reply, sorted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Part {
    Visible(String),
    Thinking(String),
}

/// The filter. It keeps less than one tag's length between pieces.
#[derive(Debug, Default)]
pub(super) struct ThinkFilter {
    /// The end of the last piece, if a tag may begin in it.
    kept: String,
    inside: bool,
    /// Something other than white space was visible.
    spoken: bool,
    /// The white space after a leading think block belongs to it.
    trims: bool,
}

impl ThinkFilter {
    pub(super) fn push(&mut self, piece: &str) -> Vec<Part> {
        let mut text = std::mem::take(&mut self.kept);
        text.push_str(piece);
        let mut parts = Vec::new();
        let mut rest = text.as_str();
        loop {
            let tag = if self.inside { CLOSE } else { OPEN };
            match find(rest, tag) {
                Found::Whole(at) => {
                    self.emit(&rest[..at], &mut parts);
                    rest = &rest[at + tag.len()..];
                    self.inside = !self.inside;
                    self.trims = !self.inside && !self.spoken;
                }
                Found::Start(at) => {
                    self.emit(&rest[..at], &mut parts);
                    rest[at..].clone_into(&mut self.kept);
                    return parts;
                }
                Found::None => {
                    self.emit(rest, &mut parts);
                    return parts;
                }
            }
        }
    }

    pub(super) fn finish(&mut self) -> Vec<Part> {
        let mut parts = Vec::new();
        let kept = std::mem::take(&mut self.kept);
        self.emit(&kept, &mut parts);
        parts
    }

    fn emit(&mut self, text: &str, parts: &mut Vec<Part>) {
        let text = if self.trims && !self.inside { text.trim_start() } else { text };
        if text.is_empty() {
            return;
        }
        if self.inside {
            parts.push(Part::Thinking(text.to_owned()));
            return;
        }
        self.trims = false;
        self.spoken |= !text.trim().is_empty();
        parts.push(Part::Visible(text.to_owned()));
    }
}

enum Found {
    Whole(usize),
    /// The text ends within what may be the tag.
    Start(usize),
    None,
}

fn find(text: &str, tag: &str) -> Found {
    let bytes = text.as_bytes();
    for (at, _) in text.match_indices('<') {
        let rest = &bytes[at..];
        let length = rest.len().min(tag.len());
        if rest[..length].eq_ignore_ascii_case(&tag.as_bytes()[..length]) {
            return if length == tag.len() { Found::Whole(at) } else { Found::Start(at) };
        }
    }
    Found::None
}
