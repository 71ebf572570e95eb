//! A hook outside the process: a command or an HTTP address, as configured.

use std::sync::Arc;
use std::time::Duration;

use rookery_messages::BoxFuture;
use rookery_messages::chat::ChatMessage;
use rookery_messages::hook::{
    CallDecision, ExecutedCall, Hook, HookError, HookEvent, HookedCall, ModelDecision,
};
use rookery_messages::observe::TurnScope;
use rookery_messages::settings::HookSettings;
use serde_json::Value;

use super::command;
use super::http::Endpoint;
use super::wire::{self, Wire};
use crate::policy::redact::Redactor;

/// Longest answer, in bytes.
pub(super) const MAX_ANSWER_BYTES: usize = 8 * 1_024 * 1_024;

/// See the module's documentation.
pub struct ExternalHook {
    name: String,
    event: HookEvent,
    timeout: Duration,
    /// The tools whose calls it is shown; none: all.
    tools: Option<Vec<String>>,
    way: Way,
    wire: Wire,
}

enum Way {
    Command(Vec<String>),
    Http(Endpoint),
}

impl ExternalHook {
    /// From its settings. The error says what to change.
    pub fn new(
        name: &str,
        settings: &HookSettings,
        redactor: Arc<Redactor>,
    ) -> Result<Self, String> {
        let wrong = |why: String| format!("hook {name} can't be used: {why}; check hooks.{name}");
        let way = match (&settings.command, &settings.url) {
            (Some(command), None) if !command.is_empty() => Way::Command(command.clone()),
            (None, Some(url)) => {
                Way::Http(Endpoint::new(url, settings.token.as_ref()).map_err(wrong)?)
            }
            _ => return Err(wrong("it needs either `command` or `url`".to_owned())),
        };
        Ok(Self {
            name: name.to_owned(),
            event: settings.event,
            timeout: Duration::from_millis(settings.timeout_ms),
            tools: settings.tools.clone(),
            way,
            wire: Wire { hook: name.to_owned(), redactor },
        })
    }

    async fn ask(&self, question: &Value) -> Result<Vec<u8>, HookError> {
        let question = wire::encode(question)?;
        match &self.way {
            Way::Command(argv) => command::run(argv, question).await,
            Way::Http(endpoint) => endpoint.post(question).await,
        }
    }

    fn is_about(&self, tool: &str) -> bool {
        self.tools.as_ref().is_none_or(|tools| tools.iter().any(|name| name == tool))
    }
}

impl Hook for ExternalHook {
    fn name(&self) -> &str {
        &self.name
    }

    fn listens_to(&self, event: HookEvent) -> bool {
        self.event == event
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn before_tool_call<'a>(
        &'a self,
        scope: &'a TurnScope,
        call: &'a HookedCall,
    ) -> BoxFuture<'a, Result<CallDecision, HookError>> {
        Box::pin(async move {
            if !self.is_about(&call.tool) {
                return Ok(CallDecision::Continue);
            }
            let (shown, question) = self.wire.call(scope, call);
            wire::call_decision(&self.ask(&question).await?, &call.arguments, &shown)
        })
    }

    fn after_tool_call<'a>(
        &'a self,
        scope: &'a TurnScope,
        call: &'a ExecutedCall,
    ) -> BoxFuture<'a, Result<(), HookError>> {
        Box::pin(async move {
            if self.is_about(&call.tool) {
                // It was told; what it says can't change anything.
                self.ask(&self.wire.executed(scope, call)).await?;
            }
            Ok(())
        })
    }

    fn before_model_call<'a>(
        &'a self,
        scope: &'a TurnScope,
        messages: &'a mut Vec<ChatMessage>,
    ) -> BoxFuture<'a, Result<ModelDecision, HookError>> {
        Box::pin(async move {
            let (shown, question) = self.wire.messages(scope, messages);
            wire::model_decision(&self.ask(&question).await?, messages, &shown)
        })
    }
}
