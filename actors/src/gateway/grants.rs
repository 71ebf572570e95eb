//! Standing grants: the list, and taking one back.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::{Extension, Json};
use rookery_messages::approval::{Decider, Grant};
use rookery_messages::caller::Caller;
use rookery_messages::ids::GrantId;
use rookery_messages::settings::AuthRole;
use serde::Deserialize;

use super::access::require;
use super::deps::Shared;
use super::error::ApiError;
use super::extract::ApiQuery;
use super::turns::MAX_LIMIT;

/// The list's query.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListParams {
    /// Ended and revoked ones too.
    #[serde(default)]
    all: bool,
    #[serde(default)]
    limit: Option<u32>,
}

/// `GET /admin/v1/grants`: newest first.
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    ApiQuery(params): ApiQuery<ListParams>,
) -> Result<Json<Vec<Grant>>, ApiError> {
    let limit = params.limit.unwrap_or(MAX_LIMIT).min(MAX_LIMIT);
    let now = shared.deps.world.now();
    Ok(Json(shared.deps.store.grants(params.all, now, limit).await?))
}

/// `DELETE /admin/v1/grants/<id>`: the grant as it stands. Taking it back twice is taking it back once.
pub(super) async fn revoke(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Json<Grant>, ApiError> {
    require(&caller, AuthRole::Operator)?;
    let unknown = || ApiError::not_found("grant");
    let id: GrantId = id.parse().map_err(|_| unknown())?;
    let by = Decider { who: caller.name, via: caller.via };
    let grant = shared.deps.store.revoke_grant(id, shared.deps.world.now(), by).await?;
    grant.map(Json).ok_or_else(unknown)
}
