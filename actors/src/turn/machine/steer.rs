//! What the person says while the turn runs: taken in at a step boundary, before the next model call.
//!
//! Each of these messages is a waiting row of its own. The step that takes it in ends the row as merged, in
//! one transaction with the entry and the message (I1); until then, and if the turn ends first, the row
//! stands as it is and gets a turn of its own. So nothing said is ever lost, and nothing is said twice.

use rookery_messages::chat::{ChatMessage, UserKind};
use rookery_messages::envelope::Inbound;
use rookery_messages::event::TurnEventKind;
use rookery_messages::ids::{MessageId, TurnId};
use rookery_messages::journal::JournalKind;
use rookery_messages::session::Steering;
use rookery_messages::store::TurnCommit;
use rookery_messages::time::World;

use super::{Effect, Machine, Next, Phase};

/// Most words of the person that wait for the turn's next step …
pub(super) const MAX_STEERING: usize = 32;
/// … and their length in all.
pub(super) const MAX_STEERING_BYTES: usize = 256 * 1_024;

/// What the person said, on its way into the turn.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// For the next step.
    waiting: Vec<Steering>,
    /// In the commit in flight: the row, and its place in the history.
    taking: Vec<(TurnId, usize)>,
}

impl Said {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn has_room_for(&self, steering: &Steering) -> bool {
        let bytes: usize = self.waiting.iter().map(|said| said.inbound.text.len()).sum();
        self.waiting.len() < MAX_STEERING
            && bytes + steering.inbound.text.len() <= MAX_STEERING_BYTES
    }
}

impl Machine {
    pub(super) fn steer(&mut self, steering: Steering) -> Vec<Effect> {
        if matches!(self.phase, Phase::Gone | Phase::Committing(Next::Announce(_))) {
            return Vec::new();
        }
        // I10: what waits for the next step is bounded; the rest waits in the inbox.
        if !self.said.has_room_for(&steering) {
            let text =
                "this turn has too much to take in already; the last words are answered after it";
            return vec![Effect::Tell(TurnEventKind::Notice { text: text.to_owned() })];
        }
        self.said.waiting.push(steering);
        Vec::new()
    }

    /// The turn may take in what was said: it goes on, and has more to do than to sum up.
    pub(super) fn takes_in(&self) -> bool {
        !self.said.is_empty() && self.stop.is_none() && !self.summarising
    }

    pub(super) fn append_steering(&mut self, commit: &mut TurnCommit, world: &World) {
        if self.said.is_empty() {
            return;
        }
        self.loops.forget();
        for Steering { turn: row, inbound } in std::mem::take(&mut self.said.waiting) {
            let Inbound { text, attachments, .. } = inbound;
            let entry = self.entry(JournalKind::Steered {
                text: text.clone(),
                attachments: attachments.clone(),
                row: Some(row),
            });
            commit.entries.push(entry);
            commit.merge.push(row);
            let message = ChatMessage::User { text, kind: UserKind::Steering, attachments };
            let mut stored = self.stored(message.clone(), world);
            // One message of a person a row (A114).
            stored.id = MessageId(row.0);
            commit.messages.push(stored);
            self.said.taking.push((row, self.history.len()));
            self.history.push(message);
        }
    }

    /// The step is durable, but for rows that had ended before, by a cancel: these were not said.
    pub(super) fn taken_in(&mut self, unmerged: &[TurnId]) -> Option<Effect> {
        let taking = std::mem::take(&mut self.said.taking);
        for (_, at) in taking.iter().rev().filter(|(row, _)| unmerged.contains(row)) {
            self.history.remove(*at);
        }
        let taken = taking.into_iter().map(|(row, _)| row);
        let taken: Vec<TurnId> = taken.filter(|row| !unmerged.contains(row)).collect();
        (!taken.is_empty()).then_some(Effect::Merged(taken))
    }

    /// The next model call, with what was said while the last step was written (V-K11).
    pub(super) fn go_on(&mut self, world: &World) -> Vec<Effect> {
        if self.takes_in() {
            let mut commit = self.blank(world);
            self.append_steering(&mut commit, world);
            return self.send(commit, Next::Call);
        }
        match self.history.last() {
            // What was to be answered beside it was taken back: it is the answer.
            Some(ChatMessage::Assistant { text, calls, interrupted: false, .. })
                if calls.is_empty() && self.said_final =>
            {
                let text = text.clone();
                self.conclude(text, world)
            }
            _ => self.call_model(world),
        }
    }
}
