//! Reads the lines of one response (Ollama API documentation, "Generate a chat completion"). Complete at
//! the line that says `done` and not before (R9).

use std::collections::VecDeque;

use rookery_messages::chat::Usage;
use rookery_messages::model::{FinishReason, ModelDelta, ModelError, ModelErrorClass, RawCall};
use serde_json::Value;

use crate::model::error::{ErrorObject, Upstream, error_field};
use crate::model::stream::{
    Bounds, Framing, MAX_CALLS, Phase, Reading, nothing, object, silent, too_many_calls, truncated,
};

/// The machine.
#[derive(Debug)]
pub(in crate::model) struct LineReader {
    upstream: Upstream,
    calls: Vec<RawCall>,
    usage: Option<Usage>,
    finish: Option<FinishReason>,
    begun: bool,
    has_text: bool,
    bounds: Bounds,
}

impl LineReader {
    /// For one response.
    pub(super) fn new(upstream: Upstream) -> Self {
        Self {
            upstream,
            calls: Vec::new(),
            usage: None,
            finish: None,
            begun: false,
            has_text: false,
            bounds: Bounds::default(),
        }
    }

    fn call(&mut self, entry: &Value) -> Result<(), ModelError> {
        if self.calls.len() >= MAX_CALLS {
            return Err(too_many_calls(&self.upstream));
        }
        let function = &entry["function"];
        let Some(name) = function["name"].as_str().filter(|name| !name.is_empty()) else {
            let what = "asked for a tool call without a name";
            return Err(self.upstream.error(ModelErrorClass::Protocol, what));
        };
        let arguments = match &function["arguments"] {
            Value::Null => "{}".to_owned(),
            Value::String(text) if text.trim().is_empty() => "{}".to_owned(),
            Value::String(text) => text.clone(),
            given => given.to_string(),
        };
        self.bounds.add(name.len() + arguments.len(), &self.upstream)?;
        let id = entry["id"].as_str().filter(|id| !id.is_empty());
        let name = name.to_owned();
        self.calls.push(RawCall { provider_id: id.map(str::to_owned), name, arguments });
        Ok(())
    }
}

impl Reading for LineReader {
    const FRAMING: Framing = Framing::Lines;

    fn push(
        &mut self,
        _event: Option<&str>,
        data: &str,
        out: &mut VecDeque<ModelDelta>,
    ) -> Result<bool, ModelError> {
        if self.finish.is_some() {
            return Ok(false);
        }
        let line = object(&self.upstream, data)?;
        if let Some(error) = error_field(&line) {
            return Err(self.upstream.object(&ErrorObject::from_value(error)));
        }
        self.begun = true;
        let message = &line["message"];
        let thinking = message["thinking"].as_str().unwrap_or_default();
        let text = message["content"].as_str().unwrap_or_default();
        let mut progress = !thinking.is_empty() || !text.is_empty();
        self.bounds.add(thinking.len() + text.len(), &self.upstream)?;
        if !thinking.is_empty() {
            out.push_back(ModelDelta::Thinking(thinking.to_owned()));
        }
        if !text.is_empty() {
            self.has_text |= !text.trim().is_empty();
            out.push_back(ModelDelta::Text(text.to_owned()));
        }
        for entry in message["tool_calls"].as_array().into_iter().flatten() {
            self.call(entry)?;
            progress = true;
        }
        if line["done"] == true {
            let tokens = |name: &str| line[name].as_u64().unwrap_or(0);
            self.usage =
                Some(Usage { input: tokens("prompt_eval_count"), output: tokens("eval_count") });
            self.finish = Some(match line["done_reason"].as_str().unwrap_or("stop") {
                "stop" | "" => FinishReason::Stop,
                "length" => FinishReason::Length,
                other => FinishReason::Other(rookery_messages::tool::head(other, 100).to_owned()),
            });
            progress = true;
        }
        Ok(progress)
    }

    fn phase(&self) -> Phase {
        if self.finish.is_some() { Phase::Done } else { Phase::Open }
    }

    fn end(&mut self) -> Result<ModelDelta, ModelError> {
        let Some(finish) = self.finish.take() else {
            return Err(if self.begun {
                truncated(&self.upstream)
            } else {
                nothing(&self.upstream)
            });
        };
        let calls = std::mem::take(&mut self.calls);
        let finish = match finish {
            FinishReason::Stop if !calls.is_empty() => FinishReason::ToolCalls,
            finish => finish,
        };
        if !self.has_text && calls.is_empty() && finish != FinishReason::Length {
            return Err(silent(&self.upstream));
        }
        Ok(ModelDelta::Ended { calls, finish })
    }

    fn untold_usage(&mut self) -> Option<Usage> {
        self.usage.take()
    }
}

#[cfg(test)]
mod tests;
