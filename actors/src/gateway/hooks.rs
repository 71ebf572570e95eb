//! `POST /v1/channels/webhook/<alias>`: a message comes in by HTTP.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use rookery_messages::caller::Caller;
use rookery_messages::envelope::Inbound;
use rookery_messages::event::TurnEventKind;
use rookery_messages::ids::TurnId;
use rookery_messages::observe::Observation;
use rookery_messages::settings::WebhookSettings;
use rookery_messages::store::AcceptOutcome;
use rookery_messages::turn::{Outcome, TurnError, TurnRecord, TurnState};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::access::View;
use super::control;
use super::deps::Shared;
use super::error::ApiError;
use super::extract::{ApiQuery, json_error, read_body, require_json};
use crate::channel::intake::QUEUE_FULL;
use crate::channel::pairing::Admission;
use crate::channel::receiver::keep;
use crate::channel::webhook::{self, DecodeError, Posted, signature};
use crate::observe::{HubItem, Subscription};

/// Longest wait for a reply, in seconds.
const MAX_WAIT_SECS: u64 = 300;
/// How often the record is looked at while no event comes: the store is the truth, an event a hint.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// The query.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Params {
    #[serde(default)]
    wait: Option<u64>,
}

/// The route.
pub(super) async fn receive(
    State(shared): State<Arc<Shared>>,
    Path(alias): Path<String>,
    ApiQuery(params): ApiQuery<Params>,
    request: Request,
) -> Result<Response, ApiError> {
    let channel = webhook::channel_id(&alias);
    let count = |reason| {
        let surface = channel.to_string();
        shared.deps.observer.observe(Observation::Refused { surface, reason });
    };
    let settings = shared.webhook(&alias);
    let (Some(settings), Some(intake)) = (settings, shared.deps.intakes.get(&channel)) else {
        super::guard::refused(&shared, "unknown_alias");
        let message = format!("there is no webhook called `{alias}`");
        return Err(ApiError::new(StatusCode::NOT_FOUND, "unknown_alias", message)
            .hint("add [channels.webhook.<alias>] to the configuration"));
    };
    let (parts, body) = request.into_parts();
    let body = read_body(body, shared.deps.settings.gateway.body_limit_bytes)
        .await
        .inspect_err(|_| count("body"))?;
    let caller = parts.extensions.get::<Caller>();
    authentic(&shared, settings, caller, &parts.headers, &body).inspect_err(|error| {
        count(if error.status == StatusCode::UNAUTHORIZED { "signature" } else { "token" })
    })?;
    require_json(&parts.headers).inspect_err(|_| count("content_type"))?;
    let view = caller.map(View::of);
    let owner = view.as_ref().and_then(View::owner);
    let Posted { inbound, files } = webhook::decode(&channel, &intake.agent, owner, &body)
        .map_err(|error| undecodable(&error))
        .inspect_err(|_| count("body"))?;
    let Some(door) = shared.deps.doors.get(&channel) else {
        return Err(ApiError::not_found("channel"));
    };
    let (sender, text) = (&inbound.sender, Some(inbound.text.as_str()));
    match door.admit(&sender.id, sender.display.as_deref(), text).await? {
        Admission::Allowed => {}
        Admission::Paired(reply) => {
            return Ok(Json(json!({ "paired": true, "reply": reply })).into_response());
        }
        // R4: neither the inbox nor the agent ever sees it.
        Admission::Refused(said) => {
            count("not_allowed");
            let message = format!("`{}` may not use this webhook", inbound.sender.id);
            return Err(ApiError::new(StatusCode::FORBIDDEN, "not_allowed", message)
                .hint(said.unwrap_or_else(|| "add the sender to allowed_users".to_owned())));
        }
    }
    if settings.secret.is_some()
        && let Some(control) = control::parse(&inbound.text)
    {
        return control::answer(&shared, &inbound, control?).await;
    }
    let sees = |outcome: &AcceptOutcome| {
        let stored = &outcome.envelope.inbound;
        let own = view.as_ref().is_none_or(|v| v.sees(&shared, &channel, &stored.conversation));
        if !outcome.duplicate || own { Ok(()) } else { Err(taken_id(&stored.external_id)) }
    };
    if let Some(taken) = shared.deps.desk.take(&inbound).await {
        let outcome = taken?.outcome;
        sees(&outcome)?;
        return answer(&shared, &outcome, Some(0)).await;
    }
    let inbound = attach(&shared, inbound, files).await?;
    let outcome = intake.receive(inbound).await?;
    sees(&outcome)?;
    answer(&shared, &outcome, params.wait).await
}

/// Puts a message's files into its agent's workspace. Those of a message that is known already stand there:
/// nothing of a repetition is kept.
async fn attach(
    shared: &Shared,
    mut inbound: Inbound,
    files: Vec<(String, Vec<u8>)>,
) -> Result<Inbound, ApiError> {
    if files.is_empty() || shared.deps.store.desk(&inbound).await?.known {
        return Ok(inbound);
    }
    let Some(workspace) = shared.deps.workspaces.get(&inbound.agent) else {
        return Err(ApiError::not_found("agent"));
    };
    for (name, bytes) in files {
        // Of nobody's choice: no file takes the place of another message's.
        let id = shared.deps.world.ids.next().simple().to_string();
        let kept = keep(workspace, &id, &name, &bytes).await.map_err(|error| {
            tracing::warn!(%error, "an attachment could not be saved");
            let message = "an attachment could not be saved in the agent's workspace";
            ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "attachment_not_saved", message)
                .hint("send the message again later; its operator finds the cause in the log")
        })?;
        inbound.text.push('\n');
        inbound.text.push_str(&kept.line);
        inbound.attachments.extend(kept.attachment);
    }
    Ok(inbound)
}

/// The message is known, and another's: it is not taken twice, and what came of it is not told.
fn taken_id(id: &str) -> ApiError {
    let message = format!("a message with the id `{id}` was taken from another caller");
    ApiError::new(StatusCode::CONFLICT, "id_taken", message)
        .hint("if it is another message, give it an id that nobody else uses, such as a UUID")
}

/// The signature over the raw body comes before anything looks into it. Without a secret the auth layer
/// has let somebody in, or nobody.
fn authentic(
    shared: &Shared,
    settings: &WebhookSettings,
    caller: Option<&Caller>,
    headers: &axum::http::HeaderMap,
    body: &[u8],
) -> Result<(), ApiError> {
    let Some(secret) = &settings.secret else {
        let unknown =
            || ApiError::new(StatusCode::UNAUTHORIZED, "no_token", "this needs a bearer token");
        return caller.map(|_| ()).ok_or_else(unknown);
    };
    let header = headers.get(signature::HEADER).and_then(|value| value.to_str().ok());
    signature::verify(secret.expose(), header, shared.deps.world.now(), body).map_err(|error| {
        ApiError::new(StatusCode::UNAUTHORIZED, "bad_signature", error.to_string())
    })
}

fn undecodable(error: &DecodeError) -> ApiError {
    match error {
        DecodeError::NotUtf8 => ApiError::bad_request("invalid_utf8", error.to_string()),
        DecodeError::NotAnObject => ApiError::bad_request("invalid_field", error.to_string()),
        DecodeError::Json(cause) => {
            json_error(cause).hint("send `{id, sender, conversation, text}`")
        }
        DecodeError::NotBase64 { .. } | DecodeError::TooManyFiles(_) => {
            ApiError::bad_request("invalid_field", error.to_string())
        }
        DecodeError::Field(cause) => cause.clone().into(),
    }
}

async fn answer(
    shared: &Shared,
    outcome: &AcceptOutcome,
    wait: Option<u64>,
) -> Result<Response, ApiError> {
    let envelope = &outcome.envelope;
    let mut body = serde_json::Map::new();
    if outcome.duplicate {
        body.insert("duplicate".to_owned(), Value::Bool(true));
    }
    body.insert("envelope".to_owned(), json!(envelope.id));
    body.insert("turn".to_owned(), json!(envelope.turn));
    if outcome.rejected && wait.is_none() {
        return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, "queue_full", QUEUE_FULL)
            .retry_after(5)
            .detail("envelope", json!(envelope.id))
            .detail("turn", json!(envelope.turn))
            .detail("outcome", json!("rejected"))
            .detail("reply", Value::Null));
    }
    let mut into = None;
    let seen = match wait {
        Some(seconds) => wait_for(shared, outcome, seconds.min(MAX_WAIT_SECS), &mut into).await,
        None if outcome.duplicate => shared.deps.store.turn(envelope.turn).await?.map(Seen::of),
        None => None,
    };
    let ended = seen.as_ref().is_some_and(|seen| seen.state == TurnState::Ended);
    if let Some(seen) = seen.filter(|_| ended || outcome.duplicate) {
        body.insert("state".to_owned(), json!(seen.state));
        let outcome = if into.is_some() { Some(Outcome::Merged) } else { seen.outcome };
        body.insert("outcome".to_owned(), json!(outcome));
        if let Some(into) = into.or(seen.into) {
            body.insert("into".to_owned(), json!(into));
        }
        body.insert("reply".to_owned(), json!(seen.reply));
        if let Some(error) = seen.error {
            body.insert("error".to_owned(), json!(error));
        }
    }
    let ok = outcome.duplicate || ended;
    let status = if ok { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, Json(Value::Object(body))).into_response())
}

/// What a waiting client is told of a turn.
struct Seen {
    state: TurnState,
    outcome: Option<Outcome>,
    reply: Option<String>,
    error: Option<TurnError>,
    into: Option<TurnId>,
}

impl Seen {
    fn of(record: TurnRecord) -> Self {
        let TurnRecord { state, outcome, reply, error, into, .. } = record;
        Self { state, outcome, reply, error, into }
    }
}

/// Waits for the turn's end. The message is accepted: whatever fails here, that stands.
///
/// The end is announced after it is durable, so its event is as good as the record; the store is asked
/// only when the event can't be there: for a message that was known before, after a gap, and now and then.
///
/// A message that goes with another's turn is answered by that one: `into` says so.
async fn wait_for(
    shared: &Shared,
    outcome: &AcceptOutcome,
    seconds: u64,
    into: &mut Option<TurnId>,
) -> Option<Seen> {
    let envelope = &outcome.envelope;
    let mut turn = envelope.turn;
    let deadline = Instant::now() + Duration::from_secs(seconds);
    // From the oldest event there is: the turn may have ended already.
    let mut events = shared.deps.hub.subscribe(envelope.conversation_id, Some(0));
    let mut look = outcome.duplicate;
    let mut first_gap = true;
    loop {
        let due = Instant::now() >= deadline || shared.closing.is_cancelled();
        if look || due {
            let record = shared.deps.store.turn(turn).await.ok().flatten();
            if let Some(other) = record.as_ref().and_then(|record| record.into) {
                turn = other;
                *into = Some(other);
                if !due {
                    continue;
                }
            }
            let ended = record.as_ref().is_some_and(|record| record.state == TurnState::Ended);
            if ended || due {
                return record.map(Seen::of);
            }
        }
        let look_again = deadline.min(Instant::now() + LOOK_AGAIN);
        let end = tokio::time::timeout_at(look_again, end_of(&mut events, turn, &mut first_gap));
        match shared.closing.run_until_cancelled(end).await {
            Some(Ok(Some(Seen { into: Some(other), .. }))) => {
                turn = other;
                *into = Some(other);
                // Its end may have been among the events gone by.
                look = true;
            }
            Some(Ok(Some(seen))) => return Some(seen),
            // A gap, the time to look, or the gateway closes.
            Some(Ok(None) | Err(_)) | None => look = true,
        }
    }
}

/// Until the turn's end, or until events were lost. The first gap says only that older ones are gone.
async fn end_of(events: &mut Subscription, turn: TurnId, first_gap: &mut bool) -> Option<Seen> {
    loop {
        match events.end_of(turn).await {
            HubItem::Gap { .. } if std::mem::take(first_gap) => {}
            HubItem::Gap { .. } => return None,
            HubItem::Event(event) => {
                if let TurnEventKind::Ended { outcome, reply, error, into, .. } = &event.kind {
                    return Some(Seen {
                        state: TurnState::Ended,
                        outcome: Some(*outcome),
                        reply: reply.clone(),
                        error: error.clone(),
                        into: *into,
                    });
                }
            }
        }
    }
}
