//! Answers to questions. Each runs in one read transaction: a consistent snapshot.

use jiff::Timestamp;
use rookery_messages::chat::ChatMessage;
use rookery_messages::ids::{CallId, ChannelId, ConversationId, OutboxId, TurnId};
use rookery_messages::store::{
    AuditRow, Backlog, CallTrail, ConversationRow, CrashRow, DeadLetter, Found, Ledger, Read,
    StoredMessage,
};
use rookery_messages::tool::ProcessRecord;
use rookery_messages::turn::{Outcome, TurnRecord, TurnState};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use super::codec::{self, APPROVAL_COLUMNS, MESSAGE_COLUMNS, TURN_COLUMNS, TURN_TABLES};
use super::error::Result;
use super::{
    approvals, channels, children, claim, commands, grants, outbox, pairing, retention, spend,
};

/// Answers one question.
pub(super) fn read(conn: &Connection, read: &Read) -> Result<Found> {
    Ok(match read {
        Read::Turn(id) => Found::Turn(turn(conn, *id)?.map(Box::new)),
        Read::CallTrail { turn, call } => {
            Found::CallTrail(call_trail(conn, *turn, *call)?.map(Box::new))
        }
        Read::Turns { conversation, channel, state, limit } => {
            Found::Turns(turns(conn, conversation.as_deref(), channel.as_ref(), *state, *limit)?)
        }
        Read::Tasks { root, limit } => Found::Turns(children::tasks(conn, *root, *limit)?),
        Read::Messages { channel, conversation, limit } => {
            Found::Messages(messages(conn, channel, conversation, *limit)?)
        }
        Read::OpenConversations => Found::OpenConversations(rows(
            conn,
            "SELECT conversation_id FROM turns \
             WHERE outcome IS NULL AND (parent_id IS NULL OR task_of IS NOT NULL) \
             GROUP BY conversation_id ORDER BY min(seq)",
            [],
            |row| Ok(ConversationId(codec::id(row, 0)?)),
        )?),
        Read::HasOpen(id) => Found::Flag(has_open(conn, *id)?),
        Read::Approvals { pending, limit } => {
            let filter = if *pending { "WHERE state = 'pending'" } else { "" };
            let sql = format!("SELECT {APPROVAL_COLUMNS} {filter} ORDER BY seq LIMIT ?1");
            Found::Approvals(rows(conn, &sql, [limit], codec::approval)?)
        }
        Read::Approval(id) => Found::Approval(approvals::find(conn, *id)?.map(Box::new)),
        Read::Grant { conversation_id, agent, tool, key, at } => {
            let grant = grants::covering(conn, *conversation_id, agent, tool, key, *at)?;
            Found::Grant(grant.map(Box::new))
        }
        Read::Grants { all, at, limit } => Found::Grants(grants::list(conn, *all, *at, *limit)?),
        Read::Ledger => Found::Ledger(ledger(conn)?),
        Read::Backlog => Found::Backlog(backlog(conn)?),
        Read::DeadLetters => Found::DeadLetters(dead_letters(conn)?),
        Read::Crashes { limit } => Found::Crashes(crashes(conn, *limit)?),
        Read::Processes => Found::Processes(processes(conn)?),
        Read::Audit { since, limit } => Found::Audit(audit(conn, *since, *limit)?),
        Read::OutboxDue(channel) => Found::Due(outbox::next_due(conn, channel)?),
        Read::Channel(read) => Found::Channel(channels::read(conn, read)?),
        Read::Conversations { limit } => Found::Conversations(conversations(conn, *limit)?),
        Read::Spent { at, keys } => Found::Spent(spend::read(conn, *at, keys)?),
        Read::Pairings => Found::Pairings(pairing::list(conn)?),
        Read::Desk { channel, conversation, agent, external_id } => {
            Found::Desk(Box::new(commands::desk(conn, channel, conversation, agent, external_id)?))
        }
    })
}

pub(super) fn rows<T, P: Params>(
    conn: &Connection,
    sql: &str,
    params: P,
    map: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>> {
    let mut statement = conn.prepare_cached(sql)?;
    let rows = statement.query_map(params, map)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn turn(conn: &Connection, id: TurnId) -> Result<Option<TurnRecord>> {
    let found = conn
        .prepare_cached(&format!("SELECT {TURN_COLUMNS} {TURN_TABLES} WHERE t.id = ?1"))?
        .query_row([id.0.as_bytes()], codec::turn)
        .optional()?;
    let Some((seq, mut record)) = found else { return Ok(None) };
    record.calls = codec::calls(conn, seq)?;
    Ok(Some(record))
}

fn call_trail(conn: &Connection, turn: TurnId, call: CallId) -> Result<Option<CallTrail>> {
    let found: Option<(i64, ConversationId)> = conn
        .prepare_cached("SELECT seq, conversation_id FROM turns WHERE id = ?1")?
        .query_row([turn.0.as_bytes()], |row| Ok((row.get(0)?, ConversationId(codec::id(row, 1)?))))
        .optional()?;
    let Some((seq, conversation)) = found else { return Ok(None) };
    let sql = format!(
        "SELECT {MESSAGE_COLUMNS} FROM messages WHERE conversation_id = ?1 AND turn_id = ?2 \
         ORDER BY seq"
    );
    let key = params![conversation.0.as_bytes(), turn.0.as_bytes()];
    let shown = rows(conn, &sql, key, codec::message)?
        .into_iter()
        .map(|stored| stored.message)
        .find(|message| matches!(message, ChatMessage::Tool { call: of, .. } if *of == call));
    Ok(Some(CallTrail { journal: claim::journal(conn, seq)?, shown }))
}

fn turns(
    conn: &Connection,
    conversation: Option<&str>,
    channel: Option<&ChannelId>,
    state: Option<TurnState>,
    limit: u32,
) -> Result<Vec<TurnRecord>> {
    // One statement a combination, so that each uses the index made for it; whole rows are read only
    // for what is listed.
    let (table, by_state) = match state {
        Some(TurnState::Ended) => ("turns t", "t.state = ?3 AND t.outcome IS NOT NULL"),
        Some(_) => ("turns t INDEXED BY turns_open", "t.state = ?3 AND t.outcome IS NULL"),
        None => ("turns t", "true"),
    };
    let by_place = match (conversation, channel) {
        (Some(_), _) => {
            "t.conversation_id IN (SELECT id FROM conversations \
             WHERE conversation = ?1 AND (?2 IS NULL OR channel = ?2))"
        }
        (None, Some(_)) => {
            "EXISTS (SELECT 1 FROM conversations p WHERE p.id = t.conversation_id \
             AND p.channel = ?2)"
        }
        (None, None) => "true",
    };
    let listed = format!(
        "SELECT t.seq FROM {table} WHERE {by_state} AND {by_place} ORDER BY t.seq DESC LIMIT ?4"
    );
    let sql = format!(
        "SELECT {TURN_COLUMNS} {TURN_TABLES} WHERE t.seq IN ({listed}) ORDER BY t.seq DESC"
    );
    let key =
        params![conversation, channel.map(ChannelId::as_str), state.map(|s| s.as_str()), limit];
    let mut records = Vec::new();
    for (seq, mut record) in rows(conn, &sql, key, codec::turn)? {
        record.calls = codec::calls(conn, seq)?;
        records.push(record);
    }
    Ok(records)
}

fn messages(
    conn: &Connection,
    channel: &ChannelId,
    conversation: &str,
    limit: u32,
) -> Result<Option<Vec<StoredMessage>>> {
    let ids: Vec<ConversationId> = rows(
        conn,
        "SELECT id FROM conversations WHERE conversation = ?1 AND channel = ?2",
        params![conversation, channel.as_str()],
        |row| Ok(ConversationId(codec::id(row, 0)?)),
    )?;
    if ids.is_empty() {
        return Ok(None);
    }
    // The newest of each agent's conversation under this name: the index gives them without a sort.
    let sql = format!(
        "SELECT {MESSAGE_COLUMNS}, seq FROM messages WHERE conversation_id = ?1 \
         ORDER BY seq DESC LIMIT ?2"
    );
    let mut found: Vec<(i64, StoredMessage)> = Vec::new();
    for id in ids {
        found.extend(rows(conn, &sql, params![id.0.as_bytes(), limit], |row| {
            Ok((row.get(4)?, codec::message(row)?))
        })?);
    }
    found.sort_by_key(|(seq, _)| *seq);
    let older = found.len().saturating_sub(limit as usize);
    Ok(Some(found.into_iter().skip(older).map(|(_, message)| message).collect()))
}

fn ledger(conn: &Connection) -> Result<Ledger> {
    let counts: Vec<(Option<Outcome>, u64)> =
        rows(conn, "SELECT outcome, count(*) FROM inbox GROUP BY outcome", [], |row| {
            Ok((codec::word_option(row, 0)?, codec::counter(row, 1)?))
        })?;
    // Counted apart from the ends, so that a row that is in none of them shows.
    let accepted = conn
        .prepare_cached("SELECT count(*) FROM inbox")?
        .query_row([], |row| codec::counter(row, 0))?;
    let mut ledger = Ledger { accepted, ..Ledger::default() };
    let mut gone = 0;
    for (outcome, count) in counts {
        let place = match outcome {
            None => &mut ledger.open,
            Some(outcome) => place(&mut ledger, outcome),
        };
        *place = count;
    }
    // What is not kept any more has been counted.
    for outcome in Outcome::ALL {
        let count = retention::gone(conn, outcome)?;
        *place(&mut ledger, outcome) += count;
        gone += count;
    }
    ledger.accepted += gone;
    Ok(ledger)
}

/// By the indexes of what is open: the cost is that of the backlog, not of the history.
fn backlog(conn: &Connection) -> Result<Backlog> {
    let count = |sql: &str| -> Result<u64> {
        Ok(conn.prepare_cached(sql)?.query_row([], |row| codec::counter(row, 0))?)
    };
    Ok(Backlog {
        open: rows(
            conn,
            "SELECT state, count(*) FROM turns WHERE outcome IS NULL GROUP BY state ORDER BY state",
            [],
            |row| Ok((codec::word(row, 0)?, codec::counter(row, 1)?)),
        )?,
        oldest_open: conn
            .prepare_cached(
                "SELECT accepted_at FROM inbox \
                 WHERE seq = (SELECT min(seq) FROM turns WHERE outcome IS NULL)",
            )?
            .query_row([], |row| codec::time_option(row, 0))
            .optional()?
            .flatten(),
        approvals: count("SELECT count(*) FROM approvals WHERE state = 'pending'")?,
        outbox: count("SELECT count(*) FROM outbox WHERE state IN ('pending', 'sending')")?,
        dead_letters: count("SELECT count(*) FROM outbox WHERE state = 'dead'")?,
    })
}

fn place(ledger: &mut Ledger, outcome: Outcome) -> &mut u64 {
    match outcome {
        Outcome::Answered => &mut ledger.answered,
        Outcome::Silent => &mut ledger.silent,
        Outcome::Failed => &mut ledger.failed,
        Outcome::Cancelled => &mut ledger.cancelled,
        Outcome::Rejected => &mut ledger.rejected,
        Outcome::Expired => &mut ledger.expired,
        Outcome::Merged => &mut ledger.merged,
    }
}

fn dead_letters(conn: &Connection) -> Result<Vec<DeadLetter>> {
    rows(
        conn,
        "SELECT id, kind, channel, turn_id IS NOT NULL, turn_id, cause, class, updated_at, \
         attempts FROM outbox WHERE state = 'dead' ORDER BY seq",
        [],
        |row| {
            let has_turn: bool = row.get(3)?;
            Ok(DeadLetter {
                id: OutboxId(codec::id(row, 0)?),
                kind: row.get(1)?,
                channel: ChannelId(row.get(2)?),
                turn: if has_turn { Some(TurnId(codec::id(row, 4)?)) } else { None },
                cause: row.get(5)?,
                class: row.get(6)?,
                at: codec::time(row, 7)?,
                attempts: row.get(8)?,
            })
        },
    )
}

fn crashes(conn: &Connection, limit: u32) -> Result<Vec<CrashRow>> {
    rows(
        conn,
        "SELECT id, kind, path, cause, location, at, count, message_in_hand FROM crashes \
         ORDER BY at DESC, id DESC LIMIT ?1",
        [limit],
        |row| {
            let location: String = row.get(4)?;
            Ok(CrashRow {
                id: row.get(0)?,
                kind: row.get(1)?,
                path: row.get(2)?,
                cause: row.get(3)?,
                location: Some(location).filter(|location| !location.is_empty()),
                at: codec::time(row, 5)?,
                count: codec::counter(row, 6)?,
                message_in_hand: row.get(7)?,
            })
        },
    )
}

fn processes(conn: &Connection) -> Result<Vec<ProcessRecord>> {
    rows(
        conn,
        "SELECT call_id, pgid, boot_id, start_ticks FROM processes ORDER BY call_id, pgid",
        [],
        |row| {
            Ok(ProcessRecord {
                call: CallId(codec::id(row, 0)?),
                pgid: row.get(1)?,
                boot_id: row.get(2)?,
                start_ticks: codec::counter(row, 3)?,
            })
        },
    )
}

fn audit(conn: &Connection, since: Option<Timestamp>, limit: u32) -> Result<Vec<AuditRow>> {
    rows(
        conn,
        "SELECT at, who, via, action, target, detail FROM audit \
         WHERE ?1 IS NULL OR at >= ?1 ORDER BY id DESC LIMIT ?2",
        params![since.map(codec::nanos), limit],
        |row| {
            Ok(AuditRow {
                at: codec::time(row, 0)?,
                who: row.get(1)?,
                via: row.get(2)?,
                action: row.get(3)?,
                target: row.get(4)?,
                detail: codec::json(row, 5)?,
            })
        },
    )
}

fn conversations(conn: &Connection, limit: u32) -> Result<Vec<ConversationRow>> {
    rows(
        conn,
        "SELECT c.id, c.channel, c.conversation, c.agent, c.last_at, \
         (SELECT count(*) FROM messages m WHERE m.conversation_id = c.id) \
         FROM conversations c ORDER BY c.last_at DESC, c.id DESC LIMIT ?1",
        [limit],
        |row| {
            Ok(ConversationRow {
                id: ConversationId(codec::id(row, 0)?),
                channel: ChannelId(row.get(1)?),
                conversation: row.get(2)?,
                agent: row.get(3)?,
                last_at: codec::time(row, 4)?,
                messages: codec::counter(row, 5)?,
            })
        },
    )
}

/// Whether a conversation has a turn without an outcome.
pub(super) fn has_open(conn: &Connection, id: ConversationId) -> Result<bool> {
    Ok(conn
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM turns WHERE conversation_id = ?1 AND outcome IS NULL)",
        )?
        .query_row([id.0.as_bytes()], |row| row.get(0))?)
}
