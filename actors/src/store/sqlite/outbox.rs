//! What is to be sent: first in, first out for each (channel, conversation) (A014), and its dead letters.

use jiff::Timestamp;
use rookery_messages::approval::Decider;
use rookery_messages::envelope::ReplyAddress;
use rookery_messages::ids::{ChannelId, EnvelopeId, OutboxId};
use rookery_messages::settings::OnUnknown;
use rookery_messages::store::{
    AuditRow, NewOutbox, OutboxPayload, OutboxRow, OutboxStatus, SendResult, StoreError,
};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::json;

use super::error::Result;
use super::{channels, codec, records};

/// The kind of a dead letter that stands for a turn itself.
const TURN_KIND: &str = "turn";

/// Adds a row; one already there stays as it is.
pub(super) fn add(conn: &Connection, message: &NewOutbox, at: Timestamp) -> Result<()> {
    let at = codec::nanos(at);
    conn.prepare_cached(
        "INSERT INTO outbox (id, channel, conversation, address, kind, turn_id, payload, state, \
         not_before, created_at, updated_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'pending', ?8, ?8, ?8) ON CONFLICT (id) DO NOTHING",
    )?
    .execute(params![
        message.id.0.as_bytes(),
        message.channel.as_str(),
        message.address.conversation,
        serde_json::to_string(&message.address)?,
        message.payload.kind(),
        message.payload.turn().map(|turn| *turn.0.as_bytes()),
        serde_json::to_string(&message.payload)?,
        at,
    ])?;
    Ok(())
}

/// Adds what belongs to no turn's step, once; says whether it is new.
pub(super) fn post(
    conn: &Connection,
    message: &NewOutbox,
    row: Option<&AuditRow>,
    at: Timestamp,
) -> Result<bool> {
    let found: Option<(String, ReplyAddress, OutboxPayload)> = conn
        .prepare_cached("SELECT channel, address, payload FROM outbox WHERE id = ?1")?
        .query_row([message.id.0.as_bytes()], |row| {
            Ok((row.get(0)?, codec::json(row, 1)?, codec::json(row, 2)?))
        })
        .optional()?;
    if let Some((channel, address, payload)) = found {
        let same = channel == message.channel.as_str()
            && message.address == address
            && message.payload == payload;
        let other = "something else was sent under this id";
        return if same { Ok(false) } else { Err(StoreError::Conflict(other.to_owned()).into()) };
    }
    add(conn, message, at)?;
    if let Some(row) = row {
        records::audit(conn, row)?;
    }
    Ok(true)
}

/// Where a row stands.
pub(super) fn status(conn: &Connection, id: OutboxId) -> Result<Option<OutboxStatus>> {
    Ok(conn
        .prepare_cached(
            "SELECT channel, conversation, state, attempts, cause, external_id FROM outbox \
             WHERE id = ?1",
        )?
        .query_row([id.0.as_bytes()], |row| {
            Ok(OutboxStatus {
                id,
                channel: ChannelId(row.get(0)?),
                conversation: row.get(1)?,
                state: row.get(2)?,
                attempts: row.get(3)?,
                cause: row.get(4)?,
                external_id: row.get(5)?,
            })
        })
        .optional()?)
}

/// The dead letter of an envelope whose turn had its last attempt: a record, not a thing to send.
pub(super) fn add_dead_turn(
    conn: &Connection,
    notice: &NewOutbox,
    envelope: EnvelopeId,
    attempts: u32,
    cause: &str,
    at: Timestamp,
) -> Result<()> {
    conn.prepare_cached(
        "INSERT INTO outbox (id, channel, conversation, address, kind, turn_id, payload, state, \
         attempts, not_before, cause, class, created_at, updated_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'dead', ?8, ?9, ?10, 'permanent', ?9, ?9)",
    )?
    .execute(params![
        envelope.0.as_bytes(),
        notice.channel.as_str(),
        notice.address.conversation,
        serde_json::to_string(&notice.address)?,
        TURN_KIND,
        notice.payload.turn().map(|turn| *turn.0.as_bytes()),
        serde_json::to_string(&notice.payload)?,
        attempts,
        codec::nanos(at),
        cause,
    ])?;
    Ok(())
}

/// Takes due rows: of each conversation at most its first unsent one, so that what follows waits for it.
pub(super) fn claim(
    conn: &Connection,
    channel: &ChannelId,
    at: Timestamp,
    limit: u32,
) -> Result<Vec<OutboxRow>> {
    let mut statement = conn.prepare_cached(
        "SELECT o.seq, o.id, o.address, o.payload, o.attempts, o.possibly_repeated, o.created_at, \
         o.progress \
         FROM outbox o WHERE o.state IN ('pending', 'sending') AND o.channel = ?1 \
         AND o.state = 'pending' AND o.not_before <= ?2 AND NOT EXISTS ( \
             SELECT 1 FROM outbox e WHERE e.state IN ('pending', 'sending') \
             AND e.channel = o.channel AND e.conversation = o.conversation AND e.seq < o.seq) \
         ORDER BY o.seq LIMIT ?3",
    )?;
    let due = statement
        .query_map(params![channel.as_str(), codec::nanos(at), limit], |row| {
            let seq: i64 = row.get(0)?;
            let message = NewOutbox {
                id: OutboxId(codec::id(row, 1)?),
                channel: channel.clone(),
                address: codec::json(row, 2)?,
                payload: codec::json(row, 3)?,
            };
            let row = OutboxRow {
                message,
                attempts: row.get(4)?,
                possibly_repeated: row.get(5)?,
                created_at: codec::time(row, 6)?,
                progress: codec::json_option(row, 7)?.unwrap_or_default(),
            };
            Ok((seq, row))
        })?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let mut mark = conn.prepare_cached(
        "UPDATE outbox SET state = 'sending', attempts = attempts + 1, updated_at = ?2 \
         WHERE seq = ?1",
    )?;
    let mut rows = Vec::with_capacity(due.len());
    for (seq, row) in due {
        mark.execute(params![seq, codec::nanos(at)])?;
        rows.push(row);
    }
    Ok(rows)
}

/// When the next row is due that waits for no other.
pub(super) fn next_due(conn: &Connection, channel: &ChannelId) -> Result<Option<Timestamp>> {
    Ok(conn
        .prepare_cached(
            "SELECT min(o.not_before) FROM outbox o WHERE o.state IN ('pending', 'sending') \
             AND o.channel = ?1 AND o.state = 'pending' AND NOT EXISTS ( \
                 SELECT 1 FROM outbox e WHERE e.state IN ('pending', 'sending') \
                 AND e.channel = o.channel AND e.conversation = o.conversation AND e.seq < o.seq)",
        )?
        .query_row([channel.as_str()], |row| codec::time_option(row, 0))?)
}

/// What becomes of rows that a former holder left sending: they may have arrived.
pub(super) fn release(
    conn: &Connection,
    channel: &ChannelId,
    at: Timestamp,
    on_unknown: OnUnknown,
) -> Result<()> {
    let sql = match on_unknown {
        OnUnknown::Resend => {
            "UPDATE outbox SET state = 'pending', possibly_repeated = 1, not_before = ?1, \
             updated_at = ?1 WHERE state IN ('pending', 'sending') AND state = 'sending' \
             AND channel = ?2"
        }
        OnUnknown::Hold => {
            "UPDATE outbox SET state = 'dead', possibly_repeated = 1, class = 'transient', \
             cause = 'whoever sent it ended before the answer came', updated_at = ?1 \
             WHERE state IN ('pending', 'sending') AND state = 'sending' AND channel = ?2"
        }
    };
    let rows = conn.prepare_cached(sql)?.execute(params![codec::nanos(at), channel.as_str()])?;
    if rows > 0 {
        let left = match on_unknown {
            OnUnknown::Resend => "may be sent twice",
            OnUnknown::Hold => "are dead letters",
        };
        tracing::warn!(%channel, rows, "replies whose arrival is not known {left}");
    }
    Ok(())
}

/// Writes how a send went. The same result again changes nothing.
pub(super) fn mark(
    conn: &Connection,
    id: OutboxId,
    at: Timestamp,
    result: &SendResult,
) -> Result<()> {
    let state = state(conn, id)?;
    match (state.as_str(), result) {
        ("sending", _) => {}
        // It arrived after all, although somebody gave up waiting for the answer.
        ("pending", SendResult::Sent { .. }) => {}
        ("pending", SendResult::Retry { .. } | SendResult::Unknown { resend_at: Some(_), .. })
        | ("sent", SendResult::Sent { .. })
        | ("dead", SendResult::Dead { .. } | SendResult::Unknown { resend_at: None, .. }) => {
            return Ok(());
        }
        (state, _) => {
            return Err(StoreError::Conflict(format!("the row is {state} already")).into());
        }
    }
    let now = codec::nanos(at);
    let key = id.0.as_bytes();
    if matches!(result, SendResult::Sent { .. }) {
        channels::drop_draft(conn, id)?;
    }
    match result {
        SendResult::Sent { external_id } => conn
            .prepare_cached(
                "UPDATE outbox SET state = 'sent', external_id = ?2, updated_at = ?3 WHERE id = ?1",
            )?
            .execute(params![key, external_id, now])?,
        SendResult::Retry { at, cause } => conn
            .prepare_cached(
                "UPDATE outbox SET state = 'pending', not_before = ?2, cause = ?3, \
                 updated_at = ?4 WHERE id = ?1",
            )?
            .execute(params![key, codec::nanos(*at), cause, now])?,
        SendResult::Unknown { cause, resend_at: Some(resend_at) } => conn
            .prepare_cached(
                "UPDATE outbox SET state = 'pending', possibly_repeated = 1, not_before = ?2, \
                 cause = ?3, updated_at = ?4 WHERE id = ?1",
            )?
            .execute(params![key, codec::nanos(*resend_at), cause, now])?,
        SendResult::Unknown { cause, resend_at: None } => conn
            .prepare_cached(
                "UPDATE outbox SET state = 'dead', possibly_repeated = 1, class = 'transient', \
                 cause = ?2, updated_at = ?3 WHERE id = ?1",
            )?
            .execute(params![key, cause, now])?,
        SendResult::Dead { cause } => conn
            .prepare_cached(
                "UPDATE outbox SET state = 'dead', class = 'permanent', cause = ?2, \
                 updated_at = ?3 WHERE id = ?1",
            )?
            .execute(params![key, cause, now])?,
    };
    Ok(())
}

fn state(conn: &Connection, id: OutboxId) -> Result<String> {
    Ok(conn
        .prepare_cached("SELECT state FROM outbox WHERE id = ?1")?
        .query_row([id.0.as_bytes()], |row| row.get(0))
        .optional()?
        .ok_or(StoreError::NotFound)?)
}

/// Sends a dead letter again, or throws it away.
pub(super) fn dead_letter(
    conn: &Connection,
    id: OutboxId,
    retry: bool,
    at: Timestamp,
    by: &Decider,
) -> Result<()> {
    let found = conn
        .prepare_cached("SELECT state, kind, channel, cause FROM outbox WHERE id = ?1")?
        .query_row([id.0.as_bytes()], |row| {
            Ok((
                row.get::<_, String>(0)?,
                row.get::<_, String>(1)?,
                row.get::<_, String>(2)?,
                row.get::<_, Option<String>>(3)?,
            ))
        })
        .optional()?;
    let Some((state, kind, channel, cause)) = found else {
        return Err(StoreError::NotFound.into());
    };
    if state != "dead" {
        return Err(StoreError::Conflict(format!("the row is {state}, not a dead letter")).into());
    }
    if retry && kind == TURN_KIND {
        // I1: an envelope has one end.
        let text = "the turn has failed for good; the sender has to send the message again";
        return Err(StoreError::Conflict(text.to_owned()).into());
    }
    let action = if retry {
        conn.prepare_cached(
            "UPDATE outbox SET state = 'pending', attempts = 0, not_before = ?2, class = NULL, \
             updated_at = ?2 WHERE id = ?1",
        )?
        .execute(params![id.0.as_bytes(), codec::nanos(at)])?;
        "deadletter.retry"
    } else {
        conn.prepare_cached("DELETE FROM outbox WHERE id = ?1")?.execute([id.0.as_bytes()])?;
        "deadletter.purge"
    };
    let row = AuditRow {
        at,
        who: by.who.clone(),
        via: by.via.clone(),
        action: action.to_owned(),
        target: id.to_string(),
        detail: json!({ "kind": kind, "channel": channel, "cause": cause }),
    };
    records::audit(conn, &row)
}
