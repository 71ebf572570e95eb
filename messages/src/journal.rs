//! The turn journal: intent before effect, so that a restart knows what was done (B2).

use serde::{Deserialize, Serialize};

use crate::approval::Decision;
use crate::attachment::Attachment;
use crate::chat::{OpaqueBlock, ToolCall, Usage};
use crate::ids::{ApprovalId, CallId, TurnId};
use crate::receipt::ReceiptRecord;
use crate::tool::Effects;
use crate::turn::{CallState, TurnFinish};

/// One entry. Its key is (turn, attempt, seq), so that writing it twice changes nothing.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct JournalEntry {
    /// The attempt that wrote it, from 1.
    pub attempt: u32,
    /// Its place within the attempt, from 0.
    pub seq: u64,
    /// What it says.
    pub kind: JournalKind,
}

/// What an entry says.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum JournalKind {
    /// The attempt began.
    Started,
    /// The person said something while the turn ran.
    Steered {
        /// The text.
        text: String,
        /// The files that came with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attachment>,
        /// The turn whose message it is, which is merged with this one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        row: Option<TurnId>,
    },
    /// The model's complete response, before anything is done with its calls.
    ModelResponse {
        /// Which model call of the turn, from 1.
        iteration: u32,
        /// Its visible text.
        text: String,
        /// What it asked for.
        calls: Vec<ToolCall>,
        /// Tokens.
        usage: Usage,
        /// What its provider wants back with it: a resumed turn sends the same request (A042).
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        opaque: Vec<OpaqueBlock>,
    },
    /// A call has its decision: it will run, or it has its end already.
    CallPrepared {
        /// The call.
        call: CallId,
        /// The tool's resolved name.
        tool: String,
        /// Planned, waiting, or an end.
        state: CallState,
        /// The arguments as they will run, where they are not the model's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<serde_json::Map<String, serde_json::Value>>,
        /// What repeating it would mean.
        effects: Effects,
        /// The end's text, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<String>,
        /// It takes the result of that call of the response, counted from 0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        same_as: Option<usize>,
        /// Its result is content from outside.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        brings_in: bool,
    },
    /// A person was asked.
    ApprovalAsked {
        /// The request.
        approval: ApprovalId,
        /// For this call.
        call: CallId,
    },
    /// A decision was taken over by the turn.
    ApprovalDecided {
        /// The request.
        approval: ApprovalId,
        /// For this call.
        call: CallId,
        /// The decision.
        decision: Decision,
    },
    /// The tool begins. Committed before a `Once` call acts (I5).
    CallStarted {
        /// The call.
        call: CallId,
    },
    /// The call has its end.
    CallFinished {
        /// The call.
        call: CallId,
        /// Which.
        state: CallState,
        /// What the model will read, bounded and cleaned; a receipt's line is added to it.
        output: String,
        /// The result's receipt, if it got one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        receipt: Option<ReceiptRecord>,
    },
    /// The round stands in the history.
    Appended {
        /// Which model call's round.
        iteration: u32,
    },
    /// Something the person was told while the turn ran.
    Notice {
        /// The text.
        text: String,
    },
    /// The final text is known.
    Final {
        /// The text.
        text: String,
    },
    /// The turn has its outcome.
    Ended {
        /// Which.
        finish: TurnFinish,
    },
}

impl JournalKind {
    /// The kind's word in the database.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Steered { .. } => "steered",
            Self::ModelResponse { .. } => "model_response",
            Self::CallPrepared { .. } => "call_prepared",
            Self::ApprovalAsked { .. } => "approval_asked",
            Self::ApprovalDecided { .. } => "approval_decided",
            Self::CallStarted { .. } => "call_started",
            Self::CallFinished { .. } => "call_finished",
            Self::Appended { .. } => "appended",
            Self::Notice { .. } => "notice",
            Self::Final { .. } => "final",
            Self::Ended { .. } => "ended",
        }
    }
}
