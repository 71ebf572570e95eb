//! Whether the next model call is paid for, and how long it may take.

use rookery_messages::chat::ChatMessage;
use rookery_messages::hook::HookEvent;
use rookery_messages::store::{Spent, StoreError};

use super::*;

/// A model call that waits for the day's sums.
pub(super) struct Unpaid {
    iteration: u32,
    tools: bool,
    messages: Vec<ChatMessage>,
}

impl Turn {
    /// Looks the day's sums up before the call is made; [`TurnMsg::Spending`] follows. Without a limit of
    /// the day nothing is asked.
    pub(super) async fn pay_for(
        &mut self,
        ctx: &mut Ctx<TurnActor>,
        iteration: u32,
        tools: bool,
        messages: Vec<ChatMessage>,
    ) -> Result<(), ActorError> {
        if self.days.is_empty() {
            return self.ask_hooks(ctx, iteration, tools, messages).await;
        }
        self.unpaid = Some(Unpaid { iteration, tools, messages });
        let (store, keys, now) =
            (self.judge.deps.store.clone(), self.days.keys(), ctx.world().now());
        ctx.task(async move { Some(TurnMsg::Spending(store.spent(now, keys).await)) });
        Ok(())
    }

    pub(super) async fn paid(
        &mut self,
        ctx: &mut Ctx<TurnActor>,
        found: Result<Vec<Spent>, StoreError>,
    ) -> Result<(), ActorError> {
        // None, if the turn was stopped meanwhile.
        let Some(Unpaid { iteration, tools, messages }) = self.unpaid.take() else { return Ok(()) };
        match self.days.exhausted(found) {
            Some(error) => self.step(ctx, Input::Unpaid(error)).await,
            None => self.ask_hooks(ctx, iteration, tools, messages).await,
        }
    }

    /// There is no model call to stop yet.
    pub(super) fn stop_unpaid(&mut self) -> Option<u32> {
        self.unpaid.take().map(|unpaid| unpaid.iteration)
    }

    async fn ask_hooks(
        &mut self,
        ctx: &mut Ctx<TurnActor>,
        iteration: u32,
        tools: bool,
        messages: Vec<ChatMessage>,
    ) -> Result<(), ActorError> {
        if self.judge.bundle.hooks.listen_to(HookEvent::BeforeModelCall) {
            self.prepare_model(ctx, iteration, tools, messages);
            return Ok(());
        }
        self.start_model(ctx, iteration, tools, messages).await
    }

    /// The call that begins now has its time.
    pub(super) fn time_step(&self, ctx: &mut Ctx<TurnActor>, iteration: u32) {
        let limit = self.judge.bundle.runtime.step_timeout_secs;
        if limit > 0 {
            ctx.after(Duration::from_secs(limit), TurnMsg::StepTimeout { iteration });
        }
    }

    /// Metrics know what each profile's tokens cost.
    pub(super) fn tell_cost(&self, report: &ModelReport) {
        let prices = &self.judge.deps.prices;
        let tell = |provider: &str, micros: u64| {
            if micros > 0 {
                let provider = provider.to_owned();
                self.voice.observe(|scope| Observation::Cost { scope, provider, micros });
            }
        };
        tell("unknown", prices.at_most(report.spent));
        match &report.end {
            ModelEnd::Completed(response) => {
                tell(&response.served_by, prices.of(&response.served_by, response.usage));
            }
            ModelEnd::Rejected { usage, .. } => tell("unknown", prices.at_most(*usage)),
            _ => {}
        }
    }
}
