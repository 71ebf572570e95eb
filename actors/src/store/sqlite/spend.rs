//! What was spent a day, added up for those who have a limit (B11).

use jiff::Timestamp;
use rookery_messages::ids::TurnId;
use rookery_messages::store::{SpendKey, Spent, TurnCommit};
use rusqlite::{Connection, OptionalExtension, params};

use super::codec;
use super::error::Result;

/// Days are UTC's, counted since 1970.
fn day(at: Timestamp) -> i64 {
    at.as_second().div_euclid(86_400)
}

/// What a step adds to the day's sums: what it writes of the turn's spending, over what stands there.
pub(super) fn add(conn: &Connection, turn_seq: i64, step: &TurnCommit) -> Result<()> {
    let Some(usage) = step.usage.filter(|_| !step.spend.is_empty()) else { return Ok(()) };
    let (tokens, micros) = conn
        .prepare_cached(
            "SELECT input_tokens + output_tokens, cost_micros FROM turns WHERE seq = ?1",
        )?
        .query_row([turn_seq], |row| Ok((codec::counter(row, 0)?, codec::counter(row, 1)?)))?;
    let tokens = usage.total().saturating_sub(tokens);
    let micros = step.cost_micros.saturating_sub(micros);
    if tokens == 0 && micros == 0 {
        return Ok(());
    }
    let mut statement = conn.prepare_cached(
        "INSERT INTO spend (day, scope, name, tokens, cost_micros) VALUES (?1, ?2, ?3, ?4, ?5) \
         ON CONFLICT (day, scope, name) DO UPDATE SET tokens = tokens + excluded.tokens, \
         cost_micros = cost_micros + excluded.cost_micros",
    )?;
    for SpendKey { scope, name } in &step.spend {
        statement.execute(params![
            day(step.at),
            scope.as_str(),
            name,
            codec::count(tokens),
            codec::count(micros)
        ])?;
    }
    Ok(())
}

/// The sums of the day of `at`, in the order they were asked for.
pub(super) fn read(conn: &Connection, at: Timestamp, keys: &[SpendKey]) -> Result<Vec<Spent>> {
    let mut statement = conn.prepare_cached(
        "SELECT tokens, cost_micros FROM spend WHERE day = ?1 AND scope = ?2 AND name = ?3",
    )?;
    let mut sums = Vec::with_capacity(keys.len());
    for SpendKey { scope, name } in keys {
        let found = statement
            .query_row(params![day(at), scope.as_str(), name], |row| {
                Ok(Spent { tokens: codec::counter(row, 0)?, micros: codec::counter(row, 1)? })
            })
            .optional()?;
        sums.push(found.unwrap_or_default());
    }
    Ok(sums)
}

/// What each delegate of a turn has spent.
pub(super) fn of_children(conn: &Connection, turn: TurnId) -> Result<Vec<(TurnId, Spent)>> {
    super::reads::rows(
        conn,
        "SELECT id, input_tokens + output_tokens, cost_micros FROM turns \
         WHERE parent_id IS NOT NULL AND parent_id = ?1 AND task_of IS NULL",
        [turn.0.as_bytes()],
        |row| {
            let spent = Spent { tokens: codec::counter(row, 1)?, micros: codec::counter(row, 2)? };
            Ok((TurnId(codec::id(row, 0)?), spent))
        },
    )
}
