//! `ask_user`: the question as a durable request, and what its answer is to the model.
//!
//! A question is a request whose replacement is the answer. So it is shown on every surface that shows
//! requests, waits with a deadline, is withdrawn with its turn, and survives a restart; it never runs.

use std::time::Duration;

use rookery_messages::approval::{Approval, ApprovalState, Decision, Risk};
use rookery_messages::chat::ToolCall;
use rookery_messages::delegation::AskedFor;
use rookery_messages::ids::{ApprovalId, ChannelId};
use rookery_messages::time::rfc3339_millis;
use rookery_messages::tool::{SlotOutcome, Verdict, text};
use rookery_messages::turn::CallState;
use serde_json::{Map, Value};

use super::prepare::Judge;
use crate::policy::display::{visible, visible_lines};

impl Judge {
    /// The request that puts a question. A channel without anybody to ask is an error at once.
    pub(super) fn question(
        &self,
        call: &ToolCall,
        arguments: &Map<String, Value>,
        arguments_hash: String,
    ) -> Verdict {
        // Preparation has filled the channel in, and refused one that is not the agent's (V-G9).
        let channel = arguments.get("channel").and_then(Value::as_str).map(ChannelId::new);
        let elsewhere = channel.filter(|channel| *channel != self.channel_id);
        let route = elsewhere.as_ref().and_then(|channel| self.routed(channel));
        let nobody = if elsewhere.is_some() { route.is_none() } else { !self.channel.can_ask };
        if nobody {
            let why = format!("error: {}", text::QUESTION_NOBODY);
            return Verdict::Filled(SlotOutcome::unrun(CallState::Failed, why));
        }
        let now = self.world.now();
        let wanted = arguments.get("timeout_secs").and_then(Value::as_u64);
        let most = self.deps.approval_timeout;
        let limit = wanted.map_or(most, |secs| Duration::from_secs(secs).min(most));
        let shown = ["question", "choices"].into_iter();
        let shown: Map<String, Value> = shown
            .filter_map(|field| Some((field.to_owned(), arguments.get(field)?.clone())))
            .collect();
        Verdict::Ask(Box::new(Approval {
            id: ApprovalId(self.world.ids.next()),
            turn: self.turn,
            conversation_id: self.conversation_id,
            asked_for: self.child_of.as_ref().map(AskedFor::from),
            channel: self.channel_id.clone(),
            call: call.id,
            tool: rookery_messages::approval::QUESTION_TOOL.to_owned(),
            arguments: Value::Object(self.deps.redactor.clean_arguments(&shown)),
            arguments_hash,
            risk: Risk::Low,
            reason: text::QUESTION_REASON.to_owned(),
            asked_at: now,
            expires_at: now + limit,
            // The turn's person, whoever else may approve its calls; or those who are asked elsewhere.
            approvers: if route.is_some() { Vec::new() } else { vec![self.sender.clone()] },
            summary: self.deps.redactor.summary(&shown),
            offer: None,
            batch: None,
            route,
            state: ApprovalState::Pending,
            decision: None,
            decided_by: None,
            decided_at: None,
        }))
    }
}

/// A question as a channel that posts shows it, and how to answer.
pub(super) fn posted(question: &Approval) -> String {
    let asked = question.arguments.get("question").and_then(Value::as_str).unwrap_or_default();
    let choices = question.arguments.get("choices").and_then(Value::as_array);
    let choices: String = choices
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(|choice| format!("- {}\n", visible(choice)))
        .collect();
    format!(
        "Question: {}\n{choices}Answer here until {} with\n/replace {id} your answer\n/deny {id}",
        visible_lines(asked),
        rfc3339_millis(question.expires_at),
        id = question.id,
    )
}

/// What the model reads of a question's end.
pub(crate) fn answered(question: &Approval) -> SlotOutcome {
    let (state, output) = match &question.decision {
        Some(Decision::Replace { replacement }) => (CallState::Succeeded, replacement.clone()),
        Some(Decision::Approve | Decision::Always) => (CallState::Succeeded, "yes".to_owned()),
        Some(Decision::Deny { reason: None }) => {
            (CallState::Denied, text::QUESTION_DECLINED.to_owned())
        }
        Some(Decision::Deny { reason: Some(reason) }) => {
            (CallState::Denied, format!("{}. They said: {reason}", text::QUESTION_DECLINED))
        }
        Some(Decision::NoAnswer) | None => (CallState::Failed, text::QUESTION_NO_ANSWER.to_owned()),
        Some(Decision::NobodyAsked) => (CallState::Failed, text::QUESTION_NOBODY.to_owned()),
        Some(Decision::Cancelled) => {
            (CallState::Interrupted, text::INTERRUPTED_NOT_STARTED.to_owned())
        }
    };
    SlotOutcome::unrun(state, output)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use rookery_messages::ids::{CallId, ConversationId, TurnId};
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    fn question(decision: Option<Decision>) -> Approval {
        Approval {
            id: ApprovalId(Uuid::nil()),
            turn: TurnId(Uuid::nil()),
            conversation_id: ConversationId(Uuid::nil()),
            asked_for: None,
            channel: ChannelId::new("ws"),
            call: CallId(Uuid::nil()),
            tool: rookery_messages::approval::QUESTION_TOOL.to_owned(),
            arguments: json!({"question": "Which\u{1b}?", "choices": ["red", "blue"]}),
            arguments_hash: String::new(),
            risk: Risk::Low,
            reason: String::new(),
            asked_at: Timestamp::UNIX_EPOCH,
            expires_at: Timestamp::UNIX_EPOCH,
            approvers: Vec::new(),
            summary: String::new(),
            offer: None,
            batch: None,
            route: None,
            state: decision.as_ref().map_or(ApprovalState::Pending, Decision::state),
            decision,
            decided_by: None,
            decided_at: None,
        }
    }

    #[test]
    fn each_end_of_a_question_says_what_it_is() {
        let end = |decision| {
            let outcome = answered(&question(Some(decision)));
            (outcome.state, outcome.output)
        };
        let replaced = Decision::Replace { replacement: "blue".into() };
        assert_eq!(end(replaced), (CallState::Succeeded, "blue".into()));
        assert_eq!(end(Decision::Approve), (CallState::Succeeded, "yes".into()));
        let (state, text) = end(Decision::Deny { reason: Some("ask later".into()) });
        assert!(state == CallState::Denied && text.ends_with("They said: ask later"), "{text}");
        assert_eq!(end(Decision::NoAnswer), (CallState::Failed, text::QUESTION_NO_ANSWER.into()));
        assert_eq!(end(Decision::Cancelled).0, CallState::Interrupted);
    }

    #[test]
    fn a_posted_question_shows_its_choices_and_how_to_answer_and_hides_nothing() {
        let text = posted(&question(None));
        assert!(text.contains("- red\n- blue\n") && text.contains("/replace "), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}
