//! The turn's hooks: asked in tasks, never in a handler, and not waited for once the turn is to stop.

use rookery_messages::chat::{Arguments, ChatMessage};
use rookery_messages::hook::{ExecutedCall, HookEvent};
use rookery_messages::turn::CallState;

use super::*;
use crate::hook::Objection;

impl Turn {
    /// The hooks look at the messages of a model call; [`TurnMsg::ModelPrepared`] follows.
    pub(super) fn prepare_model(
        &mut self,
        ctx: &mut Ctx<TurnActor>,
        iteration: u32,
        tools: bool,
        messages: Vec<ChatMessage>,
    ) {
        self.preparing = Some((iteration, tools));
        let (hooks, voice) = (self.judge.bundle.hooks.clone(), self.voice.clone());
        let redactor = Arc::clone(&self.judge.deps.redactor);
        ctx.task(async move {
            let messages =
                hooks.before_model_call(&voice, messages).await.map_err(
                    |objection| match objection {
                        Objection::Cancelled { hook, reason }
                        | Objection::Broken { hook, why: reason } => {
                            (hook, redactor.clean(&reason))
                        }
                    },
                );
            Some(TurnMsg::ModelPrepared { iteration, messages })
        });
    }

    pub(super) async fn model_prepared(
        &mut self,
        ctx: &mut Ctx<TurnActor>,
        iteration: u32,
        messages: Result<Vec<ChatMessage>, (String, String)>,
    ) -> Result<(), ActorError> {
        // Another one, or none, if the turn was stopped meanwhile.
        let Some((_, tools)) = self.preparing.take_if(|(awaited, _)| *awaited == iteration) else {
            return Ok(());
        };
        match messages {
            Ok(messages) => self.start_model(ctx, iteration, tools, messages).await,
            Err((hook, reason)) => {
                let end = ModelEnd::Cancelled { hook, reason };
                let report = ModelReport { iteration, end, spent: Default::default() };
                self.step(ctx, Input::Model(report)).await
            }
        }
    }

    /// There is no model call to stop yet: it ends here.
    pub(super) fn stop_preparing(&mut self, ctx: &mut Ctx<TurnActor>, reason: StopReason) {
        let preparing = self.preparing.take().map(|(iteration, _)| iteration);
        if let Some(iteration) = preparing.or_else(|| self.stop_unpaid()) {
            let end = ModelEnd::Stopped { reason, partial: String::new() };
            let report = ModelReport { iteration, end, spent: Default::default() };
            ctx.note_to_self(TurnMsg::ModelEnded(report));
        }
    }

    /// Shows the hooks the calls that ran, before the turn goes on; [`TurnMsg::HooksTold`] follows. Gives
    /// the report back if there is nobody to show them to.
    pub(super) fn show_to_hooks(
        &mut self,
        ctx: &mut Ctx<TurnActor>,
        report: BatchReport,
    ) -> Option<BatchReport> {
        let hooks = &self.judge.bundle.hooks;
        if !hooks.listen_to(HookEvent::AfterToolCall) || ctx.stopping().is_some() {
            return Some(report);
        }
        let calls = self.machine.round().map(|round| executed(&round.calls, &report));
        let Some(calls) = calls.filter(|calls| !calls.is_empty()) else { return Some(report) };
        self.shown_to_hooks = Some(report);
        let (hooks, voice) = (hooks.clone(), self.voice.clone());
        ctx.task(async move {
            hooks.after_tool_calls(&voice, calls).await;
            Some(TurnMsg::HooksTold)
        });
        None
    }
}

/// The calls whose tools ran to an end of their own.
fn executed(calls: &[RoundCall], report: &BatchReport) -> Vec<ExecutedCall> {
    let ran = report.ran.iter().filter_map(|&slot| calls.get(slot).zip(report.outcomes.get(slot)));
    ran.filter(|(_, outcome)| matches!(outcome.state, CallState::Succeeded | CallState::Failed))
        .map(|(call, outcome)| ExecutedCall {
            call: call.call.id,
            tool: call.tool.clone(),
            arguments: match call.as_run().arguments {
                Arguments::Object(arguments) => arguments,
                Arguments::Invalid { .. } => Default::default(),
            },
            state: outcome.state,
            output: outcome.output.clone(),
            duration: Duration::from_millis(outcome.duration_ms),
        })
        .collect()
}
