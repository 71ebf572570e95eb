//! Waiting messages that go with another's turn: one answer, and each row its end (I1).

use jiff::Timestamp;
use rookery_messages::chat::{ChatMessage, UserKind};
use rookery_messages::envelope::Inbound;
use rookery_messages::ids::{ConversationId, MessageId, TurnId};
use rookery_messages::journal::{JournalEntry, JournalKind};
use rookery_messages::store::{Claim, StoredMessage, TurnCommit};
use rookery_messages::turn::{Outcome, TurnFinish, TurnState};
use rusqlite::{Connection, OptionalExtension, params};

use super::error::Result;
use super::{codec, commit, finish};

/// Most messages that go with one.
const MOST: u32 = 64;

/// Merges the rows a step names; gives those that are not there to be merged. One that this turn has taken
/// already is merged still, however often the step is sent.
pub(super) fn rows(conn: &Connection, step: &TurnCommit) -> Result<Vec<TurnId>> {
    let mut left = Vec::new();
    for row in &step.merge {
        let found = conn
            .prepare_cached(
                "SELECT seq, state, merged_into IS NOT NULL AND merged_into = ?3 FROM turns \
                 WHERE id = ?1 AND conversation_id = ?2 AND parent_id IS NULL",
            )?
            .query_row(
                params![
                    row.0.as_bytes(),
                    step.conversation_id.0.as_bytes(),
                    step.turn.0.as_bytes()
                ],
                |row| Ok((row.get(0)?, codec::word(row, 1)?, row.get(2)?)),
            )
            .optional()?;
        match found {
            Some((_, _, true)) => {}
            Some((seq, TurnState::Queued, false)) => merge(conn, seq, step.turn, step.at)?,
            _ => left.push(*row),
        }
    }
    Ok(left)
}

/// Whether an entry is about one of `rows`.
pub(super) fn is_about(entry: &JournalEntry, rows: &[TurnId]) -> bool {
    matches!(&entry.kind, JournalKind::Steered { row: Some(row), .. } if rows.contains(row))
}

/// The claimed row's neighbours: those of the same sender that wait right behind it are answered with it.
/// Nobody's message overtakes another's.
pub(super) fn neighbours(
    conn: &Connection,
    claim: &Claim,
    turn: TurnId,
    first: &Inbound,
) -> Result<Vec<TurnId>> {
    let mut statement = conn.prepare_cached(
        "SELECT t.seq, t.id, i.inbound FROM turns t JOIN inbox i ON i.seq = t.seq \
         WHERE t.conversation_id = ?1 AND t.outcome IS NULL AND t.state = 'queued' \
         AND t.parent_id IS NULL ORDER BY t.seq LIMIT ?2",
    )?;
    let waiting = statement
        .query_map(params![claim.conversation_id.0.as_bytes(), MOST], |row| {
            Ok((row.get(0)?, TurnId(codec::id(row, 1)?), codec::json::<Inbound>(row, 2)?))
        })?
        .collect::<rusqlite::Result<Vec<(i64, TurnId, Inbound)>>>()?;
    let mut merged = Vec::new();
    for (seq, row, inbound) in waiting {
        if inbound.sender.id != first.sender.id || inbound.thread != first.thread {
            break;
        }
        merge(conn, seq, turn, claim.at)?;
        commit::add_message(conn, claim.conversation_id, &said(row, turn, &inbound, claim.at))?;
        merged.push(row);
    }
    Ok(merged)
}

fn said(row: TurnId, into: TurnId, inbound: &Inbound, at: Timestamp) -> StoredMessage {
    StoredMessage {
        // The row's own id: one message of a person a row, whoever appends it (A114).
        id: MessageId(row.0),
        turn: into,
        at,
        message: message(inbound, UserKind::Steering),
    }
}

/// What a person sent, as the history has it.
pub(super) fn message(inbound: &Inbound, kind: UserKind) -> ChatMessage {
    ChatMessage::User { text: inbound.text.clone(), kind, attachments: inbound.attachments.clone() }
}

fn merge(conn: &Connection, seq: i64, into: TurnId, at: Timestamp) -> Result<()> {
    let end = TurnFinish {
        outcome: Outcome::Merged,
        reply: None,
        error: None,
        usage: Default::default(),
    };
    finish::end(conn, seq, &end, at)?;
    conn.prepare_cached("UPDATE turns SET merged_into = ?2 WHERE seq = ?1")?
        .execute(params![seq, into.0.as_bytes()])?;
    Ok(())
}

/// What the turn's people have said in it, as its history has it.
pub(super) fn words(history: &[StoredMessage], turn: TurnId) -> Option<String> {
    let own = history.iter().filter(|stored| stored.turn == turn);
    let said: Vec<&str> = own
        .filter_map(|stored| match &stored.message {
            ChatMessage::User { text, kind: UserKind::Message | UserKind::Steering, .. } => {
                Some(text.as_str())
            }
            _ => None,
        })
        .collect();
    (!said.is_empty()).then(|| said.join("\n\n"))
}

/// The history of this conversation begins here for every turn from now on.
pub(super) fn begin_anew(
    conn: &Connection,
    conversation: ConversationId,
    after_envelope: i64,
) -> Result<()> {
    conn.prepare_cached(
        "UPDATE conversations SET begins_after = ?2, history_after = \
         (SELECT coalesce(max(seq), 0) FROM messages WHERE conversation_id = ?1) WHERE id = ?1",
    )?
    .execute(params![conversation.0.as_bytes(), after_envelope])?;
    Ok(())
}
