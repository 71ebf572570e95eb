//! What a channel keeps besides inbox and outbox.

use std::time::Duration;

use jiff::Timestamp;
use rookery_messages::envelope::Inbound;
use rookery_messages::ids::{ChannelId, EnvelopeId, OutboxId, TurnId};
use rookery_messages::store::{
    BotChain, ChannelFound, ChannelRead, ChannelWrite, DraftRow, SpoolRow, StoreError, Written,
};
use rusqlite::{Connection, OptionalExtension, params};

use super::error::Result;
use super::reads::rows;
use super::{codec, outbox, prompts};

/// How long an accepted message of the spool is known: longer than platforms deliver again.
const KNOWN_FOR: Duration = Duration::from_secs(7 * 24 * 3_600);

pub(super) fn write(conn: &Connection, write: &ChannelWrite) -> Result<Written> {
    match write {
        ChannelWrite::Progress { id, sent } => progress(conn, *id, sent)?,
        ChannelWrite::Draft(row) => draft(conn, row)?,
        ChannelWrite::Spool(row) => return Ok(Written::Spooled(spool(conn, row)?)),
        ChannelWrite::Unspool { channel, external_ids, at } => {
            unspool(conn, channel, external_ids, *at)?;
        }
        ChannelWrite::Post { message, audit, at } => {
            return Ok(Written::Posted(outbox::post(conn, message, audit.as_deref(), *at)?));
        }
    }
    Ok(Written::Done)
}

pub(super) fn read(conn: &Connection, read: &ChannelRead) -> Result<ChannelFound> {
    Ok(match read {
        ChannelRead::Draft(turn) => ChannelFound::Draft(draft_of(conn, *turn)?),
        ChannelRead::Spool(channel) => ChannelFound::Spool(spooled(conn, channel)?),
        ChannelRead::Outbox(id) => ChannelFound::Outbox(outbox::status(conn, *id)?),
        ChannelRead::Prompt { channel, turn, approval } => {
            ChannelFound::Prompt(prompts::of(conn, channel, *turn, *approval)?)
        }
        ChannelRead::Prompts(channel) => ChannelFound::Prompts(prompts::open(conn, channel)?),
        ChannelRead::Bots { channel, conversation, external_id, limit } => {
            ChannelFound::Bots(bots(conn, channel, conversation, external_id, *limit)?)
        }
    })
}

fn progress(conn: &Connection, id: OutboxId, sent: &[String]) -> Result<()> {
    let changed = conn
        .prepare_cached("UPDATE outbox SET progress = ?2 WHERE id = ?1")?
        .execute(params![id.0.as_bytes(), serde_json::to_string(sent)?])?;
    if changed == 0 {
        return Err(StoreError::NotFound.into());
    }
    Ok(())
}

fn draft(conn: &Connection, row: &DraftRow) -> Result<()> {
    conn.prepare_cached(
        "INSERT INTO drafts (turn_id, message, shown) VALUES (?1, ?2, ?3) \
         ON CONFLICT (turn_id) DO UPDATE SET message = excluded.message, shown = excluded.shown",
    )?
    .execute(params![row.turn.0.as_bytes(), row.message, row.shown])?;
    Ok(())
}

/// The answer of an outbox row has arrived: what was seen of it before is history.
pub(super) fn drop_draft(conn: &Connection, id: OutboxId) -> Result<()> {
    conn.prepare_cached(
        "DELETE FROM drafts WHERE turn_id = \
         (SELECT turn_id FROM outbox WHERE id = ?1 AND kind = 'reply')",
    )?
    .execute([id.0.as_bytes()])?;
    Ok(())
}

fn draft_of(conn: &Connection, turn: TurnId) -> Result<Option<DraftRow>> {
    Ok(conn
        .prepare_cached("SELECT message, shown FROM drafts WHERE turn_id = ?1")?
        .query_row([turn.0.as_bytes()], |row| {
            Ok(DraftRow { turn, message: row.get(0)?, shown: row.get(1)? })
        })
        .optional()?)
}

fn spool(conn: &Connection, row: &SpoolRow) -> Result<bool> {
    let added = conn
        .prepare_cached(
            "INSERT INTO spool (channel, external_id, incoming, at) VALUES (?1, ?2, ?3, ?4) \
             ON CONFLICT (channel, external_id) DO NOTHING",
        )?
        .execute(params![
            row.channel.as_str(),
            row.incoming.external_id,
            serde_json::to_string(&row.incoming)?,
            codec::nanos(row.at),
        ])?;
    Ok(added > 0)
}

fn unspool(conn: &Connection, channel: &ChannelId, ids: &[String], at: Timestamp) -> Result<()> {
    let mut done = conn.prepare_cached(
        "UPDATE spool SET done_at = ?3 \
         WHERE channel = ?1 AND external_id = ?2 AND done_at IS NULL",
    )?;
    for id in ids {
        done.execute(params![channel.as_str(), id, codec::nanos(at)])?;
    }
    conn.prepare_cached("DELETE FROM spool WHERE done_at < ?1")?
        .execute([codec::nanos(at - KNOWN_FOR)])?;
    Ok(())
}

/// How many of a conversation's newest messages bots wrote.
fn bots(
    conn: &Connection,
    channel: &ChannelId,
    conversation: &str,
    external_id: &str,
    limit: u32,
) -> Result<BotChain> {
    let newest = rows(
        conn,
        "SELECT i.id, i.inbound FROM turns t JOIN inbox i ON i.seq = t.seq \
         WHERE t.conversation_id IN \
             (SELECT id FROM conversations WHERE conversation = ?2 AND channel = ?1) \
         ORDER BY t.seq DESC LIMIT ?3",
        params![channel.as_str(), conversation, limit],
        |row| {
            let inbound: Inbound = codec::json(row, 1)?;
            Ok((EnvelopeId(codec::id(row, 0)?), inbound.sender.is_bot))
        },
    )?;
    let known = conn
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM inbox WHERE channel = ?1 AND external_id = ?2)",
        )?
        .query_row(params![channel.as_str(), external_id], |row| row.get(0))?;
    let chain: Vec<EnvelopeId> =
        newest.into_iter().take_while(|(_, is_bot)| *is_bot).map(|(id, _)| id).collect();
    let length = u32::try_from(chain.len()).unwrap_or(u32::MAX);
    Ok(BotChain { length, last: chain.first().copied(), known })
}

fn spooled(conn: &Connection, channel: &ChannelId) -> Result<Vec<SpoolRow>> {
    let query =
        "SELECT incoming, at FROM spool WHERE channel = ?1 AND done_at IS NULL ORDER BY seq";
    rows(conn, query, [channel.as_str()], |row| {
        Ok(SpoolRow {
            channel: channel.clone(),
            incoming: codec::json(row, 0)?,
            at: codec::time(row, 1)?,
        })
    })
}
