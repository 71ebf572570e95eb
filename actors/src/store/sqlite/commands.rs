//! Commands that come as messages: a row, an effect and an answer, in one transaction.

use rookery_messages::approval::Decider;
use rookery_messages::chat::Usage;
use rookery_messages::ids::{AgentName, ChannelId, OutboxId, TurnId};
use rookery_messages::store::{
    AcceptOutcome, AuditRow, CommandAct, Desk, NewCommand, NewOutbox, OutboxPayload,
};
use rookery_messages::turn::{Outcome, TurnFinish, TurnState};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::json;

use super::codec::{self, TURN_COLUMNS, TURN_TABLES};
use super::error::Result;
use super::{finish, grants, inbox, merge, outbox, records};

/// Carries a command out, once: the platform's id is the key, as of every message (R3, I2).
pub(super) fn take(conn: &Connection, command: &NewCommand) -> Result<AcceptOutcome> {
    let outcome = inbox::accept(conn, &command.accept)?;
    if outcome.duplicate {
        return Ok(outcome);
    }
    let (envelope, at) = (&outcome.envelope, command.accept.at);
    let seq: i64 = conn
        .prepare_cached("SELECT seq FROM turns WHERE id = ?1")?
        .query_row([envelope.turn.0.as_bytes()], |row| row.get(0))?;
    let conversation = envelope.conversation_id;
    let changed = match &command.act {
        CommandAct::Nothing => None,
        CommandAct::BeginAnew => {
            merge::begin_anew(conn, conversation, seq)?;
            let by = Decider {
                who: envelope.inbound.sender.id.clone(),
                via: envelope.inbound.channel.to_string(),
            };
            grants::end_of_conversation(conn, conversation, at, &by)?;
            Some(("conversation.new", json!({})))
        }
        CommandAct::UseModel(profile) => {
            conn.prepare_cached("UPDATE conversations SET model = ?2 WHERE id = ?1")?
                .execute(params![conversation.0.as_bytes(), profile])?;
            Some(("conversation.model", json!({ "provider": profile })))
        }
    };
    if let Some((action, detail)) = changed {
        let row = AuditRow {
            at,
            who: envelope.inbound.sender.id.clone(),
            via: envelope.inbound.channel.to_string(),
            action: action.to_owned(),
            target: conversation.to_string(),
            detail,
        };
        records::audit(conn, &row)?;
    }
    let end = TurnFinish {
        outcome: Outcome::Answered,
        reply: Some(command.reply.clone()),
        error: None,
        usage: Usage::default(),
    };
    finish::end(conn, seq, &end, at)?;
    if command.post {
        let notice = NewOutbox {
            id: OutboxId(envelope.turn.0),
            channel: envelope.inbound.channel.clone(),
            address: envelope.inbound.reply_address(),
            payload: OutboxPayload::Notice {
                turn: Some(envelope.turn),
                text: command.reply.clone(),
            },
        };
        outbox::add(conn, &notice, at)?;
    }
    Ok(outcome)
}

/// What a command has to know of its conversation. One that does not exist yet is empty.
pub(super) fn desk(
    conn: &Connection,
    channel: &ChannelId,
    conversation: &str,
    agent: &AgentName,
    external_id: &str,
) -> Result<Desk> {
    let known = conn
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM inbox WHERE channel = ?1 AND external_id = ?2)",
        )?
        .query_row(params![channel.as_str(), external_id], |row| row.get(0))?;
    let found: Option<([u8; 16], Option<String>)> = conn
        .prepare_cached(
            "SELECT id, model FROM conversations \
             WHERE conversation = ?1 AND channel = ?2 AND agent = ?3",
        )?
        .query_row(params![conversation, channel.as_str(), agent.as_str()], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    let Some((id, model)) = found else { return Ok(Desk { known, ..Desk::default() }) };
    let mut statement = conn.prepare_cached(
        "SELECT id, state FROM turns WHERE conversation_id = ?1 AND outcome IS NULL \
         AND (parent_id IS NULL OR task_of IS NOT NULL) ORDER BY seq",
    )?;
    let open = statement
        .query_map([&id[..]], |row| Ok((TurnId(codec::id(row, 0)?), codec::word(row, 1)?)))?
        .collect::<rusqlite::Result<Vec<(TurnId, TurnState)>>>()?;
    let running = open.iter().find(|(_, state)| *state != TurnState::Queued);
    let running = running.map(|(turn, _)| record(conn, *turn)).transpose()?.map(Box::new);
    let waiting = open
        .iter()
        .filter(|(_, state)| *state == TurnState::Queued)
        .map(|(turn, _)| *turn)
        .collect();
    let (usage, cost_micros) = conn
        .prepare_cached(
            "SELECT coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0), \
             coalesce(sum(cost_micros), 0) FROM turns WHERE conversation_id = ?1",
        )?
        .query_row([&id[..]], |row| {
            let usage = Usage { input: codec::counter(row, 0)?, output: codec::counter(row, 1)? };
            Ok((usage, codec::counter(row, 2)?))
        })?;
    Ok(Desk { known, running, waiting, model, usage, cost_micros })
}

fn record(conn: &Connection, turn: TurnId) -> Result<rookery_messages::turn::TurnRecord> {
    let (seq, mut record) = conn
        .prepare_cached(&format!("SELECT {TURN_COLUMNS} {TURN_TABLES} WHERE t.id = ?1"))?
        .query_row([turn.0.as_bytes()], codec::turn)?;
    record.calls = codec::calls(conn, seq)?;
    Ok(record)
}
