//! Replies that hold a call which can't be read: the model is told and asked again (V-F16, V-F17).

use rookery_messages::chat::{ChatMessage, Usage, UserKind};
use rookery_messages::event::TurnEventKind;
use rookery_messages::journal::JournalKind;
use rookery_messages::model::{FinishReason, ModelResponse};
use rookery_messages::time::World;
use rookery_messages::tool::text;

use super::{Effect, Machine, Next};

/// How many replies of a turn are asked for again.
const MAX_REJECTIONS: u32 = 2;

impl Machine {
    /// How many replies of this turn were rejected. It is counted in the history, which a later life
    /// has too.
    pub(super) fn rejections(&self) -> u32 {
        let of_turn = self.history.iter().rev().take_while(|message| !message.starts_turn());
        let rejections = of_turn.filter(|message| is_complaint(message)).count();
        u32::try_from(rejections).unwrap_or(u32::MAX)
    }

    pub(super) fn rejected(
        &mut self,
        why: &str,
        partial: &str,
        usage: Usage,
        world: &World,
    ) -> Vec<Effect> {
        self.pay(usage, None);
        if let Some(reason) = self.stop.clone() {
            return self.stopped_while_calling(&reason, partial, world);
        }
        if self.rejections() >= MAX_REJECTIONS {
            let apology = ModelResponse {
                text: text::MALFORMED_CALL_APOLOGY.to_owned(),
                raw: None,
                calls: Vec::new(),
                opaque: Vec::new(),
                finish: FinishReason::Stop,
                usage: Usage::default(),
                served_by: String::new(),
            };
            return self.final_text(apology, world);
        }
        let mut commit = self.blank(world);
        if !partial.trim().is_empty() {
            self.append(&mut commit, ChatMessage::assistant(partial), world);
        }
        let complaint = format!(
            "{}{}.{}",
            text::MALFORMED_CALL_PREFIX,
            sentence(why),
            text::MALFORMED_CALL_REMEDY
        );
        let complaint = ChatMessage::of_kind(UserKind::Feedback, complaint);
        self.append(&mut commit, complaint, world);
        let notice = text::MALFORMED_CALL_NOTICE.to_owned();
        commit.entries.push(self.entry(JournalKind::Notice { text: notice.clone() }));
        self.account(&mut commit);
        let mut effects = vec![Effect::Tell(TurnEventKind::Notice { text: notice })];
        effects.extend(self.send(commit, Next::Call));
        effects
    }
}

fn is_complaint(message: &ChatMessage) -> bool {
    matches!(message, ChatMessage::User { text, kind: UserKind::Feedback, .. }
        if text.starts_with(text::MALFORMED_CALL_PREFIX))
}

/// The reason as the beginning of a sentence.
fn sentence(why: &str) -> String {
    let mut letters = why.chars();
    let first = letters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(letters).collect()
}
