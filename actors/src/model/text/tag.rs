//! Forms 2, 4, 5 and 6: an element that says "tool call".
//!
//! `<tool_call>`, its aliases, `<invoke …>` and `<FunctionCall>`, with or without a namespace. A body of
//! JSON values ends after the last of them even if the closing tag is missing or another alias; any other
//! body needs its closing tag.

use std::ops::Range;

use super::attributes::{Attributes, TagEnd, attributes};
use super::body;
use super::calls::{self, Marked, Read};
use super::form::{CUT, Found, Verdict};
use super::json::{JsonScan, Scan};
use super::known::Known;
use super::names::{Kind, Name, kind, read_name};
use super::sniff::{Sniffed, sniff};

/// Longest opening tag with its attributes.
const MAX_TAG: usize = 64 << 10;
/// Most white space between two values.
const MAX_SPACE: usize = 1_024;
/// How deep call tags may nest.
const MAX_NESTED: usize = 16;

/// Looks for the tag that closes a body of elements or lines.
#[derive(Debug)]
struct Closing {
    at: usize,
    open: Vec<&'static str>,
}

enum Closed {
    More,
    /// The body ends before the first offset, the form before the second.
    At(usize, usize),
    TooDeep,
}

impl Closing {
    fn scan(&mut self, text: &str) -> Closed {
        while let Some(next) = text[self.at..].find('<') {
            let at = self.at + next;
            self.at = at;
            let (closing, name, end) = match read_name(&text[at..]) {
                Name::Open(_) => return Closed::More,
                Name::None => {
                    self.at = at + 1;
                    continue;
                }
                Name::Read { closing, name, end } => (closing, kind(name), at + end),
            };
            match (name, closing) {
                (Kind::Call(name), false) => {
                    self.open.push(name);
                    if self.open.len() > MAX_NESTED {
                        return Closed::TooDeep;
                    }
                }
                (Kind::Call(name), true) => {
                    // An alias closes its own tag, else the innermost one.
                    let last = self.open.len().saturating_sub(1);
                    let to = self.open.iter().rposition(|open| *open == name).unwrap_or(last);
                    if to == 0 {
                        return match text[end..].find('>') {
                            Some(mark) => Closed::At(at, end + mark + 1),
                            None => Closed::More,
                        };
                    }
                    self.open.truncate(to);
                }
                _ => {}
            }
            self.at = end;
        }
        self.at = text.len();
        Closed::More
    }
}

#[derive(Debug)]
enum State {
    Tag(TagEnd),
    Sniff,
    Json {
        scan: JsonScan,
        from: usize,
    },
    /// A JSON value ended; another, or the closing tag, may follow.
    After,
    Markup(Closing),
}

/// The reader of one element, from its `<` on.
#[derive(Debug)]
pub(super) struct Tag {
    alias: &'static str,
    name_end: usize,
    body: usize,
    attributes: Attributes,
    values: Vec<Range<usize>>,
    state: State,
}

impl Tag {
    pub(super) fn new(alias: &'static str, name_end: usize) -> Self {
        Self {
            alias,
            name_end,
            body: 0,
            attributes: Vec::new(),
            values: Vec::new(),
            state: State::Tag(TagEnd::new(name_end)),
        }
    }

    pub(super) fn feed(&mut self, text: &str, end: bool, known: &Known) -> Verdict {
        loop {
            let next = match &mut self.state {
                State::Tag(tag_end) => match tag_end.scan(text) {
                    Ok(Some(at)) if at > MAX_TAG => return Verdict::Text(1),
                    Ok(Some(at)) => {
                        self.body = at;
                        let inner = &text[self.name_end..at - 1];
                        let closed = inner.ends_with('/');
                        self.attributes = attributes(inner.trim_end_matches('/'));
                        if closed {
                            return self.closed(text, at..at, at, known);
                        }
                        State::Sniff
                    }
                    Err(()) => return Verdict::Text(1),
                    Ok(None) if text.len() > MAX_TAG => return Verdict::Text(1),
                    Ok(None) => return cut(text, end),
                },
                State::Sniff => match sniff(&text[self.body..], end, known) {
                    Sniffed::Braces(space) => {
                        let from = self.body + space;
                        State::Json { scan: JsonScan::at(from), from }
                    }
                    // A tag with a name has anything as its body.
                    Sniffed::Prose if body::name_of(&self.attributes).is_none() => {
                        return Verdict::Text(self.body);
                    }
                    Sniffed::Markup | Sniffed::Prose => self.markup(self.body),
                    Sniffed::More => return Verdict::More,
                    Sniffed::Nothing => return cut(text, end),
                },
                State::Json { scan, from } => match scan.scan(text) {
                    Scan::Complete(at) => {
                        self.values.push(*from..at);
                        State::After
                    }
                    Scan::Broken => {
                        let from = *from;
                        self.markup(from)
                    }
                    Scan::More => return cut(text, end),
                },
                State::After => match self.after(text, end, known) {
                    Ok(next) => next,
                    Err(verdict) => return verdict,
                },
                State::Markup(closing) => match closing.scan(text) {
                    Closed::At(at, len) => return self.closed(text, self.body..at, len, known),
                    Closed::TooDeep => return malformed(text.len(), "call tags nest too deep"),
                    Closed::More => return cut(text, end),
                },
            };
            self.state = next;
        }
    }

    fn markup(&self, at: usize) -> State {
        State::Markup(Closing { at, open: vec![self.alias] })
    }

    /// Behind a complete JSON value.
    fn after(&mut self, text: &str, end: bool, known: &Known) -> Result<State, Verdict> {
        let last = self.values.last().map_or(self.body, |value| value.end);
        let rest = &text[last..];
        let separates = |byte: &u8| byte.is_ascii_whitespace() || *byte == b',';
        let space = rest.bytes().take(MAX_SPACE + 1).take_while(separates).count();
        let next = &rest[space..];
        match next.bytes().next() {
            None if end => Err(self.recovered(last, text.len(), known, text)),
            None if space > MAX_SPACE => Err(self.recovered(last, last, known, text)),
            None => Err(Verdict::More),
            Some(b'{' | b'[') if space <= MAX_SPACE => {
                let from = last + space;
                Ok(State::Json { scan: JsonScan::at(from), from })
            }
            Some(b'<') if space <= MAX_SPACE => match read_name(next) {
                Name::Open(_) if !end => Err(Verdict::More),
                Name::Open(name) if next.starts_with("</") || name.is_empty() => {
                    Err(self.recovered(last, text.len(), known, text))
                }
                Name::Read { closing: true, name, end: name_end }
                    if matches!(kind(name), Kind::Call(_)) =>
                {
                    match next[name_end..].find('>') {
                        Some(mark) => {
                            let len = last + space + name_end + mark + 1;
                            Err(self.read_values(text, len, true, known))
                        }
                        None if end => Err(self.recovered(last, text.len(), known, text)),
                        None => Err(Verdict::More),
                    }
                }
                _ => Err(self.recovered(last, last, known, text)),
            },
            Some(_) => Err(self.recovered(last, last, known, text)),
        }
    }

    /// V-F4: complete JSON in a tag that is not closed. What follows the JSON is text.
    fn recovered(&self, last: usize, len: usize, known: &Known, text: &str) -> Verdict {
        self.read_values(text, len.max(last), false, known)
    }

    fn read_values(&self, text: &str, len: usize, closed: bool, known: &Known) -> Verdict {
        let named = body::name_of(&self.attributes);
        let mut calls = Vec::new();
        for range in &self.values {
            let written = &text[range.clone()];
            let value: serde_json::Value = match serde_json::from_str(written) {
                Ok(value) => value,
                Err(error) => match body::braces(written, known) {
                    Some(call) => {
                        calls.push(call);
                        continue;
                    }
                    None => return malformed(len, &format!("its JSON can't be read: {error}")),
                },
            };
            if let Some(name) = named {
                calls.push(body::named_call(name, &self.attributes, value.to_string(), known));
                continue;
            }
            match calls::read(&value, known, Marked::Yes) {
                Read::Calls { calls: found, .. } => calls.extend(found),
                Read::Malformed | Read::Other => {
                    return malformed(len, "its JSON has no name of a tool");
                }
            }
        }
        let found = if closed { Found::calls(calls) } else { Found::Unclosed(calls) };
        Verdict::Form { len, found }
    }

    fn closed(&self, text: &str, body: Range<usize>, len: usize, known: &Known) -> Verdict {
        match body::read(&text[body], &self.attributes, known) {
            Ok(calls) => Verdict::Form { len, found: Found::calls(calls) },
            Err(why) => malformed(len, &why),
        }
    }
}

fn malformed(len: usize, why: &str) -> Verdict {
    Verdict::Form { len, found: Found::Malformed(why.to_owned()) }
}

/// The text ends inside the form: more is needed, or it is truncated (V-E12).
fn cut(text: &str, end: bool) -> Verdict {
    if end { malformed(text.len(), CUT) } else { Verdict::More }
}
