//! Reads the chunks of one response (Gemini API reference, `GenerateContentResponse`). Complete at the
//! candidate's `finishReason` and not before (R9); what follows it in the stream is its usage.

use std::collections::VecDeque;

use rookery_messages::chat::{OpaqueBlock, Origin, Usage};
use rookery_messages::model::{FinishReason, ModelDelta, ModelError, ModelErrorClass, RawCall};
use serde_json::{Value, json};

use super::request::{ON_CALL, SIGNATURE};
use crate::model::error::{ErrorObject, Upstream, error_field};
use crate::model::stream::{
    Bounds, Framing, MAX_CALLS, Phase, Reading, nothing, object, silent, too_many_calls, truncated,
};

/// The machine.
#[derive(Debug)]
pub(in crate::model) struct ChunkReader {
    upstream: Upstream,
    origin: Origin,
    calls: Vec<RawCall>,
    usage: Option<Usage>,
    usage_after_finish: bool,
    finish: Option<FinishReason>,
    begun: bool,
    /// Bytes of text so far.
    text: usize,
    has_text: bool,
    bounds: Bounds,
}

impl ChunkReader {
    /// For one response; its opaque blocks are marked with `origin`.
    pub(super) fn new(upstream: Upstream, origin: Origin) -> Self {
        Self {
            upstream,
            origin,
            calls: Vec::new(),
            usage: None,
            usage_after_finish: false,
            finish: None,
            begun: false,
            text: 0,
            has_text: false,
            bounds: Bounds::default(),
        }
    }

    fn chunk(&mut self, chunk: &Value, out: &mut VecDeque<ModelDelta>) -> Result<bool, ModelError> {
        if let Some(error) = error_field(chunk) {
            return Err(self.upstream.object(&ErrorObject::from_value(error)));
        }
        self.begun = true;
        let mut progress = false;
        let candidate = chunk["candidates"].as_array().and_then(|candidates| candidates.first());
        let parts = candidate.and_then(|candidate| candidate["content"]["parts"].as_array());
        for part in parts.into_iter().flatten() {
            progress |= self.part(part, out)?;
        }
        if let Some(reason) = candidate.and_then(|candidate| candidate["finishReason"].as_str()) {
            let said = candidate.and_then(|candidate| candidate["finishMessage"].as_str());
            self.count(&chunk["usageMetadata"]);
            self.finish(reason, said.unwrap_or_default())?;
            progress = true;
        } else if let Some(reason) = chunk["promptFeedback"]["blockReason"].as_str() {
            self.count(&chunk["usageMetadata"]);
            let words = chunk["promptFeedback"]["blockReasonMessage"].as_str().unwrap_or_default();
            return Err(self.upstream.quoting(
                ModelErrorClass::InvalidRequest,
                "refused to answer what it was asked",
                &format!("{reason} {words}"),
            ));
        }
        let counted = self.count(&chunk["usageMetadata"]);
        self.usage_after_finish |= counted && self.finish.is_some();
        Ok(progress)
    }

    fn part(&mut self, part: &Value, out: &mut VecDeque<ModelDelta>) -> Result<bool, ModelError> {
        let signature = part[SIGNATURE].as_str().filter(|signature| !signature.is_empty());
        self.bounds.add(signature.map_or(0, str::len), &self.upstream)?;
        if let Some(call) = part.get("functionCall") {
            if self.calls.len() >= MAX_CALLS {
                return Err(too_many_calls(&self.upstream));
            }
            let Some(name) = call["name"].as_str().filter(|name| !name.is_empty()) else {
                let what = "asked for a tool call without a name";
                return Err(self.upstream.error(ModelErrorClass::Protocol, what));
            };
            let arguments = match &call["args"] {
                Value::Null => "{}".to_owned(),
                given => given.to_string(),
            };
            self.bounds.add(name.len() + arguments.len(), &self.upstream)?;
            if let Some(signature) = signature {
                self.keep(json!({ "on": ON_CALL, SIGNATURE: signature }), out);
            }
            let id = call["id"].as_str().filter(|id| !id.is_empty());
            let call =
                RawCall { provider_id: id.map(str::to_owned), name: name.to_owned(), arguments };
            self.calls.push(call);
            return Ok(true);
        }
        let text = part["text"].as_str().unwrap_or_default();
        self.bounds.add(text.len(), &self.upstream)?;
        if part["thought"] == true {
            if !text.is_empty() {
                out.push_back(ModelDelta::Thinking(text.to_owned()));
            }
            return Ok(!text.is_empty());
        }
        if !text.is_empty() {
            self.text += text.len();
            self.has_text |= !text.trim().is_empty();
            out.push_back(ModelDelta::Text(text.to_owned()));
        } else if let Some(signature) = signature {
            // One on a text would have to stay with just that piece of it, and need not come back.
            self.keep(json!({ SIGNATURE: signature }), out);
        }
        Ok(!text.is_empty() || signature.is_some())
    }

    fn keep(&mut self, block: Value, out: &mut VecDeque<ModelDelta>) {
        out.push_back(ModelDelta::Opaque(OpaqueBlock {
            origin: self.origin.clone(),
            after_text: self.text,
            after_calls: self.calls.len(),
            block,
        }));
    }

    fn count(&mut self, usage: &Value) -> bool {
        let tokens = |name: &str| usage[name].as_u64();
        let Some(input) = tokens("promptTokenCount") else { return false };
        let said = tokens("candidatesTokenCount").unwrap_or(0);
        let thought = tokens("thoughtsTokenCount").unwrap_or(0);
        self.usage = Some(Usage { input, output: said.saturating_add(thought) });
        true
    }

    fn finish(&mut self, reason: &str, said: &str) -> Result<(), ModelError> {
        self.finish = Some(match reason {
            "" | "FINISH_REASON_UNSPECIFIED" => return Ok(()),
            "STOP" => FinishReason::Stop,
            "MAX_TOKENS" => FinishReason::Length,
            "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII"
            | "IMAGE_SAFETY" | "LANGUAGE" => FinishReason::ContentFilter,
            "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "TOO_MANY_TOOL_CALLS" => {
                return Err(self.upstream.quoting(
                    ModelErrorClass::MalformedCall,
                    "could not read a tool call of its model",
                    &format!("{reason} {said}"),
                ));
            }
            other => FinishReason::Other(rookery_messages::tool::head(other, 100).to_owned()),
        });
        Ok(())
    }
}

impl Reading for ChunkReader {
    const FRAMING: Framing = Framing::Sse;

    fn push(
        &mut self,
        event: Option<&str>,
        data: &str,
        out: &mut VecDeque<ModelDelta>,
    ) -> Result<bool, ModelError> {
        let data = data.trim();
        if data.is_empty() || data == "[DONE]" {
            return Ok(false);
        }
        let value = object(&self.upstream, data)?;
        if event == Some("error") && error_field(&value).is_none() {
            return Err(self.upstream.object(&ErrorObject::from_value(&value)));
        }
        self.chunk(&value, out)
    }

    /// A gateway that does not stream answers with one chunk, or a list of them.
    fn document(
        &mut self,
        document: &Value,
        out: &mut VecDeque<ModelDelta>,
    ) -> Result<bool, ModelError> {
        let chunks = document.as_array().map_or(std::slice::from_ref(document), Vec::as_slice);
        let known =
            |chunk: &Value| chunk["candidates"].is_array() || chunk["promptFeedback"].is_object();
        if !chunks.iter().any(known) {
            return Ok(false);
        }
        for chunk in chunks {
            self.chunk(chunk, out)?;
        }
        Ok(true)
    }

    fn phase(&self) -> Phase {
        match self.finish {
            Some(_) => Phase::Finished { with_usage: self.usage_after_finish },
            None => Phase::Open,
        }
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
        let answered = matches!(finish, FinishReason::Length | FinishReason::ContentFilter);
        if !self.has_text && calls.is_empty() && !answered {
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
