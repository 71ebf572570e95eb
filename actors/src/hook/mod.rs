//! Hooks: asked in their order, each under its time limit and apart from the turn it judges.

mod command;
mod external;
mod http;
#[cfg(test)]
mod tests;
mod wire;

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::{FutureExt, StreamExt, stream};
use rookery_messages::BoxFuture;
use rookery_messages::chat::ChatMessage;
use rookery_messages::hook::{
    CallDecision, ExecutedCall, Hook, HookError, HookEvent, HookedCall, ModelDecision,
};
use rookery_messages::observe::Observation;
use rookery_messages::tool::head;
use tokio::time::Instant;

use crate::model::wire_check;
use crate::observe::TurnVoice;

pub use external::ExternalHook;

/// Longest reason of a hook that is passed on, in bytes.
const MAX_REASON_BYTES: usize = 500;
/// Calls that are shown to the hooks at once, after they ran.
const AT_ONCE: usize = 8;

/// An agent's hooks, in order.
#[derive(Clone, Default)]
pub struct Hooks(Arc<[Arc<dyn Hook>]>);

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|hook| hook.name())).finish()
    }
}

/// Why a call does not go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Objection {
    /// A hook said so.
    Cancelled {
        /// Which.
        hook: String,
        /// Why.
        reason: String,
    },
    /// A hook failed, took too long or panicked.
    Broken {
        /// Which.
        hook: String,
        /// What went wrong.
        why: String,
    },
}

/// How a hook failed.
enum Failure {
    Failed(HookError),
    TimedOut,
    Panicked,
}

impl Hooks {
    /// In this order.
    pub fn new(hooks: impl IntoIterator<Item = Arc<dyn Hook>>) -> Self {
        Self(hooks.into_iter().collect())
    }

    /// Their names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|hook| hook.name())
    }

    /// Whether anybody listens.
    pub fn listen_to(&self, event: HookEvent) -> bool {
        self.0.iter().any(|hook| hook.listens_to(event))
    }

    /// What the hooks leave of a call, or who is against it. `resolve` gives a rewritten tool's own name.
    pub async fn before_tool_call(
        &self,
        voice: &TurnVoice,
        mut call: HookedCall,
        resolve: impl Fn(&str) -> String,
    ) -> Result<HookedCall, Objection> {
        let event = HookEvent::BeforeToolCall;
        for hook in self.listening(event) {
            let asked = guarded(hook, voice, event, |decision| match decision {
                CallDecision::Continue => "continued",
                CallDecision::Rewrite { .. } => "rewrote",
                CallDecision::Cancel { .. } => "cancelled",
            });
            match asked.of(async { hook.before_tool_call(&voice.scope, &call).await }).await {
                Ok(CallDecision::Continue) => {}
                Ok(CallDecision::Rewrite { tool, arguments }) => {
                    call = HookedCall { call: call.call, tool: resolve(&tool), arguments };
                }
                Ok(CallDecision::Cancel { reason }) => {
                    let reason = head(&reason, MAX_REASON_BYTES).to_owned();
                    return Err(Objection::Cancelled { hook: hook.name().to_owned(), reason });
                }
                Err(why) => return Err(Objection::Broken { hook: hook.name().to_owned(), why }),
            }
        }
        Ok(call)
    }

    /// Shows calls that ran. Failures are only counted.
    pub async fn after_tool_calls(&self, voice: &TurnVoice, calls: Vec<ExecutedCall>) {
        let shown: Vec<BoxFuture<'_, ()>> =
            calls.iter().map(|call| self.after_tool_call(voice, call).boxed()).collect();
        stream::iter(shown).buffer_unordered(AT_ONCE).for_each(|()| async {}).await;
    }

    async fn after_tool_call(&self, voice: &TurnVoice, call: &ExecutedCall) {
        let event = HookEvent::AfterToolCall;
        for hook in self.listening(event) {
            let asked = guarded(hook, voice, event, |()| "continued");
            // Counted and logged; the call is over.
            let _ = asked.of(async { hook.after_tool_call(&voice.scope, call).await }).await;
        }
    }

    /// The messages as the hooks leave them, or who is against the call. What a hook changed before it
    /// failed, or into something that no provider takes, is discarded (V-A14).
    pub async fn before_model_call(
        &self,
        voice: &TurnVoice,
        mut messages: Vec<ChatMessage>,
    ) -> Result<Vec<ChatMessage>, Objection> {
        let event = HookEvent::BeforeModelCall;
        for hook in self.listening(event) {
            let mut edited = messages.clone();
            let asked = guarded(hook, voice, event, |decision| match decision {
                ModelDecision::Continue => "continued",
                ModelDecision::Cancel { .. } => "cancelled",
            });
            match asked.of(async { hook.before_model_call(&voice.scope, &mut edited).await }).await
            {
                Ok(ModelDecision::Continue) => match wire_check::prepared(edited) {
                    Ok((edited, _)) => messages = edited,
                    Err(fault) => tracing::warn!(
                        hook = hook.name(),
                        %fault,
                        "a hook's edits can't be sent and are discarded"
                    ),
                },
                Ok(ModelDecision::Cancel { reason }) => {
                    let reason = head(&reason, MAX_REASON_BYTES).to_owned();
                    return Err(Objection::Cancelled { hook: hook.name().to_owned(), reason });
                }
                Err(_) => {}
            }
        }
        Ok(messages)
    }

    fn listening(&self, event: HookEvent) -> impl Iterator<Item = &Arc<dyn Hook>> {
        self.0.iter().filter(move |hook| hook.listens_to(event))
    }
}

fn guarded<'a, T>(
    hook: &'a Arc<dyn Hook>,
    voice: &'a TurnVoice,
    event: HookEvent,
    word: fn(&T) -> &'static str,
) -> Guarded<'a, T> {
    Guarded { hook, voice, event, word }
}

/// One question to one hook: timed, caught, counted.
struct Guarded<'a, T> {
    hook: &'a Arc<dyn Hook>,
    voice: &'a TurnVoice,
    event: HookEvent,
    word: fn(&T) -> &'static str,
}

impl<T> Guarded<'_, T> {
    /// The answer, or what went wrong, bounded.
    async fn of(self, answer: impl Future<Output = Result<T, HookError>>) -> Result<T, String> {
        let began = Instant::now();
        let limit = self.hook.timeout();
        let caught = AssertUnwindSafe(answer).catch_unwind();
        let answer = match tokio::time::timeout(limit, caught).await {
            Ok(Ok(answer)) => answer.map_err(Failure::Failed),
            Ok(Err(_panic)) => Err(Failure::Panicked),
            Err(_elapsed) => Err(Failure::TimedOut),
        };
        let (result, answer) = match answer {
            Ok(answer) => ((self.word)(&answer), Ok(answer)),
            Err(Failure::Failed(error)) => {
                ("failed", Err(head(&error.0, MAX_REASON_BYTES).to_owned()))
            }
            Err(Failure::TimedOut) => {
                ("timed_out", Err(format!("it did not answer within {} ms", limit.as_millis())))
            }
            Err(Failure::Panicked) => ("panicked", Err("it panicked".to_owned())),
        };
        if let Err(why) = &answer {
            let (hook, event) = (self.hook.name(), self.event.as_str());
            tracing::warn!(turn = %self.voice.scope.turn, hook, event, why, "a hook failed");
        }
        let (hook, duration) = (self.hook.name().to_owned(), began.elapsed());
        let event = self.event.as_str();
        self.voice.observe(|scope| Observation::Hook { scope, hook, event, result, duration });
        answer
    }
}
