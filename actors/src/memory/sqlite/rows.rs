//! Entries as rows and back, filters as conditions, errors by SQLite's codes.

use jiff::Timestamp;
use rookery_messages::ids::{AgentName, ConversationId, MemoryId, TurnId};
use rookery_messages::memory::{MemoryEntry, MemoryError, MemoryFilter, MemoryScope, Source};
use rusqlite::types::Type;
use rusqlite::{ErrorCode, Row};
use serde_json::json;
use uuid::Uuid;

use super::super::words::quoted;

/// Why a job was not done.
#[derive(Debug)]
pub(super) enum Fault {
    /// SQLite failed, or a stored value can't be read.
    Sql(rusqlite::Error),
    /// The request is refused.
    Refused(MemoryError),
}

pub(super) type Result<T> = std::result::Result<T, Fault>;

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<MemoryError> for Fault {
    fn from(error: MemoryError) -> Self {
        Self::Refused(error)
    }
}

impl From<Fault> for MemoryError {
    fn from(fault: Fault) -> Self {
        let error = match fault {
            Fault::Refused(error) => return error,
            Fault::Sql(error) => error,
        };
        let text = error.to_string();
        let code = match &error {
            rusqlite::Error::SqliteFailure(code, _) => code.code,
            rusqlite::Error::SqlInputError { error, .. } => error.code,
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..) => return Self::Corrupt(text),
            _ => return Self::Failed(text),
        };
        match code {
            ErrorCode::DiskFull
            | ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::FileLockingProtocolFailed
            | ErrorCode::SystemIoFailure
            | ErrorCode::ReadOnly
            | ErrorCode::CannotOpen
            | ErrorCode::PermissionDenied => Self::Unavailable(text),
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => Self::Corrupt(text),
            _ => Self::Failed(text),
        }
    }
}

/// The columns [`entry`] reads, of `memories` as `m`.
pub(super) const COLUMNS: &str = "m.id, m.agent, m.session, m.key, m.content, m.category, m.source, m.via, \
     m.turn, m.created_at, m.updated_at, m.superseded_by";

pub(super) fn entry(row: &Row<'_>) -> rusqlite::Result<MemoryEntry> {
    let session: Option<[u8; 16]> = row.get(2)?;
    let category: String = row.get(5)?;
    Ok(MemoryEntry {
        id: MemoryId(id(row, 0)?),
        agent: AgentName(row.get(1)?),
        scope: session.map_or(MemoryScope::Agent, |id| {
            MemoryScope::Session(ConversationId(Uuid::from_bytes(id)))
        }),
        key: row.get(3)?,
        content: row.get(4)?,
        category: category.parse().map_err(|error: MemoryError| {
            rusqlite::Error::FromSqlConversionFailure(5, Type::Text, error.into())
        })?,
        source: source(row, 6)?,
        via: row.get(7)?,
        turn: row.get::<_, Option<[u8; 16]>>(8)?.map(|id| TurnId(Uuid::from_bytes(id))),
        created_at: time(row, 9)?,
        updated_at: time(row, 10)?,
        superseded_by: row.get::<_, Option<[u8; 16]>>(11)?.map(|id| MemoryId(Uuid::from_bytes(id))),
    })
}

pub(super) fn id(row: &Row<'_>, column: usize) -> rusqlite::Result<Uuid> {
    Ok(Uuid::from_bytes(row.get(column)?))
}

fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    let value: i64 = row.get(column)?;
    Timestamp::from_nanosecond(i128::from(value))
        .map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, value))
}

/// A time as nanoseconds since 1970; times past the year 2262 are that year's.
pub(super) fn nanos(at: Timestamp) -> i64 {
    let nanos = at.as_nanosecond();
    i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
}

fn source(row: &Row<'_>, column: usize) -> rusqlite::Result<Source> {
    match row.get(column)? {
        0 => Ok(Source::External),
        1 => Ok(Source::Model),
        2 => Ok(Source::User),
        other => Err(rusqlite::Error::IntegralValueOutOfRange(column, other)),
    }
}

/// A source as a column: the more trusted, the larger.
pub(super) fn trust(source: Source) -> i64 {
    match source {
        Source::External => 0,
        Source::Model => 1,
        Source::User => 2,
    }
}

/// A scope's session as a column.
pub(super) fn session(scope: &MemoryScope) -> Option<[u8; 16]> {
    match scope {
        MemoryScope::Agent => None,
        MemoryScope::Session(id) => Some(*id.0.as_bytes()),
    }
}

/// A scope as one word of the index: letters and digits only, and never another scope's.
pub(super) fn scope_word(agent: &AgentName, scope: &MemoryScope) -> String {
    let agent = agent.as_str().bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    match scope {
        MemoryScope::Agent => format!("z{agent}z"),
        MemoryScope::Session(id) => format!("z{agent}z{}z", id.0.simple()),
    }
}

/// A filter's values, as [`admitted`] takes them: parameters 1 to 6.
pub(super) struct Bound {
    pub(super) agent: Option<String>,
    pub(super) scopes: Option<String>,
    pub(super) category: Option<String>,
    pub(super) without: String,
    pub(super) source: Option<i64>,
    pub(super) least: i64,
}

impl Bound {
    pub(super) fn new(filter: &MemoryFilter) -> Self {
        let scopes = filter.scopes.as_ref().map(|scopes| {
            let hex = |scope: &MemoryScope| match scope {
                MemoryScope::Agent => String::new(),
                MemoryScope::Session(id) => id.0.simple().to_string().to_uppercase(),
            };
            json!(scopes.iter().map(hex).collect::<Vec<_>>()).to_string()
        });
        Self {
            agent: filter.agent.as_ref().map(|agent| agent.0.clone()),
            scopes,
            category: filter.category.as_ref().map(|category| category.as_str().to_owned()),
            without: json!(filter.without).to_string(),
            source: filter.source.map(trust),
            least: filter.least_trust.map_or(0, trust),
        }
    }
}

/// The condition that a row of `memories` as `m` is admitted.
pub(super) fn admitted(filter: &MemoryFilter) -> String {
    // With an agent the index is of use.
    let agent = if filter.agent.is_some() { "m.agent = ?1" } else { "?1 IS NULL" };
    format!(
        "{agent} AND (?2 IS NULL OR hex(coalesce(m.session, x'')) IN (SELECT value FROM json_each(?2))) \
         AND (?3 IS NULL OR m.category = ?3) AND m.category NOT IN (SELECT value FROM json_each(?4)) \
         AND (?5 IS NULL OR m.source = ?5) AND m.source >= ?6"
    )
}

/// What the index is asked about a word within the filter's scopes.
pub(super) fn expression(word: &str, filter: &MemoryFilter) -> String {
    let word = format!("words : {}", quoted(word));
    match (&filter.agent, &filter.scopes) {
        (Some(agent), Some(scopes)) if !scopes.is_empty() => {
            let scopes = scopes.iter().map(|scope| quoted(&scope_word(agent, scope)));
            format!("{word} AND scope : ({})", scopes.collect::<Vec<_>>().join(" OR "))
        }
        _ => word,
    }
}
