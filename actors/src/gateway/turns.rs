//! Turns: one, a list, a cancel.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use rookery_messages::approval::Decider;
use rookery_messages::caller::Caller;
use rookery_messages::ids::{ChannelId, TurnId};
use rookery_messages::settings::AuthRole;
use rookery_messages::store::CancelOutcome;
use rookery_messages::turn::{TurnRecord, TurnState};
use serde::Deserialize;
use serde_json::{Value, json};

use super::access::{View, require};
use super::cancel;
use super::deps::Shared;
use super::error::ApiError;
use super::extract::ApiQuery;

/// Entries of a list, if the caller doesn't say.
pub(super) const DEFAULT_LIMIT: u32 = 50;
/// Entries of a list at most.
pub(super) const MAX_LIMIT: u32 = 1_000;

/// A turn the caller may see.
pub(super) async fn visible(
    shared: &Shared,
    caller: &Caller,
    id: &str,
) -> Result<TurnRecord, ApiError> {
    let id: TurnId = id.parse().map_err(|_| ApiError::not_found("turn"))?;
    let record = shared.deps.store.turn(id).await?;
    record
        .and_then(|record| View::of(caller).turn(shared, record))
        .ok_or_else(|| ApiError::not_found("turn"))
}

/// `GET /v1/turns/<id>`.
pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Json<TurnRecord>, ApiError> {
    visible(&shared, &caller, &id).await.map(Json)
}

/// The list's query.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListParams {
    #[serde(default)]
    conversation: Option<String>,
    #[serde(default)]
    channel: Option<String>,
    #[serde(default)]
    state: Option<TurnState>,
    #[serde(default)]
    limit: Option<u32>,
}

/// `GET /v1/turns`: newest first.
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    ApiQuery(params): ApiQuery<ListParams>,
) -> Result<Json<Vec<TurnRecord>>, ApiError> {
    let view = View::of(&caller);
    let limit = params.limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT);
    // Others' turns stand between a caller's own: more is read than shown.
    let read = if view == View::All { limit } else { MAX_LIMIT };
    let conversation = params.conversation.map(|name| view.stored(&name));
    let channel = params.channel.map(ChannelId::new);
    let found = shared.deps.store.turns(conversation, channel, params.state, read).await?;
    let shown = found.into_iter().filter_map(|record| view.turn(&shared, record));
    Ok(Json(shown.take(limit as usize).collect()))
}

/// `POST /v1/turns/<id>/cancel`.
pub(super) async fn cancel(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let turn: TurnId = id.parse().map_err(|_| ApiError::not_found("turn"))?;
    if caller.role < AuthRole::Operator {
        // Its own: role chat owns what it sees, role viewer sees what others own.
        visible(&shared, &caller, &id).await?;
        if caller.role > AuthRole::Chat {
            require(&caller, AuthRole::Operator)?;
        }
    }
    let by = Decider { who: caller.name, via: caller.via };
    let found = cancel::cancel(&shared, turn, by).await?;
    let result = match found {
        CancelOutcome::Ended => "ended",
        CancelOutcome::Marked => "stopping",
        CancelOutcome::AlreadyEnded => "already_ended",
        CancelOutcome::NotFound => return Err(ApiError::not_found("turn")),
    };
    Ok((StatusCode::ACCEPTED, Json(json!({ "turn": turn, "result": result }))))
}
