//! Reads the chunks of one chat completion: a pure state machine from event data to deltas.

use std::collections::VecDeque;

use rookery_messages::chat::Usage;
use rookery_messages::model::{FinishReason, ModelDelta, ModelError, ModelErrorClass};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::calls::{CallAssembler, CallFault};
use crate::model::error::{ErrorObject, Upstream, error_field};
use crate::model::stream::{
    Bounds, Framing, MAX_CALLS, Phase, Reading, nothing, silent, truncated,
};

/// The machine. Feed it the data of each event, then ask it for the end.
#[derive(Debug)]
pub struct ChunkParser {
    upstream: Upstream,
    calls: CallAssembler,
    finish: Option<FinishReason>,
    usage_after_finish: bool,
    done: bool,
    chunks: u64,
    has_text: bool,
    bounds: Bounds,
}

impl ChunkParser {
    /// For one response of `upstream`.
    pub fn new(upstream: Upstream) -> Self {
        Self {
            upstream,
            calls: CallAssembler::default(),
            finish: None,
            usage_after_finish: false,
            done: false,
            chunks: 0,
            has_text: false,
            bounds: Bounds::default(),
        }
    }

    /// How far the response has come.
    pub fn phase(&self) -> Phase {
        if self.done {
            Phase::Done
        } else if self.finish.is_some() {
            Phase::Finished { with_usage: self.usage_after_finish }
        } else {
            Phase::Open
        }
    }

    /// Takes one event; appends what it says to `out`. True if it was progress: an event that holds
    /// nothing keeps no stream alive (A023).
    pub fn push(
        &mut self,
        event: Option<&str>,
        data: &str,
        out: &mut impl Extend<ModelDelta>,
    ) -> Result<bool, ModelError> {
        let data = data.trim();
        if self.done || data.is_empty() {
            return Ok(false);
        }
        if data == "[DONE]" {
            self.done = true;
            return Ok(true);
        }
        if event != Some("error")
            && let Some(text) = plain_text(data)
        {
            self.chunks = self.chunks.saturating_add(1);
            self.count(text.len())?;
            self.has_text |= !text.trim().is_empty();
            out.extend([ModelDelta::Text(text)]);
            return Ok(true);
        }
        match serde_json::from_str::<Value>(data) {
            Ok(value) if event == Some("error") => {
                let object = ErrorObject::from_value(error_field(&value).unwrap_or(&value));
                Err(self.upstream.object(&object))
            }
            Ok(value) => self.push_value(&value, out),
            Err(_) if event == Some("error") => {
                Err(self.upstream.object(&ErrorObject::from_value(&Value::from(data))))
            }
            Err(error) => {
                let what = format!("sent a chunk that is not JSON ({error})");
                Err(self.upstream.quoting(ModelErrorClass::Protocol, &what, data))
            }
        }
    }

    /// Takes one chunk, or a whole completion that was not streamed.
    pub fn push_value(
        &mut self,
        chunk: &Value,
        out: &mut impl Extend<ModelDelta>,
    ) -> Result<bool, ModelError> {
        if chunk.is_null() {
            return Ok(false);
        }
        if !chunk.is_object() {
            let what = "sent a chunk that is not an object";
            return Err(self.upstream.quoting(ModelErrorClass::Protocol, what, &chunk.to_string()));
        }
        self.chunks = self.chunks.saturating_add(1);
        // Only the first choice was asked for; a usage chunk has none (A033).
        let choice = chunk.get("choices").and_then(Value::as_array).and_then(|choices| {
            choices.iter().find(|choice| {
                choice.is_object() && choice.get("index").and_then(Value::as_u64).unwrap_or(0) == 0
            })
        });
        let mut progress = false;
        if let Some(choice) = choice {
            // Content first: the last piece may stand beside the finish reason (A041) or an error (A034).
            progress |= self.delta(choice, out)?;
        }
        let own_error = chunk.get("object").and_then(Value::as_str) == Some("error");
        let error = error_field(chunk)
            .or_else(|| choice.and_then(error_field))
            .or_else(|| own_error.then_some(chunk));
        if let Some(error) = error {
            return Err(self.upstream.object(&ErrorObject::from_value(error)));
        }
        if let Some(choice) = choice {
            progress |= self.finish(choice)?;
        }
        let usage = usage(chunk).or_else(|| choice.and_then(usage));
        if let Some(usage) = usage {
            self.usage_after_finish |= self.finish.is_some();
            out.extend([ModelDelta::Usage(usage)]);
            progress = true;
        }
        Ok(progress)
    }

    /// The stream ended, or enough was waited after the finish reason. Calls are given only here, and
    /// only if the response is complete (A035, V-L16).
    pub fn end(&mut self) -> Result<ModelDelta, ModelError> {
        let (finish, calls) = (self.finish.take(), std::mem::take(&mut self.calls));
        let Self { upstream, done, chunks, has_text, .. } = self;
        let (done, has_text) = (*done, *has_text);
        if *chunks == 0 {
            return Err(nothing(upstream));
        }
        let finish = match finish {
            Some(FinishReason::Stop) | None if !calls.is_empty() && (done || finish.is_some()) => {
                FinishReason::ToolCalls
            }
            Some(finish) => finish,
            None if done => FinishReason::Stop,
            None => {
                return Err(truncated(upstream));
            }
        };
        let capped = matches!(finish, FinishReason::Length);
        // A cap reached, or a filter, is the provider's answer; any other silence is a failure.
        if !has_text
            && calls.is_empty()
            && !capped
            && !matches!(finish, FinishReason::ContentFilter)
        {
            return Err(silent(upstream));
        }
        let calls = calls.finish(capped).map_err(|fault| call_fault(upstream, fault))?;
        Ok(ModelDelta::Ended { calls, finish })
    }

    fn delta(
        &mut self,
        choice: &Value,
        out: &mut impl Extend<ModelDelta>,
    ) -> Result<bool, ModelError> {
        let delta = [choice.get("delta"), choice.get("message")]
            .into_iter()
            .flatten()
            .find(|delta| delta.is_object());
        let Some(delta) = delta else {
            return Ok(false);
        };
        let mut progress = false;
        let thinking = ["reasoning_content", "reasoning"].into_iter().find_map(|name| {
            delta.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
        });
        if let Some(text) = thinking {
            self.count(text.len())?;
            out.extend([ModelDelta::Thinking(text.to_owned())]);
            progress = true;
        }
        for name in ["content", "refusal"] {
            let text = text_of(delta.get(name));
            if !text.is_empty() {
                self.count(text.len())?;
                self.has_text |= !text.trim().is_empty();
                out.extend([ModelDelta::Text(text)]);
                progress = true;
            }
        }
        for entry in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            let added =
                self.calls.push(entry).map_err(|fault| call_fault(&self.upstream, fault))?;
            self.count(added)?;
            progress |= added > 0;
        }
        Ok(progress)
    }

    /// `""` and null are absent (A040).
    fn finish(&mut self, choice: &Value) -> Result<bool, ModelError> {
        let Some(reason) = choice.get("finish_reason").and_then(Value::as_str) else {
            return Ok(false);
        };
        self.finish = Some(match reason {
            "" => return Ok(false),
            "stop" => FinishReason::Stop,
            "tool_calls" | "function_call" => FinishReason::ToolCalls,
            "length" => FinishReason::Length,
            "content_filter" => FinishReason::ContentFilter,
            // Routers end a response so when the real provider broke off (A034).
            "error" => {
                return Err(self.upstream.error(
                    ModelErrorClass::Server,
                    "ended its response with the finish reason `error`",
                ));
            }
            other => FinishReason::Other(rookery_messages::tool::head(other, 100).to_owned()),
        });
        Ok(true)
    }

    fn count(&mut self, bytes: usize) -> Result<(), ModelError> {
        self.bounds.add(bytes, &self.upstream)
    }
}

impl Reading for ChunkParser {
    const FRAMING: Framing = Framing::Sse;

    fn push(
        &mut self,
        event: Option<&str>,
        data: &str,
        out: &mut VecDeque<ModelDelta>,
    ) -> Result<bool, ModelError> {
        Self::push(self, event, data, out)
    }

    fn document(
        &mut self,
        document: &Value,
        out: &mut VecDeque<ModelDelta>,
    ) -> Result<bool, ModelError> {
        if !document.get("choices").is_some_and(Value::is_array) {
            return Ok(false);
        }
        self.push_value(document, out)?;
        Ok(true)
    }

    fn phase(&self) -> Phase {
        Self::phase(self)
    }

    fn end(&mut self) -> Result<ModelDelta, ModelError> {
        Self::end(self)
    }
}

fn call_fault(upstream: &Upstream, fault: CallFault) -> ModelError {
    let what = match fault {
        CallFault::TooMany => format!("asked for more than {MAX_CALLS} tool calls at once"),
        CallFault::Nameless => "asked for a tool call without a name".to_owned(),
    };
    upstream.error(ModelErrorClass::Protocol, &what)
}

/// The text of a chunk that holds a piece of text and nothing else. Nearly all chunks are such: they are
/// read without building a document of them. Whatever else a chunk holds, it is read in full.
fn plain_text(data: &str) -> Option<String> {
    let chunk: PlainChunk = serde_json::from_str(data).ok()?;
    let [choice] = chunk.choices;
    let alone = chunk.error.is_none()
        && chunk.usage.is_none()
        && chunk.object.is_none_or(|object| object != "error")
        && choice.index.is_none_or(|index| index == 0)
        && choice.finish_reason.is_none()
        && choice.message.is_none()
        && choice.error.is_none()
        && choice.usage.is_none();
    let PlainDelta { content, refusal, reasoning, reasoning_content, tool_calls, .. } =
        choice.delta;
    let others = [refusal, reasoning, reasoning_content, tool_calls];
    let alone = alone && others.iter().all(Option::is_none);
    content.filter(|text| alone && !text.is_empty())
}

#[derive(Deserialize)]
struct PlainChunk<'a> {
    choices: [PlainChoice; 1],
    #[serde(borrow, default)]
    object: Option<&'a str>,
    #[serde(default)]
    error: Option<IgnoredAny>,
    #[serde(default)]
    usage: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct PlainChoice {
    #[serde(default)]
    index: Option<u64>,
    delta: PlainDelta,
    #[serde(default)]
    finish_reason: Option<IgnoredAny>,
    #[serde(default)]
    message: Option<IgnoredAny>,
    #[serde(default)]
    error: Option<IgnoredAny>,
    #[serde(default)]
    usage: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlainDelta {
    #[serde(default, rename = "role")]
    _role: IgnoredAny,
    content: Option<String>,
    #[serde(default)]
    refusal: Option<IgnoredAny>,
    #[serde(default)]
    reasoning: Option<IgnoredAny>,
    #[serde(default)]
    reasoning_content: Option<IgnoredAny>,
    #[serde(default)]
    tool_calls: Option<IgnoredAny>,
}

/// A text, or a list of parts of which the texts count.
fn text_of(content: Option<&Value>) -> String {
    match content {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect()
        }
        _ => String::new(),
    }
}

fn usage(value: &Value) -> Option<Usage> {
    let usage = value.get("usage")?;
    let tokens = |name: &str| usage.get(name).and_then(Value::as_u64);
    match (tokens("prompt_tokens"), tokens("completion_tokens")) {
        (None, None) => None,
        (input, output) => Some(Usage { input: input.unwrap_or(0), output: output.unwrap_or(0) }),
    }
}

#[cfg(test)]
#[path = "chunk_tests.rs"]
mod tests;
