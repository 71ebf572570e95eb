//! What people read of their commands.

use rookery_messages::store::Desk as Facts;
use rookery_messages::tool::head;
use rookery_messages::turn::TurnState;

use super::desk::ModelName;
use super::{Command, MENU};

/// Longest piece of somebody's own words that is said back.
const QUOTED: usize = 64;

pub(super) fn help() -> String {
    let lines = MENU.iter().map(|(word, meaning)| format!("/{word} – {meaning}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Of commands that do nothing; none for the others.
pub(super) fn of_nothing(command: &Command) -> Option<String> {
    Some(match command {
        Command::Help => help(),
        Command::Misused { usage } => format!("this is used as {usage}"),
        Command::Unaddressed => {
            "say which request: `/approve <id>`, `/always <id>`, `/deny <id> [reason]` or \
             `/replace <id> text`; where buttons are shown, use these"
                .to_owned()
        }
        Command::Unknown { word } => {
            format!("there is no command /{}; /help lists them", head(word, QUOTED))
        }
        _ => return None,
    })
}

pub(super) fn stopped(stopped: usize, dropped: usize, waiting: usize) -> String {
    let mut text = match stopped {
        0 => "nothing runs here".to_owned(),
        _ => "stopped".to_owned(),
    };
    if dropped > 0 {
        text.push_str(&format!("; {} will not begin", messages(dropped)));
    }
    if waiting > 0 {
        text.push_str(&format!(
            "; {} {} still: /stop all drops what waits",
            messages(waiting),
            if waiting == 1 { "waits" } else { "wait" }
        ));
    }
    text
}

pub(super) fn anew(running: bool) -> String {
    let more = if running { ", once the turn that runs has ended" } else { "" };
    format!(
        "the next message begins a new conversation{more}; nothing of the old one is remembered in it, and what was always allowed in it is asked again"
    )
}

fn messages(n: usize) -> String {
    if n == 1 { "1 message".to_owned() } else { format!("{n} messages") }
}

pub(super) fn status(facts: &Facts, model: &str, waits_for: Option<&str>) -> String {
    let turn = match &facts.running {
        Some(turn) => {
            let state = match (turn.state, waits_for) {
                (TurnState::WaitingApproval, _) => "waits for an approval",
                (_, Some(phase)) => phase,
                _ => "runs",
            };
            let calls = turn.calls.len();
            format!("turn: {state}; {calls} tool calls so far; {} tokens", tokens(turn.usage))
        }
        None => "turn: none runs".to_owned(),
    };
    let mut lines = vec![
        turn,
        format!("waiting: {}", facts.waiting.len()),
        format!("model: {model}"),
        format!(
            "used in this conversation: {} tokens in, {} out",
            facts.usage.input, facts.usage.output
        ),
    ];
    if facts.cost_micros > 0 {
        lines.push(format!("cost of this conversation: {}", amount(facts.cost_micros)));
    }
    lines.join("\n")
}

fn tokens(usage: rookery_messages::chat::Usage) -> u64 {
    usage.input.saturating_add(usage.output)
}

/// Millionths as an amount with four places, and more where it would be nothing.
pub(super) fn amount(micros: u64) -> String {
    let places = if micros < 100 { 6 } else { 4 };
    let amount = micros as f64 / 1e6;
    format!("{amount:.places$}")
}

pub(super) fn models(known: &[ModelName], chosen: Option<&ModelName>) -> String {
    let own = known.first();
    let lines = known.iter().map(|model| {
        let mark = match chosen.or(own) {
            Some(now) if now.profile == model.profile => " (answers here)",
            _ => "",
        };
        format!("- {}{mark}", named(model))
    });
    let lines = lines.collect::<Vec<_>>().join("\n");
    format!(
        "models:\n{lines}\n/model <name> chooses one for this conversation, /model reset the agent's own"
    )
}

pub(super) fn chosen(model: &ModelName) -> String {
    format!("{} answers in this conversation from the next message on", named(model))
}

pub(super) fn unknown_model(name: &str, known: &[ModelName]) -> String {
    let names = known.iter().map(|model| model.profile.as_str()).collect::<Vec<_>>().join(", ");
    format!("there is no model `{}` for this agent; there is: {names}", head(name, QUOTED))
}

/// A profile and its model, said once if they are called the same.
pub(super) fn named(model: &ModelName) -> String {
    if model.model.is_empty() || model.model == model.profile {
        model.profile.clone()
    } else {
        format!("{} ({})", model.profile, model.model)
    }
}
