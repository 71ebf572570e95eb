//! Fenced blocks. One named `tool_call` is a call (form 3); any other is shown as it is, and whatever
//! stands in it is no call (V-F9, V-E11).

use rookery_messages::model::RawCall;
use serde_json::Map;

use super::body;
use super::form::{CUT, Found, Verdict};
use super::known::Known;
use super::line::says_example;
use super::named;

/// Longest line that opens a fence.
const MAX_INFO: usize = 256;

/// A fence that is shown: only its end is looked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct OpenFence {
    mark: u8,
    run: usize,
    line: FenceLine,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FenceLine {
    /// White space only, so far.
    Blank,
    Marks(usize),
    /// Marks, then white space.
    Closed(usize),
    Other,
}

impl OpenFence {
    fn new(mark: u8, run: usize) -> Self {
        Self { mark, run, line: FenceLine::Blank }
    }

    /// How much of the text belongs to the fence, and whether it ends there.
    pub(super) fn pass(&mut self, text: &str) -> (usize, bool) {
        for (at, byte) in text.bytes().enumerate() {
            if self.takes(byte) {
                return (at, true);
            }
        }
        (text.len(), false)
    }

    /// Whether the line break here ends the fence.
    fn takes(&mut self, byte: u8) -> bool {
        self.line = match (self.line, byte) {
            (FenceLine::Marks(run) | FenceLine::Closed(run), b'\n') if run >= self.run => {
                return true;
            }
            (_, b'\n') => FenceLine::Blank,
            (FenceLine::Blank, b' ' | b'\t') => FenceLine::Blank,
            (FenceLine::Blank, byte) if byte == self.mark => FenceLine::Marks(1),
            (FenceLine::Marks(run), byte) if byte == self.mark => FenceLine::Marks(run + 1),
            (FenceLine::Marks(run) | FenceLine::Closed(run), b' ' | b'\t' | b'\r') => {
                FenceLine::Closed(run)
            }
            _ => FenceLine::Other,
        };
        false
    }

    /// Whether the end of the text, without a line break, ends the fence.
    fn ends_here(&self) -> bool {
        matches!(self.line, FenceLine::Marks(run) | FenceLine::Closed(run) if run >= self.run)
    }
}

/// What a fence's opening line says.
#[derive(PartialEq, Eq, Debug)]
enum Info<'a> {
    /// Calls follow.
    Calls,
    /// The arguments of this tool follow.
    Tool(&'a str),
    Other,
}

fn info(line: &str) -> Info<'_> {
    let mut words = line.split_whitespace();
    match (words.next(), words.next(), words.next()) {
        (Some(word), None, _) if is_call(word) => Info::Calls,
        (Some("tool"), Some(name), None) if named::is_key(name) => Info::Tool(name),
        _ => Info::Other,
    }
}

fn is_call(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    matches!(word.as_str(), "tool_call" | "tool-call" | "toolcall" | "invoke")
}

/// The reader of a fence, from its first mark on.
#[derive(Debug)]
pub(super) struct Fence {
    run: usize,
    /// The line before presents an example.
    example: bool,
    body: Option<Body>,
}

#[derive(Debug)]
struct Body {
    from: usize,
    at: usize,
    /// Where the line in work begins.
    line: usize,
    fence: OpenFence,
}

impl Fence {
    pub(super) fn new(run: usize, example: bool) -> Self {
        Self { run, example, body: None }
    }

    pub(super) fn feed(&mut self, text: &str, end: bool, known: &Known) -> Verdict {
        let mark = text.as_bytes()[0];
        let limit = text.len().min(self.run + MAX_INFO);
        let Some(body) = &mut self.body else {
            let line = text.as_bytes()[self.run..limit].iter().position(|byte| *byte == b'\n');
            let line_end = match line {
                Some(at) => self.run + at,
                None if limit == self.run + MAX_INFO => return Verdict::Text(self.run),
                None if end => text.len(),
                None => return Verdict::More,
            };
            let words = &text[self.run..line_end];
            if mark == b'`' && words.contains('`') {
                // A code span, not a fence.
                return super::span::read(text, self.run, true);
            }
            let from = (line_end + 1).min(text.len());
            let fence = OpenFence::new(mark, self.run);
            if info(words) == Info::Other || self.example {
                return Verdict::Fence(from, fence);
            }
            self.body = Some(Body { from, at: from, line: from, fence });
            return self.feed(text, end, known);
        };
        let bytes = text.as_bytes();
        while let Some(&byte) = bytes.get(body.at) {
            if body.fence.takes(byte) {
                let (line, len) = (body.line, body.at);
                return self.read(text, line, len, known);
            }
            body.at += 1;
            if byte == b'\n' {
                body.line = body.at;
            }
        }
        if !end {
            return Verdict::More;
        }
        let line = if body.fence.ends_here() { body.line } else { text.len() };
        self.read(text, line, text.len(), known)
    }

    fn read(&self, text: &str, body_end: usize, len: usize, known: &Known) -> Verdict {
        let from = self.body.as_ref().map_or(body_end, |body| body.from);
        let head = text[self.run..from].trim();
        let body = &text[from..body_end];
        let found = match info(head) {
            Info::Tool(name) => arguments(name, body, known).map(|call| vec![call]),
            _ => body::read(body, &Vec::new(), known),
        };
        match found {
            Ok(calls) => Verdict::Form { len, found: Found::calls(calls) },
            Err(_) if says_example(body) => Verdict::Text(len),
            Err(_) if body_end == len => malformed(len, CUT),
            Err(why) => malformed(len, &why),
        }
    }
}

fn arguments(name: &str, body: &str, known: &Known) -> Result<RawCall, String> {
    let arguments = named::from_body(name, Map::new(), body, known)?;
    Ok(RawCall { provider_id: None, name: known.spelled(name), arguments })
}

fn malformed(len: usize, why: &str) -> Verdict {
    Verdict::Form { len, found: Found::Malformed(why.to_owned()) }
}
