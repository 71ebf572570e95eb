//! Stopping a turn, from every state (DESIGN.md, section 5).

use rookery_messages::chat::ChatMessage;
use rookery_messages::exit::StopReason;
use rookery_messages::time::World;
use rookery_messages::tool::text;
use rookery_messages::turn::{Outcome, TurnError, TurnFinish};

use super::{Effect, Machine, Phase};

impl Machine {
    pub(super) fn stop(&mut self, reason: StopReason, world: &World) -> Vec<Effect> {
        if self.stop.is_some() {
            return Vec::new();
        }
        self.stop = Some(reason.clone());
        match &self.phase {
            Phase::Fresh | Phase::Judging => self.stop_now(&reason, world),
            Phase::Calling => vec![Effect::StopModel(reason)],
            Phase::Running => vec![Effect::StopBatch(reason)],
            Phase::Asking => {
                let mut effects = vec![Effect::StopApprovals(reason.clone())];
                effects.extend(self.stop_now(&reason, world));
                effects
            }
            // Nobody answers it any more; the journal says to a later life whether it was written.
            Phase::Committing(_) if !reason.may_write() => self.stop_now(&reason, world),
            // The commit in flight is waited for: what it says decides where the stop finds us.
            Phase::Committing(_) | Phase::Gone => Vec::new(),
        }
    }

    /// Nothing of this turn runs any more: write what the reason allows, and end.
    pub(super) fn stop_now(&mut self, reason: &StopReason, world: &World) -> Vec<Effect> {
        if !reason.ends_turn() {
            self.phase = Phase::Gone;
            return vec![Effect::Leave];
        }
        let mut commit = self.blank(world);
        self.append_round(&mut commit, world);
        self.finish(commit, stopped(reason, self.usage), world)
    }

    pub(super) fn stopped_while_calling(
        &mut self,
        reason: &StopReason,
        partial: &str,
        world: &World,
    ) -> Vec<Effect> {
        if !reason.ends_turn() {
            self.phase = Phase::Gone;
            return vec![Effect::Leave];
        }
        let mut commit = self.blank(world);
        let message = interrupted(partial);
        self.append(&mut commit, message, world);
        self.finish(commit, stopped(reason, self.usage), world)
    }
}

/// What had been shown, and the marker (V-E14–V-E16).
pub(super) fn interrupted(partial: &str) -> ChatMessage {
    let text = if partial.is_empty() {
        text::INTERRUPTED_MARKER.to_owned()
    } else {
        format!("{partial}\n{}", text::INTERRUPTED_MARKER)
    };
    ChatMessage::Assistant { text, calls: Vec::new(), interrupted: true, opaque: Vec::new() }
}

fn stopped(reason: &StopReason, usage: rookery_messages::chat::Usage) -> TurnFinish {
    let (outcome, code, message) = match reason {
        StopReason::Deadline => (
            Outcome::Failed,
            "deadline",
            "the turn made no progress for its whole time limit and was ended; send the message again, \
             or raise progress_timeout_secs in the runtime profile"
                .to_owned(),
        ),
        StopReason::Replaced => {
            (Outcome::Cancelled, "replaced", "a newer message took its place".to_owned())
        }
        StopReason::Operator(name) => {
            (Outcome::Cancelled, "operator", format!("cancelled by operator {name}"))
        }
        _ => (Outcome::Cancelled, "cancelled", "cancelled by user".to_owned()),
    };
    TurnFinish { outcome, reply: None, error: Some(TurnError::new(code, message)), usage }
}
