//! What happened, as typed observations: metrics and logs are made from these in one place.
//!
//! Observers are best effort. The record is the store, never an observer (V-N5).

use std::time::Duration;

use serde_json::Value;

use crate::address::Message;
use crate::chat::Usage;
use crate::exit::ExitReason;
use crate::ids::{AgentName, CallId, ChannelId, ConversationId, TurnId};
use crate::model::ModelErrorClass;
use crate::turn::{CallState, Outcome};

/// The turn an observation belongs to: the same on all of them (V-A7).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TurnScope {
    /// The turn.
    pub turn: TurnId,
    /// The conversation.
    pub conversation_id: ConversationId,
    /// The channel.
    pub channel: ChannelId,
    /// The agent.
    pub agent: AgentName,
}

/// Something happened.
#[derive(Clone, PartialEq, Debug)]
pub enum Observation {
    /// A message was accepted.
    Accepted {
        /// The channel.
        channel: ChannelId,
        /// It was known already.
        duplicate: bool,
        /// It was not taken.
        rejected: bool,
    },
    /// Something inbound was refused before it became a message.
    Refused {
        /// The channel, or `gateway`.
        surface: String,
        /// Stable word: `signature`, `unknown_alias`, `body_too_large`, `not_allowed` …
        reason: &'static str,
    },
    /// An attempt of a turn began (V-A6).
    TurnStarted {
        /// Which turn.
        scope: TurnScope,
        /// The attempt.
        attempt: u32,
    },
    /// A turn has its outcome (V-A6).
    TurnEnded {
        /// Which turn.
        scope: TurnScope,
        /// How.
        outcome: Outcome,
        /// From the attempt's begin.
        duration: Duration,
        /// Tokens.
        usage: Usage,
        /// The error's code, if it failed.
        error: Option<String>,
    },
    /// A provider call ended; one per call, failed attempts included.
    ModelCall {
        /// Which turn.
        scope: TurnScope,
        /// The profile.
        provider: String,
        /// None: it went well.
        error: Option<ModelErrorClass>,
        /// How long it took.
        duration: Duration,
        /// Tokens.
        usage: Usage,
    },
    /// Tokens of a provider were paid for.
    Cost {
        /// Which turn.
        scope: TurnScope,
        /// The profile; `unknown` for attempts that failed.
        provider: String,
        /// In millionths.
        micros: u64,
    },
    /// A budget kept a model call from being made (B11).
    OverBudget {
        /// Which turn.
        scope: TurnScope,
    },
    /// A tool begins (T18).
    ToolCallStart {
        /// Which turn.
        scope: TurnScope,
        /// The call.
        call: CallId,
        /// The provider's id, if any.
        provider_id: Option<String>,
        /// The tool.
        tool: String,
        /// The arguments, secrets cleaned.
        arguments: Value,
    },
    /// A tool ended: repeats its start (T18).
    ToolCall {
        /// Which turn.
        scope: TurnScope,
        /// The call.
        call: CallId,
        /// The provider's id, if any.
        provider_id: Option<String>,
        /// The tool.
        tool: String,
        /// The arguments, secrets cleaned.
        arguments: Value,
        /// How it ended.
        state: CallState,
        /// How long it took.
        duration: Duration,
        /// The result, secrets cleaned, bounded.
        output: String,
    },
    /// A call was judged.
    Gate {
        /// Which turn.
        scope: TurnScope,
        /// The tool.
        tool: String,
        /// `allowed`, `needs_approval`, `blocked`.
        decision: &'static str,
    },
    /// A hook was asked.
    Hook {
        /// Which turn.
        scope: TurnScope,
        /// The hook.
        hook: String,
        /// `before_tool_call`, `after_tool_call`, `before_model_call`.
        event: &'static str,
        /// `continued`, `rewrote`, `cancelled`, `failed`, `timed_out`, `panicked`.
        result: &'static str,
        /// How long it took.
        duration: Duration,
    },
    /// A turn goes round in circles.
    Loop {
        /// Which turn.
        scope: TurnScope,
        /// `repeat`, `cycle`, `no_progress`.
        pattern: &'static str,
        /// `warn`, `block`, `break`.
        verdict: &'static str,
    },
    /// An approval was decided.
    Approval {
        /// Which turn.
        scope: TurnScope,
        /// The decision's word.
        decision: &'static str,
    },
    /// History was trimmed to fit the window.
    Trimmed {
        /// Which turn.
        scope: TurnScope,
        /// Messages left out.
        dropped: u32,
    },
    /// Memory was asked before a turn's first model call; one per attempt of a turn that may be told.
    Recalled {
        /// Which turn.
        scope: TurnScope,
        /// It answered in time.
        success: bool,
        /// Entries the model is told.
        entries: u32,
        /// How long it took.
        duration: Duration,
        /// The error's code, if it did not.
        error: Option<&'static str>,
    },
    /// A meaning could not be had: of a question, which was answered by its words, or of entries, which are
    /// read later.
    MeaningFailed {
        /// The provider profile.
        provider: String,
        /// What was to be read: `question` or `entries`.
        what: &'static str,
        /// The error's class.
        error: ModelErrorClass,
        /// In words, cleaned.
        cause: String,
        /// The last one went well.
        first: bool,
    },
    /// A malformed history was mended before a request.
    Repaired {
        /// Which turn.
        scope: TurnScope,
        /// Messages removed or added.
        changes: u32,
    },
    /// The store refused or failed.
    StoreFailed {
        /// The error's code.
        code: &'static str,
    },
    /// An outbox row was tried.
    Delivery {
        /// The channel.
        channel: ChannelId,
        /// `sent`, `retry`, `unknown`, `dead`.
        result: &'static str,
        /// Why it did not arrive, or why nobody knows.
        cause: Option<String>,
    },
    /// An actor ended.
    ActorExit {
        /// Its kind.
        kind: &'static str,
        /// Its path.
        path: String,
        /// How.
        reason: ExitReason,
        /// The message in hand, if it was not a planned end.
        in_hand: Option<&'static str>,
    },
}

/// Somebody who is told. Must not block.
pub trait Observer: Send + Sync + 'static {
    /// Something happened.
    fn observe(&self, observation: &Observation);
}

/// What the observer actor takes.
#[derive(Debug)]
pub enum ObserverMsg {
    /// Something happened.
    Observed(Box<Observation>),
}

impl Message for ObserverMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Observed(_) => "Observed",
        }
    }
}
