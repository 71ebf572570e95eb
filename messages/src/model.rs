//! Model providers: the contract, its typed errors, and the messages of a model call.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::BoxStream;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::BoxFuture;
use crate::address::Message;
use crate::attachment::Images;
use crate::chat::{ChatMessage, OpaqueBlock, ToolCall, Usage};
use crate::exit::StopReason;
use crate::tool::ToolSpec;

/// One request to a provider: already well-formed (I4).
#[derive(Clone, Debug, Default)]
pub struct ModelRequest {
    /// System message first, then the conversation.
    pub messages: Arc<Vec<ChatMessage>>,
    /// The tools on offer, in a stable order; empty means none.
    pub tools: Arc<Vec<Arc<ToolSpec>>>,
    /// The images that go along with their messages' text, by the paths of these messages' attachments.
    /// Whatever is not among them stands in the text alone.
    pub images: Arc<Images>,
}

/// What a stream yields.
#[derive(Clone, PartialEq, Debug)]
pub enum ModelDelta {
    /// Visible text, as it comes.
    Text(String),
    /// Reasoning, never shown as text.
    Thinking(String),
    /// Tokens so far; the last one counts.
    Usage(Usage),
    /// A block to be given back to the same profile with the next request, unread by anybody else.
    Opaque(OpaqueBlock),
    /// The terminal event. Nothing follows.
    Ended {
        /// What the model asked for, complete.
        calls: Vec<RawCall>,
        /// Why it ended.
        finish: FinishReason,
    },
}

/// A call as a provider's stream gave it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RawCall {
    /// The provider's id, if it gave one.
    pub provider_id: Option<String>,
    /// The name as written.
    pub name: String,
    /// The arguments' text; may be empty or malformed.
    pub arguments: String,
}

/// Why a generation ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// It was done.
    Stop,
    /// It asks for tools.
    ToolCalls,
    /// The output cap was reached: the last call or sentence may be cut (A036).
    Length,
    /// The provider's filter ended it.
    ContentFilter,
    /// Another terminal reason, as the provider wrote it.
    Other(String),
}

/// A running generation. Dropping it closes the connection (V-L19).
pub type ModelStream = BoxStream<'static, Result<ModelDelta, ModelError>>;

/// A model provider.
pub trait ModelProvider: Send + Sync + 'static {
    /// The kind: `openai`, `demo` …
    fn kind(&self) -> &str;
    /// The model's name, as shown to people.
    fn model(&self) -> &str;
    /// Tools it does not offer to its API any more, because the API refused them; for operators.
    fn quarantined(&self) -> Vec<String> {
        Vec::new()
    }
    /// Opens a generation. A stream is complete at [`ModelDelta::Ended`]; its end without one is an
    /// error of class [`ModelErrorClass::Truncated`] (R9).
    fn stream(&self, request: ModelRequest) -> BoxFuture<'_, Result<ModelStream, ModelError>>;
}

/// What kind of failure. Each has its own policy.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelErrorClass {
    /// No connection, or it broke.
    Network,
    /// Nothing came for the idle timeout.
    IdleTimeout,
    /// 429: too fast.
    RateLimited,
    /// The provider is overloaded (529, `overloaded_error`).
    Overloaded,
    /// 408 or 5xx.
    Server,
    /// 401 or 403: the key is missing or wrong.
    Auth,
    /// The plan or balance is used up.
    Quota,
    /// The request does not fit the window.
    ContextTooLong,
    /// 400, 404, 422: the request can't succeed as it is.
    InvalidRequest,
    /// The stream ended without its terminal event.
    Truncated,
    /// What came is not what the protocol says: HTML, no SSE, an event over the cap, bad JSON.
    Protocol,
    /// A complete response with nothing in it.
    Empty,
    /// A complete response that holds a textual call which can't be read (V-F16).
    MalformedCall,
    /// What is configured can't do what is asked, so nothing was sent (V-D24).
    Capability,
}

impl ModelErrorClass {
    /// Short stable word, `provider_` and the class.
    pub fn code(self) -> &'static str {
        match self {
            Self::Network => "provider_network",
            Self::IdleTimeout => "provider_idle_timeout",
            Self::RateLimited => "provider_rate_limited",
            Self::Overloaded => "provider_overloaded",
            Self::Server => "provider_server",
            Self::Auth => "provider_auth",
            Self::Quota => "provider_quota",
            Self::ContextTooLong => "provider_context_too_long",
            Self::InvalidRequest => "provider_invalid_request",
            Self::Truncated => "provider_truncated",
            Self::Protocol => "provider_protocol",
            Self::Empty => "provider_empty",
            Self::MalformedCall => "provider_malformed_call",
            Self::Capability => "provider_capability",
        }
    }

    /// Whether the same request may succeed later.
    pub fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::Network
                | Self::IdleTimeout
                | Self::RateLimited
                | Self::Overloaded
                | Self::Server
                | Self::Truncated
                | Self::Protocol
                | Self::Empty
        )
    }
}

/// A provider's failure: typed, cleaned of secrets, bounded (500 characters of the provider's own words).
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// What kind.
    pub class: ModelErrorClass,
    /// What was tried, what came back, what to do.
    pub message: String,
    /// When the provider says to come back.
    pub retry_after: Option<Duration>,
}

impl ModelError {
    /// From its parts.
    pub fn new(class: ModelErrorClass, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), retry_after: None }
    }
}

/// A complete response.
#[derive(Clone, PartialEq, Debug)]
pub struct ModelResponse {
    /// The visible text.
    pub text: String,
    /// Of a closing summary: the reply as the model wrote it, if what is visible of it is something else.
    pub raw: Option<String>,
    /// What it asked for, with our ids.
    pub calls: Vec<ToolCall>,
    /// What its provider wants back with it.
    pub opaque: Vec<OpaqueBlock>,
    /// Why it ended.
    pub finish: FinishReason,
    /// Tokens of this response.
    pub usage: Usage,
    /// The profile that served.
    pub served_by: String,
}

/// How a model call ended, as its actor reports to the turn. Always exactly one.
#[derive(Debug)]
pub struct ModelReport {
    /// Which model call of the turn, from 1.
    pub iteration: u32,
    /// The end.
    pub end: ModelEnd,
    /// Tokens of failed attempts, to be billed beside the response's own.
    pub spent: Usage,
}

/// A model call's end.
#[derive(Debug)]
pub enum ModelEnd {
    /// The terminal event came.
    Completed(ModelResponse),
    /// The terminal event came, but the reply holds a call that can't be read. Nothing of it is used;
    /// the model is to be asked again (V-F16).
    Rejected {
        /// Why it can't be read.
        why: String,
        /// Visible text that had already gone out.
        partial: String,
        /// Tokens of the rejected reply, billed all the same (V-F18).
        usage: Usage,
    },
    /// It failed for good.
    Failed {
        /// Why.
        error: ModelError,
        /// Visible text that had already gone out.
        partial: String,
    },
    /// A hook wanted no call made.
    Cancelled {
        /// Which.
        hook: String,
        /// Why.
        reason: String,
    },
    /// The turn stopped it.
    Stopped {
        /// Why.
        reason: StopReason,
        /// Visible text that had already gone out.
        partial: String,
    },
}

/// What a model call's actor takes.
#[derive(Debug)]
pub enum ModelMsg {
    /// Its task is done.
    Done {
        /// How it ended.
        end: ModelEnd,
        /// Tokens of failed attempts.
        spent: Usage,
    },
}

impl Message for ModelMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Done { .. } => "Done",
        }
    }
}

/// A provider actor's answer to a request for a slot.
pub enum Admission {
    /// Go ahead; the permit is the slot.
    Granted(Slot),
    /// Not now: cooling down until then.
    CoolingDown {
        /// Until when.
        until: Timestamp,
        /// How long from now.
        wait: Duration,
        /// What caused it.
        cause: ModelErrorClass,
        /// The provider asked for longer than it is believed.
        capped: bool,
    },
    /// Not at all: the key is refused, or the configuration is wrong.
    Refused(ModelError),
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Granted(_) => f.write_str("Granted"),
            Self::CoolingDown { until, .. } => write!(f, "CoolingDown(until {until})"),
            Self::Refused(error) => write!(f, "Refused({error})"),
        }
    }
}

/// One of a profile's concurrent calls. Dropping it gives the place back.
pub struct Slot {
    /// The client to call with.
    pub provider: Arc<dyn ModelProvider>,
    /// The place.
    pub permit: OwnedSemaphorePermit,
}

/// What a provider profile's actor takes.
#[derive(Debug)]
pub enum ProviderMsg {
    /// A model call wants a slot. Answered at once if it can't have one; otherwise when one is free.
    Acquire {
        /// Where the answer goes.
        reply: oneshot::Sender<Admission>,
    },
    /// A slot became free for this waiting call.
    SlotFree {
        /// The waiting call.
        reply: oneshot::Sender<Admission>,
        /// The place.
        permit: OwnedSemaphorePermit,
    },
    /// How a real upstream call went. Local refusals are never reported (A045).
    Outcome {
        /// None: it went well.
        error: Option<ModelError>,
    },
}

impl Message for ProviderMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Acquire { .. } => "Acquire",
            Self::SlotFree { .. } => "SlotFree",
            Self::Outcome { .. } => "Outcome",
        }
    }
}
