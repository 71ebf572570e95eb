//! A request for approval as a chat shows it: what is asked, the buttons, what a press means, and what
//! stands there once it is decided.

use rookery_messages::approval::{Approval, ApprovalState, Decision};
use rookery_messages::channel::Button;
use rookery_messages::ids::ApprovalId;
use rookery_messages::tool::head;
use uuid::Uuid;

use crate::policy::display::{visible, visible_lines};

/// Longest label of a button, in bytes.
const MAX_LABEL: usize = 60;
/// Most choices of a question that get a button.
const MAX_CHOICES: usize = 8;
/// Longest arguments shown, in bytes; the rest is for the admin's tools to show.
const MAX_ARGUMENTS: usize = 2_000;

/// What a button says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// Run it.
    Approve,
    /// Don't.
    Deny,
    /// Run it, and don't ask again for the same.
    Always,
    /// The question's choice with this number.
    Answer(usize),
}

/// What is asked.
pub fn text(approval: &Approval) -> String {
    if approval.is_question() {
        let choices: String =
            choices(approval).iter().map(|choice| format!("\n- {}", visible(choice))).collect();
        let how = "Press a button, or reply to this message with your answer.";
        return format!("Question: {}{choices}\n\n{how}", visible_lines(&question(approval)));
    }
    let place = match approval.batch {
        Some(place) => format!(" ({} of {})", place.position, place.of),
        None => String::new(),
    };
    let arguments = serde_json::to_string_pretty(&approval.arguments).unwrap_or_default();
    let shown = head(&arguments, MAX_ARGUMENTS);
    let cut = if shown.len() < arguments.len() { "\n… (shortened)" } else { "" };
    let always = match &approval.offer {
        Some(offer) => format!("\nAlways would cover: {}", visible(&offer.pattern)),
        None => String::new(),
    };
    format!(
        "Approval needed{place}: {} ({} risk)\n{}\n{}{cut}{always}",
        visible(&approval.tool),
        approval.risk.as_str(),
        visible(&approval.reason),
        visible_lines(shown),
    )
}

/// What stands there once nobody need decide any more.
pub fn settled_text(approval: &Approval) -> String {
    let stands = match approval.state {
        ApprovalState::Pending => "withdrawn: the turn has ended".to_owned(),
        _ => approval.stands(),
    };
    let what = if approval.is_question() {
        format!("Question: {}", visible_lines(&question(approval)))
    } else {
        format!("Approval of {}: {}", visible(&approval.tool), visible(&approval.summary))
    };
    format!("{what}\n{}", visible(&stands))
}

/// The buttons below it.
pub fn buttons(approval: &Approval) -> Vec<Vec<Button>> {
    let button = |label: &str, choice| Button {
        label: head(&visible(label), MAX_LABEL).to_owned(),
        data: data(approval.id, choice),
    };
    if approval.is_question() {
        let choices = choices(approval);
        let mut rows: Vec<Vec<Button>> = choices
            .iter()
            .take(MAX_CHOICES)
            .enumerate()
            .map(|(n, choice)| vec![button(choice, Choice::Answer(n))])
            .collect();
        if rows.is_empty() {
            rows.push(vec![button("Yes", Choice::Approve)]);
        }
        rows.push(vec![button("No answer", Choice::Deny)]);
        return rows;
    }
    let mut rows = vec![vec![button("Approve", Choice::Approve), button("Deny", Choice::Deny)]];
    if approval.offer.is_some() {
        rows.push(vec![button("Always", Choice::Always)]);
    }
    rows
}

/// What a press decides. None: it is no choice of this request.
pub fn decision(approval: &Approval, choice: Choice) -> Option<Decision> {
    match choice {
        Choice::Approve => Some(Decision::Approve),
        Choice::Deny => Some(Decision::Deny { reason: None }),
        Choice::Always => approval.offer.as_ref().map(|_| Decision::Always),
        Choice::Answer(n) => {
            let replacement = choices(approval).get(n).cloned()?;
            Some(Decision::Replace { replacement })
        }
    }
}

/// A button's data: short, and ours to recognise.
fn data(id: ApprovalId, choice: Choice) -> String {
    let word = match choice {
        Choice::Approve => "a".to_owned(),
        Choice::Deny => "d".to_owned(),
        Choice::Always => "w".to_owned(),
        Choice::Answer(n) => format!("q{n}"),
    };
    format!("ap:{word}:{}", id.0.simple())
}

/// Reads a button's data. None: it isn't ours.
pub fn read(data: &str) -> Option<(ApprovalId, Choice)> {
    let (word, id) = data.strip_prefix("ap:")?.split_once(':')?;
    let choice = match word {
        "a" => Choice::Approve,
        "d" => Choice::Deny,
        "w" => Choice::Always,
        word => Choice::Answer(word.strip_prefix('q')?.parse().ok()?),
    };
    Some((ApprovalId(Uuid::try_parse(id).ok()?), choice))
}

fn question(approval: &Approval) -> String {
    approval.arguments.get("question").and_then(|text| text.as_str()).unwrap_or_default().to_owned()
}

fn choices(approval: &Approval) -> Vec<String> {
    let choices = approval.arguments.get("choices").and_then(|choices| choices.as_array());
    choices.into_iter().flatten().filter_map(|c| c.as_str()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use rookery_messages::approval::{Decider, GrantOffer, QUESTION_TOOL, Risk};
    use rookery_messages::ids::{CallId, ChannelId, ConversationId, TurnId};
    use serde_json::{Value, json};

    use super::*;

    fn approval(tool: &str, arguments: Value) -> Approval {
        Approval {
            id: ApprovalId(Uuid::from_u128(0x1234)),
            turn: TurnId(Uuid::nil()),
            conversation_id: ConversationId(Uuid::nil()),
            asked_for: None,
            channel: ChannelId::new("telegram.main"),
            call: CallId(Uuid::nil()),
            tool: tool.into(),
            arguments,
            arguments_hash: String::new(),
            risk: Risk::High,
            reason: "writes".into(),
            asked_at: Timestamp::UNIX_EPOCH,
            expires_at: Timestamp::UNIX_EPOCH,
            approvers: vec!["1".into()],
            summary: "path=a".into(),
            offer: None,
            batch: None,
            route: None,
            state: ApprovalState::Pending,
            decision: None,
            decided_by: None,
            decided_at: None,
        }
    }

    // A087, I7
    #[test]
    fn a_request_shows_its_exact_arguments_and_each_button_means_one_decision() {
        let mut asked = approval("shell", json!({"command": "rm \u{202e}x"}));
        let shown = text(&asked);
        assert!(shown.contains("shell (high risk)") && shown.contains("rm \\u{202e}x"), "{shown}");
        assert_eq!(buttons(&asked).len(), 1);
        asked.offer =
            Some(GrantOffer { pattern: "shell rm".into(), key: "k".into(), narrow: false });
        assert!(text(&asked).ends_with("Always would cover: shell rm"));
        let pressed: Vec<_> = buttons(&asked)
            .concat()
            .iter()
            .map(|button| {
                assert!(button.data.len() <= 64);
                let (id, choice) = read(&button.data).unwrap();
                assert_eq!(id, asked.id);
                decision(&asked, choice).unwrap()
            })
            .collect();
        assert_eq!(pressed, [Decision::Approve, Decision::Deny { reason: None }, Decision::Always]);
        asked.offer = None;
        assert_eq!(decision(&asked, Choice::Always), None);
        for foreign in ["", "ap:", "ap:a", "ap:x:1", "ap:a:zz", "other:a:1"] {
            assert_eq!(read(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn a_questions_choices_are_buttons_and_answer_it() {
        let asked =
            approval(QUESTION_TOOL, json!({"question": "Which?", "choices": ["red", "blue"]}));
        assert!(text(&asked).starts_with("Question: Which?\n- red\n- blue"));
        let buttons = buttons(&asked).concat();
        let labels: Vec<_> = buttons.iter().map(|button| button.label.as_str()).collect();
        assert_eq!(labels, ["red", "blue", "No answer"]);
        let (_, choice) = read(&buttons[1].data).unwrap();
        let blue = Decision::Replace { replacement: "blue".into() };
        assert_eq!(decision(&asked, choice), Some(blue));
        assert_eq!(decision(&asked, Choice::Answer(7)), None);
    }

    #[test]
    fn what_is_decided_says_by_whom_and_what_is_not_says_that_it_is_withdrawn() {
        let mut asked = approval("shell", json!({}));
        assert!(settled_text(&asked).ends_with("withdrawn: the turn has ended"));
        asked.state = ApprovalState::Approved;
        asked.decision = Some(Decision::Approve);
        asked.decided_by = Some(Decider { who: "ann".into(), via: "admin".into() });
        let text = settled_text(&asked);
        assert_eq!(text, "Approval of shell: path=a\nalready decided by ann via admin: approved");
    }
}
