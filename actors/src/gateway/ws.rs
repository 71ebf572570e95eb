//! `GET /v1/ws?agent=&conversation=&channel=ws|cli`: the upgrade.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::http::StatusCode;
use axum::response::Response;
use rookery_messages::caller::Caller;
use rookery_messages::ids::{AgentName, ChannelId};
use serde::Deserialize;

use super::access::View;
use super::actor::{GatewayMsg, Upgraded};
use super::auth::SOCKET_PROTOCOL;
use super::connection::Terms;
use super::deps::Shared;
use super::error::ApiError;
use super::extract::ApiQuery;
use super::follow::Opening;
use super::snapshot::Place;
use super::socket::SocketPlace;
use crate::channel::text::check_conversation;

/// The conversation of a client that names none.
const DEFAULT_CONVERSATION: &str = "main";

/// The query.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Params {
    #[serde(default)]
    agent: Option<String>,
    #[serde(default)]
    conversation: Option<String>,
    #[serde(default)]
    channel: Option<String>,
}

/// The route.
pub(super) async fn upgrade(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    ApiQuery(params): ApiQuery<Params>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    let upgrade = upgrade.map_err(|rejection| {
        ApiError::new(rejection.status(), "not_a_websocket", rejection.body_text())
            .hint("connect with a WebSocket client")
    })?;
    let terms = terms(&shared, caller, params)?;
    let place = SocketPlace::take(&shared.sockets, shared.deps.settings.gateway.max_connections);
    let place = place.ok_or_else(|| {
        let message = "there are as many WebSocket connections as gateway.max_connections allows";
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_connections", message)
            .retry_after(10)
    })?;
    let opening = Opening::new(&shared, &terms).await?;
    let limit = shared.deps.settings.gateway.body_limit_bytes;
    let gateway = shared.gateway.clone();
    Ok(upgrade
        .protocols([SOCKET_PROTOCOL])
        .max_message_size(limit)
        .max_frame_size(limit)
        .on_upgrade(move |socket| async move {
            // A gateway that has ended takes no sockets; dropping this one closes it.
            let upgraded =
                GatewayMsg::Upgraded(Box::new(Upgraded { socket, terms, place, opening }));
            let _ = gateway.send(upgraded).await;
        }))
}

fn terms(shared: &Shared, caller: Caller, params: Params) -> Result<Terms, ApiError> {
    let channel = params.channel.unwrap_or_else(|| "ws".to_owned());
    if !matches!(channel.as_str(), "ws" | "cli") {
        let message = format!("`{channel}` is not a channel for this; use `ws` or `cli`");
        return Err(ApiError::bad_request("invalid_query", message));
    }
    let id = ChannelId::new(channel);
    let intake = shared.deps.intakes.get(&id).cloned().ok_or_else(|| {
        let message = format!("no agent owns the channel `{id}`");
        ApiError::new(StatusCode::NOT_FOUND, "no_channel", message)
            .hint("add it to the `channels` of an agent")
    })?;
    let agent = match params.agent.filter(|agent| !agent.is_empty()) {
        None => intake.agent.clone(),
        Some(agent) if intake.agent.as_str() == agent => intake.agent.clone(),
        Some(agent) if shared.deps.settings.agents.contains_key(&agent) => AgentName::new(agent),
        Some(agent) => {
            let message = format!("there is no agent called `{agent}`");
            return Err(ApiError::new(StatusCode::NOT_FOUND, "unknown_agent", message));
        }
    };
    let conversation = params.conversation.filter(|name| !name.is_empty());
    let conversation = conversation.unwrap_or_else(|| DEFAULT_CONVERSATION.to_owned());
    let view = View::of(&caller);
    // Who reads everything also names conversations as they are stored.
    if view != View::All {
        check_conversation("conversation", &conversation)?;
    } else {
        crate::channel::text::check_id("conversation", &conversation)?;
    }
    let place = Place { channel: id, conversation: view.stored(&conversation) };
    Ok(Terms { place, agent, caller, view, intake })
}
