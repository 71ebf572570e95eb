//! What the machine does about a turn that goes round in circles (T21).

use rookery_messages::chat::{ChatMessage, UserKind};
use rookery_messages::journal::JournalKind;
use rookery_messages::store::TurnCommit;
use rookery_messages::time::World;
use rookery_messages::tool::{Effects, SlotOutcome};
use rookery_messages::turn::{CallState, TurnError};

use super::super::loops::{Found, Seen};
use super::{Effect, Machine, Round};

impl Machine {
    /// V-J22: what would go on with a circle that is held up has its end before anybody is asked about it.
    pub(super) fn refuse_circles(&self, round: &mut Round, world: &World) {
        for call in &mut round.calls {
            if let Some(why) = self.loops.refusal(&call.call) {
                call.fill(SlotOutcome::unrun(CallState::Blocked, why), world.now());
            }
        }
    }

    /// The round as it is about to be recorded. What the person said meanwhile makes it no repetition.
    pub(super) fn watch_round(&mut self) -> Option<Found> {
        if !self.said.is_empty() {
            return None;
        }
        let round = self.round.as_ref()?;
        let seen = round.calls.iter().filter_map(|call| {
            Some(Seen {
                call: call.call.clone(),
                tool: call.tool.clone(),
                read_only: call.effects == Effects::ReadOnly,
                outcome: call.outcome.clone()?,
            })
        });
        let seen: Vec<Seen> = seen.collect();
        self.loops.round(&seen)
    }

    /// The model is told in the same transaction.
    pub(super) fn note_circle(&mut self, commit: &mut TurnCommit, found: Found, world: &World) {
        let note = ChatMessage::of_kind(UserKind::Feedback, found.note());
        self.append(commit, note, world);
        self.notice_circle(commit, found);
    }

    /// V-J21: the round is in the commit that ends the turn.
    pub(super) fn break_off(
        &mut self,
        mut commit: TurnCommit,
        found: Found,
        world: &World,
    ) -> Vec<Effect> {
        let message = format!(
            "the turn went round in circles and was ended: {}; what ran stands in the history, say how to \
             go on",
            found.told()
        );
        self.notice_circle(&mut commit, found);
        self.fail(commit, TurnError::new("loop_detected", message), world)
    }

    fn notice_circle(&mut self, commit: &mut TurnCommit, found: Found) {
        commit.entries.push(self.entry(JournalKind::Notice { text: found.told() }));
        self.circling = Some(found);
    }
}
