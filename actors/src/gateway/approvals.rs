//! Approvals: the list, and a decision. Decisions over HTTP and WebSocket take the same way.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use rookery_messages::approval::{Approval, ApprovalState, Decider, Decision, GrantScope};
use rookery_messages::caller::Caller;
use rookery_messages::ids::{ApprovalId, GrantId};
use rookery_messages::session::RouterMsg;
use rookery_messages::settings::AuthRole;
use rookery_messages::store::{DecideApproval, DecideOutcome, NewGrant};
use rookery_messages::tool::head;
use serde::Deserialize;
use serde_json::json;

use super::access::require;
use super::deps::Shared;
use super::error::ApiError;
use super::extract::{ApiJson, ApiQuery};
use super::turns::MAX_LIMIT;

/// How long the router may take to have room for the hint; the approval's own deadline is the last resort.
const HINT_LIMIT: Duration = Duration::from_secs(5);

/// Longest reason of a denial that is kept and handed to the model; more is cut.
const MAX_REASON_BYTES: usize = 4_096;

/// The list's query.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListParams {
    /// Only what nobody decided yet.
    #[serde(default)]
    pending: bool,
    #[serde(default)]
    limit: Option<u32>,
}

/// `GET /admin/v1/approvals`.
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    ApiQuery(params): ApiQuery<ListParams>,
) -> Result<Json<Vec<Approval>>, ApiError> {
    let limit = params.limit.unwrap_or(MAX_LIMIT).min(MAX_LIMIT);
    // What waits for somebody comes first, whole; what was decided fills the rest.
    let mut list = shared.deps.store.approvals(true, limit).await?;
    if !params.pending {
        let mut decided = shared.deps.store.approvals(false, MAX_LIMIT).await?;
        decided.retain(|approval| approval.state != ApprovalState::Pending);
        list.extend(decided.into_iter().rev());
        list.truncate(limit as usize);
    }
    Ok(Json(list))
}

/// The words a person may decide with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Word {
    Approve,
    Deny,
    Always,
    Replace,
    /// The client has nobody to ask.
    NobodyAsked,
}

/// A decision's body.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DecisionBody {
    decision: Word,
    #[serde(default)]
    replacement: Option<String>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    scope: Option<GrantScope>,
}

/// A decision as somebody makes it, checked and cleaned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Choice {
    decision: Decision,
    scope: GrantScope,
}

/// `POST /admin/v1/approvals/<id>`.
pub(super) async fn decide(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    ApiJson(body): ApiJson<DecisionBody>,
) -> Result<Json<Approval>, ApiError> {
    require(&caller, AuthRole::Operator)?;
    let id: ApprovalId = id.parse().map_err(|_| ApiError::not_found("approval"))?;
    let approval = shared.deps.store.approval(id).await?;
    let approval = approval.ok_or_else(|| ApiError::not_found("approval"))?;
    let choice = choice(body.decision, body.replacement, body.reason, body.scope)?;
    let decider = Decider { who: caller.name, via: caller.via };
    settle(&shared, &approval, choice, decider, true).await.map(Json)
}

/// A decision from its parts.
pub(super) fn choice(
    word: Word,
    replacement: Option<String>,
    reason: Option<String>,
    scope: Option<GrantScope>,
) -> Result<Choice, ApiError> {
    if scope.is_some() && word != Word::Always {
        return Err(ApiError::bad_request("invalid_field", "`scope` goes only with `always`"));
    }
    let decision = decision(word, replacement, reason)?;
    Ok(Choice { decision, scope: scope.unwrap_or_default() })
}

fn decision(
    word: Word,
    replacement: Option<String>,
    reason: Option<String>,
) -> Result<Decision, ApiError> {
    let bad = |message| ApiError::bad_request("invalid_field", message);
    match (word, replacement) {
        (Word::Replace, Some(text)) => {
            Ok(Decision::Replace { replacement: crate::policy::display::clean_replacement(&text) })
        }
        (Word::Replace, None) => Err(bad("`replace` needs a `replacement`")),
        (_, Some(_)) => Err(bad("`replacement` goes only with `replace`")),
        (Word::Approve, None) => Ok(Decision::Approve),
        (Word::Always, None) => Ok(Decision::Always),
        (Word::NobodyAsked, None) => Ok(Decision::NobodyAsked),
        (Word::Deny, None) => Ok(Decision::Deny {
            reason: reason.map(|text| {
                let clean = crate::policy::display::clean_replacement(&text);
                head(&clean, MAX_REASON_BYTES).to_owned()
            }),
        }),
    }
}

/// Makes a decision stand, or says what stands. One compare-and-set in the store (I7); the hint follows.
pub(super) async fn settle(
    shared: &Shared,
    approval: &Approval,
    choice: Choice,
    decider: Decider,
    privileged: bool,
) -> Result<Approval, ApiError> {
    let (deps, now) = (&shared.deps, shared.deps.world.now());
    let Choice { decision, scope } = choice;
    let hide = |text: String| deps.redactor.scrub(&text);
    let decision = match decision {
        Decision::Deny { reason } => Decision::Deny { reason: reason.map(hide) },
        Decision::Replace { replacement } => Decision::Replace { replacement: hide(replacement) },
        plain => plain,
    };
    let asked_elsewhere = approval.route.is_some() && approval.state == ApprovalState::Pending;
    if decision == Decision::NobodyAsked && asked_elsewhere {
        return Err(ApiError::new(
            StatusCode::CONFLICT,
            "asked_elsewhere",
            "it is asked elsewhere too, by the agent's approval_route; it stays open",
        ));
    }
    let always = decision == Decision::Always;
    if always && approval.offer.is_none() && approval.state == ApprovalState::Pending {
        return Err(ApiError::new(
            StatusCode::CONFLICT,
            "no_grant",
            "this call can't be granted for later; approve it for this once",
        ));
    }
    if always && approval.offer.as_ref().is_some_and(|offer| !offer.allows(scope)) {
        return Err(ApiError::new(
            StatusCode::CONFLICT,
            "narrow_grant",
            "this can only be granted in its conversation: it may run files that no grant can be bound to; \
             say `always` with scope `conversation`, or approve it for this once",
        ));
    }
    let grant = always.then(|| NewGrant {
        id: GrantId(deps.world.ids.next()),
        scope,
        expires_at: now + Duration::from_secs(deps.settings.approvals.grant_secs),
    });
    let request =
        DecideApproval { approval: approval.id, decision, decider, privileged, at: now, grant };
    match deps.store.decide(request).await? {
        DecideOutcome::Decided(decided) => {
            hint(shared, &decided).await;
            Ok(*decided)
        }
        DecideOutcome::AlreadyDecided(stands) => {
            Err(ApiError::new(StatusCode::CONFLICT, "already_decided", stands.stands())
                .detail("approval", json!(stands)))
        }
        DecideOutcome::NotAllowed => Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "not_an_approver",
            "you are not among those who may decide this; it stays open",
        )),
        DecideOutcome::NotFound => Err(ApiError::not_found("approval")),
    }
}

async fn hint(shared: &Shared, decided: &Approval) {
    let hint = RouterMsg::ApprovalHint {
        conversation: decided.conversation_id,
        turn: decided.turn,
        approval: decided.id,
    };
    let sent = tokio::time::timeout(HINT_LIMIT, shared.deps.router.send(hint)).await;
    if !matches!(sent, Ok(Ok(()))) {
        tracing::warn!(approval = %decided.id, "the session could not be told of a decision");
    }
}
