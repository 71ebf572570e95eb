//! The size of the turn's requests: fitted into the window before a call, looked at again after it.

use super::super::vision;
use super::super::window::{Window, estimate};
use super::*;
use crate::model::gallery::Gallery;
use rookery_messages::tool::text;

impl Turn {
    /// What the next request holds, as far as it goes into the window.
    pub(super) fn fitted(&self) -> Window {
        let history = self.machine.history();
        let mut fitted = window(
            &self.judge.tools.system_prompt(),
            history,
            self.recall.leaves_of(self.budget()),
            self.claim.history_cut,
            &Gallery::of(history, self.most_images()).paths(),
        );
        fitted.total += self.recall.size();
        self.recall.tell(&mut fitted.messages);
        fitted
    }

    /// What the next request may be estimated at (0: no limit).
    fn budget(&self) -> u64 {
        let bundle = &self.judge.bundle;
        // One that may take more is there to take it.
        let learnt: Option<Vec<u64>> =
            bundle.chain.iter().map(|profile| profile.ceiling.tokens()).collect();
        let learnt = learnt.and_then(|learnt| learnt.into_iter().max());
        self.fit.budget(bundle.runtime.max_context_tokens, &bundle.anchor, learnt)
    }

    /// How many images the next request shows at most: one that has to be smaller shows less (V-C7).
    pub(super) fn most_images(&self) -> usize {
        vision::most_images(&self.judge.bundle, self.budget())
    }

    /// Tells of what was left out. People hear of it only if the estimate was wrong: a conversation that is
    /// simply long is trimmed with each of its messages.
    pub(super) fn tell_of_trim(&self, fitted: &Window) {
        if fitted.dropped == 0 && fitted.shortened == 0 {
            return;
        }
        let (dropped, bundle) = (fitted.dropped, &self.judge.bundle);
        self.voice.observe(|scope| Observation::Trimmed { scope, dropped });
        if self.fit.announces(bundle.runtime.max_context_tokens, &bundle.anchor) {
            self.voice.tell(TurnEventKind::Notice { text: text::TRIMMED_NOTICE.to_owned() });
        }
    }

    /// A model call's end, unless the request was too long and is sent again, smaller (V-C7). One that
    /// can't be made smaller fails with its sizes (V-C8).
    pub(super) async fn sized_up(
        &mut self,
        ctx: &mut Ctx<TurnActor>,
        mut report: ModelReport,
    ) -> Result<Option<ModelReport>, ActorError> {
        let stopping = ctx.stopping().is_some();
        match &mut report.end {
            ModelEnd::Completed(response) => {
                self.fit.counted(response.usage.input, &self.judge.bundle.anchor);
            }
            ModelEnd::Failed { error, partial }
                if error.class == ModelErrorClass::ContextTooLong
                    && partial.is_empty()
                    && !stopping =>
            {
                self.fit.too_long();
                if self.fit.is_progress(self.fitted().total) {
                    self.fit.spent.add(report.spent);
                    self.progress_at = Instant::now();
                    self.call_model(ctx, report.iteration, self.offered).await?;
                    return Ok(None);
                }
                let sent = self.fit.sent();
                let fixed = estimate(&self.judge.tools.system_prompt());
                error.message = format!(
                    "the conversation does not fit the model's window: the request had about {sent} tokens, \
                     {fixed} of them instructions, beside the tools on offer, and nothing more can be left out; \
                     send a shorter message, or use a model with a larger window ({})",
                    error.message
                );
            }
            _ => {}
        }
        report.spent.add(std::mem::take(&mut self.fit.spent));
        Ok(Some(report))
    }
}
