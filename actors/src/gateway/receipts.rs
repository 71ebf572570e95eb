//! Receipts: whether one was issued here (B10).

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use rookery_messages::ids::{CallId, TurnId};
use rookery_messages::receipt::{ReceiptAnswer, ReceiptQuestion, ReceiptReason};

use super::deps::Shared;
use super::error::ApiError;
use super::extract::ApiJson;
use crate::tool::receipts::check;

/// `POST /admin/v1/receipts/verify`. What can't be read is as invalid as what doesn't match (V-J7).
pub(super) async fn verify(
    State(shared): State<Arc<Shared>>,
    ApiJson(asked): ApiJson<ReceiptQuestion>,
) -> Result<Json<ReceiptAnswer>, ApiError> {
    let ids = asked.turn.parse::<TurnId>().ok().zip(asked.call.parse::<CallId>().ok());
    let Some((turn, call)) = ids else {
        let reason = Some(ReceiptReason::Malformed);
        return Ok(Json(ReceiptAnswer { valid: Some(false), reason }));
    };
    let trail = shared.deps.store.call_trail(turn, call).await?;
    Ok(Json(check(&shared.deps.receipts, trail.as_ref(), turn, call, &asked.receipt)))
}
