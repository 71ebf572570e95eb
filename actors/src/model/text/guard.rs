//! The stream guard: releases what is certainly no call, holds back what may be one (V-E9–V-E12).
//!
//! Every reader looks at the text from its form's first byte on and at no more than [`MAX_HELD`] bytes of
//! it, so that what it says does not depend on how much has arrived beyond that.

use rookery_messages::model::RawCall;
use rookery_messages::tool::head;

use super::bracket::{self, Bracket, Mark};
use super::fence::{Fence, OpenFence};
use super::form::{Found, MAX_HELD, TOO_LONG, Verdict};
use super::known::Known;
use super::line::Lines;
use super::names::{Kind, Name, begins_call, kind, read_name};
use super::span;
use super::tag::Tag;
use super::whole::Whole;

/// What the text held, and the rest of what may be shown.
#[derive(Debug, Default)]
pub(super) struct GuardEnd {
    pub(super) text: String,
    pub(super) calls: Vec<RawCall>,
    pub(super) malformed: Option<String>,
}

#[derive(Debug)]
enum Form {
    Whole(Whole),
    Tag(Tag),
    Bracket(Bracket),
    Fence(Fence),
}

#[derive(Debug)]
enum Mode {
    Prose,
    Form(Box<Form>),
    /// A fence that is shown.
    Fence(OpenFence),
    /// An element whose content is inert, until this closing tag.
    Inert(&'static str),
    /// A call could not be read: nothing that follows is shown, nothing is run.
    Dead,
}

/// What stands at a place in prose.
enum Place {
    More,
    Text(usize),
    Drop(usize),
    Form(Form),
    Inert(usize, &'static str),
}

#[derive(Debug)]
pub(super) struct Guard {
    known: Known,
    /// The text from the first undecided byte on; decided bytes go after each piece.
    held: String,
    at: usize,
    mode: Mode,
    lines: Lines,
    /// Nothing but white space has come.
    fresh: bool,
    /// A call was recovered from an unclosed tag: its closing tag may still come.
    unclosed: bool,
    out: String,
    calls: Vec<RawCall>,
    malformed: Option<String>,
}

impl Guard {
    pub(super) fn new(known: Known) -> Self {
        Self {
            known,
            held: String::new(),
            at: 0,
            mode: Mode::Prose,
            lines: Lines::default(),
            fresh: true,
            unclosed: false,
            out: String::new(),
            calls: Vec::new(),
            malformed: None,
        }
    }

    /// Takes a piece; gives what may be shown by now.
    pub(super) fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        self.run(false);
        self.held.drain(..self.at);
        self.at = 0;
        std::mem::take(&mut self.out)
    }

    pub(super) fn finish(mut self) -> GuardEnd {
        self.run(true);
        // A reply that can't be read as a whole runs nothing: the model is asked for all of it again.
        let calls = if self.malformed.is_some() { Vec::new() } else { self.calls };
        GuardEnd { text: self.out, calls, malformed: self.malformed }
    }

    fn run(&mut self, end: bool) {
        while self.at < self.held.len() && self.step(end) {}
    }

    /// Whether it got on.
    fn step(&mut self, end: bool) -> bool {
        let rest = &self.held[self.at..];
        match &mut self.mode {
            Mode::Dead => {
                self.at = self.held.len();
                true
            }
            Mode::Fence(fence) => {
                let (len, ended) = fence.pass(rest);
                if ended {
                    self.mode = Mode::Prose;
                }
                self.release(len);
                len > 0 || ended
            }
            Mode::Inert(name) => {
                let name = *name;
                self.inert(name, end)
            }
            Mode::Prose => self.prose(end),
            Mode::Form(form) => {
                let seen = head(rest, MAX_HELD);
                let whole = seen.len() == rest.len();
                let verdict = match form.as_mut() {
                    Form::Whole(form) => form.feed(seen, end && whole, &self.known),
                    Form::Tag(form) => form.feed(seen, end && whole, &self.known),
                    Form::Bracket(form) => form.feed(seen, end && whole, &self.known),
                    Form::Fence(form) => form.feed(seen, end && whole, &self.known),
                };
                self.decide(verdict, whole)
            }
        }
    }

    fn decide(&mut self, verdict: Verdict, whole: bool) -> bool {
        match verdict {
            Verdict::More if whole => return false,
            Verdict::More => self.fail(TOO_LONG.to_owned()),
            Verdict::Text(len) => {
                self.mode = Mode::Prose;
                self.fresh = false;
                self.release(len);
            }
            Verdict::Fence(len, fence) => {
                self.mode = Mode::Fence(fence);
                self.release(len);
            }
            Verdict::Form { len, found } => {
                self.mode = Mode::Prose;
                self.fresh = false;
                self.at += len;
                match found {
                    Found::Calls { calls, text } => {
                        self.calls.extend(calls);
                        self.out.push_str(&text.unwrap_or_default());
                    }
                    Found::Unclosed(calls) => {
                        self.calls.extend(calls);
                        self.unclosed = true;
                    }
                    Found::Malformed(why) => self.fail(why),
                }
            }
        }
        true
    }

    fn fail(&mut self, why: String) {
        self.malformed = Some(why);
        self.mode = Mode::Dead;
    }

    fn release(&mut self, len: usize) {
        let text = &self.held[self.at..self.at + len];
        self.lines.read(text);
        self.out.push_str(text);
        self.at += len;
    }

    /// Inside a declaration or a result: everything is text.
    fn inert(&mut self, name: &'static str, end: bool) -> bool {
        let rest = &self.held[self.at..];
        let Some(next) = rest.find('<') else {
            self.release(rest.len());
            return true;
        };
        let len = match read_name(&rest[next..]) {
            Name::Open(_) if !end => {
                self.release(next);
                return next > 0;
            }
            Name::Read { closing: true, name: found, end: len }
                if kind(found) == Kind::Inert(name) =>
            {
                self.mode = Mode::Prose;
                len
            }
            _ => 1,
        };
        self.release(next + len);
        true
    }

    fn prose(&mut self, end: bool) -> bool {
        let rest = &self.held[self.at..];
        if self.fresh {
            let space = rest.len() - rest.trim_start().len();
            if space > 0 {
                self.release(space);
                return true;
            }
            self.fresh = false;
            if rest.starts_with(['{', '[']) {
                self.mode = Mode::Form(Box::new(Form::Whole(Whole::new())));
                return true;
            }
        }
        let plain = self.plain(rest);
        if plain > 0 {
            self.release(plain);
            return true;
        }
        match self.place(rest, end) {
            Place::More => return false,
            Place::Text(len) => self.release(len),
            Place::Drop(len) => {
                self.unclosed = false;
                self.at += len;
            }
            Place::Form(form) => self.mode = Mode::Form(Box::new(form)),
            Place::Inert(len, name) => {
                self.release(len);
                self.mode = Mode::Inert(name);
            }
        }
        true
    }

    /// How many bytes come before the next place where a form may begin.
    fn plain(&self, rest: &str) -> usize {
        let mut blank = self.lines.blank;
        for (at, byte) in rest.bytes().enumerate() {
            match byte {
                b'<' | b'`' | b'[' => return at,
                b'~' | b'T' if blank => return at,
                b'\n' => blank = true,
                byte if byte.is_ascii_whitespace() => {}
                _ => blank = false,
            }
        }
        rest.len()
    }

    fn place(&self, rest: &str, end: bool) -> Place {
        match rest.as_bytes()[0] {
            b'<' => self.angle(rest, end),
            b'[' => self.square(rest, end),
            b'T' => match bracket::bare(rest) {
                Mark::Here(len) => Place::Form(Form::Bracket(Bracket::new(len))),
                Mark::Open(_) if !end => Place::More,
                Mark::Open(_) | Mark::None => Place::Text(1),
            },
            mark => {
                let Some(run) = span::run(rest, end) else { return Place::More };
                if run >= 3 && self.lines.blank {
                    let example = self.lines.presents_example();
                    return Place::Form(Form::Fence(Fence::new(run, example)));
                }
                if mark == b'~' {
                    return Place::Text(run);
                }
                match span::read(rest, run, end) {
                    Verdict::More => Place::More,
                    Verdict::Text(len) => Place::Text(len),
                    Verdict::Fence(..) | Verdict::Form { .. } => Place::Text(run),
                }
            }
        }
    }

    fn angle(&self, rest: &str, end: bool) -> Place {
        let (closing, name, len) = match read_name(rest) {
            Name::None => return Place::Text(1),
            Name::Open(_) if !end => return Place::More,
            // V-E12
            Name::Open(name) if begins_call(name) => return Place::Drop(rest.len()),
            Name::Open(_) => return Place::Text(1),
            Name::Read { closing, name, end } => (closing, kind(name), end),
        };
        match (name, closing) {
            (Kind::Call(alias), false) => Place::Form(Form::Tag(Tag::new(alias, len))),
            (Kind::Call(_), true) if self.unclosed => {
                let mark = usize::from(rest.as_bytes().get(len) == Some(&b'>'));
                Place::Drop(len + mark)
            }
            (Kind::Inert(name), false) => Place::Inert(len, name),
            _ => Place::Text(1),
        }
    }

    fn square(&self, rest: &str, end: bool) -> Place {
        match (bracket::opening(rest), bracket::closing(rest)) {
            (Mark::Here(len), _) => Place::Form(Form::Bracket(Bracket::new(len))),
            (Mark::Open(_), _) | (_, Mark::Open(_)) if !end => Place::More,
            // V-E12
            (Mark::Open(len), _) if len > 5 => Place::Drop(rest.len()),
            _ => Place::Text(1),
        }
    }
}
