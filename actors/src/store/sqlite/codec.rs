//! Values as columns and back: ids are 16-byte blobs, times are nanoseconds, words are text.

use jiff::Timestamp;
use rookery_messages::approval::{Approval, Grant};
use rookery_messages::delegation::{AskedFor, ChildMode, ChildOf, TaskState};
use rookery_messages::ids::{
    AgentName, ApprovalId, CallId, ChannelId, ConversationId, GrantId, TurnId,
};
use rookery_messages::store::StoredMessage;
use rookery_messages::turn::{CallRecord, TurnError, TurnRecord};
use rookery_messages::{chat::Usage, ids::EnvelopeId, ids::MessageId};
use rusqlite::types::Type;
use rusqlite::{Connection, Row};
use serde::de::DeserializeOwned;
use serde::de::IntoDeserializer;
use serde::de::value::{Error as WordError, StrDeserializer};
use uuid::Uuid;

use super::error::Result;

/// A time as nanoseconds since 1970; times past the year 2262 are that year's.
pub(super) fn nanos(at: Timestamp) -> i64 {
    let nanos = at.as_nanosecond();
    i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
}

/// A counter as a column.
pub(super) fn count(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A counter from a column; a negative one was not written by us.
pub(super) fn counter(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let value: i64 = row.get(column)?;
    u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, value))
}

/// An id's bytes from a column.
pub(super) fn id(row: &Row<'_>, column: usize) -> rusqlite::Result<Uuid> {
    Ok(Uuid::from_bytes(row.get(column)?))
}

/// A time from a column.
pub(super) fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    let value: i64 = row.get(column)?;
    Timestamp::from_nanosecond(i128::from(value))
        .map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, value))
}

/// A time that may be null.
pub(super) fn time_option(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    match row.get_ref(column)? {
        rusqlite::types::ValueRef::Null => Ok(None),
        _ => time(row, column).map(Some),
    }
}

fn text<'a>(row: &'a Row<'_>, column: usize) -> rusqlite::Result<&'a str> {
    row.get_ref(column)?.as_str().map_err(|error| unreadable(column, error))
}

fn unreadable(
    column: usize,
    error: impl std::error::Error + Send + Sync + 'static,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
}

/// A JSON value from a column.
pub(super) fn json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    serde_json::from_str(text(row, column)?).map_err(|error| unreadable(column, error))
}

/// A JSON value that may be null.
pub(super) fn json_option<T: DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
) -> rusqlite::Result<Option<T>> {
    match row.get_ref(column)? {
        rusqlite::types::ValueRef::Null => Ok(None),
        _ => json(row, column).map(Some),
    }
}

/// An enum's word from a column.
pub(super) fn word<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let deserializer: StrDeserializer<'_, WordError> = text(row, column)?.into_deserializer();
    T::deserialize(deserializer).map_err(|error| unreadable(column, error))
}

/// An enum's word that may be null.
pub(super) fn word_option<T: DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
) -> rusqlite::Result<Option<T>> {
    match row.get_ref(column)? {
        rusqlite::types::ValueRef::Null => Ok(None),
        _ => word(row, column).map(Some),
    }
}

/// The columns [`turn`] reads; others may follow them.
pub(super) const TURN_COLUMNS: &str = "t.seq, t.id, t.envelope_id, c.conversation, \
     t.conversation_id, c.agent, c.channel, t.origin, t.state, t.outcome, t.reply, t.error_code, \
     t.error_message, t.attempts, t.started_at, t.ended_at, t.input_tokens, t.output_tokens, t.child_of, \
     t.merged_into IS NOT NULL, t.merged_into, t.cost_micros";

/// How many they are.
pub(super) const TURN_WIDTH: usize = 22;

/// The tables they stand in.
pub(super) const TURN_TABLES: &str =
    "FROM turns t JOIN conversations c ON c.id = t.conversation_id";

/// A turn without its calls, and its place.
pub(super) fn turn(row: &Row<'_>) -> rusqlite::Result<(i64, TurnRecord)> {
    let code: Option<String> = row.get(11)?;
    let message: Option<String> = row.get(12)?;
    let parent: Option<Box<ChildOf>> = json_option(row, 18)?;
    let (state, outcome) = (word(row, 8)?, word_option(row, 9)?);
    let task = parent
        .as_ref()
        .filter(|of| of.mode == ChildMode::Task)
        .map(|_| TaskState::of(state, outcome, code.as_deref()));
    let record = TurnRecord {
        id: TurnId(id(row, 1)?),
        envelope: EnvelopeId(id(row, 2)?),
        conversation: row.get(3)?,
        conversation_id: ConversationId(id(row, 4)?),
        agent: AgentName(row.get(5)?),
        channel: ChannelId(row.get(6)?),
        origin: word(row, 7)?,
        parent,
        task,
        state,
        outcome,
        into: if row.get(19)? { Some(TurnId(id(row, 20)?)) } else { None },
        reply: row.get(10)?,
        error: code.map(|code| TurnError { code, message: message.unwrap_or_default() }),
        attempts: row.get(13)?,
        started_at: time_option(row, 14)?,
        ended_at: time_option(row, 15)?,
        usage: Usage { input: counter(row, 16)?, output: counter(row, 17)? },
        cost_micros: counter(row, 21)?,
        calls: Vec::new(),
    };
    Ok((row.get(0)?, record))
}

/// A turn's calls, in order.
pub(super) fn calls(conn: &Connection, turn_seq: i64) -> Result<Vec<CallRecord>> {
    let mut statement = conn.prepare_cached(
        "SELECT id, tool, state, started_at, ended_at FROM calls WHERE turn_seq = ?1 ORDER BY seq",
    )?;
    let rows = statement.query_map([turn_seq], |row| {
        Ok(CallRecord {
            id: CallId(id(row, 0)?),
            tool: row.get(1)?,
            state: word(row, 2)?,
            started_at: time_option(row, 3)?,
            ended_at: time_option(row, 4)?,
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// The columns [`message`] reads.
pub(super) const MESSAGE_COLUMNS: &str = "id, turn_id, at, body";

/// A message of the history.
pub(super) fn message(row: &Row<'_>) -> rusqlite::Result<StoredMessage> {
    Ok(StoredMessage {
        id: MessageId(id(row, 0)?),
        turn: TurnId(id(row, 1)?),
        at: time(row, 2)?,
        message: json(row, 3)?,
    })
}

/// The columns [`approval`] reads, with their table.
pub(super) const APPROVAL_COLUMNS: &str = "id, turn_id, conversation_id, channel, call_id, tool, \
     arguments, arguments_hash, risk, reason, asked_at, expires_at, approvers, state, decision, \
     decided_by, decided_at, summary, offer, batch, route, \
     (SELECT t.child_of FROM turns t WHERE t.id = approvals.turn_id) FROM approvals";

/// An approval.
pub(super) fn approval(row: &Row<'_>) -> rusqlite::Result<Approval> {
    Ok(Approval {
        id: ApprovalId(id(row, 0)?),
        turn: TurnId(id(row, 1)?),
        conversation_id: ConversationId(id(row, 2)?),
        channel: ChannelId(row.get(3)?),
        call: CallId(id(row, 4)?),
        tool: row.get(5)?,
        arguments: json(row, 6)?,
        arguments_hash: row.get(7)?,
        risk: word(row, 8)?,
        reason: row.get(9)?,
        asked_at: time(row, 10)?,
        expires_at: time(row, 11)?,
        approvers: json(row, 12)?,
        state: word(row, 13)?,
        decision: json_option(row, 14)?,
        decided_by: json_option(row, 15)?,
        decided_at: time_option(row, 16)?,
        summary: row.get(17)?,
        offer: json_option(row, 18)?,
        batch: json_option(row, 19)?,
        route: json_option(row, 20)?,
        asked_for: json_option::<ChildOf>(row, 21)?.as_ref().map(AskedFor::from),
    })
}

/// The columns [`grant`] reads, with their table.
pub(super) const GRANT_COLUMNS: &str = "id, scope, conversation_id, agent, tool, pattern, key, \
     granted_by, granted_at, expires_at, revoked_by, revoked_at FROM grants";

/// A grant.
pub(super) fn grant(row: &Row<'_>) -> rusqlite::Result<Grant> {
    Ok(Grant {
        id: GrantId(id(row, 0)?),
        scope: word(row, 1)?,
        conversation_id: ConversationId(id(row, 2)?),
        agent: AgentName(row.get(3)?),
        tool: row.get(4)?,
        pattern: row.get(5)?,
        key: row.get(6)?,
        granted_by: json(row, 7)?,
        granted_at: time(row, 8)?,
        expires_at: time(row, 9)?,
        revoked_by: json_option(row, 10)?,
        revoked_at: time_option(row, 11)?,
    })
}
