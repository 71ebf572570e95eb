//! Taking messages in, and ending rows that have not begun.

use rookery_messages::approval::Decider;
use rookery_messages::envelope::Envelope;
use rookery_messages::ids::{ConversationId, EnvelopeId, OutboxId, TurnId};
use rookery_messages::store::{
    Accept, AcceptOutcome, AuditRow, CancelOutcome, Claim, ClaimOutcome, ClaimTerms, NewOutbox,
    OutboxPayload, StoreError,
};
use rookery_messages::turn::{Outcome, TurnClaim, TurnError, TurnFinish, TurnState};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::json;

use super::error::Result;
use super::{children, claim, codec, finish, outbox, records};

/// Takes a message in, once: the platform's id is the key (R3, I2).
pub(super) fn accept(conn: &Connection, accept: &Accept) -> Result<AcceptOutcome> {
    if let Some(known) = find(conn, accept)? {
        let full = waiting(conn, known.envelope.conversation_id)? >= i64::from(accept.queue_limit);
        if full || !known.rejected {
            return Ok(known);
        }
        // It was turned away, and its sender told to send it again: with room it is a message like any other.
        free_key(conn, accept)?;
    }
    let inbound = &accept.inbound;
    let conversation_id = conversation(conn, accept)?;
    let waiting = waiting(conn, conversation_id)?;
    let at = codec::nanos(accept.at);
    conn.prepare_cached(
        "INSERT INTO inbox (id, turn_id, conversation_id, channel, external_id, inbound, \
         accepted_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![
        accept.envelope.0.as_bytes(),
        accept.turn.0.as_bytes(),
        conversation_id.0.as_bytes(),
        inbound.channel.as_str(),
        inbound.external_id,
        serde_json::to_string(inbound)?,
        at,
    ])?;
    let seq = conn.last_insert_rowid();
    conn.prepare_cached(
        "INSERT INTO turns (seq, id, envelope_id, conversation_id, origin, reply_address, state) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![
        seq,
        accept.turn.0.as_bytes(),
        accept.envelope.0.as_bytes(),
        conversation_id.0.as_bytes(),
        inbound.origin.as_str(),
        serde_json::to_string(&inbound.reply_address())?,
        TurnState::Queued.as_str(),
    ])?;
    if let Some(child) = &accept.child {
        children::place(conn, seq, child)?;
    }
    // The row is kept also when the queue is full: the ledger adds up, and a redelivery is recognised.
    let rejected = waiting >= i64::from(accept.queue_limit);
    if rejected {
        reject(conn, accept, seq, waiting)?;
    }
    let claim = match &accept.claim {
        Some(terms) if waiting == 0 && !rejected => {
            claim_alone(conn, accept, conversation_id, terms)?
        }
        _ => None,
    };
    Ok(AcceptOutcome {
        envelope: Envelope {
            id: accept.envelope,
            turn: accept.turn,
            conversation_id,
            accepted_at: accept.at,
            inbound: inbound.clone(),
        },
        duplicate: false,
        rejected,
        claim,
    })
}

/// Claims the row just accepted, unless another of its conversation has begun.
fn claim_alone(
    conn: &Connection,
    accept: &Accept,
    conversation_id: ConversationId,
    terms: &ClaimTerms,
) -> Result<Option<Box<TurnClaim>>> {
    let begun: bool = conn
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM turns \
             WHERE conversation_id = ?1 AND outcome IS NULL AND state <> 'queued')",
        )?
        .query_row([conversation_id.0.as_bytes()], |row| row.get(0))?;
    if begun {
        return Ok(None);
    }
    let claim = Claim { conversation_id, at: accept.at, terms: terms.clone() };
    match claim::claim(conn, &claim)? {
        ClaimOutcome::Turn(claim) => Ok(Some(claim)),
        ClaimOutcome::Nothing | ClaimOutcome::Exhausted(_) => Ok(None),
    }
}

/// Leaves the row of a message that was turned away as it is, but for the platform's id.
fn free_key(conn: &Connection, accept: &Accept) -> Result<()> {
    conn.prepare_cached(
        "UPDATE inbox SET external_id = external_id || ' (turned away: ' || seq || ')' \
         WHERE channel = ?1 AND external_id = ?2",
    )?
    .execute(params![accept.inbound.channel.as_str(), accept.inbound.external_id])?;
    Ok(())
}

fn find(conn: &Connection, accept: &Accept) -> Result<Option<AcceptOutcome>> {
    let mut statement = conn.prepare_cached(
        "SELECT id, turn_id, conversation_id, accepted_at, inbound, outcome FROM inbox \
         WHERE channel = ?1 AND external_id = ?2",
    )?;
    let key = params![accept.inbound.channel.as_str(), accept.inbound.external_id];
    let known = statement.query_row(key, |row| {
        let outcome: Option<Outcome> = codec::word_option(row, 5)?;
        Ok(AcceptOutcome {
            envelope: Envelope {
                id: EnvelopeId(codec::id(row, 0)?),
                turn: TurnId(codec::id(row, 1)?),
                conversation_id: ConversationId(codec::id(row, 2)?),
                accepted_at: codec::time(row, 3)?,
                inbound: codec::json(row, 4)?,
            },
            duplicate: true,
            rejected: outcome == Some(Outcome::Rejected),
            claim: None,
        })
    });
    Ok(known.optional()?)
}

/// The conversation's id; made if the message is its first.
fn conversation(conn: &Connection, accept: &Accept) -> Result<ConversationId> {
    let inbound = &accept.inbound;
    let id = conn
        .prepare_cached(
            "INSERT INTO conversations (id, channel, conversation, agent, last_at) \
             VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (conversation, channel, agent) \
             DO UPDATE SET last_at = max(last_at, excluded.last_at) RETURNING id",
        )?
        .query_row(
            params![
                accept.conversation_id.0.as_bytes(),
                inbound.channel.as_str(),
                inbound.conversation,
                inbound.agent.as_str(),
                codec::nanos(accept.at),
            ],
            |row| codec::id(row, 0),
        )?;
    Ok(ConversationId(id))
}

/// Rows of the conversation that wait; the one that runs is not among them.
fn waiting(conn: &Connection, conversation_id: ConversationId) -> Result<i64> {
    Ok(conn
        .prepare_cached(
            "SELECT count(*) FROM turns \
             WHERE conversation_id = ?1 AND outcome IS NULL AND state = 'queued'",
        )?
        .query_row([conversation_id.0.as_bytes()], |row| row.get(0))?)
}

fn reject(conn: &Connection, accept: &Accept, seq: i64, waiting: i64) -> Result<()> {
    let text = format!(
        "queue full: {waiting} messages of this conversation are waiting already, so this one was \
         not accepted; send it again later"
    );
    let end = TurnFinish {
        outcome: Outcome::Rejected,
        reply: None,
        error: Some(TurnError::new("queue_full", text.clone())),
        usage: Default::default(),
    };
    finish::end(conn, seq, &end, accept.at)?;
    let notice = NewOutbox {
        // The turn's own id: fresh, and the same however often this is computed.
        id: OutboxId(accept.turn.0),
        channel: accept.inbound.channel.clone(),
        address: accept.inbound.reply_address(),
        payload: OutboxPayload::Notice { turn: Some(accept.turn), text },
    };
    outbox::add(conn, &notice, accept.at)
}

/// Ends a queued turn, or marks a running one.
pub(super) fn cancel(
    conn: &Connection,
    turn: TurnId,
    at: jiff::Timestamp,
    by: &Decider,
) -> Result<CancelOutcome> {
    let found = conn
        .prepare_cached("SELECT seq, state, cancel_requested FROM turns WHERE id = ?1")?
        .query_row([turn.0.as_bytes()], |row| {
            Ok((row.get::<_, i64>(0)?, codec::word(row, 1)?, row.get::<_, bool>(2)?))
        })
        .optional()?;
    let Some((seq, state, marked)) = found else { return Ok(CancelOutcome::NotFound) };
    let outcome = match state {
        TurnState::Ended => return Ok(CancelOutcome::AlreadyEnded),
        TurnState::Queued => {
            let end = TurnFinish {
                outcome: Outcome::Cancelled,
                reply: None,
                error: None,
                usage: Default::default(),
            };
            if !finish::end(conn, seq, &end, at)? {
                return Err(StoreError::Conflict("the turn has an outcome already".into()).into());
            }
            CancelOutcome::Ended
        }
        TurnState::Running | TurnState::WaitingApproval => {
            conn.prepare_cached("UPDATE turns SET cancel_requested = 1 WHERE seq = ?1")?
                .execute([seq])?;
            CancelOutcome::Marked
        }
    };
    // Asking again for what is marked already is the same request.
    if !marked {
        let row = AuditRow {
            at,
            who: by.who.clone(),
            via: by.via.clone(),
            action: "turn.cancel".to_owned(),
            target: turn.to_string(),
            detail: json!({ "state": state.as_str() }),
        };
        records::audit(conn, &row)?;
    }
    Ok(outcome)
}
