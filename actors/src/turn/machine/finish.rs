//! Ends: the final text, a failure, the iteration cap.

use rookery_messages::chat::{ChatMessage, UserKind};
use rookery_messages::ids::OutboxId;
use rookery_messages::journal::JournalKind;
use rookery_messages::model::{FinishReason, ModelError, ModelResponse};
use rookery_messages::settings::CapBehaviour;
use rookery_messages::store::{NewOutbox, OutboxPayload, TurnCommit};
use rookery_messages::time::World;
use rookery_messages::tool::text;
use rookery_messages::turn::{Outcome, TurnError, TurnFinish};

use super::stop::interrupted;
use super::{Effect, Machine, Next};

/// What the model is asked at the cap, in summary mode.
const SUMMARY_REQUEST: &str = "You have used all tool calls this turn allows. Without calling any tool, \
     say what you found and what remains to be done.";

impl Machine {
    pub(super) fn final_text(&mut self, mut response: ModelResponse, world: &World) -> Vec<Effect> {
        let raw = response.raw.take().filter(|_| self.summarising);
        if response.text.trim().is_empty() {
            if raw.is_none() {
                return self.nothing_said(&response, world);
            }
            response.text = text::SUMMARY_UNSHOWABLE.to_owned();
        }
        // V-K4: the model reads its summary as it wrote it; people read what can be shown.
        let written = raw.unwrap_or_else(|| response.text.clone());
        let mut commit = self.blank(world);
        let entry = self.entry(JournalKind::ModelResponse {
            iteration: self.iteration,
            text: written.clone(),
            calls: Vec::new(),
            usage: response.usage,
            // Without calls there is nothing that its provider insists on.
            opaque: Vec::new(),
        });
        commit.entries.push(entry);
        if self.summarising {
            commit.messages.push(self.stored(summary_request(), world));
            let cap = self.facts.runtime.max_tool_iterations;
            let notice = format!("the limit of {cap} tool rounds is reached; summing up");
            commit.entries.push(self.entry(JournalKind::Notice { text: notice }));
        }
        self.append(&mut commit, ChatMessage::assistant(written), world);
        if self.takes_in() {
            // V-K9: what was said is committed first, then a new round answers the steering.
            self.said_final = true;
            self.append_steering(&mut commit, world);
            self.post_meanwhile(&mut commit, response.text, world);
            self.account(&mut commit);
            return self.send(commit, Next::Call);
        }
        let reply = match (&response.finish, self.summarising) {
            (FinishReason::Length, _) => {
                format!(
                    "{}\n\n[The answer was cut off at the model's output limit.]",
                    response.text
                )
            }
            (FinishReason::ContentFilter, _) => {
                format!(
                    "{}\n\n[The provider's content filter ended the answer here.]",
                    response.text
                )
            }
            (_, true) => format!(
                "{}\n\n[Stopped after {} tool rounds, the limit of this agent.]",
                response.text, self.facts.runtime.max_tool_iterations
            ),
            _ => response.text,
        };
        let reply = self.with_receipts(reply);
        commit.entries.push(self.entry(JournalKind::Final { text: reply.clone() }));
        let error = match response.finish {
            FinishReason::Length => Some(TurnError::new(
                "output_cap",
                "the answer was cut off at the model's output limit",
            )),
            FinishReason::ContentFilter => Some(TurnError::new(
                "content_filter",
                "the provider's content filter ended the answer before it was whole",
            )),
            _ => None,
        };
        let usage = self.usage;
        let finish = TurnFinish { outcome: Outcome::Answered, reply: Some(reply), error, usage };
        self.finish(commit, finish, world)
    }

    /// Its last words were the answer after all.
    pub(super) fn conclude(&mut self, text: String, world: &World) -> Vec<Effect> {
        let mut commit = self.blank(world);
        let reply = self.with_receipts(text);
        commit.entries.push(self.entry(JournalKind::Final { text: reply.clone() }));
        let usage = self.usage;
        let finish =
            TurnFinish { outcome: Outcome::Answered, reply: Some(reply), error: None, usage };
        self.finish(commit, finish, world)
    }

    /// An answer that more was said to: a channel that posts has it before the next one.
    fn post_meanwhile(&self, commit: &mut TurnCommit, text: String, world: &World) {
        if self.facts.posts_replies {
            commit.outbox.push(NewOutbox {
                id: OutboxId(world.ids.next()),
                channel: self.facts.reply_address.channel.clone(),
                address: self.facts.reply_address.clone(),
                payload: OutboxPayload::Notice { turn: Some(self.facts.turn), text },
            });
        }
    }

    /// The reply, and below it the turn's receipts if they are to be shown.
    fn with_receipts(&self, reply: String) -> String {
        if !self.facts.show_receipts || self.receipts.is_empty() {
            return reply;
        }
        let lines =
            self.receipts.iter().map(|(tool, record)| format!("- {tool}: {}", record.receipt));
        let lines = lines.collect::<Vec<_>>().join("\n");
        format!("{reply}\n\n{}\n{lines}", text::RECEIPTS_HEADING)
    }

    fn nothing_said(&mut self, response: &ModelResponse, world: &World) -> Vec<Effect> {
        let commit = self.blank(world);
        let error = match response.finish {
            FinishReason::Length => TurnError::new(
                "output_cap",
                "the model used its whole output limit without saying anything; raise the limit or ask for less",
            ),
            FinishReason::ContentFilter => TurnError::new(
                "content_filter",
                "the provider's content filter refused to answer; say it in other words, or ask another model",
            ),
            _ => TurnError::new("provider_empty", "the model gave an empty answer; try again"),
        };
        self.fail(commit, error, world)
    }

    pub(super) fn model_failed(
        &mut self,
        error: &ModelError,
        partial: &str,
        world: &World,
    ) -> Vec<Effect> {
        if self.stop.as_ref().is_some_and(|reason| !reason.ends_turn()) {
            return self.leave();
        }
        let mut commit = self.blank(world);
        if !partial.is_empty() {
            let message = interrupted(partial);
            self.append(&mut commit, message, world);
        }
        self.fail(commit, TurnError::new(error.class.code(), error.message.clone()), world)
    }

    /// V-A13: the error names the hook and its reason.
    pub(super) fn hook_cancelled(
        &mut self,
        hook: &str,
        reason: &str,
        world: &World,
    ) -> Vec<Effect> {
        if let Some(reason) = self.stop.clone() {
            return self.stop_now(&reason, world);
        }
        let commit = self.blank(world);
        let message = format!("hook `{hook}` cancelled the model call: {reason}");
        self.fail(commit, TurnError::new("hook_cancelled", message), world)
    }

    fn leave(&mut self) -> Vec<Effect> {
        self.phase = super::Phase::Gone;
        vec![Effect::Leave]
    }

    pub(super) fn cap_reached(&mut self, world: &World) -> Vec<Effect> {
        let cap = self.facts.runtime.max_tool_iterations;
        match self.facts.runtime.at_cap {
            CapBehaviour::Error => {
                let commit = self.blank(world);
                let message = format!(
                    "the turn reached its limit of {cap} tool rounds (max_tool_iterations) and was ended; \
                     what ran so far stands in the history"
                );
                self.fail(commit, TurnError::new("iteration_cap", message), world)
            }
            CapBehaviour::Summary => {
                // V-K6: the question is written with its answer, or not at all.
                self.summarising = true;
                self.history.push(summary_request());
                self.call_model(world)
            }
        }
    }

    pub(super) fn fail(
        &mut self,
        commit: TurnCommit,
        error: TurnError,
        world: &World,
    ) -> Vec<Effect> {
        let usage = self.usage;
        let finish =
            TurnFinish { outcome: Outcome::Failed, reply: None, error: Some(error), usage };
        self.finish(commit, finish, world)
    }

    /// Outcome, outbox row and what goes before them: one transaction.
    pub(super) fn finish(
        &mut self,
        mut commit: TurnCommit,
        finish: TurnFinish,
        world: &World,
    ) -> Vec<Effect> {
        commit.entries.push(self.entry(JournalKind::Ended { finish: finish.clone() }));
        self.account(&mut commit);
        commit.withdraw_approvals = true;
        commit.finish = Some(finish.clone());
        if self.facts.posts_replies {
            commit.outbox.push(NewOutbox {
                id: OutboxId(world.ids.next()),
                channel: self.facts.reply_address.channel.clone(),
                address: self.facts.reply_address.clone(),
                payload: OutboxPayload::Reply {
                    turn: self.facts.turn,
                    outcome: finish.outcome,
                    text: spoken(&finish),
                },
            });
        }
        self.send(commit, Next::Announce(Box::new(finish)))
    }
}

fn summary_request() -> ChatMessage {
    ChatMessage::of_kind(UserKind::Feedback, SUMMARY_REQUEST)
}

/// What a person is told at the end.
fn spoken(finish: &TurnFinish) -> String {
    match (&finish.reply, &finish.error) {
        (Some(reply), _) => reply.clone(),
        (None, Some(error)) => format!("[{}] {}", finish.outcome.as_str(), error.message),
        (None, None) => format!("[{}]", finish.outcome.as_str()),
    }
}
