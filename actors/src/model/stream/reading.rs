//! What every provider's reader of a response has in common.

use std::collections::VecDeque;

use rookery_messages::chat::Usage;
use rookery_messages::model::{ModelDelta, ModelError, ModelErrorClass};
use serde_json::Value;

use crate::model::error::Upstream;

/// Most bytes of text, reasoning and calls of one response.
pub(in crate::model) const MAX_RESPONSE_BYTES: usize = 16 << 20;
/// Most calls of one response.
pub(in crate::model) const MAX_CALLS: usize = 1_024;
/// What the model wrote when the output cap cut its last call before the arguments: not JSON, so that
/// the call is refused with feedback and never run as `{}` (A036).
pub(in crate::model) const CUT_OFF: &str = "[cut off by the output cap]";

/// How events stand in a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::model) enum Framing {
    /// Server-sent events.
    Sse,
    /// One JSON document a line.
    Lines,
}

/// How far a response has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// The model still writes. An end of the stream now is a truncation.
    Open,
    /// The response is complete, its usage may follow (V-L15, V-L17).
    Finished {
        /// The usage came with it or after it.
        with_usage: bool,
    },
    /// The terminal event came (V-L14).
    Done,
}

/// A pure state machine from the events of one response to deltas.
pub(in crate::model) trait Reading: Send + 'static {
    /// How its provider frames events.
    const FRAMING: Framing;

    /// Takes one event; appends what it says to `out`. True if it was progress: an event that holds
    /// nothing keeps no stream alive (A023).
    fn push(
        &mut self,
        event: Option<&str>,
        data: &str,
        out: &mut VecDeque<ModelDelta>,
    ) -> Result<bool, ModelError>;

    /// Takes an answer that was not streamed. False if it is none of this provider's.
    fn document(
        &mut self,
        _document: &Value,
        _out: &mut VecDeque<ModelDelta>,
    ) -> Result<bool, ModelError> {
        Ok(false)
    }

    /// How far the response has come.
    fn phase(&self) -> Phase;

    /// Nothing follows. Calls are given only here, and only if the response is complete (A035, V-L16).
    fn end(&mut self) -> Result<ModelDelta, ModelError>;

    /// Tokens that were reported and not yet told. Told once, before the end or the error (V-L23).
    fn untold_usage(&mut self) -> Option<Usage> {
        None
    }
}

/// Counts what a response holds.
#[derive(Debug, Default)]
pub(in crate::model) struct Bounds {
    bytes: usize,
}

impl Bounds {
    pub(in crate::model) fn add(
        &mut self,
        bytes: usize,
        upstream: &Upstream,
    ) -> Result<(), ModelError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes <= MAX_RESPONSE_BYTES {
            return Ok(());
        }
        let what = format!("sent a response longer than {MAX_RESPONSE_BYTES} bytes");
        Err(upstream.error(ModelErrorClass::Protocol, &what))
    }
}

/// The event's data as a JSON object; what is none is a protocol error.
pub(in crate::model) fn object(upstream: &Upstream, data: &str) -> Result<Value, ModelError> {
    match serde_json::from_str::<Value>(data) {
        Ok(value) if value.is_object() => Ok(value),
        Ok(value) => {
            let what = "sent an event that is not an object";
            Err(upstream.quoting(ModelErrorClass::Protocol, what, &value.to_string()))
        }
        Err(error) => {
            let what = format!("sent an event that is not JSON ({error})");
            Err(upstream.quoting(ModelErrorClass::Protocol, &what, data))
        }
    }
}

/// The stream ended before its terminal event (R9).
pub(in crate::model) fn truncated(upstream: &Upstream) -> ModelError {
    upstream.error(
        ModelErrorClass::Truncated,
        "ended its stream before the response was complete; nothing it asked for was run",
    )
}

/// A response without text and calls.
pub(in crate::model) fn silent(upstream: &Upstream) -> ModelError {
    upstream.error(ModelErrorClass::Empty, "sent a response with neither text nor calls")
}

/// A stream without a single event.
pub(in crate::model) fn nothing(upstream: &Upstream) -> ModelError {
    upstream.error(ModelErrorClass::Empty, "sent an empty stream: not one event came")
}

/// More calls than any model means.
pub(in crate::model) fn too_many_calls(upstream: &Upstream) -> ModelError {
    let what = format!("asked for more than {MAX_CALLS} tool calls at once");
    upstream.error(ModelErrorClass::Protocol, &what)
}

/// The arguments of a complete response: none are `{}`, unless the cap cut them off.
pub(in crate::model) fn whole_arguments(written: String, cut: bool) -> String {
    match (written.trim().is_empty(), cut) {
        (false, _) => written,
        (true, true) => CUT_OFF.to_owned(),
        (true, false) => "{}".to_owned(),
    }
}
