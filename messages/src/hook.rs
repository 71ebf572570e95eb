//! Hooks: code of the operator that sees calls and model requests, and may change or refuse them.
//!
//! A hook runs in a task and under a time limit. Before a tool call its failure blocks the call (V-G3); before
//! a model call its failure discards what it changed (V-A14); after a call it is only counted.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::BoxFuture;
use crate::chat::ChatMessage;
use crate::ids::CallId;
use crate::observe::TurnScope;
use crate::turn::CallState;

/// When a hook is asked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookEvent {
    /// Before a call is judged: it may go on, be rewritten or be cancelled.
    BeforeToolCall,
    /// After a call ran.
    AfterToolCall,
    /// Before a model is called: its messages may be edited, or the call cancelled.
    BeforeModelCall,
}

impl HookEvent {
    /// The word in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BeforeToolCall => "before_tool_call",
            Self::AfterToolCall => "after_tool_call",
            Self::BeforeModelCall => "before_model_call",
        }
    }
}

/// A call before it is judged.
#[derive(Clone, PartialEq, Debug)]
pub struct HookedCall {
    /// The call.
    pub call: CallId,
    /// The tool's resolved name.
    pub tool: String,
    /// The arguments, rewrites of earlier hooks included.
    pub arguments: Map<String, Value>,
}

/// What a hook says of a call. A rewrite is resolved, checked and judged like a call of the model.
#[derive(Clone, PartialEq, Debug)]
pub enum CallDecision {
    /// As it is.
    Continue,
    /// Another call in its place.
    Rewrite {
        /// The tool.
        tool: String,
        /// The arguments.
        arguments: Map<String, Value>,
    },
    /// Not at all.
    Cancel {
        /// Why; the model reads it.
        reason: String,
    },
}

/// A call that ran.
#[derive(Clone, PartialEq, Debug)]
pub struct ExecutedCall {
    /// The call.
    pub call: CallId,
    /// The tool's resolved name.
    pub tool: String,
    /// The arguments it ran with.
    pub arguments: Map<String, Value>,
    /// How it ended.
    pub state: CallState,
    /// What the model reads.
    pub output: String,
    /// How long it ran.
    pub duration: Duration,
}

/// What a hook says of a model call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ModelDecision {
    /// With the messages as the hook left them.
    Continue,
    /// Not at all: the turn ends, and its error names the hook and the reason.
    Cancel {
        /// Why.
        reason: String,
    },
}

/// A hook could not do its work: what was tried, what went wrong.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct HookError(pub String);

/// A hook. It is asked about the events it listens to, nothing else.
pub trait Hook: Send + Sync + 'static {
    /// Its name, for people.
    fn name(&self) -> &str;

    /// Whether it wants to be asked.
    fn listens_to(&self, event: HookEvent) -> bool;

    /// How long it may take; then it has failed.
    fn timeout(&self) -> Duration {
        Duration::from_secs(5)
    }

    /// A call is about to be judged.
    fn before_tool_call<'a>(
        &'a self,
        scope: &'a TurnScope,
        call: &'a HookedCall,
    ) -> BoxFuture<'a, Result<CallDecision, HookError>> {
        let _ = (scope, call);
        Box::pin(async { Ok(CallDecision::Continue) })
    }

    /// A call ran.
    fn after_tool_call<'a>(
        &'a self,
        scope: &'a TurnScope,
        call: &'a ExecutedCall,
    ) -> BoxFuture<'a, Result<(), HookError>> {
        let _ = (scope, call);
        Box::pin(async { Ok(()) })
    }

    /// A model is about to be called with these messages. Edits are for this request alone; they count
    /// only if the hook ends well.
    fn before_model_call<'a>(
        &'a self,
        scope: &'a TurnScope,
        messages: &'a mut Vec<ChatMessage>,
    ) -> BoxFuture<'a, Result<ModelDecision, HookError>> {
        let _ = (scope, messages);
        Box::pin(async { Ok(ModelDecision::Continue) })
    }
}
