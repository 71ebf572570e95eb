//! Turns that another turn handed on: how they are placed, counted, listed, and ended with their parent.

use jiff::Timestamp;
use rookery_messages::approval::Decider;
use rookery_messages::delegation::{ChildMode, NewChild};
use rookery_messages::ids::{ConversationId, TurnId};
use rookery_messages::journal::{JournalEntry, JournalKind};
use rookery_messages::store::{CancelOutcome, StoreError};
use rookery_messages::turn::{Outcome, TurnError, TurnFinish, TurnRecord};
use rusqlite::{Connection, params};

use super::codec::{self, TURN_COLUMNS, TURN_TABLES};
use super::error::Result;
use super::{commit, finish, inbox};

/// Places a new turn below its parent, within the parent's limits.
pub(super) fn place(conn: &Connection, seq: i64, child: &NewChild) -> Result<()> {
    let of = &child.of;
    let parent = of.turn.0.as_bytes();
    let ended: bool = conn
        .prepare_cached("SELECT outcome IS NOT NULL FROM turns WHERE id = ?1")?
        .query_row([parent], |row| row.get(0))?;
    if ended {
        return Err(StoreError::Conflict("the turn that hands it on has ended".into()).into());
    }
    let children: u32 = conn
        .prepare_cached("SELECT count(*) FROM turns WHERE parent_id = ?1")?
        .query_row([parent], |row| row.get(0))?;
    if children >= child.max_children {
        let text = format!(
            "the turn has {children} children, the most it may have (`max_children`); do the rest in \
             this turn"
        );
        return Err(StoreError::Conflict(text).into());
    }
    let task_of = (of.mode == ChildMode::Task).then_some(of.root.0.as_bytes());
    if task_of.is_some() {
        let open: u32 = conn
            .prepare_cached("SELECT count(*) FROM turns WHERE task_of = ?1 AND outcome IS NULL")?
            .query_row([task_of], |row| row.get(0))?;
        if open >= child.max_tasks {
            let text = format!(
                "{open} background tasks of this conversation have not ended, the most there may be \
                 (`max_tasks`); wait for one, or cancel one"
            );
            return Err(StoreError::Conflict(text).into());
        }
    }
    conn.prepare_cached(
        "UPDATE turns SET child_of = ?2, parent_id = ?3, task_of = ?4, reply_address = ?5 \
         WHERE seq = ?1",
    )?
    .execute(params![
        seq,
        serde_json::to_string(of)?,
        parent,
        task_of,
        serde_json::to_string(&of.reply_to)?,
    ])?;
    Ok(())
}

/// A turn has ended: nobody waits for the children it delegated to. What runs of them has been stopped
/// before; these are those that never began, or whose end could not be written.
pub(super) fn end_delegates(conn: &Connection, parent_seq: i64, at: Timestamp) -> Result<()> {
    let open = conn
        .prepare_cached(
            "SELECT seq, id, attempts FROM turns WHERE parent_id = (SELECT id FROM turns \
             WHERE seq = ?1) AND task_of IS NULL AND outcome IS NULL",
        )?
        .query_map([parent_seq], |row| {
            Ok((row.get::<_, i64>(0)?, TurnId(codec::id(row, 1)?), row.get::<_, u32>(2)?))
        })?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    for (seq, turn, attempts) in open {
        let end = TurnFinish {
            outcome: Outcome::Cancelled,
            reply: None,
            error: Some(TurnError::new("parent_ended", "the turn that waited for it has ended")),
            usage: Default::default(),
        };
        if finish::end(conn, seq, &end, at)? {
            finish::withdraw(conn, turn, at)?;
            finish::end_calls(conn, seq, at)?;
            let entry = JournalEntry {
                attempt: attempts.saturating_add(1),
                seq: 0,
                kind: JournalKind::Ended { finish: end },
            };
            commit::add_entry(conn, seq, &entry, at)?;
        }
    }
    Ok(())
}

/// Whether the tasks a turn had begun end with it: somebody cancelled it. One that failed, or gave way to
/// a newer message, leaves them to go on.
pub(super) fn takes_tasks_along(end: &TurnFinish) -> bool {
    let code = end.error.as_ref().map(|error| error.code.as_str());
    end.outcome == Outcome::Cancelled && matches!(code, Some("cancelled" | "operator"))
}

/// Ends the tasks of a cancelled turn that wait, and marks those that run: gives these.
pub(super) fn cancel_tasks(
    conn: &Connection,
    parent: TurnId,
    at: Timestamp,
) -> Result<Vec<(ConversationId, TurnId)>> {
    let open = conn
        .prepare_cached(
            "SELECT id, conversation_id FROM turns \
             WHERE parent_id = ?1 AND task_of IS NOT NULL AND outcome IS NULL ORDER BY seq",
        )?
        .query_map([parent.0.as_bytes()], |row| {
            Ok((TurnId(codec::id(row, 0)?), ConversationId(codec::id(row, 1)?)))
        })?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let by = Decider { who: "runtime".to_owned(), via: format!("turn {parent}") };
    let mut marked = Vec::new();
    for (turn, conversation) in open {
        if inbox::cancel(conn, turn, at, &by)? == CancelOutcome::Marked {
            marked.push((conversation, turn));
        }
    }
    Ok(marked)
}

/// Background tasks of a conversation, newest first.
pub(super) fn tasks(
    conn: &Connection,
    root: ConversationId,
    limit: u32,
) -> Result<Vec<TurnRecord>> {
    let sql = format!(
        "SELECT {TURN_COLUMNS} {TURN_TABLES} WHERE t.task_of = ?1 ORDER BY t.seq DESC LIMIT ?2"
    );
    let found = conn
        .prepare_cached(&sql)?
        .query_map(params![root.0.as_bytes(), limit], codec::turn)?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    found
        .into_iter()
        .map(|(seq, mut record)| {
            record.calls = codec::calls(conn, seq)?;
            Ok(record)
        })
        .collect()
}
