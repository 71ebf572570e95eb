//! One tool invocation's actor: `tool/<call>` below its batch's collector.
//!
//! The tool runs in a task. The actor owns its time: the tool's limit, and, once it is to end, the grace
//! after which the task is aborted. It sends one report, on a place reserved at its spawn, and ends. If
//! the tool panics the actor ends as panicked, and the collector knows from the exit (V-N3).

use std::time::Duration;

use rookery_messages::address::Reserved;
use rookery_messages::exit::{ActorError, StopReason};
use rookery_messages::tool::{
    BatchMsg, Effects, RunnableCall, SlotOutcome, ToolMsg, ToolResult, text,
};
use rookery_messages::turn::CallState;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::runtime::{Ctx, Supervised};

/// See the module's documentation.
pub struct ToolActor;

/// What it is built from.
pub struct ToolArgs {
    /// The slot it fills.
    pub slot: usize,
    /// The tool's resolved name.
    pub name: String,
    /// How to run it.
    pub call: Box<RunnableCall>,
    /// The place of its one report.
    pub report: Reserved<BatchMsg>,
}

/// What it knows.
pub struct ToolRun {
    slot: usize,
    name: String,
    effects: Effects,
    report: Option<Reserved<BatchMsg>>,
    cancel: CancellationToken,
    grace: Duration,
    limit: Duration,
    began: Instant,
    ending: Option<Ending>,
}

/// Why the tool is to end before it is done.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    TimedOut,
    Stopped,
}

impl Supervised for ToolActor {
    const KIND: &'static str = "tool";
    type Msg = ToolMsg;
    type Args = ToolArgs;
    type State = ToolRun;

    fn start(ctx: &mut Ctx<Self>, args: ToolArgs) -> Result<ToolRun, ActorError> {
        let ToolArgs { slot, name, call, report } = args;
        let RunnableCall { tool, arguments, context, effects } = *call;
        let (cancel, grace) = (context.cancel.clone(), context.grace);
        let limit = tool.timeout(&arguments);
        ctx.after(limit, ToolMsg::TimedOut);
        ctx.task(async move { Some(ToolMsg::Done(tool.execute(&arguments, &context).await)) });
        ctx.set_waiting_on(Some(name.clone()));
        let began = Instant::now();
        let report = Some(report);
        Ok(ToolRun { slot, name, effects, report, cancel, grace, limit, began, ending: None })
    }

    async fn handle(
        ctx: &mut Ctx<Self>,
        state: &mut ToolRun,
        message: ToolMsg,
    ) -> Result<(), ActorError> {
        match message {
            ToolMsg::Done(result) => {
                let outcome = state.outcome_of(&result);
                state.report(ctx, outcome);
            }
            ToolMsg::TimedOut if state.ending.is_none() => state.wind_down(ctx, Ending::TimedOut),
            ToolMsg::TimedOut => {}
            ToolMsg::GraceOver => {
                let outcome = state.cut_short("");
                state.report(ctx, outcome);
            }
        }
        Ok(())
    }

    async fn stop_requested(
        ctx: &mut Ctx<Self>,
        state: &mut ToolRun,
        _: &StopReason,
    ) -> Result<(), ActorError> {
        if state.ending.is_none() {
            state.wind_down(ctx, Ending::Stopped);
        }
        Ok(())
    }

    fn observe(state: &ToolRun) -> Value {
        json!({ "tool": state.name, "slot": state.slot, "limit_secs": state.limit.as_secs() })
    }
}

impl ToolRun {
    /// Asks the tool to end, and waits for its grace at most.
    fn wind_down(&mut self, ctx: &mut Ctx<ToolActor>, ending: Ending) {
        self.ending = Some(ending);
        self.cancel.cancel();
        let left = ctx.deadline().map(|d| d.saturating_duration_since(Instant::now()));
        let grace = left.map_or(self.grace, |left| self.grace.min(left.mul_f32(0.8)));
        ctx.after(grace, ToolMsg::GraceOver);
    }

    fn outcome_of(&self, result: &ToolResult) -> SlotOutcome {
        match self.ending {
            // What it finished before it noticed stands (V-I12).
            _ if result.success => self.outcome(CallState::Succeeded, result.model_text()),
            None if result.unknown => self.outcome(CallState::Unknown, result.model_text()),
            None => self.outcome(CallState::Failed, result.model_text()),
            Some(_) => self.cut_short(&result.output),
        }
    }

    fn cut_short(&self, output: &str) -> SlotOutcome {
        let (state, why) = match self.ending {
            Some(Ending::TimedOut) | None => {
                let why =
                    format!("error: {} did not end within {} s", self.name, self.limit.as_secs());
                match self.effects {
                    // I5: it ran, and what became of it is not known.
                    Effects::Once => (CallState::Unknown, format!("{why}; {}", text::MAY_HAVE_RUN)),
                    Effects::ReadOnly | Effects::Idempotent => (CallState::Failed, why),
                }
            }
            Some(Ending::Stopped) => (CallState::Interrupted, text::INTERRUPTED_RUNNING.to_owned()),
        };
        let text = if output.is_empty() { why } else { format!("{output}\n{why}") };
        self.outcome(state, text)
    }

    fn outcome(&self, state: CallState, output: String) -> SlotOutcome {
        let duration_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        SlotOutcome { state, output, duration_ms, receipt: None }
    }

    fn report(&mut self, ctx: &mut Ctx<ToolActor>, outcome: SlotOutcome) {
        if let Some(report) = self.report.take() {
            // An error means that the collector has ended, and the batch with it.
            let _ = report.send(BatchMsg::ToolEnded { slot: self.slot, outcome });
        }
        ctx.end();
    }
}
