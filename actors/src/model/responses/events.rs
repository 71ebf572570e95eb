//! Reads the events of one response (OpenAI API reference, "Streaming events" of Responses). Complete at
//! `response.completed` or `response.incomplete` and not before (R9).

use std::collections::{BTreeMap, VecDeque};

use rookery_messages::chat::{OpaqueBlock, Origin, Usage};
use rookery_messages::model::{FinishReason, ModelDelta, ModelError, ModelErrorClass, RawCall};
use serde_json::{Map, Value};

use super::check::is_blank;
use crate::model::error::{ErrorObject, Upstream, error_field};
use crate::model::stream::{
    Bounds, Framing, MAX_CALLS, Phase, Reading, nothing, object, silent, too_many_calls, truncated,
    whole_arguments,
};

/// The fields of a reasoning item that go back; the others say how it was made.
const REASONING_FIELDS: [&str; 5] = ["type", "id", "summary", "content", "encrypted_content"];

/// An output item, as far as it has come.
#[derive(Debug, Default)]
struct Item {
    /// Text that went out, of a message.
    said: String,
    /// It is a call.
    call: Option<Call>,
    /// It was given out, or kept, whole.
    done: bool,
}

#[derive(Debug, Default)]
struct Call {
    id: String,
    name: String,
    arguments: String,
}

/// The machine.
#[derive(Debug)]
pub(in crate::model) struct EventReader {
    upstream: Upstream,
    origin: Origin,
    items: BTreeMap<u64, Item>,
    usage: Option<Usage>,
    /// The terminal event came.
    finish: Option<FinishReason>,
    begun: bool,
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
            items: BTreeMap::new(),
            usage: None,
            finish: None,
            begun: false,
            text: 0,
            has_text: false,
            bounds: Bounds::default(),
        }
    }

    fn item(&mut self, event: &Value) -> Result<&mut Item, ModelError> {
        let index = event["output_index"].as_u64().unwrap_or(0);
        if index >= MAX_CALLS as u64 * 2 {
            return Err(too_many_calls(&self.upstream));
        }
        Ok(self.items.entry(index).or_default())
    }

    fn say(
        &mut self,
        event: &Value,
        part: &str,
        out: &mut VecDeque<ModelDelta>,
    ) -> Result<bool, ModelError> {
        if part.is_empty() {
            return Ok(false);
        }
        self.bounds.add(part.len(), &self.upstream)?;
        self.item(event)?.said.push_str(part);
        self.text += part.len();
        self.has_text |= !part.trim().is_empty();
        out.push_back(ModelDelta::Text(part.to_owned()));
        Ok(true)
    }

    /// An item as it begins: a call has its name here.
    fn added(&mut self, event: &Value) -> Result<(), ModelError> {
        let given = &event["item"];
        self.bounds.add(given.to_string().len(), &self.upstream)?;
        let item = self.item(event)?;
        if given["type"] == "function_call" {
            item.call.get_or_insert_default().take(given);
        }
        Ok(())
    }

    /// An item as it ends. Servers that stream no deltas give everything here; of what was streamed only
    /// a missing tail is told (V-E3).
    fn done(&mut self, event: &Value, out: &mut VecDeque<ModelDelta>) -> Result<(), ModelError> {
        let given = &event["item"];
        let item = self.item(event)?;
        if std::mem::replace(&mut item.done, true) {
            return Ok(());
        }
        match given["type"].as_str().unwrap_or_default() {
            "message" => {
                let parts = given["content"].as_array().into_iter().flatten();
                let whole: String = parts
                    .filter_map(|part| part["text"].as_str().or(part["refusal"].as_str()))
                    .collect();
                if let Some(tail) = whole.strip_prefix(item.said.as_str()).map(str::to_owned) {
                    self.say(event, &tail, out)?;
                }
            }
            "function_call" => {
                item.call.get_or_insert_default().take(given);
                self.bounds.add(given.to_string().len(), &self.upstream)?;
            }
            "reasoning" if !is_blank(&given["encrypted_content"]) => {
                self.bounds.add(given.to_string().len(), &self.upstream)?;
                let mut kept: Map<String, Value> = REASONING_FIELDS
                    .into_iter()
                    .filter_map(|name| Some((name.to_owned(), given.get(name)?.clone())))
                    .filter(|(_, value)| !value.is_null())
                    .collect();
                // It has to go back whole: some servers leave out what is empty.
                if !given["summary"].is_array() {
                    kept.insert("summary".into(), Value::Array(Vec::new()));
                }
                out.push_back(ModelDelta::Opaque(OpaqueBlock {
                    origin: self.origin.clone(),
                    after_text: self.text,
                    after_calls: self.items.values().filter(|item| item.call.is_some()).count(),
                    block: Value::Object(kept),
                }));
            }
            _ => {}
        }
        Ok(())
    }

    /// The terminal event holds the whole response: what of it did not come before is taken from here.
    fn ended(
        &mut self,
        response: &Value,
        out: &mut VecDeque<ModelDelta>,
    ) -> Result<(), ModelError> {
        for (index, item) in response["output"].as_array().into_iter().flatten().enumerate() {
            self.done(&serde_json::json!({ "output_index": index, "item": item }), out)?;
        }
        let tokens = |name: &str| response["usage"][name].as_u64();
        if let (Some(input), output) = (tokens("input_tokens"), tokens("output_tokens")) {
            self.usage = Some(Usage { input, output: output.unwrap_or(0) });
        }
        Ok(())
    }

    fn failure(&self, error: &Value) -> ModelError {
        let mut object = ErrorObject::from_value(error_field(error).unwrap_or(error));
        // The type of the event itself says nothing of the error.
        object.kinds.retain(|kind| kind != "error");
        self.upstream.object(&object)
    }
}

impl Call {
    /// What the item says; arguments that came as deltas stay, unless it has them whole.
    fn take(&mut self, given: &Value) {
        for (own, name) in [
            (&mut self.id, "call_id"),
            (&mut self.name, "name"),
            (&mut self.arguments, "arguments"),
        ] {
            if let Some(text) = given[name].as_str().filter(|text| !text.is_empty()) {
                text.clone_into(own);
            }
        }
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
        let data = data.trim();
        if self.finish.is_some() || data.is_empty() || data == "[DONE]" {
            return Ok(false);
        }
        let value = object(&self.upstream, data)?;
        let kind = value["type"].as_str().or(event).unwrap_or_default();
        self.begun |= kind.starts_with("response.");
        let delta = value["delta"].as_str().unwrap_or_default();
        match kind {
            "error" => Err(self.failure(&value)),
            _ if kind.is_empty() && error_field(&value).is_some() => Err(self.failure(&value)),
            "response.failed" => Err(self.failure(&value["response"])),
            "response.created" | "response.queued" => Ok(true),
            "response.output_item.added" => self.added(&value).map(|()| true),
            "response.output_text.delta" | "response.refusal.delta" => self.say(&value, delta, out),
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.bounds.add(delta.len(), &self.upstream)?;
                if !delta.is_empty() {
                    out.push_back(ModelDelta::Thinking(delta.to_owned()));
                }
                Ok(!delta.is_empty())
            }
            "response.function_call_arguments.delta" => {
                self.bounds.add(delta.len(), &self.upstream)?;
                let item = self.item(&value)?;
                item.call.get_or_insert_default().arguments.push_str(delta);
                Ok(!delta.is_empty())
            }
            "response.function_call_arguments.done" => {
                let item = self.item(&value)?;
                item.call.get_or_insert_default().take(&value);
                Ok(true)
            }
            "response.output_item.done" => self.done(&value, out).map(|()| true),
            "response.completed" => {
                self.ended(&value["response"], out)?;
                self.finish = Some(FinishReason::Stop);
                Ok(true)
            }
            "response.incomplete" => {
                self.ended(&value["response"], out)?;
                let reason = value["response"]["incomplete_details"]["reason"].as_str();
                self.finish = Some(match reason.unwrap_or("incomplete") {
                    "max_output_tokens" | "max_tokens" => FinishReason::Length,
                    "content_filter" => FinishReason::ContentFilter,
                    other => {
                        FinishReason::Other(rookery_messages::tool::head(other, 100).to_owned())
                    }
                });
                Ok(true)
            }
            // Parts that begin or end say nothing new; neither does what is not known.
            _ => Ok(false),
        }
    }

    fn phase(&self) -> Phase {
        if self.finish.is_some() { Phase::Done } else { Phase::Open }
    }

    fn end(&mut self) -> Result<ModelDelta, ModelError> {
        let Some(finish) = self.finish.take() else {
            let nothing_came = !self.begun && self.text == 0;
            return Err(if nothing_came {
                nothing(&self.upstream)
            } else {
                truncated(&self.upstream)
            });
        };
        let calls: Vec<Call> =
            std::mem::take(&mut self.items).into_values().filter_map(|item| item.call).collect();
        if calls.len() > MAX_CALLS {
            return Err(too_many_calls(&self.upstream));
        }
        if calls.iter().any(|call| call.name.is_empty()) {
            let what = "asked for a tool call without a name";
            return Err(self.upstream.error(ModelErrorClass::Protocol, what));
        }
        let finish = match finish {
            FinishReason::Stop if !calls.is_empty() => FinishReason::ToolCalls,
            finish => finish,
        };
        let capped = finish == FinishReason::Length;
        if !self.has_text && calls.is_empty() && !capped && finish != FinishReason::ContentFilter {
            return Err(silent(&self.upstream));
        }
        let last = calls.len().saturating_sub(1);
        let calls = calls.into_iter().enumerate().map(|(at, call)| RawCall {
            provider_id: (!call.id.is_empty()).then_some(call.id),
            name: call.name,
            arguments: whole_arguments(call.arguments, capped && at == last),
        });
        Ok(ModelDelta::Ended { calls: calls.collect(), finish })
    }

    fn untold_usage(&mut self) -> Option<Usage> {
        self.usage.take()
    }
}

#[cfg(test)]
mod tests;
