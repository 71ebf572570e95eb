//! What a form's reader says of the text before it.

use rookery_messages::model::RawCall;

/// Most bytes held back while a form is undecided. What is still open then is malformed, or no form.
pub const MAX_HELD: usize = 1 << 20;

/// A form's reader looks at the text from the form's first byte on, and remembers how far it came.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Undecided: more text is needed.
    More,
    /// No form: so many bytes are plain text, and what follows is looked at anew.
    Text(usize),
    /// No form: so many bytes are plain text and begin a fence; see [`super::fence`].
    Fence(usize, super::fence::OpenFence),
    /// A form of this length.
    Form { len: usize, found: Found },
}

/// What a form holds.
#[derive(Debug, PartialEq)]
pub(super) enum Found {
    /// Calls, perhaps none, and text that was inside.
    Calls { calls: Vec<RawCall>, text: Option<String> },
    /// A call that was recovered without its closing tag, which may still follow.
    Unclosed(Vec<RawCall>),
    /// Clearly a call, but it can't be read: why.
    Malformed(String),
}

impl Found {
    pub(super) fn calls(calls: Vec<RawCall>) -> Self {
        Self::Calls { calls, text: None }
    }
}

/// How a form may not end.
pub(super) const CUT: &str = "the reply ended inside the call";
pub(super) const TOO_LONG: &str = "the call is longer than a mebibyte";
