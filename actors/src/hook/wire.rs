//! What a hook outside the process is sent and answers: one JSON object each way.
//!
//! Secrets are cleaned on the way out. What a hook gives back as it was shown is put back as it was, so that
//! a hook that rewrites one argument does not lose the others.

use std::sync::Arc;

use rookery_messages::chat::ChatMessage;
use rookery_messages::hook::{CallDecision, ExecutedCall, HookError, HookedCall, ModelDecision};
use rookery_messages::observe::TurnScope;
use rookery_messages::tool::head;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::policy::redact::Redactor;

/// Most that is sent; a request beyond it is a failure of the hook.
const MAX_SENT_BYTES: usize = 8 * 1_024 * 1_024;
/// Longest output shown of a call, in bytes.
const MAX_OUTPUT_BYTES: usize = 65_536;

/// The answer. Nothing at all means `continue`.
#[derive(Deserialize)]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
enum Answer {
    Continue,
    Rewrite { tool: String, arguments: Map<String, Value> },
    Cancel { reason: String },
    Edit { messages: Vec<Value> },
}

/// Writes and reads for one hook.
pub(super) struct Wire {
    pub(super) hook: String,
    pub(super) redactor: Arc<Redactor>,
}

impl Wire {
    pub(super) fn call(&self, scope: &TurnScope, call: &HookedCall) -> (Map<String, Value>, Value) {
        let shown = self.redactor.clean_arguments(&call.arguments);
        let about = json!({ "id": call.call, "tool": call.tool, "arguments": shown });
        (shown, self.envelope("before_tool_call", scope, "call", about))
    }

    pub(super) fn executed(&self, scope: &TurnScope, call: &ExecutedCall) -> Value {
        let about = json!({
            "id": call.call,
            "tool": call.tool,
            "arguments": self.redactor.clean_arguments(&call.arguments),
            "state": call.state,
            "output": head(&self.redactor.clean(&call.output), MAX_OUTPUT_BYTES),
            "duration_ms": u64::try_from(call.duration.as_millis()).unwrap_or(u64::MAX),
        });
        self.envelope("after_tool_call", scope, "call", about)
    }

    pub(super) fn messages(
        &self,
        scope: &TurnScope,
        messages: &[ChatMessage],
    ) -> (Vec<Value>, Value) {
        let value = |message| serde_json::to_value(message).unwrap_or_default();
        let shown: Vec<Value> =
            messages.iter().map(|message| self.redactor.clean_value(&value(message))).collect();
        let about = Value::Array(shown.clone());
        (shown, self.envelope("before_model_call", scope, "messages", about))
    }

    fn envelope(&self, event: &str, scope: &TurnScope, about: &str, what: Value) -> Value {
        json!({
            "event": event,
            "hook": self.hook,
            "turn": scope.turn,
            "conversation_id": scope.conversation_id,
            "channel": scope.channel,
            "agent": scope.agent,
            about: what,
        })
    }
}

/// The text that is sent.
pub(super) fn encode(value: &Value) -> Result<Vec<u8>, HookError> {
    let text = value.to_string().into_bytes();
    if text.len() > MAX_SENT_BYTES {
        return Err(HookError(format!(
            "there is too much to show it: {} bytes of at most {MAX_SENT_BYTES}",
            text.len()
        )));
    }
    Ok(text)
}

/// What a hook says of a call.
pub(super) fn call_decision(
    answer: &[u8],
    own: &Map<String, Value>,
    shown: &Map<String, Value>,
) -> Result<CallDecision, HookError> {
    match parse(answer)? {
        Answer::Continue => Ok(CallDecision::Continue),
        Answer::Cancel { reason } => Ok(CallDecision::Cancel { reason }),
        Answer::Rewrite { tool, arguments } => {
            Ok(CallDecision::Rewrite { tool, arguments: restore_object(own, shown, arguments) })
        }
        Answer::Edit { .. } => Err(HookError("it answered `edit`, which is for messages".into())),
    }
}

/// What a hook says of a model call, its edits applied.
pub(super) fn model_decision(
    answer: &[u8],
    messages: &mut Vec<ChatMessage>,
    shown: &[Value],
) -> Result<ModelDecision, HookError> {
    match parse(answer)? {
        Answer::Continue => Ok(ModelDecision::Continue),
        Answer::Cancel { reason } => Ok(ModelDecision::Cancel { reason }),
        Answer::Edit { messages: edited } => {
            *messages = edited
                .into_iter()
                .map(|message| match shown.iter().position(|shown| *shown == message) {
                    Some(unchanged) => Ok(messages[unchanged].clone()),
                    None => serde_json::from_value(message)
                        .map_err(|error| HookError(format!("it answered no message: {error}"))),
                })
                .collect::<Result<_, _>>()?;
            Ok(ModelDecision::Continue)
        }
        Answer::Rewrite { .. } => {
            Err(HookError("it answered `rewrite`, which is for calls".into()))
        }
    }
}

fn parse(answer: &[u8]) -> Result<Answer, HookError> {
    if answer.iter().all(u8::is_ascii_whitespace) {
        return Ok(Answer::Continue);
    }
    serde_json::from_slice(answer)
        .map_err(|error| HookError(format!("its answer can't be read: {error}")))
}

/// `answer`, with what is as it was shown put back as it is.
fn restore(own: &Value, shown: &Value, answer: Value) -> Value {
    if answer == *shown {
        return own.clone();
    }
    match (own, shown, answer) {
        (Value::Object(own), Value::Object(shown), Value::Object(answer)) => {
            Value::Object(restore_object(own, shown, answer))
        }
        (Value::Array(own), Value::Array(shown), Value::Array(answer)) => {
            let pairs = own.iter().zip(shown).map(Some).chain(std::iter::repeat(None));
            let restored = answer.into_iter().zip(pairs).map(|(answer, pair)| match pair {
                Some((own, shown)) => restore(own, shown, answer),
                None => answer,
            });
            Value::Array(restored.collect())
        }
        (_, _, answer) => answer,
    }
}

fn restore_object(
    own: &Map<String, Value>,
    shown: &Map<String, Value>,
    answer: Map<String, Value>,
) -> Map<String, Value> {
    answer
        .into_iter()
        .map(|(key, value)| match (own.get(&key), shown.get(&key)) {
            (Some(own), Some(shown)) => {
                let value = restore(own, shown, value);
                (key, value)
            }
            _ => (key, value),
        })
        .collect()
}
