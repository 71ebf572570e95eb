//! Deciding an approval: one compare-and-set on *pending*, by somebody allowed to (I7).

use jiff::Timestamp;
use rookery_messages::approval::{Approval, ApprovalState, Decider, Decision};
use rookery_messages::ids::ApprovalId;
use rookery_messages::store::{AuditRow, DecideApproval, DecideOutcome, StoreError};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::json;

use super::codec::{self, APPROVAL_COLUMNS};
use super::error::Result;
use super::{grants, records};

/// Decides, or says what stands.
pub(super) fn decide(conn: &Connection, request: &DecideApproval) -> Result<DecideOutcome> {
    let Some(approval) = find(conn, request.approval)? else {
        return Ok(DecideOutcome::NotFound);
    };
    // Before anything is told: an outsider learns nothing of the request, and leaves a trace.
    if !request.privileged && !approval.may_decide(&request.decider) {
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
    // Before the first change: a grant that can't be given refuses the whole decision.
    let grant = request.grant.map(|new| grants::of(conn, &approval, request, new)).transpose()?;
    let decided =
        set(conn, approval, request.decision.clone(), request.decider.clone(), request.at)?;
    if let Some(grant) = &grant {
        grants::add(conn, grant)?;
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

/// The audit names the decision and what it was about (V-H15); never a text the decider wrote.
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
            "summary": approval.summary,
            "arguments_hash": approval.arguments_hash,
        }),
    };
    records::audit(conn, &row)
}
