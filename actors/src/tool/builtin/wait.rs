//! `wait`: lets time pass, and ends at once when it is cancelled.

use std::sync::Arc;
use std::time::Duration;

use rookery_messages::BoxFuture;
use rookery_messages::tool::{CallEffects, Tool, ToolContext, ToolResult, ToolSpec, text};
use serde_json::json;

use super::args::{self, Arguments};

/// Longest wait, in seconds.
const MAX_SECONDS: u64 = 300;

/// The tool.
pub(super) struct Wait {
    spec: Arc<ToolSpec>,
}

impl Wait {
    pub(super) fn new() -> Self {
        let spec = super::spec(
            "wait",
            "Waits for a number of seconds.",
            json!({"seconds": {
                "type": "integer",
                "minimum": 0,
                "maximum": MAX_SECONDS,
                "description": "How long to wait, in seconds.",
            }}),
            &["seconds"],
        );
        Self { spec }
    }
}

async fn run(arguments: &Arguments, cx: &ToolContext) -> Result<ToolResult, ToolResult> {
    let seconds = args::required_number(arguments, "seconds", 0..=MAX_SECONDS)?;
    tokio::select! {
        biased;
        () = cx.cancel.cancelled() => Ok(ToolResult::failed(text::INTERRUPTED_RUNNING)),
        () = tokio::time::sleep(Duration::from_secs(seconds)) => {
            Ok(ToolResult::ok(format!("waited {seconds} s")))
        }
    }
}

impl Tool for Wait {
    fn spec(&self) -> Arc<ToolSpec> {
        Arc::clone(&self.spec)
    }

    fn effects(&self, _: &Arguments) -> CallEffects {
        CallEffects::read_only()
    }

    fn timeout(&self, _: &Arguments) -> Duration {
        Duration::from_secs(MAX_SECONDS + 10)
    }

    fn execute<'a>(
        &'a self,
        arguments: &'a Arguments,
        cx: &'a ToolContext,
    ) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move { run(arguments, cx).await.unwrap_or_else(|failed| failed) })
    }
}
