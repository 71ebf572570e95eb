//! `ask_user`: a question to the turn's person. It is put like a request for approval, durably, and its
//! answer is the call's result: the call itself never runs.

use std::sync::Arc;

use rookery_messages::BoxFuture;
use rookery_messages::approval::QUESTION_TOOL;
use rookery_messages::tool::{
    CallEffects, DeliveryFields, Tool, ToolContext, ToolResult, ToolSpec, text,
};
use serde_json::json;

use super::args::Arguments;

/// The tool.
pub(super) struct AskUser {
    spec: Arc<ToolSpec>,
}

impl AskUser {
    pub(super) fn new() -> Self {
        let spec = super::spec(
            QUESTION_TOOL,
            "Asks the person you work for a question and gives their answer. Use it when you can't go on \
             without a decision or a fact that only they have.",
            json!({
                "question": {"type": "string", "minLength": 1, "description": "What to ask."},
                "choices": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Answers to choose from. The person may say something else.",
                },
                "timeout_secs": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "How long to wait for an answer.",
                },
                "channel": {
                    "type": "string",
                    "description": "Where to ask. Default: where the message came from.",
                },
                "conversation": {
                    "type": "string",
                    "description": "The conversation there. Default: this one.",
                },
            }),
            &["question"],
        );
        Self { spec }
    }
}

impl Tool for AskUser {
    fn spec(&self) -> Arc<ToolSpec> {
        Arc::clone(&self.spec)
    }

    fn effects(&self, _: &Arguments) -> CallEffects {
        CallEffects::read_only()
    }

    fn delivery_fields(&self) -> Option<DeliveryFields> {
        Some(DeliveryFields { channel: "channel", conversation: "conversation" })
    }

    fn execute<'a>(&'a self, _: &'a Arguments, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async { ToolResult::failed(text::QUESTION_NOBODY) })
    }
}
