//! Reads the events of one response (Anthropic guide "Streaming messages"). Complete at `message_stop`
//! and not before, whatever came until then (R9, V-L22).

use std::collections::{BTreeMap, VecDeque};

use rookery_messages::chat::{OpaqueBlock, Origin, Usage};
use rookery_messages::model::{FinishReason, ModelDelta, ModelError, ModelErrorClass, RawCall};
use serde_json::{Value, json};

use crate::model::error::{ErrorObject, Upstream, error_field};
use crate::model::stream::{
    Bounds, Framing, MAX_CALLS, Phase, Reading, nothing, object, silent, too_many_calls, truncated,
    whole_arguments,
};

/// A block that is being written.
#[derive(Debug)]
enum Block {
    Text,
    Thinking {
        text: String,
        signature: String,
    },
    /// Whole from its start.
    Redacted(Value),
    Call {
        id: String,
        name: String,
        given: Value,
        written: String,
    },
    /// Of a kind we have no use for.
    Other,
}

/// The machine.
#[derive(Debug)]
pub(in crate::model) struct EventReader {
    upstream: Upstream,
    origin: Origin,
    open: BTreeMap<u64, Block>,
    calls: Vec<RawCall>,
    usage: Option<Usage>,
    finish: Option<FinishReason>,
    begun: bool,
    stopped: bool,
    /// Bytes of text so far.
    text: usize,
    has_text: bool,
    bounds: Bounds,
}

impl EventReader {
    /// For one response; its opaque blocks are marked with `origin`.
    pub(super) fn new(upstream: Upstream, origin: Origin) -> Self {
        Self {
            upstream,
            origin,
            open: BTreeMap::new(),
            calls: Vec::new(),
            usage: None,
            finish: None,
            begun: false,
            stopped: false,
            text: 0,
            has_text: false,
            bounds: Bounds::default(),
        }
    }

    fn start_block(
        &mut self,
        event: &Value,
        out: &mut VecDeque<ModelDelta>,
    ) -> Result<(), ModelError> {
        let index = self.index(event)?;
        let start = &event["content_block"];
        let text = |name: &str| start[name].as_str().unwrap_or_default().to_owned();
        self.bounds.add(start.to_string().len(), &self.upstream)?;
        let block = match start["type"].as_str().unwrap_or_default() {
            "text" => {
                self.say(start["text"].as_str().unwrap_or_default(), out);
                Block::Text
            }
            "thinking" => {
                let begun = text("thinking");
                if !begun.is_empty() {
                    out.push_back(ModelDelta::Thinking(begun.clone()));
                }
                Block::Thinking { text: begun, signature: text("signature") }
            }
            "redacted_thinking" => Block::Redacted(start.clone()),
            "tool_use" => Block::Call {
                id: text("id"),
                name: text("name"),
                given: start["input"].clone(),
                written: String::new(),
            },
            _ => Block::Other,
        };
        // A block that was not stopped ends where another begins at its place.
        if let Some(before) = self.open.insert(index, block) {
            self.close(before, out)?;
        }
        Ok(())
    }

    fn add(&mut self, event: &Value, out: &mut VecDeque<ModelDelta>) -> Result<bool, ModelError> {
        let index = self.index(event)?;
        let delta = &event["delta"];
        let (field, is_text) = match delta["type"].as_str().unwrap_or_default() {
            "text_delta" => ("text", true),
            "thinking_delta" => ("thinking", false),
            "signature_delta" => ("signature", false),
            "input_json_delta" => ("partial_json", false),
            // Citations and what may come later.
            _ => return Ok(false),
        };
        let part = delta[field].as_str().unwrap_or_default();
        if part.is_empty() {
            return Ok(false);
        }
        self.bounds.add(part.len(), &self.upstream)?;
        if is_text {
            self.say(part, out);
            return Ok(true);
        }
        match (self.open.get_mut(&index), field) {
            (Some(Block::Thinking { text, .. }), "thinking") => {
                text.push_str(part);
                out.push_back(ModelDelta::Thinking(part.to_owned()));
            }
            (Some(Block::Thinking { signature, .. }), "signature") => signature.push_str(part),
            (Some(Block::Call { written, .. }), "partial_json") => written.push_str(part),
            // Blocks of kinds we don't know have deltas too.
            (Some(Block::Other), _) => {}
            _ => {
                let what = format!("sent a `{field}` for a block that has none");
                return Err(self.upstream.error(ModelErrorClass::Protocol, &what));
            }
        }
        Ok(true)
    }

    fn say(&mut self, part: &str, out: &mut VecDeque<ModelDelta>) {
        if !part.is_empty() {
            self.text += part.len();
            self.has_text |= !part.trim().is_empty();
            out.push_back(ModelDelta::Text(part.to_owned()));
        }
    }

    fn close(&mut self, block: Block, out: &mut VecDeque<ModelDelta>) -> Result<(), ModelError> {
        let kept = match block {
            Block::Text | Block::Other => return Ok(()),
            // Thinking without a signature would be refused: it is nobody's word.
            Block::Thinking { signature, .. } if signature.is_empty() => return Ok(()),
            Block::Thinking { text, signature } => {
                json!({ "type": "thinking", "thinking": text, "signature": signature })
            }
            Block::Redacted(block) => block,
            Block::Call { id, name, given, written } => {
                if self.calls.len() >= MAX_CALLS {
                    return Err(too_many_calls(&self.upstream));
                }
                if name.is_empty() {
                    let what = "asked for a tool call without a name";
                    return Err(self.upstream.error(ModelErrorClass::Protocol, what));
                }
                let whole = given.as_object().is_some_and(|given| !given.is_empty());
                let arguments =
                    if written.trim().is_empty() && whole { given.to_string() } else { written };
                let provider_id = (!id.is_empty()).then_some(id);
                self.calls.push(RawCall { provider_id, name, arguments });
                return Ok(());
            }
        };
        out.push_back(ModelDelta::Opaque(OpaqueBlock {
            origin: self.origin.clone(),
            after_text: self.text,
            after_calls: self.calls.len(),
            block: kept,
        }));
        Ok(())
    }

    fn index(&self, event: &Value) -> Result<u64, ModelError> {
        let index = event["index"].as_u64().unwrap_or(0);
        if index >= MAX_CALLS as u64 * 2 {
            return Err(too_many_calls(&self.upstream));
        }
        Ok(index)
    }

    /// Input counts what was cached too (V-L23); a later report replaces what it names.
    fn count(&mut self, usage: &Value) {
        let tokens = |name: &str| usage[name].as_u64();
        let known = self.usage.get_or_insert_default();
        if let Some(fresh) = tokens("input_tokens") {
            let cached = ["cache_creation_input_tokens", "cache_read_input_tokens"]
                .into_iter()
                .filter_map(tokens)
                .fold(0, u64::saturating_add);
            known.input = known.input.max(fresh.saturating_add(cached));
        }
        known.output = tokens("output_tokens").unwrap_or(known.output);
    }

    fn finish(&mut self, reason: &str) {
        self.finish = Some(match reason {
            "end_turn" | "stop_sequence" => FinishReason::Stop,
            "tool_use" => FinishReason::ToolCalls,
            "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
            "refusal" => FinishReason::ContentFilter,
            other => FinishReason::Other(rookery_messages::tool::head(other, 100).to_owned()),
        });
    }
}

impl Reading for EventReader {
    const FRAMING: Framing = Framing::Sse;

    fn push(
        &mut self,
        event: Option<&str>,
        data: &str,
        out: &mut VecDeque<ModelDelta>,
    ) -> Result<bool, ModelError> {
        if self.stopped || data.trim().is_empty() {
            return Ok(false);
        }
        let value = object(&self.upstream, data)?;
        let kind = value["type"].as_str().or(event).unwrap_or_default();
        if kind == "error" || event == Some("error") {
            let object = ErrorObject::from_value(error_field(&value).unwrap_or(&value));
            return Err(self.upstream.object(&object));
        }
        match kind {
            "message_start" => {
                self.begun = true;
                self.count(&value["message"]["usage"]);
                Ok(true)
            }
            "content_block_start" => self.start_block(&value, out).map(|()| true),
            "content_block_delta" => self.add(&value, out),
            "content_block_stop" => {
                let index = self.index(&value)?;
                if let Some(block) = self.open.remove(&index) {
                    self.close(block, out)?;
                }
                Ok(true)
            }
            "message_delta" => {
                if value["usage"].is_object() {
                    self.count(&value["usage"]);
                }
                if let Some(reason) = value["delta"]["stop_reason"].as_str() {
                    self.finish(reason);
                }
                Ok(true)
            }
            "message_stop" => {
                for block in std::mem::take(&mut self.open).into_values() {
                    self.close(block, out)?;
                }
                self.stopped = true;
                Ok(true)
            }
            // A ping keeps the connection, not the generation (A023); what is not known is no progress.
            _ => Ok(false),
        }
    }

    fn phase(&self) -> Phase {
        if self.stopped { Phase::Done } else { Phase::Open }
    }

    fn end(&mut self) -> Result<ModelDelta, ModelError> {
        if !self.stopped {
            let nothing_came = !self.begun && self.text == 0;
            return Err(if nothing_came {
                nothing(&self.upstream)
            } else {
                truncated(&self.upstream)
            });
        }
        let mut calls = std::mem::take(&mut self.calls);
        let finish = match self.finish.take() {
            Some(FinishReason::Stop) | None if !calls.is_empty() => FinishReason::ToolCalls,
            finish => finish.unwrap_or(FinishReason::Stop),
        };
        let capped = finish == FinishReason::Length;
        if !self.has_text && calls.is_empty() && !capped && finish != FinishReason::ContentFilter {
            return Err(silent(&self.upstream));
        }
        let last = calls.len().saturating_sub(1);
        for (at, call) in calls.iter_mut().enumerate() {
            let written = std::mem::take(&mut call.arguments);
            call.arguments = whole_arguments(written, capped && at == last);
        }
        Ok(ModelDelta::Ended { calls, finish })
    }

    fn untold_usage(&mut self) -> Option<Usage> {
        self.usage.take()
    }
}

#[cfg(test)]
mod tests;
