//! Deciding an approval: one compare-and-set on *pending*, by somebody allowed to (I7).

use jiff::Timestamp;
use rookery_messages::approval::{Approval, ApprovalState, Decider, Decision, Grant};
use rookery_messages::ids::ApprovalId;
use rookery_messages::store::{AuditRow, DecideApproval, DecideOutcome, StoreError};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::json;

use super::codec::{self, APPROVAL_COLUMNS};
use super::error::Result;
use super::records;

/// Decides, or says what stands.
pub(super) fn decide(conn: &Connection, request: &DecideApproval) -> Result<DecideOutcome> {
    let Some(approval) = find(conn, request.approval)? else {
        return Ok(DecideOutcome::NotFound);
    };
    // Before anything is told: an outsider learns nothing of the request, and leaves a trace.
    if !request.privileged && !approval.approvers.contains(&request.decider.who) {
        let action = "approval.not_allowed";
        audit(conn, &approval, &request.decider, &request.decision, action, request.at)?;
        return Ok(DecideOutcome::NotAllowed);
    }
    if approval.state != ApprovalState::Pending {
        // The same decision sent again, because its answer was lost, is still the one that stands.
        let same = approval.decision.as_ref() == Some(&request.decision)
            && approval.decided_by.as_ref() == Some(&request.decider)
            && approval.decided_at == Some(request.at);
        let approval = Box::new(approval);
        return Ok(if same {
            DecideOutcome::Decided(approval)
        } else {
            DecideOutcome::AlreadyDecided(approval)
        });
    }
    let too_late = request.at >= approval.expires_at
        && !matches!(request.decision, Decision::NoAnswer | Decision::Cancelled);
    if too_late {
        let runtime = Decider { who: "runtime".to_owned(), via: "runtime".to_owned() };
        let expired = set(conn, approval, Decision::NoAnswer, runtime, request.at)?;
        return Ok(DecideOutcome::AlreadyDecided(Box::new(expired)));
    }
    if let Some(grant) = &request.grant {
        check_grant(&approval, request, grant)?;
    }
    let decided =
        set(conn, approval, request.decision.clone(), request.decider.clone(), request.at)?;
    if let Some(grant) = &request.grant {
        add_grant(conn, grant)?;
    }
    Ok(DecideOutcome::Decided(Box::new(decided)))
}

/// One approval.
pub(super) fn find(conn: &Connection, id: ApprovalId) -> Result<Option<Approval>> {
    Ok(conn
        .prepare_cached(&format!("SELECT {APPROVAL_COLUMNS} WHERE id = ?1"))?
        .query_row([id.0.as_bytes()], codec::approval)
        .optional()?)
}

fn set(
    conn: &Connection,
    mut approval: Approval,
    decision: Decision,
    decider: Decider,
    at: Timestamp,
) -> Result<Approval> {
    let changed = conn
        .prepare_cached(
            "UPDATE approvals SET state = ?2, decision = ?3, decided_by = ?4, decided_at = ?5 \
             WHERE id = ?1 AND state = 'pending'",
        )?
        .execute(params![
            approval.id.0.as_bytes(),
            decision.state().as_str(),
            serde_json::to_string(&decision)?,
            serde_json::to_string(&decider)?,
            codec::nanos(at),
        ])?;
    if changed != 1 {
        return Err(StoreError::Conflict("the request is not pending any more".into()).into());
    }
    let action = format!("approval.{}", decision.as_str());
    audit(conn, &approval, &decider, &decision, &action, at)?;
    approval.state = decision.state();
    approval.decision = Some(decision);
    approval.decided_by = Some(decider);
    approval.decided_at = Some(at);
    Ok(approval)
}

/// The audit names the decision and what it was about; never a text somebody wrote.
fn audit(
    conn: &Connection,
    approval: &Approval,
    decider: &Decider,
    decision: &Decision,
    action: &str,
    at: Timestamp,
) -> Result<()> {
    let row = AuditRow {
        at,
        who: decider.who.clone(),
        via: decider.via.clone(),
        action: action.to_owned(),
        target: approval.id.to_string(),
        detail: json!({
            "decision": decision.as_str(),
            "turn": approval.turn,
            "call": approval.call,
            "tool": approval.tool,
            "arguments_hash": approval.arguments_hash,
        }),
    };
    records::audit(conn, &row)
}

/// A grant covers what was shown, nothing else.
fn check_grant(approval: &Approval, request: &DecideApproval, grant: &Grant) -> Result<()> {
    let fits = request.decision == Decision::Always
        && grant.conversation_id == approval.conversation_id
        && grant.tool == approval.tool
        && grant.arguments_hash == approval.arguments_hash;
    if fits {
        return Ok(());
    }
    let text = "the grant does not cover exactly what was asked, or the decision is not always";
    Err(StoreError::Conflict(text.to_owned()).into())
}

fn add_grant(conn: &Connection, grant: &Grant) -> Result<()> {
    conn.prepare_cached(
        "INSERT INTO grants (id, conversation_id, tool, arguments_hash, granted_by, granted_at, \
         expires_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![
        grant.id.0.as_bytes(),
        grant.conversation_id.0.as_bytes(),
        grant.tool,
        grant.arguments_hash,
        serde_json::to_string(&grant.granted_by)?,
        codec::nanos(grant.granted_at),
        codec::nanos(grant.expires_at),
    ])?;
    Ok(())
}
