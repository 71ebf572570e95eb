//! One tool of a server. Its call goes straight over the server's session; the actor is not in the way.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use rookery_messages::BoxFuture;
use rookery_messages::tool::{
    CallEffects, Effects, Tool, ToolContext, ToolResult, ToolSpec, head, text,
};
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::client::{CallError, CallRequest};
use super::link::Link;
use super::result;

/// What a call may take beyond the server's own limit: waiting for the connection, keeping the result.
const MARGIN: Duration = Duration::from_secs(10);
/// Progress is passed on this often at most.
const PROGRESS_EVERY: Duration = Duration::from_millis(250);
/// Longest progress text, in bytes.
const LONGEST_PROGRESS: usize = 500;

/// See the module's documentation.
pub struct McpTool {
    pub(super) spec: Arc<ToolSpec>,
    pub(super) server: String,
    /// The server's own name of it.
    pub(super) original: String,
    /// `<server>__<original>`.
    pub(super) full: String,
    pub(super) effects: CallEffects,
    pub(super) call_limit: Duration,
    pub(super) connect_limit: Duration,
    /// Not owned: the link holds its tools.
    pub(super) link: Weak<Link>,
}

impl fmt::Debug for McpTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpTool").field("name", &self.spec.name).finish_non_exhaustive()
    }
}

impl McpTool {
    /// The name a model and the policy know it by.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// The server's own name of it.
    pub fn original(&self) -> &str {
        &self.original
    }

    /// Both of its names: the model's, and `<server>__<original>`.
    pub(crate) fn names(&self) -> [&str; 2] {
        [&self.spec.name, &self.full]
    }

    async fn run(&self, arguments: &Map<String, Value>, cx: &ToolContext) -> ToolResult {
        let Some(link) = self.link.upgrade() else {
            return ToolResult::failed(format!("MCP server {} is gone", self.server));
        };
        let live = tokio::select! {
            biased;
            () = cx.cancel.cancelled() => return ToolResult::failed(text::INTERRUPTED_NOT_STARTED),
            live = link.session(self.connect_limit) => live,
        };
        let live = match live {
            Ok(live) => live,
            Err(reason) => {
                return ToolResult::failed(format!(
                    "the call was not made: MCP server {} is not connected: {reason}",
                    self.server
                ));
            }
        };
        if !link.offers(&self.original) {
            return ToolResult::failed(format!(
                "the call was not made: MCP server {} no longer offers {}; use one of the tools on \
                 offer",
                self.server, self.original
            ));
        }
        let call = CallRequest {
            tool: &self.original,
            arguments,
            cancel: &cx.cancel,
            limit: self.call_limit,
            progress: throttled(Arc::clone(&cx.progress)),
        };
        match live.session.call(call).await {
            Ok(output) => result::rendered(output, &self.server, cx).await,
            Err(error) => {
                if matches!(error, CallError::TimedOut(_) | CallError::Unreachable(_)) {
                    link.suspect(live.life);
                }
                self.failed(&error)
            }
        }
    }

    fn failed(&self, error: &CallError) -> ToolResult {
        let server = &self.server;
        ToolResult::failed(match error {
            CallError::Cancelled => text::INTERRUPTED_RUNNING.to_owned(),
            CallError::Refused { .. } => format!("MCP server {server} refused the call: {error}"),
            CallError::Protocol(_) => format!("MCP server {server}: {error}"),
            CallError::TimedOut(_) | CallError::Unreachable(_) | CallError::Gone(_) => {
                let what = if let CallError::Gone(_) = error { "died: " } else { "" };
                let text = format!("MCP server {server} {what}{error}; {}", self.advice());
                // I5: what may have happened is shown as that, and not as something that did not.
                if self.effects.effects == Effects::Once {
                    return ToolResult::outcome_unknown(text);
                }
                text
            }
        })
    }

    /// Whether it is safe to try again is the tool's own matter (A101).
    fn advice(&self) -> &'static str {
        match self.effects.effects {
            Effects::ReadOnly | Effects::Idempotent => "the call may be made again",
            Effects::Once => {
                "the call may or may not have had its effect: check before trying again"
            }
        }
    }
}

impl Tool for McpTool {
    fn spec(&self) -> Arc<ToolSpec> {
        Arc::clone(&self.spec)
    }

    fn provider(&self) -> &str {
        &self.server
    }

    fn effects(&self, _: &Map<String, Value>) -> CallEffects {
        self.effects.clone()
    }

    fn timeout(&self, _: &Map<String, Value>) -> Duration {
        self.connect_limit + self.call_limit + MARGIN
    }

    fn execute<'a>(
        &'a self,
        arguments: &'a Map<String, Value>,
        cx: &'a ToolContext,
    ) -> BoxFuture<'a, ToolResult> {
        Box::pin(self.run(arguments, cx))
    }
}

/// Passes on what comes now and then; a server may report a thousand times a second.
fn throttled(progress: Arc<dyn Fn(String) + Send + Sync>) -> Arc<dyn Fn(String) + Send + Sync> {
    let last: Mutex<Option<Instant>> = Mutex::new(None);
    Arc::new(move |text| {
        let mut last = last.lock();
        if last.is_none_or(|at| at.elapsed() >= PROGRESS_EVERY) {
            *last = Some(Instant::now());
            drop(last);
            progress(head(&text, LONGEST_PROGRESS).to_owned());
        }
    })
}
