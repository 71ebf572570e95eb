//! Tables and facts of the admin API's objects.

use jiff::Timestamp;
use rookery_messages::approval::{Approval, Grant, GrantScope};
use rookery_messages::pairing::{PairCode, Pairing};
use rookery_messages::receipt::ReceiptAnswer;
use rookery_messages::store::{AuditRow, ConversationRow, CrashRow, DeadLetter, OutboxStatus};
use rookery_messages::time::rfc3339_millis;
use rookery_messages::tool::head;
use rookery_messages::turn::TurnRecord;
use serde_json::Value;

use super::{json_text, prose, strict, table};

/// Longest text in a table's cell, in bytes; the object's own `show` has it whole.
const CELL: usize = 100;

/// Names and values, one a line, aligned.
pub fn facts(facts: &[(&str, String)]) -> String {
    let width = facts.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    facts
        .iter()
        .map(|(name, value)| format!("{}\n", format!("{name:width$}  {value}").trim_end()))
        .collect()
}

/// What is said of a receipt.
pub fn receipt(answer: &ReceiptAnswer) -> String {
    let reason = answer.reason.map_or("no reason given", |reason| reason.as_str());
    match answer.valid {
        Some(true) => "valid\n".to_owned(),
        Some(false) => format!("not valid: {reason}\n"),
        None => format!("can't be told: {reason}\n"),
    }
}

/// Turns, a line each.
pub fn turns(turns: &[TurnRecord]) -> String {
    // Without prices there is nothing to say.
    let costs = turns.iter().any(|turn| turn.cost_micros > 0);
    let rows: Vec<Vec<String>> = turns
        .iter()
        .map(|turn| {
            let mut row = vec![
                turn.id.to_string(),
                turn.state.as_str().to_owned(),
                turn.outcome.map_or("-", |outcome| outcome.as_str()).to_owned(),
                strict(turn.channel.as_str()),
                cell(&turn.conversation),
                strict(turn.agent.as_str()),
                time(turn.started_at),
                turn.calls.len().to_string(),
                parent(turn),
            ];
            row.extend(costs.then(|| cost(turn.cost_micros)));
            row
        })
        .collect();
    let mut header = vec![
        "TURN",
        "STATE",
        "OUTCOME",
        "CHANNEL",
        "CONVERSATION",
        "AGENT",
        "STARTED",
        "CALLS",
        "PARENT",
    ];
    header.extend(costs.then_some("COST"));
    or_none("turns", table(&header, &rows), rows.is_empty())
}

/// What was paid, if the providers have prices.
fn cost(micros: u64) -> String {
    if micros == 0 {
        "-".to_owned()
    } else {
        format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
    }
}

/// Whose child a turn is.
fn parent(turn: &TurnRecord) -> String {
    turn.parent
        .as_ref()
        .map_or_else(|| "-".to_owned(), |of| format!("{} of {}", of.mode.as_str(), of.turn))
}

/// One turn in full.
pub fn turn(turn: &TurnRecord) -> String {
    let outcome = turn.outcome.map_or("-", |outcome| outcome.as_str());
    let mut out = facts(&[
        ("turn", turn.id.to_string()),
        ("state", turn.state.as_str().to_owned()),
        ("outcome", outcome.to_owned()),
        ("agent", strict(turn.agent.as_str())),
        ("channel", strict(turn.channel.as_str())),
        ("conversation", strict(&turn.conversation)),
        ("conversation id", turn.conversation_id.to_string()),
        ("origin", turn.origin.as_str().to_owned()),
        ("parent", parent(turn)),
        ("task", turn.task.map_or("-", |task| task.as_str()).to_owned()),
        ("attempts", turn.attempts.to_string()),
        ("started at", time(turn.started_at)),
        ("ended at", time(turn.ended_at)),
        ("tokens", format!("{} in, {} out", turn.usage.input, turn.usage.output)),
        ("cost", cost(turn.cost_micros)),
    ]);
    if let Some(error) = &turn.error {
        out.push_str(&format!("error: {}: {}\n", strict(&error.code), strict(&error.message)));
    }
    if !turn.calls.is_empty() {
        let rows: Vec<Vec<String>> = turn
            .calls
            .iter()
            .map(|call| {
                vec![
                    call.id.to_string(),
                    strict(&call.tool),
                    call.state.as_str().to_owned(),
                    time(call.started_at),
                    time(call.ended_at),
                ]
            })
            .collect();
        out.push('\n');
        out.push_str(&table(&["CALL", "TOOL", "STATE", "STARTED", "ENDED"], &rows));
    }
    if let Some(reply) = &turn.reply {
        out.push_str(&format!("\n{}\n", super::prose(reply)));
    }
    out
}

/// Channels: who owns them, and whether they take messages in.
pub fn channels(channels: &[serde_json::Value]) -> String {
    let text = |row: &serde_json::Value, key: &str| strict(row[key].as_str().unwrap_or("-"));
    let rows: Vec<Vec<String>> = channels
        .iter()
        .map(|row| {
            let pairs = if row["pairs"] == true { "yes" } else { "no" };
            let state = match text(row, "reason") {
                reason if reason.is_empty() || reason == "-" => text(row, "state"),
                reason => format!("{}: {reason}", text(row, "state")),
            };
            vec![text(row, "id"), text(row, "agent"), state, pairs.to_owned()]
        })
        .collect();
    table(&["CHANNEL", "AGENT", "STATE", "PAIRS"], &rows)
}

/// How far something is that was sent.
pub fn sent(status: &OutboxStatus) -> String {
    let cause = status.cause.as_deref().map(strict).unwrap_or_default();
    match status.state.as_str() {
        "sent" => format!("sent: {}\n", status.id),
        "dead" => format!(
            "not sent: {cause}\n`rookery deadletters retry {}` tries it once more\n",
            status.id
        ),
        _ if cause.is_empty() => format!("not sent yet, but kept until it is: {}\n", status.id),
        _ => format!("not sent yet, but kept until it is: {}\nthe last try: {cause}\n", status.id),
    }
}

/// A code, and what to do with it.
pub fn code(code: &PairCode) -> String {
    format!(
        "{}\nWhoever sends this to {} first may use it from then on. It is good until {}.\n",
        code.code,
        strict(code.channel.as_str()),
        time(Some(code.expires_at))
    )
}

/// Who came in by a code.
pub fn pairings(pairings: &[Pairing]) -> String {
    let rows: Vec<Vec<String>> = pairings
        .iter()
        .map(|one| {
            vec![
                strict(one.channel.as_str()),
                strict(&one.sender),
                strict(one.display.as_deref().unwrap_or("-")),
                time(Some(one.paired_at)),
                strict(&one.made_by),
            ]
        })
        .collect();
    if rows.is_empty() {
        return "nobody has come in by a code; `rookery pair new <channel>` makes one\n".to_owned();
    }
    table(&["CHANNEL", "SENDER", "CALLED", "SINCE", "CODE BY"], &rows)
}

/// Approvals. Arguments are shown whole: what is shown is what runs (A091).
pub fn approvals(approvals: &[Approval]) -> String {
    let mut out = String::new();
    for one in approvals {
        out.push_str(&facts(&[
            ("approval", one.id.to_string()),
            ("state", one.verdict().to_owned()),
            ("tool", strict(&one.tool)),
            ("risk", one.risk.as_str().to_owned()),
            ("reason", strict(&one.reason)),
            ("turn", one.turn.to_string()),
            (
                "for turn",
                one.asked_for.as_ref().map_or_else(|| "-".to_owned(), |of| of.turn.to_string()),
            ),
            ("asked at", rfc3339_millis(one.asked_at)),
            ("expires at", rfc3339_millis(one.expires_at)),
            ("approvers", strict(&approvers(one))),
        ]));
        if let Some(batch) = &one.batch {
            out.push_str(&format!("asked together: {} of {}\n", batch.position, batch.of));
        }
        if let Some(by) = &one.decided_by {
            out.push_str(&format!("decided by {} via {}\n", strict(&by.who), strict(&by.via)));
        }
        if let Some(offer) = &one.offer {
            out.push_str(&format!("always would cover: {}\n", strict(&offer.pattern)));
        }
        out.push_str(&format!("arguments\n{}\n\n", json_text(&one.arguments)));
    }
    if out.is_empty() { "no approvals\n".to_owned() } else { out }
}

/// Who is asked, at every place.
fn approvers(one: &Approval) -> String {
    let own = one.approvers.iter().map(|who| format!("{who} ({})", one.channel));
    let routed = one.route.iter().flat_map(|route| {
        route.approvers.iter().map(move |who| format!("{who} ({})", route.channel))
    });
    own.chain(routed).collect::<Vec<_>>().join(", ")
}

/// Grants. What one covers is shown whole.
pub fn grants(grants: &[Grant]) -> String {
    let mut out = String::new();
    for one in grants {
        let place = match one.scope {
            GrantScope::Conversation => format!("conversation {}", one.conversation_id),
            GrantScope::Agent => format!("agent {}", strict(one.agent.as_str())),
        };
        out.push_str(&facts(&[
            ("grant", one.id.to_string()),
            ("covers", strict(&one.pattern)),
            ("holds in", place),
            (
                "given by",
                format!("{} via {}", strict(&one.granted_by.who), strict(&one.granted_by.via)),
            ),
            ("given at", rfc3339_millis(one.granted_at)),
            ("expires at", rfc3339_millis(one.expires_at)),
        ]));
        if let (Some(by), Some(at)) = (&one.revoked_by, one.revoked_at) {
            out.push_str(&format!(
                "revoked by {} via {} at {}\n",
                strict(&by.who),
                strict(&by.via),
                rfc3339_millis(at)
            ));
        }
        out.push('\n');
    }
    if out.is_empty() { "no grants\n".to_owned() } else { out }
}

/// Dead letters, a line each.
pub fn dead_letters(letters: &[DeadLetter]) -> String {
    let rows: Vec<Vec<String>> = letters
        .iter()
        .map(|letter| {
            vec![
                letter.id.to_string(),
                strict(&letter.kind),
                strict(letter.channel.as_str()),
                strict(&letter.class),
                letter.attempts.to_string(),
                rfc3339_millis(letter.at),
                cell(&letter.cause),
            ]
        })
        .collect();
    let text =
        table(&["DEAD LETTER", "KIND", "CHANNEL", "CLASS", "ATTEMPTS", "AT", "CAUSE"], &rows);
    or_none("dead letters", text, rows.is_empty())
}

/// One dead letter in full.
pub fn dead_letter(letter: &DeadLetter) -> String {
    facts(&[
        ("dead letter", letter.id.to_string()),
        ("kind", strict(&letter.kind)),
        ("channel", strict(letter.channel.as_str())),
        ("turn", letter.turn.map_or_else(|| "-".to_owned(), |turn| turn.to_string())),
        ("class", strict(&letter.class)),
        ("attempts", letter.attempts.to_string()),
        ("at", rfc3339_millis(letter.at)),
        ("cause", strict(&letter.cause)),
    ])
}

/// Conversations, a line each.
pub fn sessions(sessions: &[ConversationRow]) -> String {
    let rows: Vec<Vec<String>> = sessions
        .iter()
        .map(|row| {
            vec![
                row.id.to_string(),
                strict(row.channel.as_str()),
                cell(&row.conversation),
                strict(&row.agent),
                row.messages.to_string(),
                rfc3339_millis(row.last_at),
            ]
        })
        .collect();
    let text =
        table(&["SESSION", "CHANNEL", "CONVERSATION", "AGENT", "MESSAGES", "LAST AT"], &rows);
    or_none("sessions", text, rows.is_empty())
}

/// A conversation, and what was said in it.
pub fn session(row: &ConversationRow, messages: &[Value]) -> String {
    let mut text = sessions(std::slice::from_ref(row));
    for message in messages {
        let part = |key: &str| message[key].as_str().unwrap_or_default();
        text.push_str(&format!(
            "\n{}  {}\n{}\n",
            strict(part("at")),
            strict(part("role")),
            prose(part("content")).trim_end()
        ));
        for call in message["calls"].as_array().into_iter().flatten() {
            let tool = strict(call["tool"].as_str().unwrap_or_default());
            text.push_str(&format!("→ {tool} {}\n", strict(&call["arguments"].to_string())));
        }
    }
    text
}

/// Crashes, a line each.
pub fn crashes(crashes: &[CrashRow]) -> String {
    let rows: Vec<Vec<String>> = crashes
        .iter()
        .map(|row| {
            let or_dash = |text: &Option<String>| text.as_deref().map_or("-".to_owned(), strict);
            vec![
                rfc3339_millis(row.at),
                row.count.to_string(),
                strict(&row.kind),
                strict(&row.path),
                or_dash(&row.message_in_hand),
                or_dash(&row.location),
                cell(&row.cause),
            ]
        })
        .collect();
    let text = table(&["AT", "COUNT", "KIND", "PATH", "IN HAND", "LOCATION", "CAUSE"], &rows);
    or_none("crashes", text, rows.is_empty())
}

/// The audit, a line each.
pub fn audit(rows: &[AuditRow]) -> String {
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            vec![
                rfc3339_millis(row.at),
                cell(&row.who),
                strict(&row.via),
                strict(&row.action),
                cell(&row.target),
                if row.detail.is_null() { String::new() } else { cell(&row.detail.to_string()) },
            ]
        })
        .collect();
    let text = table(&["AT", "WHO", "VIA", "ACTION", "TARGET", "DETAIL"], &rows);
    or_none("audit rows", text, rows.is_empty())
}

/// A table without rows says so in words.
fn or_none(what: &str, table: String, empty: bool) -> String {
    if empty { format!("no {what}\n") } else { table }
}

fn time(at: Option<Timestamp>) -> String {
    at.map_or_else(|| "-".to_owned(), rfc3339_millis)
}

/// A safe text of bounded length; a cut is visible.
pub(super) fn cell(text: &str) -> String {
    let safe = strict(text);
    let short = head(&safe, CELL);
    if short.len() < safe.len() { format!("{short}…") } else { safe }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A078
    #[test]
    fn what_the_service_sends_is_made_safe_in_every_cell() {
        let letter: DeadLetter = serde_json::from_value(serde_json::json!({
            "id": "01890a5d-ac96-774b-bcce-b302099a8057",
            "kind": "reply",
            "channel": "webhook.ci",
            "cause": "refused \u{1b}[2J",
            "class": "permanent",
            "at": "2026-01-02T03:04:05.000Z",
            "attempts": 3,
        }))
        .unwrap();
        assert_eq!(
            dead_letters(std::slice::from_ref(&letter)),
            "DEAD LETTER                           KIND   CHANNEL     CLASS      ATTEMPTS  AT                        CAUSE\n\
             01890a5d-ac96-774b-bcce-b302099a8057  reply  webhook.ci  permanent  3         2026-01-02T03:04:05.000Z  refused \\u{1b}[2J\n"
        );
        assert!(!dead_letter(&letter).contains('\u{1b}'));
    }

    #[test]
    fn an_empty_list_is_said_in_words() {
        let shown = [turns(&[]), dead_letters(&[]), sessions(&[]), crashes(&[]), audit(&[])];
        let words = ["turns", "dead letters", "sessions", "crashes", "audit rows"];
        assert_eq!(shown, words.map(|what| format!("no {what}\n")));
    }

    // A136
    #[test]
    fn long_cells_are_cut_visibly_on_a_character_boundary() {
        let shown = cell(&"é".repeat(80));
        assert_eq!(shown, format!("{}…", "é".repeat(50)));
    }
}
