//! A conversation's history.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::{Extension, Json};
use rookery_messages::approval::Decider;
use rookery_messages::caller::Caller;
use rookery_messages::chat::ChatMessage;
use rookery_messages::ids::{ChannelId, ConversationId};
use rookery_messages::settings::AuthRole;
use rookery_messages::store::{ConversationRow, StoredMessage};
use rookery_messages::time::rfc3339_millis;
use serde::Deserialize;
use serde_json::{Value, json};

use super::access::{View, require};
use super::deps::Shared;
use super::error::ApiError;
use super::extract::ApiQuery;
use super::turns::{DEFAULT_LIMIT, MAX_LIMIT};
use crate::policy::redact::Redactor;

/// The query.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Params {
    #[serde(default)]
    limit: Option<u32>,
}

/// `GET /v1/conversations` and `/admin/v1/conversations`: newest first, what the caller may see.
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    ApiQuery(params): ApiQuery<Params>,
) -> Result<Json<Vec<ConversationRow>>, ApiError> {
    let view = View::of(&caller);
    let limit = params.limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT);
    let read = if view == View::All { limit } else { MAX_LIMIT };
    let found = shared.deps.store.conversations(read).await?;
    let shown = found.into_iter().filter_map(|row| view.conversation(&shared, row));
    Ok(Json(shown.take(limit as usize).collect()))
}

/// `GET /v1/conversations/<channel>/<conversation>/messages`: the newest, oldest first.
pub(super) async fn messages(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Path((channel, conversation)): Path<(String, String)>,
    ApiQuery(params): ApiQuery<Params>,
) -> Result<Json<Value>, ApiError> {
    let (view, channel) = (View::of(&caller), ChannelId::new(channel));
    let stored = view.stored(&conversation);
    if !view.sees(&shared, &channel, &stored) {
        return Err(ApiError::not_found("conversation"));
    }
    let limit = params.limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT);
    let found = shared.deps.store.messages(channel, stored, limit).await?;
    let found = found.ok_or_else(|| ApiError::not_found("conversation"))?;
    let show = |stored| shown(stored, &shared.deps.redactor);
    Ok(Json(json!({ "messages": found.iter().map(show).collect::<Vec<_>>() })))
}

/// `DELETE /admin/v1/conversations/<id>`: what was said in it, its turns and its grants, for good.
pub(super) async fn forget(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    require(&caller, AuthRole::Admin)?;
    let id: ConversationId = id.parse().map_err(|_| ApiError::not_found("conversation"))?;
    let by = Decider { who: caller.name, via: caller.via };
    shared.deps.store.forget_conversation(id, shared.deps.world.now(), by).await?;
    Ok(Json(json!({ "id": id, "deleted": true })))
}

/// A message as the API shows it: `{role, content, turn, at, calls?, call?, attachments?}`. What the model may read in
/// arguments and results is not for every eye (T25).
pub(super) fn shown(stored: &StoredMessage, redactor: &Redactor) -> Value {
    let message = &stored.message;
    let mut shown = json!({
        "role": message.role(),
        "content": message.text(),
        "turn": stored.turn,
        "at": rfc3339_millis(stored.at),
    });
    match message {
        ChatMessage::Assistant { calls, interrupted, .. } => {
            if !calls.is_empty() {
                let calls = calls.iter().map(|call| {
                    let arguments = redactor.clean_value(&call.arguments.to_value());
                    json!({ "id": call.id, "tool": call.name, "arguments": arguments })
                });
                shown["calls"] = Value::Array(calls.collect());
            }
            if *interrupted {
                shown["interrupted"] = Value::Bool(true);
            }
        }
        ChatMessage::Tool { call, name, .. } => {
            shown["content"] = Value::String(redactor.clean(message.text()));
            shown["call"] = json!(call);
            shown["tool"] = json!(name);
        }
        ChatMessage::User { attachments, .. } if !attachments.is_empty() => {
            shown["attachments"] = json!(attachments);
        }
        ChatMessage::System { .. } | ChatMessage::User { .. } => {}
    }
    shown
}
