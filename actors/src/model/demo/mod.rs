//! The built-in provider: deterministic, offline, through the same contract as any other.
//!
//! It answers by the phrase in the last user message, and from the conversation alone: what stands
//! behind that message tells how far the answer is. The script is in `script.rs`.

mod script;

pub use script::PHRASES;

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use rookery_messages::BoxFuture;
use rookery_messages::chat::{ChatMessage, Usage};
use rookery_messages::model::{
    FinishReason, ModelDelta, ModelError, ModelProvider, ModelRequest, ModelStream, RawCall,
};

use script::Reply;

/// The pause before each word that [`crate::model::factory::build_provider`] gives.
pub const DEFAULT_PAUSE: Duration = Duration::from_millis(10);

/// A profile of kind `demo`.
#[derive(Clone, Debug)]
pub struct DemoProvider {
    pause: Duration,
}

impl DemoProvider {
    /// Waits `pause` before each word it writes.
    pub fn new(pause: Duration) -> Self {
        Self { pause }
    }
}

impl ModelProvider for DemoProvider {
    fn kind(&self) -> &str {
        "demo"
    }

    fn model(&self) -> &str {
        "demo"
    }

    fn stream(&self, request: ModelRequest) -> BoxFuture<'_, Result<ModelStream, ModelError>> {
        let pause = self.pause;
        Box::pin(async move {
            let deltas = deltas(&request);
            let stream = stream::unfold(deltas, move |mut deltas| async move {
                let delta = deltas.pop_front()?;
                if matches!(delta, ModelDelta::Text(_)) && !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                }
                Some((Ok(delta), deltas))
            });
            Ok(stream.boxed())
        })
    }
}

fn deltas(request: &ModelRequest) -> VecDeque<ModelDelta> {
    let Reply { text, calls } = script::reply(request);
    let usage = Usage {
        input: request.messages.iter().map(message_words).sum(),
        output: words(&text) + calls.iter().map(call_words).sum::<u64>(),
    };
    let finish = if calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
    let mut deltas: VecDeque<ModelDelta> =
        text.split_inclusive(' ').map(|word| ModelDelta::Text(word.to_owned())).collect();
    deltas.extend([ModelDelta::Usage(usage), ModelDelta::Ended { calls, finish }]);
    deltas
}

/// The demo counts a word as a token.
fn words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

fn message_words(message: &ChatMessage) -> u64 {
    let calls = match message {
        ChatMessage::Assistant { calls, .. } => calls.len() as u64,
        _ => 0,
    };
    words(message.text()) + calls
}

fn call_words(call: &RawCall) -> u64 {
    1 + words(&call.arguments)
}

#[cfg(test)]
mod tests;
