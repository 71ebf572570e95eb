//! The conversation as a model sees it: roles, texts, calls, usage.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::attachment::Attachment;
use crate::ids::CallId;

/// Who speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Instructions of ours.
    System,
    /// The person, or a note of ours in the person's place.
    User,
    /// The model.
    Assistant,
    /// A tool's result.
    Tool,
}

impl Role {
    /// The word on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// What a user-role message is. Only [`UserKind::Message`] starts a turn (V-C17).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserKind {
    /// The person's own message: a turn starts here.
    #[default]
    Message,
    /// Says that older turns were left out. One, right after the system message.
    Breadcrumb,
    /// Said by the person while the turn ran.
    Steering,
    /// Ours, to the model: its last reply could not be used.
    Feedback,
}

/// One call the model asked for.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ToolCall {
    /// Our id, unique for ever.
    pub id: CallId,
    /// The id the provider gave, if it gave one; both halves of the pair go back to it under this id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// The arguments, or why they can't be read.
    pub arguments: Arguments,
}

impl ToolCall {
    /// The id both halves of the pair carry in a request to a provider.
    pub fn wire_id(&self) -> String {
        match &self.provider_id {
            Some(id) => id.clone(),
            None => format!("call_{}", self.id.0.simple()),
        }
    }
}

/// A call's arguments. Invalid JSON is refused with feedback to the model, never run as `{}` (T8).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arguments {
    /// A JSON object.
    Object(serde_json::Map<String, Value>),
    /// What the model wrote, and why it is not usable.
    Invalid {
        /// The raw text, bounded.
        raw: String,
        /// The parser's complaint.
        error: String,
    },
}

impl Arguments {
    /// From the text a model streamed. Nothing, or only white space, is `{}` (A031). An object that was
    /// encoded more than once is unwrapped; the texts in it stay as they are (V-F13).
    pub fn parse(raw: &str) -> Self {
        let invalid =
            |error: String| Self::Invalid { raw: crate::tool::head(raw, 2_000).to_owned(), error };
        let mut text = std::borrow::Cow::Borrowed(raw);
        for _ in 0..Self::MAX_ENCODED {
            if text.trim().is_empty() {
                return Self::Object(serde_json::Map::new());
            }
            match serde_json::from_str::<Value>(&text) {
                Ok(Value::Object(map)) => return Self::Object(map),
                Ok(Value::String(inner)) => text = inner.into(),
                Ok(_) => break,
                Err(error) => return invalid(error.to_string()),
            }
        }
        invalid("the arguments must be a JSON object".to_owned())
    }

    /// How often arguments may be encoded.
    const MAX_ENCODED: usize = 8;

    /// As a JSON value, for display: the object, or the raw text.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Object(map) => Value::Object(map.clone()),
            Self::Invalid { raw, .. } => Value::String(raw.clone()),
        }
    }

    /// The text a provider gets back: the object's JSON, or `{}` for arguments that were not JSON,
    /// since providers parse what they are sent.
    pub fn to_wire(&self) -> String {
        match self {
            Self::Object(map) => Value::Object(map.clone()).to_string(),
            Self::Invalid { .. } => "{}".to_owned(),
        }
    }
}

/// Where an answer came from: only the very same profile and model take its opaque blocks back (A043).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Origin {
    /// The profile's name: another key of the same provider may not be able to read them.
    pub profile: String,
    /// The provider's kind.
    pub kind: String,
    /// The model, as configured.
    pub model: String,
}

/// A part of an answer that means something to its provider alone: signed thinking, an encrypted
/// reasoning item, a thought signature. It goes back unchanged, or not at all (A042).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct OpaqueBlock {
    /// Who gave it.
    pub origin: Origin,
    /// It came after so many bytes of the answer's text.
    #[serde(default)]
    pub after_text: usize,
    /// It came after so many of the answer's calls.
    #[serde(default)]
    pub after_calls: usize,
    /// What the provider sent.
    pub block: Value,
}

/// One message of the conversation, as stored and as sent.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum ChatMessage {
    /// Instructions. Never stored: the request begins with one, made anew.
    System {
        /// The text.
        text: String,
    },
    /// The person, or a note of ours in the person's place.
    User {
        /// The text.
        text: String,
        /// What it is.
        #[serde(default)]
        kind: UserKind,
        /// The files that came with it, in order; its text says where they are.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attachment>,
    },
    /// The model.
    Assistant {
        /// Its visible text; may be empty if there are calls.
        text: String,
        /// What it asked for, in order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<ToolCall>,
        /// The text is only a part: the stream was cut or stopped.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        interrupted: bool,
        /// What its provider wants back with it, in order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        opaque: Vec<OpaqueBlock>,
    },
    /// A call's result.
    Tool {
        /// Which call.
        call: CallId,
        /// The id the provider knows the call by.
        wire_id: String,
        /// The tool's name.
        name: String,
        /// What the model reads.
        output: String,
        /// It is content from outside, which may carry instructions of a stranger (A096).
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        outside: bool,
    },
}

impl ChatMessage {
    /// The person's own message.
    pub fn user(text: impl Into<String>) -> Self {
        Self::of_kind(UserKind::Message, text)
    }

    /// A user-role message of this kind, without attachments.
    pub fn of_kind(kind: UserKind, text: impl Into<String>) -> Self {
        Self::User { text: text.into(), kind, attachments: Vec::new() }
    }

    /// A model's text without calls.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::Assistant {
            text: text.into(),
            calls: Vec::new(),
            interrupted: false,
            opaque: Vec::new(),
        }
    }

    /// Who speaks.
    pub fn role(&self) -> Role {
        match self {
            Self::System { .. } => Role::System,
            Self::User { .. } => Role::User,
            Self::Assistant { .. } => Role::Assistant,
            Self::Tool { .. } => Role::Tool,
        }
    }

    /// The text a person would read.
    pub fn text(&self) -> &str {
        match self {
            Self::System { text } | Self::User { text, .. } | Self::Assistant { text, .. } => text,
            Self::Tool { output, .. } => output,
        }
    }

    /// The files that came with it.
    pub fn attachments(&self) -> &[Attachment] {
        match self {
            Self::User { attachments, .. } => attachments,
            Self::System { .. } | Self::Assistant { .. } | Self::Tool { .. } => &[],
        }
    }

    /// Whether a turn starts here.
    pub fn starts_turn(&self) -> bool {
        matches!(self, Self::User { kind: UserKind::Message, .. })
    }
}

/// Tokens, as the provider reported them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens, cached ones included.
    pub input: u64,
    /// Output tokens, reasoning included.
    pub output: u64,
}

impl Usage {
    /// Sent and received.
    pub fn total(self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// Adds another call's tokens.
    pub fn add(&mut self, other: Usage) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
    }
}
