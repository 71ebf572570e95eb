//! A call made ready: resolved, rewritten by hooks, filled in, cleaned, checked (T8, T9).

use std::sync::Arc;

use rookery_messages::chat::{Arguments, ToolCall};
use rookery_messages::hook::HookedCall;
use rookery_messages::tool::{SlotOutcome, Tool, text};
use rookery_messages::turn::CallState;
use serde_json::{Map, Value};

use super::super::machine::{OpenCall, unusable};
use super::delivery::{self, Place};
use super::{Judge, marker};
use crate::hook::Objection;

/// What the model reads of a call that a capped response may have cut (A036).
const CUT_CALL: &str = "the call was not run: the response reached the model's output limit and the call may be \
     incomplete; ask again with less text";

/// A call that can be judged.
pub(super) struct Draft {
    /// The tool's resolved name.
    pub(super) name: String,
    pub(super) tool: Arc<dyn Tool>,
    /// As they will run.
    pub(super) arguments: Map<String, Value>,
}

/// A call that has its end before anybody judged it.
pub(super) struct Refused {
    pub(super) tool: String,
    pub(super) outcome: Box<SlotOutcome>,
}

impl Refused {
    fn new(tool: &str, state: CallState, output: String) -> Self {
        Self { tool: tool.to_owned(), outcome: Box::new(SlotOutcome::unrun(state, output)) }
    }
}

impl Judge {
    /// What a former attempt prepared stands, but is checked and judged again.
    pub(super) async fn prepare(&self, open: OpenCall, cut: bool) -> Result<Draft, Refused> {
        let draft = match open.prepared {
            Some((name, arguments)) => {
                let (name, tool) = self.resolve(&name)?;
                Draft { name, tool, arguments }
            }
            None => self.make_ready(open.call, cut).await?,
        };
        let wrong = |fault| {
            let output = format!("{}{fault}", text::INVALID_ARGUMENTS_PREFIX);
            Refused::new(&draft.name, CallState::Failed, output)
        };
        let schemas = self.bundle.tools.schemas();
        schemas.check(&draft.tool.spec(), &draft.arguments).map_err(wrong)?;
        Ok(draft)
    }

    async fn make_ready(&self, call: ToolCall, cut: bool) -> Result<Draft, Refused> {
        let (name, _) = self.resolve(&call.name)?;
        if cut {
            return Err(Refused::new(&name, CallState::Failed, CUT_CALL.to_owned()));
        }
        if let Some(outcome) = unusable(&call.arguments) {
            return Err(Refused { tool: name, outcome: Box::new(outcome) });
        }
        let Arguments::Object(arguments) = call.arguments else {
            return Err(Refused::new(&name, CallState::Failed, String::new()));
        };
        let Draft { name, tool, mut arguments } =
            self.hooked(HookedCall { call: call.id, tool: name, arguments }).await?;
        if let Some(fields) = tool.delivery_fields() {
            let place = Place {
                channel: &self.channel_id,
                conversation: &self.conversation,
                permitted: &self.bundle.channels,
            };
            delivery::fill(fields, &mut arguments, &place).map_err(|why| {
                Refused::new(&name, CallState::Blocked, format!("{}{why}", text::BLOCKED_PREFIX))
            })?;
        }
        marker::strip(&tool.spec(), &mut arguments);
        Ok(Draft { name, tool, arguments })
    }

    /// What the hooks leave of a call. Its name is resolved again after each rewrite (V-G2).
    async fn hooked(&self, call: HookedCall) -> Result<Draft, Refused> {
        let asked = call.tool.clone();
        let resolve =
            |name: &str| self.tools.resolve(name).map_or_else(|| name.to_owned(), |(own, _)| own);
        match self.bundle.hooks.before_tool_call(&self.voice, call, resolve).await {
            Ok(HookedCall { tool, arguments, .. }) => {
                let (name, tool) = self.resolve(&tool)?;
                Ok(Draft { name, tool, arguments })
            }
            Err(Objection::Cancelled { hook, reason }) => {
                let reason = self.deps.redactor.scrub(&reason);
                let output = format!("the call was cancelled by hook `{hook}`: {reason}");
                Err(Refused::new(&asked, CallState::Failed, output))
            }
            Err(Objection::Broken { hook, why }) => {
                let why = self.deps.redactor.scrub(&why);
                let output = format!(
                    "{}hook `{hook}` could not judge the call ({why}), and without its word the call does \
                     not run",
                    text::BLOCKED_PREFIX
                );
                Err(Refused::new(&asked, CallState::Blocked, output))
            }
        }
    }

    fn resolve(&self, name: &str) -> Result<(String, Arc<dyn Tool>), Refused> {
        let unknown = || Refused::new(name, CallState::Failed, self.tools.unknown(name));
        self.tools.resolve(name).ok_or_else(unknown)
    }
}
