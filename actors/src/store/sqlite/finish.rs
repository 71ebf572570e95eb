//! The one end of a turn and of its envelope (I1).

use jiff::Timestamp;
use rookery_messages::ids::TurnId;
use rookery_messages::store::AuditRow;
use rookery_messages::turn::TurnFinish;
use rusqlite::{Connection, params};
use serde_json::json;

use super::error::Result;
use super::{children, codec, records};

/// Writes the end of the turn at `seq`, if it has none; tells whether it had none.
pub(super) fn end(conn: &Connection, seq: i64, finish: &TurnFinish, at: Timestamp) -> Result<bool> {
    let error = finish.error.as_ref();
    let changed = conn
        .prepare_cached(
            "UPDATE turns SET state = 'ended', outcome = ?2, reply = ?3, error_code = ?4, \
             error_message = ?5, input_tokens = ?6, output_tokens = ?7, ended_at = ?8 \
             WHERE seq = ?1 AND outcome IS NULL",
        )?
        .execute(params![
            seq,
            finish.outcome.as_str(),
            finish.reply,
            error.map(|error| error.code.as_str()),
            error.map(|error| error.message.as_str()),
            codec::count(finish.usage.input),
            codec::count(finish.usage.output),
            codec::nanos(at),
        ])?;
    if changed == 0 {
        return Ok(false);
    }
    conn.prepare_cached("UPDATE inbox SET outcome = ?2 WHERE seq = ?1")?
        .execute(params![seq, finish.outcome.as_str()])?;
    children::end_delegates(conn, seq, at)?;
    Ok(true)
}

/// Gives each call that has none its end (I4). One that ran may have had its effect.
pub(super) fn end_calls(conn: &Connection, seq: i64, at: Timestamp) -> Result<()> {
    conn.prepare_cached(
        "UPDATE calls SET ended_at = ?2, \
         state = CASE state WHEN 'running' THEN 'unknown' ELSE 'interrupted' END \
         WHERE turn_seq = ?1 AND state IN ('planned', 'waiting', 'running')",
    )?
    .execute(params![seq, codec::nanos(at)])?;
    Ok(())
}

/// Withdraws what the turn still asks; each withdrawal stands in the audit.
pub(super) fn withdraw(conn: &Connection, turn: TurnId, at: Timestamp) -> Result<()> {
    // Few turns ask: a look is cheaper than an update that returns rows.
    let asks: bool = conn
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM approvals WHERE turn_id = ?1 AND state = 'pending')",
        )?
        .query_row([turn.0.as_bytes()], |row| row.get(0))?;
    if !asks {
        return Ok(());
    }
    let mut statement = conn.prepare_cached(
        "UPDATE approvals SET state = 'cancelled', decision = '{\"decision\":\"cancelled\"}', \
         decided_by = '{\"who\":\"runtime\",\"via\":\"runtime\"}', decided_at = ?2 \
         WHERE turn_id = ?1 AND state = 'pending' RETURNING id, tool",
    )?;
    let withdrawn = statement
        .query_map(params![turn.0.as_bytes(), codec::nanos(at)], |row| {
            Ok((codec::id(row, 0)?, row.get::<_, String>(1)?))
        })?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    for (approval, tool) in withdrawn {
        let row = AuditRow {
            at,
            who: "runtime".to_owned(),
            via: "runtime".to_owned(),
            action: "approval.cancelled".to_owned(),
            target: approval.to_string(),
            detail: json!({ "turn": turn, "tool": tool }),
        };
        records::audit(conn, &row)?;
    }
    Ok(())
}
