//! Who paired with which channel, new codes, and the channels themselves.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::{Extension, Json};
use rookery_messages::approval::Decider;
use rookery_messages::caller::Caller;
use rookery_messages::ids::ChannelId;
use rookery_messages::pairing::{PairCode, Pairing, PairingWrite};
use rookery_messages::settings::AuthRole;
use rookery_messages::store::StoreError;
use serde::{Deserialize, Serialize};

use super::access::require;
use super::deps::Shared;
use super::error::ApiError;
use super::extract::ApiJson;
use crate::channel::pairing::new_code;

/// How long a code is good, if nobody says.
const USUAL_MINUTES: u64 = 60;
/// A code that is out for longer is a password.
const MOST_MINUTES: u64 = 7 * 24 * 60;

/// `GET /admin/v1/pairings`.
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
) -> Result<Json<Vec<Pairing>>, ApiError> {
    Ok(Json(shared.deps.store.pairings().await?))
}

/// What a code is asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    channel: String,
    #[serde(default)]
    minutes: Option<u64>,
}

/// `POST /admin/v1/pairings`: a one-time code, shown here and nowhere else.
pub(super) async fn code(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    ApiJson(wanted): ApiJson<Wanted>,
) -> Result<Json<PairCode>, ApiError> {
    require(&caller, AuthRole::Operator)?;
    let channel = ChannelId::new(wanted.channel);
    let Some(door) = shared.deps.doors.get(&channel) else {
        return Err(ApiError::not_found("channel")
            .hint("`rookery channels list` has the channels, and which of them pair"));
    };
    if !door.pairs() {
        let message = format!("`{channel}` does not pair; its allowed_users say who may use it");
        return Err(ApiError::bad_request("does_not_pair", message)
            .hint("set `pairing = true` in the channel's section"));
    }
    let minutes = wanted.minutes.unwrap_or(USUAL_MINUTES);
    if !(1..=MOST_MINUTES).contains(&minutes) {
        let message = format!("`minutes` must be from 1 to {MOST_MINUTES}");
        return Err(ApiError::bad_request("invalid_field", message));
    }
    let by = Decider { who: caller.name, via: caller.via };
    let good_for = Duration::from_secs(minutes * 60);
    let (store, world) = (&shared.deps.store, &shared.deps.world);
    Ok(Json(new_code(store, world, channel, good_for, by).await?))
}

/// `DELETE /admin/v1/pairings/<channel>/<sender>`.
pub(super) async fn revoke(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Path((channel, sender)): Path<(String, String)>,
) -> Result<Json<serde_json::Value>, ApiError> {
    require(&caller, AuthRole::Operator)?;
    let by = Decider { who: caller.name, via: caller.via };
    let (channel, at) = (ChannelId::new(channel), shared.deps.world.now());
    let write = PairingWrite::Revoke { channel: channel.clone(), sender: sender.clone(), by, at };
    match shared.deps.store.pairing(write).await {
        Ok(_) => {
            if let Some(door) = shared.deps.doors.get(&channel) {
                door.forget(&sender);
            }
            Ok(Json(serde_json::json!({ "channel": channel, "sender": sender })))
        }
        Err(StoreError::NotFound) => Err(ApiError::not_found("pairing")),
        Err(error) => Err(error.into()),
    }
}

/// A channel as operators see it.
#[derive(Debug, Serialize)]
pub(super) struct ChannelRow {
    id: ChannelId,
    /// The agent that owns it; none takes nothing in.
    agent: Option<String>,
    /// Whether it takes messages in now.
    state: &'static str,
    /// Why it is down.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Strangers may pair.
    pairs: bool,
}

/// All that are configured.
pub(super) fn channel_ids(shared: &Shared) -> Vec<ChannelId> {
    let mut ids: Vec<ChannelId> = shared.deps.settings.channels.ids();
    ids.extend(shared.deps.intakes.keys().cloned());
    ids.sort();
    ids.dedup();
    ids
}

/// `GET /admin/v1/channels`: all that are configured, owned or not.
pub(super) async fn channels(State(shared): State<Arc<Shared>>) -> Json<Vec<ChannelRow>> {
    let settings = &shared.deps.settings;
    let parts = (shared.deps.probes.ready)().components;
    // The same as `/readyz` says of the channel: of its actors, and of its way in.
    let trouble = |id: &ChannelId| {
        let names = [format!("channels/{id}"), format!("receiving/{id}")];
        let bad = parts.iter().find(|part| !part.ready && names.contains(&part.name))?;
        Some(bad.reason.clone().unwrap_or_else(|| "not ready".to_owned()))
    };
    let rows = channel_ids(&shared).into_iter().map(|id| {
        let owner = settings
            .agents
            .iter()
            .find(|(_, agent)| agent.channels.iter().any(|channel| channel == id.as_str()));
        let agent = owner.map(|(name, _)| name.clone());
        let reason = trouble(&id);
        let state = match (&agent, shared.deps.intakes.get(&id)) {
            (None, _) => "unowned",
            (Some(_), Some(intake)) if intake.is_up() && reason.is_none() => "up",
            (Some(_), _) => "down",
        };
        let reason = reason.filter(|_| state == "down");
        let pairs = shared.deps.doors.get(&id).is_some_and(|door| door.pairs());
        ChannelRow { id, agent, state, reason, pairs }
    });
    Json(rows.collect())
}
