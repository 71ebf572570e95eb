//! What clients are told while a turn runs. The same objects go over WebSocket and SSE.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::chat::Usage;
use crate::ids::{CallId, TurnId};
use crate::turn::{CallState, Outcome, TurnError};

/// One event of a conversation's stream: `{type, seq, turn, …}`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TurnEvent {
    /// Rises by one per event of the conversation.
    pub seq: u64,
    /// The turn.
    pub turn: TurnId,
    /// What happened.
    #[serde(flatten)]
    pub kind: TurnEventKind,
}

/// What happened.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TurnEventKind {
    /// A message was accepted; this turn answers it.
    Accepted {
        /// The platform's or client's id of the message.
        id: String,
        /// It had been accepted before.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        duplicate: bool,
    },
    /// Visible text.
    Delta {
        /// The new part.
        text: String,
    },
    /// Reasoning.
    Thinking {
        /// The new part.
        text: String,
    },
    /// A tool begins (T13).
    ToolCall {
        /// The call.
        call: CallId,
        /// The tool.
        tool: String,
        /// The arguments, secrets cleaned.
        arguments: Value,
    },
    /// A tool ended (T13).
    ToolResult {
        /// The call.
        call: CallId,
        /// How.
        state: CallState,
        /// What the model reads, secrets cleaned, bounded.
        output: String,
    },
    /// A person has to decide. The fields are those of the admin API's approval object.
    Approval {
        /// The request.
        approval: Box<crate::approval::Approval>,
    },
    /// Something worth knowing.
    Notice {
        /// The text.
        text: String,
    },
    /// The turn has its outcome; the record is durable.
    Ended {
        /// Which.
        outcome: Outcome,
        /// The final text.
        reply: Option<String>,
        /// Tokens.
        usage: Usage,
        /// Why it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<TurnError>,
        /// The turn that answers its message too, if it is merged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        into: Option<TurnId>,
    },
}

impl TurnEventKind {
    /// Its message goes with another's.
    pub fn merged(into: TurnId) -> Self {
        Self::Ended {
            outcome: Outcome::Merged,
            reply: None,
            usage: Usage::default(),
            error: None,
            into: Some(into),
        }
    }

    /// The word in `type` and in SSE's `event:` line.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Accepted { .. } => "accepted",
            Self::Delta { .. } => "delta",
            Self::Thinking { .. } => "thinking",
            Self::ToolCall { .. } => "tool_call",
            Self::ToolResult { .. } => "tool_result",
            Self::Approval { .. } => "approval",
            Self::Notice { .. } => "notice",
            Self::Ended { .. } => "ended",
        }
    }
}
