//! Requests for approval that were posted in chats: in which message each stands.

use rookery_messages::approval::ApprovalState;
use rookery_messages::ids::{ApprovalId, ChannelId, TurnId};
use rookery_messages::store::{OutboxPayload, PromptRow};
use rusqlite::{Connection, params};

use super::error::Result;
use super::reads::rows;
use super::{approvals, codec};

/// The message a request stands in, if it was shown.
pub(super) fn of(
    conn: &Connection,
    channel: &ChannelId,
    turn: TurnId,
    approval: ApprovalId,
) -> Result<Option<String>> {
    let shown = rows(
        conn,
        "SELECT payload, external_id FROM outbox \
         WHERE turn_id = ?2 AND kind = 'approval' AND channel = ?1 AND state = 'sent' \
         AND external_id IS NOT NULL ORDER BY seq",
        params![channel.as_str(), turn.0.as_bytes()],
        |row| Ok((asked(codec::json(row, 0)?), row.get(1)?)),
    )?;
    Ok(shown.into_iter().find(|(id, _)| *id == Some(approval)).map(|(_, message)| message))
}

/// All that nobody has decided.
pub(super) fn open(conn: &Connection, channel: &ChannelId) -> Result<Vec<PromptRow>> {
    let shown = rows(
        conn,
        "SELECT payload, conversation, external_id FROM outbox \
         WHERE turn_id IN (SELECT turn_id FROM approvals WHERE state = 'pending') \
         AND kind = 'approval' AND channel = ?1 AND state = 'sent' AND external_id IS NOT NULL \
         ORDER BY seq",
        params![channel.as_str()],
        |row| Ok((asked(codec::json(row, 0)?), row.get(1)?, row.get(2)?)),
    )?;
    let mut prompts = Vec::new();
    for (approval, conversation, message) in shown {
        let Some(approval) = approval else { continue };
        let found = approvals::find(conn, approval)?;
        if found.is_some_and(|found| found.state == ApprovalState::Pending) {
            prompts.push(PromptRow { approval, conversation, message });
        }
    }
    Ok(prompts)
}

fn asked(payload: OutboxPayload) -> Option<ApprovalId> {
    match payload {
        OutboxPayload::Approval { approval, .. } => Some(approval),
        OutboxPayload::Reply { .. } | OutboxPayload::Notice { .. } => None,
    }
}
