//! Standing grants: written with the decision that gives them, found by what a call is, taken back.

use jiff::Timestamp;
use rookery_messages::approval::{Approval, Decider, Decision, Grant};
use rookery_messages::ids::{AgentName, ConversationId, GrantId};
use rookery_messages::store::{AuditRow, DecideApproval, NewGrant, StoreError};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::json;

use super::codec::{self, GRANT_COLUMNS};
use super::error::Result;
use super::{reads, records};

/// The grant a decision gives. It covers what the request offered, nothing else.
pub(super) fn of(
    conn: &Connection,
    approval: &Approval,
    request: &DecideApproval,
    new: NewGrant,
) -> Result<Grant> {
    if request.decision != Decision::Always {
        let text = "only `always` gives a grant";
        return Err(StoreError::Conflict(text.to_owned()).into());
    }
    let Some(offer) = &approval.offer else {
        let text = "this call offers no grant; approve it for this once";
        return Err(StoreError::Conflict(text.to_owned()).into());
    };
    if !offer.allows(new.scope) {
        let text = "this grant can only hold in its conversation; what it runs can't be bound";
        return Err(StoreError::Conflict(text.to_owned()).into());
    }
    let agent: String = conn
        .prepare_cached("SELECT agent FROM conversations WHERE id = ?1")?
        .query_row([approval.conversation_id.0.as_bytes()], |row| row.get(0))?;
    Ok(Grant {
        id: new.id,
        scope: new.scope,
        conversation_id: approval.conversation_id,
        agent: AgentName(agent),
        tool: approval.tool.clone(),
        pattern: offer.pattern.clone(),
        key: offer.key.clone(),
        granted_by: request.decider.clone(),
        granted_at: request.at,
        expires_at: new.expires_at,
        revoked_by: None,
        revoked_at: None,
    })
}

/// Writes a grant, and that it was given.
pub(super) fn add(conn: &Connection, grant: &Grant) -> Result<()> {
    conn.prepare_cached(
        "INSERT INTO grants (id, scope, conversation_id, agent, tool, pattern, key, granted_by, \
         granted_at, expires_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?
    .execute(params![
        grant.id.0.as_bytes(),
        grant.scope.as_str(),
        grant.conversation_id.0.as_bytes(),
        grant.agent.as_str(),
        grant.tool,
        grant.pattern,
        grant.key,
        serde_json::to_string(&grant.granted_by)?,
        codec::nanos(grant.granted_at),
        codec::nanos(grant.expires_at),
    ])?;
    audit(conn, grant, "grant.give", &grant.granted_by, grant.granted_at)
}

/// Takes a grant back, once; gives it as it stands.
pub(super) fn revoke(
    conn: &Connection,
    id: GrantId,
    at: Timestamp,
    by: &Decider,
) -> Result<Option<Grant>> {
    let Some(mut grant) = find(conn, id)? else { return Ok(None) };
    if grant.revoked_at.is_none() {
        conn.prepare_cached("UPDATE grants SET revoked_by = ?2, revoked_at = ?3 WHERE id = ?1")?
            .execute(params![id.0.as_bytes(), serde_json::to_string(by)?, codec::nanos(at)])?;
        audit(conn, &grant, "grant.revoke", by, at)?;
        grant.revoked_by = Some(by.clone());
        grant.revoked_at = Some(at);
    }
    Ok(Some(grant))
}

/// A new conversation begins under the name of an old one: what was always allowed in that ends with it.
pub(super) fn end_of_conversation(
    conn: &Connection,
    conversation: ConversationId,
    at: Timestamp,
    by: &Decider,
) -> Result<()> {
    let ids: Vec<[u8; 16]> = conn
        .prepare_cached(
            "SELECT id FROM grants WHERE conversation_id = ?1 AND scope = 'conversation' \
             AND revoked_at IS NULL AND expires_at > ?2",
        )?
        .query_map(params![conversation.0.as_bytes(), codec::nanos(at)], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for id in ids {
        revoke(conn, GrantId(uuid::Uuid::from_bytes(id)), at, by)?;
    }
    Ok(())
}

fn find(conn: &Connection, id: GrantId) -> Result<Option<Grant>> {
    Ok(conn
        .prepare_cached(&format!("SELECT {GRANT_COLUMNS} WHERE id = ?1"))?
        .query_row([id.0.as_bytes()], codec::grant)
        .optional()?)
}

/// A grant that covers a call now: the one that ends last.
pub(super) fn covering(
    conn: &Connection,
    conversation_id: ConversationId,
    agent: &AgentName,
    tool: &str,
    key: &str,
    at: Timestamp,
) -> Result<Option<Grant>> {
    let sql = format!(
        "SELECT {GRANT_COLUMNS} WHERE tool = ?1 AND key = ?2 AND revoked_at IS NULL \
         AND expires_at > ?3 AND (scope = 'conversation' AND conversation_id = ?4 \
         OR scope = 'agent' AND agent = ?5) ORDER BY expires_at DESC LIMIT 1"
    );
    let key = params![tool, key, codec::nanos(at), conversation_id.0.as_bytes(), agent.as_str()];
    Ok(conn.prepare_cached(&sql)?.query_row(key, codec::grant).optional()?)
}

/// Grants, newest first.
pub(super) fn list(conn: &Connection, all: bool, at: Timestamp, limit: u32) -> Result<Vec<Grant>> {
    let sql = format!(
        "SELECT {GRANT_COLUMNS} WHERE ?1 OR (revoked_at IS NULL AND expires_at > ?2) \
         ORDER BY seq DESC LIMIT ?3"
    );
    reads::rows(conn, &sql, params![all, codec::nanos(at), limit], codec::grant)
}

fn audit(
    conn: &Connection,
    grant: &Grant,
    action: &str,
    by: &Decider,
    at: Timestamp,
) -> Result<()> {
    let row = AuditRow {
        at,
        who: by.who.clone(),
        via: by.via.clone(),
        action: action.to_owned(),
        target: grant.id.to_string(),
        detail: json!({
            "tool": grant.tool,
            "pattern": grant.pattern,
            "scope": grant.scope,
            "agent": grant.agent,
            "conversation": grant.conversation_id,
            "expires_at": rookery_messages::time::rfc3339_millis(grant.expires_at),
        }),
    };
    records::audit(conn, &row)
}
