//! `POST /admin/v1/channels/<channel>/send`: an operator says something in a conversation.
//!
//! It goes the way of every answer: a row of the outbox, durable before anything is said, tried again, a dead
//! letter in the end. Its id is the caller's: asked for again it is the same message. It is no part of any
//! conversation's history, and no turn is made of it.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use rookery_messages::caller::Caller;
use rookery_messages::channel::SenderMsg;
use rookery_messages::ids::{ChannelId, OutboxId};
use rookery_messages::settings::AuthRole;
use rookery_messages::store::{AuditRow, NewOutbox, OutboxPayload, OutboxStatus, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::Instant;

use super::access::require;
use super::deps::Shared;
use super::error::ApiError;
use super::extract::{ApiJson, ApiQuery};
use super::pairings::channel_ids;
use crate::channel::post;
use crate::channel::text::{check_id, check_text};
use crate::policy::display::visible;
use crate::policy::nearest;

/// Longest wait for the platform, in seconds.
const MAX_WAIT_SECS: u64 = 60;
/// How often the row is looked at meanwhile, at first; then half as often, and so on.
const FIRST_LOOK: Duration = Duration::from_millis(20);
/// Its slowest.
const LAST_LOOK: Duration = Duration::from_millis(500);

/// The query.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Params {
    #[serde(default)]
    wait: u64,
}

/// The body.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    conversation: String,
    text: String,
    /// The caller's own id of it. None: it is a message of its own.
    #[serde(default)]
    id: Option<String>,
}

/// The answer: how far it is.
#[derive(Debug, Serialize)]
struct Sent {
    #[serde(flatten)]
    status: OutboxStatus,
    /// It was asked for before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    duplicate: bool,
}

/// The route.
pub(super) async fn send(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Path(channel): Path<String>,
    ApiQuery(params): ApiQuery<Params>,
    ApiJson(wanted): ApiJson<Wanted>,
) -> Result<Response, ApiError> {
    require(&caller, AuthRole::Operator)?;
    let (deps, channel) = (&shared.deps, ChannelId::new(channel));
    let adapter = deps.outlets.get(&channel).ok_or_else(|| no_outlet(&shared, &channel))?;
    check_id("conversation", &wanted.conversation)?;
    check_text("text", &wanted.text)?;
    let address = adapter
        .address(&wanted.conversation)
        .map_err(|why| ApiError::bad_request("invalid_field", format!("`conversation`: {why}")))?;
    let id = match &wanted.id {
        Some(id) => {
            check_id("id", id)?;
            post::id_of("send", &channel, &[id])
        }
        None => OutboxId(deps.world.ids.next()),
    };
    let now = deps.world.now();
    let text = deps.redactor.scrub(&wanted.text);
    let audit = AuditRow {
        at: now,
        who: caller.name,
        via: caller.via,
        action: "channel.send".to_owned(),
        target: channel.to_string(),
        // What was said stands in the chat; here, that something was.
        detail: json!({
            "id": id, "conversation": wanted.conversation, "characters": text.chars().count(),
        }),
    };
    let message = NewOutbox {
        id,
        channel: channel.clone(),
        address,
        payload: OutboxPayload::Notice { turn: None, text },
    };
    let new = match deps.store.post(message, Some(audit), now).await {
        Ok(new) => new,
        Err(StoreError::Conflict(_)) => {
            let message = "something else was sent in this channel under this id";
            return Err(ApiError::new(StatusCode::CONFLICT, "id_taken", message)
                .hint("send it under an id of its own"));
        }
        Err(error) => return Err(error.into()),
    };
    if let Some(sender) = deps.senders.get(&channel) {
        // A full mailbox is fine: the sender looks by itself now and then.
        let _ = sender.try_send(SenderMsg::Due);
    }
    let status = wait_for(&shared, id, params.wait.min(MAX_WAIT_SECS)).await?;
    let status = status.ok_or_else(|| ApiError::not_found("message"))?;
    let code = if is_over(&status) { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((code, Json(Sent { status, duplicate: !new })).into_response())
}

fn no_outlet(shared: &Shared, channel: &ChannelId) -> ApiError {
    let shown = visible(channel.as_str());
    let known = channel_ids(shared);
    if known.contains(channel) {
        let message =
            format!("`{shown}` sends nothing by itself: its readers fetch what is there for them");
        return ApiError::bad_request("no_outlet", message)
            .hint("name a chat platform's channel, or a webhook with a `reply_url`");
    }
    let near = nearest(channel.as_str(), known.iter().map(ChannelId::as_str));
    let near = near.map(|near| format!("; the nearest is `{near}`")).unwrap_or_default();
    let message = format!("there is no channel `{shown}`{near}");
    ApiError::new(StatusCode::NOT_FOUND, "unknown_channel", message)
        .hint("`rookery channels list` has them")
}

fn is_over(status: &OutboxStatus) -> bool {
    matches!(status.state.as_str(), "sent" | "dead")
}

/// Where the row stands once it is over, or after this time.
async fn wait_for(
    shared: &Shared,
    id: OutboxId,
    seconds: u64,
) -> Result<Option<OutboxStatus>, StoreError> {
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let mut pause = FIRST_LOOK;
    loop {
        let status = shared.deps.store.outbox(id).await?;
        let over = status.as_ref().is_none_or(is_over);
        let next = Instant::now() + pause;
        if over || next > deadline || shared.closing.is_cancelled() {
            return Ok(status);
        }
        tokio::time::sleep_until(next).await;
        pause = (pause * 2).min(LAST_LOOK);
    }
}
