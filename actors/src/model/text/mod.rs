//! Calls written as text: what a model without native tool calls, or one that falls back to text, writes
//! instead (T8). Seven forms are known; each module below says which of them it reads.
//!
//! [`ReplyReader`] takes a reply piece by piece and gives back what may be shown at once. Think blocks go
//! first; then the guard holds back whatever may be the start of a call until that is decided. Every
//! decision depends on the text alone, never on where the pieces were cut, so that reading a whole text
//! and reading it in pieces is the same thing: there is no second parser to agree with.
//!
//! Cost: linear in the text. Memory: the text that is held back, at most [`MAX_HELD`] bytes, and the
//! calls found in it.

mod attributes;
mod body;
mod bracket;
mod calls;
mod elements;
mod fence;
mod form;
mod guard;
mod json;
mod known;
mod line;
mod named;
mod names;
mod perl;
mod request;
mod sniff;
mod span;
mod tag;
mod think;
mod whole;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use rookery_messages::model::RawCall;
use rookery_messages::tool::ToolSpec;

pub use form::MAX_HELD;
pub use request::as_text;

use guard::Guard;
use known::Known;
use think::{Part, ThinkFilter};

/// What became readable with a piece of a reply.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Released {
    /// What may be shown.
    pub text: String,
    /// What stood in think blocks.
    pub thinking: String,
}

/// What a whole reply turned out to be.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReplyEnd {
    /// The rest of what may be shown.
    pub text: String,
    /// The rest of what stood in think blocks.
    pub thinking: String,
    /// The calls found in the text, in order.
    pub calls: Vec<RawCall>,
    /// The reply holds what is clearly a call but can't be read: why.
    pub malformed: Option<String>,
}

/// Reads one reply as it comes.
#[derive(Debug)]
pub struct ReplyReader {
    think: ThinkFilter,
    guard: Option<Guard>,
}

impl ReplyReader {
    /// For a reply in which no call may stand as text: no tools are offered, or parsing is strict. Think
    /// blocks go all the same.
    pub fn plain() -> Self {
        Self { think: ThinkFilter::default(), guard: None }
    }

    /// For a reply that may call these tools in text.
    pub fn with_tools(tools: &[Arc<ToolSpec>]) -> Self {
        Self { think: ThinkFilter::default(), guard: Some(Guard::new(Known::new(tools))) }
    }

    /// Takes the next piece.
    pub fn push(&mut self, piece: &str) -> Released {
        let mut released = Released::default();
        let parts = self.think.push(piece);
        self.take(parts, &mut released);
        released
    }

    /// The reply is complete.
    pub fn finish(mut self) -> ReplyEnd {
        let mut released = Released::default();
        let parts = self.think.finish();
        self.take(parts, &mut released);
        let Released { text, thinking } = released;
        let mut end = ReplyEnd { text, thinking, ..ReplyEnd::default() };
        if let Some(guard) = self.guard {
            let found = guard.finish();
            end.text.push_str(&found.text);
            end.calls = found.calls;
            end.malformed = found.malformed;
        }
        end
    }

    fn take(&mut self, parts: Vec<Part>, released: &mut Released) {
        for part in parts {
            match (part, &mut self.guard) {
                (Part::Thinking(text), _) => released.thinking.push_str(&text),
                (Part::Visible(text), Some(guard)) => released.text.push_str(&guard.push(&text)),
                (Part::Visible(text), None) => released.text.push_str(&text),
            }
        }
    }
}
