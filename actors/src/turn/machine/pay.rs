//! What the turn spends, and what it may not: budgets, and the time of a model call.

use rookery_messages::chat::Usage;
use rookery_messages::exit::StopReason;
use rookery_messages::store::{Spent, TurnCommit};
use rookery_messages::time::World;
use rookery_messages::turn::TurnError;

use super::stop::interrupted;
use super::{Effect, Machine, Phase};

impl Machine {
    /// Tokens of a response, or of attempts that failed, by profiles nobody knows: these cost what the
    /// dearest takes.
    pub(super) fn pay(&mut self, usage: Usage, served_by: Option<&str>) {
        self.usage.add(usage);
        let micros = match served_by {
            Some(profile) => self.facts.prices.of(profile, usage),
            None => self.facts.prices.at_most(usage),
        };
        self.cost_micros = self.cost_micros.saturating_add(micros);
        let spent = Spent { tokens: self.usage.total(), micros: self.cost_micros };
        self.facts.purse.set_own(spent);
    }

    /// What the turn has cost, in millionths.
    pub fn cost_micros(&self) -> u64 {
        self.cost_micros
    }

    /// The step says what was spent by now.
    pub(super) fn account(&self, commit: &mut TurnCommit) {
        commit.usage = Some(self.usage);
        commit.cost_micros = self.cost_micros;
    }

    /// V-A10, V-K5: the call is not made, and the person is told why.
    pub(super) fn over_budget(&mut self, error: TurnError, world: &World) -> Vec<Effect> {
        let commit = self.blank(world);
        let mut effects = vec![Effect::OverBudget];
        effects.extend(self.fail(commit, error, world));
        effects
    }

    /// The store's sums say that the call that was to be made is not paid for.
    pub(super) fn unpaid(&mut self, error: TurnError, world: &World) -> Vec<Effect> {
        if !matches!(self.phase, Phase::Calling) {
            return Vec::new();
        }
        match self.stop.clone() {
            Some(reason) => self.stop_now(&reason, world),
            None => self.over_budget(error, world),
        }
    }

    /// V-E22, V-E23: however lively its stream, the call ends; its report says what was shown.
    pub(super) fn step_timed_out(&mut self, iteration: u32) -> Vec<Effect> {
        let late = !matches!(self.phase, Phase::Calling) || iteration != self.iteration;
        if late || self.stop.is_some() {
            return Vec::new();
        }
        self.timed_out = true;
        vec![Effect::StopModel(StopReason::Deadline)]
    }

    /// It has ended. What was shown is kept, and what was spent.
    pub(super) fn step_took_too_long(&mut self, partial: &str, world: &World) -> Vec<Effect> {
        let mut commit = self.blank(world);
        if !partial.is_empty() {
            self.append(&mut commit, interrupted(partial), world);
        }
        let message = format!(
            "the model call took longer than {} seconds and was ended; raise step_timeout_secs in the runtime \
             profile, or ask for less",
            self.facts.runtime.step_timeout_secs
        );
        self.fail(commit, TurnError::new("step_timeout", message), world)
    }
}
