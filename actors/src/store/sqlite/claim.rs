//! A session's next row: a turn whose actor is gone first, then the oldest that waits (I3).

use rookery_messages::chat::UserKind;
use rookery_messages::check_invariant;
use rookery_messages::delegation::TaskState;
use rookery_messages::envelope::{Inbound, ReplyAddress};
use rookery_messages::ids::{ConversationId, MessageId, OutboxId, TurnId};
use rookery_messages::journal::{JournalEntry, JournalKind};
use rookery_messages::store::{
    Claim, ClaimOutcome, NewOutbox, OutboxPayload, StoreError, StoredMessage,
};
use rookery_messages::turn::{
    Fence, Outcome, TurnClaim, TurnError, TurnFinish, TurnRecord, TurnState,
};
use rusqlite::{Connection, OptionalExtension, params};

use super::codec::{
    self, APPROVAL_COLUMNS, MESSAGE_COLUMNS, TURN_COLUMNS, TURN_TABLES, TURN_WIDTH,
};
use super::error::Result;
use super::{commit, finish, merge, outbox, spend};

/// Where a conversation's history begins: after this message, and after this envelope. 0: at its first.
#[derive(Clone, Copy)]
struct Begins {
    message: i64,
    envelope: i64,
}

struct Row {
    seq: i64,
    record: TurnRecord,
    epoch: u64,
    /// What its people chose to be answered by.
    model: Option<String>,
    begins: Begins,
    cancel_requested: bool,
    reply_address: ReplyAddress,
    inbound: Inbound,
}

/// Claims the conversation's next row.
pub(super) fn claim(conn: &Connection, claim: &Claim) -> Result<ClaimOutcome> {
    let Some(mut row) = next(conn, claim.conversation_id)? else {
        return Ok(ClaimOutcome::Nothing);
    };
    let attempt = row.record.attempts.saturating_add(1);
    let strikes = strikes(conn, &row)?;
    if strikes >= claim.terms.max_attempts {
        return exhaust(conn, claim, row);
    }
    let at = codec::nanos(claim.at);
    let mut merged = Vec::new();
    conn.prepare_cached(
        "UPDATE turns SET state = 'running', attempts = ?2, strikes = ?4, released = 0, \
         started_at = coalesce(started_at, ?3) WHERE seq = ?1",
    )?
    .execute(params![row.seq, attempt, at, strikes])?;
    // Read before `started` is written: the claim carries former attempts only. A first one has none.
    let (journal, approvals) = if attempt == 1 {
        (Vec::new(), Vec::new())
    } else {
        row.record.calls = codec::calls(conn, row.seq)?;
        (journal(conn, row.seq)?, approvals(conn, row.record.id)?)
    };
    let started = JournalEntry { attempt, seq: 0, kind: JournalKind::Started };
    commit::add_entry(conn, row.seq, &started, claim.at)?;
    if attempt == 1 {
        let message = StoredMessage {
            // The turn's own id: one message of a person a turn, whoever appends it (A114).
            id: MessageId(row.record.id.0),
            turn: row.record.id,
            at: claim.at,
            message: merge::message(&row.inbound, UserKind::Message),
        };
        commit::add_message(conn, claim.conversation_id, &message)?;
        if row.record.parent.is_none() && claim.terms.together.contains(&row.record.channel) {
            merged = merge::neighbours(conn, claim, row.record.id, &row.inbound)?;
        }
    }
    row.record.state = TurnState::Running;
    row.record.attempts = attempt;
    row.record.started_at = row.record.started_at.or(Some(claim.at));
    let (history, history_cut) = history(conn, claim, row.record.id, row.begins)?;
    let children_spent = match attempt {
        1 => Vec::new(),
        _ => spend::of_children(conn, row.record.id)?,
    };
    let said = merge::words(&history, row.record.id);
    Ok(ClaimOutcome::Turn(Box::new(TurnClaim {
        record: row.record,
        text: said.unwrap_or(row.inbound.text),
        merged,
        model: row.model,
        children_spent,
        sender: row.inbound.sender.id,
        reply_address: row.reply_address,
        fence: Fence { epoch: row.epoch, attempt },
        cancel_requested: row.cancel_requested,
        journal,
        history,
        history_cut,
        approvals,
    })))
}

/// How many attempts in a row have crashed by now without getting any further. One that left in good
/// order, waited for a person, or brought its turn on is no sign that the next one fails too.
fn strikes(conn: &Connection, row: &Row) -> Result<u32> {
    if row.record.state != TurnState::Running {
        return Ok(0);
    }
    let (strikes, released): (u32, bool) = conn
        .prepare_cached("SELECT strikes, released FROM turns WHERE seq = ?1")?
        .query_row([row.seq], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let got_further: bool = conn
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM journal WHERE turn_seq = ?1 AND attempt = ?2 AND kind IN \
             ('model_response', 'approval_decided', 'call_finished', 'appended'))",
        )?
        .query_row(params![row.seq, row.record.attempts], |row| row.get(0))?;
    Ok(if released || got_further { 0 } else { strikes + 1 })
}

/// The turn was claimed when it was accepted, and nobody ran it: it waits, as if it had not been claimed.
pub(super) fn give_back(
    conn: &Connection,
    turn: TurnId,
    conversation_id: ConversationId,
    fence: Fence,
) -> Result<()> {
    let returned: Option<i64> = conn
        .prepare_cached(
            "UPDATE turns SET state = 'queued', attempts = 0, started_at = NULL \
             WHERE id = ?1 AND attempts = ?2 AND ?2 = 1 AND state = 'running' AND \
             NOT EXISTS (SELECT 1 FROM journal WHERE turn_seq = turns.seq AND kind <> 'started') AND \
             (SELECT lease_epoch FROM conversations WHERE id = ?3) = ?4 RETURNING seq",
        )?
        .query_row(
            params![
                turn.0.as_bytes(),
                fence.attempt,
                conversation_id.0.as_bytes(),
                codec::count(fence.epoch)
            ],
            |row| row.get(0),
        )
        .optional()?;
    let seq = returned.ok_or(StoreError::Stale)?;
    conn.prepare_cached("DELETE FROM journal WHERE turn_seq = ?1")?.execute([seq])?;
    conn.prepare_cached("DELETE FROM messages WHERE turn_id = ?1")?.execute([turn.0.as_bytes()])?;
    Ok(())
}

/// The turn's actor leaves in good order.
pub(super) fn release(
    conn: &Connection,
    turn: TurnId,
    conversation_id: ConversationId,
    fence: Fence,
) -> Result<()> {
    let changed = conn
        .prepare_cached(
            "UPDATE turns SET released = 1 WHERE id = ?1 AND attempts = ?2 AND outcome IS NULL AND \
             (SELECT lease_epoch FROM conversations WHERE id = ?3) = ?4",
        )?
        .execute(params![
            turn.0.as_bytes(),
            fence.attempt,
            conversation_id.0.as_bytes(),
            codec::count(fence.epoch)
        ])?;
    if changed == 0 { Err(StoreError::Stale.into()) } else { Ok(()) }
}

fn next(conn: &Connection, conversation_id: ConversationId) -> Result<Option<Row>> {
    let key = conversation_id.0.as_bytes();
    let (epoch, model, begins) = conn
        .prepare_cached(
            "SELECT lease_epoch, model, history_after, begins_after FROM conversations WHERE id = ?1",
        )?
        .query_row([key], |row| {
            let begins = Begins { message: row.get(2)?, envelope: row.get(3)? };
            Ok((codec::counter(row, 0)?, row.get(1)?, begins))
        })
        .optional()?
        .ok_or(StoreError::NotFound)?;
    // The first row is the next; a second that has begun too would be one too many.
    let open: Vec<(i64, bool)> = conn
        .prepare_cached(
            "SELECT seq, state <> 'queued' FROM turns WHERE conversation_id = ?1 AND outcome IS NULL \
             ORDER BY state = 'queued', seq LIMIT 2",
        )?
        .query_map([key], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let begun = open.iter().filter(|(_, begun)| *begun).count();
    check_invariant!(I3, begun <= 1, "{begun} turns run in conversation {conversation_id}");
    let Some(&(seq, _)) = open.first() else { return Ok(None) };
    Ok(Some(
        conn.prepare_cached(&format!(
            "SELECT {TURN_COLUMNS}, t.cancel_requested, t.reply_address, i.inbound \
             {TURN_TABLES} JOIN inbox i ON i.seq = t.seq WHERE t.seq = ?1"
        ))?
        .query_row([seq], |row| {
            let (seq, record) = codec::turn(row)?;
            Ok(Row {
                seq,
                record,
                epoch,
                model,
                begins,
                cancel_requested: row.get(TURN_WIDTH)?,
                reply_address: codec::json(row, TURN_WIDTH + 1)?,
                inbound: codec::json(row, TURN_WIDTH + 2)?,
            })
        })?,
    ))
}

/// A turn's journal, all attempts, in order.
pub(super) fn journal(conn: &Connection, turn_seq: i64) -> Result<Vec<JournalEntry>> {
    let mut statement = conn.prepare_cached(
        "SELECT attempt, seq, body FROM journal WHERE turn_seq = ?1 ORDER BY attempt, seq",
    )?;
    let rows = statement.query_map([turn_seq], |row| {
        Ok(JournalEntry {
            attempt: row.get(0)?,
            seq: codec::counter(row, 1)?,
            kind: codec::json(row, 2)?,
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn approvals(conn: &Connection, turn: TurnId) -> Result<Vec<rookery_messages::approval::Approval>> {
    let mut statement =
        conn.prepare_cached(&format!("SELECT {APPROVAL_COLUMNS} WHERE turn_id = ?1 ORDER BY seq"))?;
    let rows = statement.query_map([turn.0.as_bytes()], codec::approval)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// The newest whole turns that fit, oldest first, and whether older ones were left out. The turn's own
/// messages always stay.
fn history(
    conn: &Connection,
    claim: &Claim,
    own: TurnId,
    begins: Begins,
) -> Result<(Vec<StoredMessage>, bool)> {
    let mut statement = conn.prepare_cached(&format!(
        "SELECT {MESSAGE_COLUMNS}, length(body) FROM messages WHERE conversation_id = ?1 AND seq > ?2 \
         AND (?3 = 0 OR turn_id = ?4 \
              OR coalesce((SELECT t.seq FROM turns t WHERE t.id = messages.turn_id), ?3 + 1) > ?3) \
         ORDER BY seq DESC"
    ))?;
    let mut rows = statement.query(params![
        claim.conversation_id.0.as_bytes(),
        begins.message,
        begins.envelope,
        own.0.as_bytes()
    ])?;
    let mut history: Vec<StoredMessage> = Vec::new();
    let mut chars = 0;
    while let Some(row) = rows.next()? {
        let size = row.get::<_, u32>(4)? as usize;
        let turn = TurnId(codec::id(row, 1)?);
        if turn != own && chars + size > claim.terms.history_chars {
            // A turn's messages stand together, since turns of a conversation follow each other (I3).
            while history.last().is_some_and(|message| message.turn == turn) {
                history.pop();
            }
            history.reverse();
            return Ok((history, true));
        }
        chars += size;
        history.push(codec::message(row)?);
    }
    history.reverse();
    Ok((history, false))
}

/// The turn had its last attempt: failed, notified, a dead letter.
fn exhaust(conn: &Connection, claim: &Claim, row: Row) -> Result<ClaimOutcome> {
    let Row { seq, mut record, reply_address, .. } = row;
    let attempts = record.attempts;
    let cause = format!("failed after {attempts} attempts");
    let end = TurnFinish {
        outcome: Outcome::Failed,
        reply: None,
        error: Some(TurnError::new("crashed", cause.clone())),
        usage: record.usage,
    };
    if !finish::end(conn, seq, &end, claim.at)? {
        return Err(StoreError::Conflict("the turn has an outcome already".into()).into());
    }
    finish::withdraw(conn, record.id, claim.at)?;
    finish::end_calls(conn, seq, claim.at)?;
    let ended = JournalKind::Ended { finish: end.clone() };
    let entry = JournalEntry { attempt: attempts.saturating_add(1), seq: 0, kind: ended };
    commit::add_entry(conn, seq, &entry, claim.at)?;
    let text = match &record.task {
        Some(_) => format!("the task {} is lost: it {cause}", record.id),
        None => format!("your message could not be answered: it {cause}; send it again"),
    };
    let notice = NewOutbox {
        id: OutboxId(record.id.0),
        channel: record.channel.clone(),
        address: reply_address,
        payload: OutboxPayload::Notice { turn: Some(record.id), text },
    };
    // Whoever delegated to it is told by the call that waits.
    if !record.is_delegate() {
        outbox::add(conn, &notice, claim.at)?;
        outbox::add_dead_turn(conn, &notice, record.envelope, attempts, &cause, claim.at)?;
    }
    record.task = record.task.map(|_| TaskState::Lost);
    record.state = TurnState::Ended;
    record.outcome = Some(end.outcome);
    record.error = end.error;
    record.ended_at = Some(claim.at);
    record.calls = codec::calls(conn, seq)?;
    Ok(ClaimOutcome::Exhausted(Box::new(record)))
}
