//! A JSON object or array found in a stream, byte by byte: where it ends, or where it stops being one.
//!
//! It checks the structure only; what it finds complete is parsed by `serde_json`, which has the last word.

/// As deep as `serde_json` goes.
const MAX_DEPTH: usize = 127;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scan {
    /// It goes on beyond the text.
    More,
    /// It ends before this offset.
    Complete(usize),
    /// What stands here can't be part of it.
    Broken,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    Colon,
    CommaOrEnd,
    Text { key: bool, escaped: bool },
    Literal,
}

/// Goes on where it stopped: each byte is looked at once.
#[derive(Clone, Debug)]
pub(super) struct JsonScan {
    at: usize,
    /// The open brackets: true is an object.
    open: Vec<bool>,
    state: State,
}

impl JsonScan {
    /// For a value that begins at `at` with `{` or `[`.
    pub(super) fn at(at: usize) -> Self {
        Self { at, open: Vec::new(), state: State::Value }
    }

    pub(super) fn scan(&mut self, text: &str) -> Scan {
        let bytes = text.as_bytes();
        while let Some(&byte) = bytes.get(self.at) {
            let Some(next) = self.step(byte) else { return Scan::Broken };
            self.at += 1;
            self.state = next;
            if self.open.is_empty() {
                return Scan::Complete(self.at);
            }
        }
        Scan::More
    }

    fn step(&mut self, byte: u8) -> Option<State> {
        match (self.state, byte) {
            (State::Text { key, escaped: true }, _) => Some(State::Text { key, escaped: false }),
            (State::Text { key, .. }, b'\\') => Some(State::Text { key, escaped: true }),
            (State::Text { key: true, .. }, b'"') => Some(State::Colon),
            (State::Text { key: false, .. }, b'"') => Some(State::CommaOrEnd),
            (text @ State::Text { .. }, _) => Some(text),
            (State::Literal, b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'+' | b'-' | b'.') => {
                Some(State::Literal)
            }
            (State::Literal, _) => {
                self.state = State::CommaOrEnd;
                self.step(byte)
            }
            (state, b' ' | b'\t' | b'\r' | b'\n') => Some(state),
            (State::Value | State::ValueOrEnd, b'{') => self.opened(true),
            (State::Value | State::ValueOrEnd, b'[') => self.opened(false),
            (State::Value | State::ValueOrEnd, b'"') => {
                Some(State::Text { key: false, escaped: false })
            }
            (State::Value | State::ValueOrEnd, b'0'..=b'9' | b'-' | b't' | b'f' | b'n') => {
                Some(State::Literal)
            }
            (State::Key | State::KeyOrEnd, b'"') => Some(State::Text { key: true, escaped: false }),
            (State::Colon, b':') => Some(State::Value),
            (State::CommaOrEnd, b',') => {
                Some(if *self.open.last()? { State::Key } else { State::Value })
            }
            (State::CommaOrEnd | State::KeyOrEnd, b'}') if *self.open.last()? => self.closed(),
            (State::CommaOrEnd | State::ValueOrEnd, b']') if !*self.open.last()? => self.closed(),
            _ => None,
        }
    }

    fn opened(&mut self, object: bool) -> Option<State> {
        if self.open.len() >= MAX_DEPTH {
            return None;
        }
        self.open.push(object);
        Some(if object { State::KeyOrEnd } else { State::ValueOrEnd })
    }

    fn closed(&mut self) -> Option<State> {
        self.open.pop();
        Some(State::CommaOrEnd)
    }
}
