//! Dead letters, crashes, the ledger, the audit, conversations: for viewers and operators.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::{Extension, Json};
use jiff::Timestamp;
use rookery_messages::approval::Decider;
use rookery_messages::caller::Caller;
use rookery_messages::channel::SenderMsg;
use rookery_messages::ids::OutboxId;
use rookery_messages::store::{AuditRow, CrashRow, DeadLetter, Ledger};
use serde::Deserialize;
use serde_json::{Value, json};

use super::deps::Shared;
use super::error::ApiError;
use super::extract::ApiQuery;
use super::turns::MAX_LIMIT;

/// Entries, if the caller doesn't say.
const DEFAULT_LIMIT: u32 = 200;

/// A list's query.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Limit {
    #[serde(default)]
    limit: Option<u32>,
}

impl Limit {
    fn get(&self) -> u32 {
        self.limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT)
    }
}

/// `GET /admin/v1/deadletters`.
pub(super) async fn dead_letters(
    State(shared): State<Arc<Shared>>,
) -> Result<Json<Vec<DeadLetter>>, ApiError> {
    Ok(Json(shared.deps.store.dead_letters().await?))
}

/// `POST /admin/v1/deadletters/<id>/retry`.
pub(super) async fn retry_dead_letter(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    settle_dead_letter(&shared, &caller, &id, true).await
}

/// `POST /admin/v1/deadletters/<id>/purge`.
pub(super) async fn purge_dead_letter(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    settle_dead_letter(&shared, &caller, &id, false).await
}

async fn settle_dead_letter(
    shared: &Shared,
    caller: &Caller,
    id: &str,
    retry: bool,
) -> Result<Json<Value>, ApiError> {
    let unknown = || ApiError::not_found("dead letter");
    let id: OutboxId = id.parse().map_err(|_| unknown())?;
    let letters = shared.deps.store.dead_letters().await?;
    let letter = letters.into_iter().find(|letter| letter.id == id).ok_or_else(unknown)?;
    let by = Decider { who: caller.name.clone(), via: caller.via.clone() };
    shared.deps.store.dead_letter(id, retry, shared.deps.world.now(), by).await?;
    if let Some(sender) = shared.deps.senders.get(&letter.channel).filter(|_| retry) {
        // A full mailbox is fine: the sender looks by itself now and then.
        let _ = sender.try_send(SenderMsg::Due);
    }
    let state = if retry { "pending" } else { "purged" };
    Ok(Json(json!({ "id": id, "state": state })))
}

/// `GET /admin/v1/crashes`.
pub(super) async fn crashes(
    State(shared): State<Arc<Shared>>,
    ApiQuery(limit): ApiQuery<Limit>,
) -> Result<Json<Vec<CrashRow>>, ApiError> {
    Ok(Json(shared.deps.store.crashes(limit.get()).await?))
}

/// `GET /admin/v1/ledger`.
pub(super) async fn ledger(State(shared): State<Arc<Shared>>) -> Result<Json<Ledger>, ApiError> {
    Ok(Json(shared.deps.store.ledger().await?))
}

/// The audit's query.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AuditParams {
    #[serde(default)]
    limit: Option<u32>,
    /// Nothing older.
    #[serde(default)]
    since: Option<Timestamp>,
}

/// `GET /admin/v1/audit`: newest first.
pub(super) async fn audit(
    State(shared): State<Arc<Shared>>,
    ApiQuery(AuditParams { limit, since }): ApiQuery<AuditParams>,
) -> Result<Json<Vec<AuditRow>>, ApiError> {
    Ok(Json(shared.deps.store.audit_rows(since, Limit { limit }.get()).await?))
}
