//! Form 7: `[TOOL_CALL]{…}[/TOOL_CALL]`, and the same without brackets at the start of a line.

use super::body;
use super::form::{CUT, Found, Verdict};
use super::known::Known;
use super::sniff::{Sniffed, sniff};

const OPEN: &str = "[TOOL_CALL]";
const BARE: &str = "TOOL_CALL";
const CLOSE: &str = "[/TOOL_CALL]";
const BARE_CLOSE: &str = "/TOOL_CALL";
/// Most white space before and after the body.
const MAX_SPACE: usize = 256;

/// What stands at the start of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mark {
    /// The text ends within it; so much is there.
    Open(usize),
    Here(usize),
    None,
}

fn mark(text: &str, mark: &str) -> Mark {
    let length = text.len().min(mark.len());
    if !text.as_bytes()[..length].eq_ignore_ascii_case(&mark.as_bytes()[..length]) {
        Mark::None
    } else if length == mark.len() {
        Mark::Here(length)
    } else {
        Mark::Open(length)
    }
}

/// The opening mark in brackets.
pub(super) fn opening(text: &str) -> Mark {
    mark(text, OPEN)
}

/// The closing mark in brackets.
pub(super) fn closing(text: &str) -> Mark {
    mark(text, CLOSE)
}

/// The bare mark: it needs its brace, or it is a word.
pub(super) fn bare(text: &str) -> Mark {
    if !text.as_bytes().starts_with(&BARE.as_bytes()[..text.len().min(BARE.len())]) {
        return Mark::None;
    }
    if text.len() < BARE.len() {
        return Mark::Open(text.len());
    }
    let after = &text[BARE.len()..];
    let blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == b':';
    let space = after.bytes().take(MAX_SPACE + 1).take_while(blank).count();
    match after.as_bytes().get(space) {
        Some(b'{') if space <= MAX_SPACE => Mark::Here(BARE.len() + space),
        None if space <= MAX_SPACE => Mark::Open(text.len()),
        _ => Mark::None,
    }
}

#[derive(Debug)]
enum State {
    Sniff,
    /// Inside braces: how deep, and in which quotes.
    Braces {
        at: usize,
        depth: usize,
        quote: Option<u8>,
        escaped: bool,
    },
    /// Lines led by a name: to the closing mark.
    Lines {
        at: usize,
    },
    /// The braces are closed; the closing mark may follow.
    After {
        end: usize,
    },
}

/// The reader of one such form, from its mark on.
#[derive(Debug)]
pub(super) struct Bracket {
    body: usize,
    state: State,
}

impl Bracket {
    pub(super) fn new(body: usize) -> Self {
        Self { body, state: State::Sniff }
    }

    pub(super) fn feed(&mut self, text: &str, end: bool, known: &Known) -> Verdict {
        loop {
            let next = match &mut self.state {
                State::Sniff => match sniff(&text[self.body..], end, known) {
                    Sniffed::More => return Verdict::More,
                    Sniffed::Braces(space) => {
                        let at = self.body + space;
                        State::Braces { at, depth: 0, quote: None, escaped: false }
                    }
                    Sniffed::Markup => State::Lines { at: self.body },
                    Sniffed::Prose => return Verdict::Text(self.body),
                    Sniffed::Nothing => return malformed(text.len(), CUT),
                },
                State::Braces { at, depth, quote, escaped } => {
                    match braces(text, at, depth, quote, escaped) {
                        Some(end) => State::After { end },
                        None if end => return malformed(text.len(), CUT),
                        None => return Verdict::More,
                    }
                }
                State::Lines { at } => {
                    let rest = &text[*at..];
                    let Some(found) = rest.find('[') else {
                        *at = text.len();
                        return if end { malformed(text.len(), CUT) } else { Verdict::More };
                    };
                    let here = *at + found;
                    match closing(&text[here..]) {
                        Mark::Here(mark) => return self.read(text, here, here + mark, known),
                        Mark::Open(_) if !end => return Verdict::More,
                        Mark::Open(_) => return malformed(text.len(), CUT),
                        Mark::None => *at = here + 1,
                    }
                    continue;
                }
                State::After { end: last } => {
                    let last = *last;
                    return match after(&text[last..], end) {
                        Some(mark) => self.read(text, last, last + mark, known),
                        None => Verdict::More,
                    };
                }
            };
            self.state = next;
        }
    }

    fn read(&self, text: &str, end: usize, len: usize, known: &Known) -> Verdict {
        match body::read(&text[self.body..end], &Vec::new(), known) {
            Ok(calls) => Verdict::Form { len, found: Found::calls(calls) },
            Err(why) => malformed(len, &why),
        }
    }
}

/// Goes on to where the braces are balanced.
fn braces(
    text: &str,
    at: &mut usize,
    depth: &mut usize,
    quote: &mut Option<u8>,
    escaped: &mut bool,
) -> Option<usize> {
    let bytes = text.as_bytes();
    while let Some(&byte) = bytes.get(*at) {
        *at += 1;
        match (*quote, byte) {
            (Some(_), _) if *escaped => *escaped = false,
            (Some(_), b'\\') => *escaped = true,
            (Some(open), byte) if open == byte => *quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => *quote = Some(byte),
            (None, b'{' | b'[') => *depth += 1,
            (None, b'}' | b']') => {
                *depth = depth.saturating_sub(1);
                if *depth == 0 {
                    return Some(*at);
                }
            }
            (None, _) => {}
        }
    }
    None
}

/// The length of white space and closing mark, or 0 without one. None: more is needed.
fn after(text: &str, end: bool) -> Option<usize> {
    let space = text.bytes().take(MAX_SPACE + 1).take_while(u8::is_ascii_whitespace).count();
    let rest = &text[space..];
    if rest.is_empty() && space <= MAX_SPACE {
        return end.then_some(0);
    }
    let mut open = false;
    for close in [CLOSE, BARE_CLOSE] {
        match mark(rest, close) {
            Mark::Here(length) => return Some(space + length),
            Mark::Open(_) if end => return Some(text.len()),
            Mark::Open(_) => open = true,
            Mark::None => {}
        }
    }
    if open { None } else { Some(0) }
}

fn malformed(len: usize, why: &str) -> Verdict {
    Verdict::Form { len, found: Found::Malformed(why.to_owned()) }
}
