//! `GET /v1/turns/<id>/events`: one turn's events as SSE (WHATWG HTML, section 9.2).
//!
//! Starts with what is known, goes on live, ends after `ended`. A client that reads slowly, or comes
//! after events were dropped, gets `gap` with a snapshot. Nothing waits for a client here: events are
//! taken from the conversation's ring at the speed at which they are read.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use rookery_messages::caller::Caller;
use rookery_messages::event::{TurnEvent, TurnEventKind};
use rookery_messages::ids::{ConversationId, TurnId};
use rookery_messages::turn::{TurnRecord, TurnState};
use serde_json::Value;
use tokio::time::Instant;

use super::access::View;
use super::deps::Shared;
use super::error::ApiError;
use super::frames;
use super::snapshot::{self, Place};
use super::turns::visible;
use crate::observe::{HubItem, Subscription};

/// A comment goes out this often, and the record is looked at: the store is the truth.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// A turn that ended no longer ago may not be announced yet …
const FRESH: Duration = Duration::from_secs(5);
/// … and has so long for it.
const ANNOUNCED: Duration = Duration::from_secs(1);

/// The route.
pub(super) async fn stream(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let record = visible(&shared, &caller, &id).await?;
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let last = last.and_then(|value| value.trim().parse::<u64>().ok());
    let feed = Feed::begin(shared, View::of(&caller), &record, last).await?;
    let chunks = stream::unfold(feed, |mut feed| async move {
        let chunk = feed.next().await?;
        Some((Ok::<_, Infallible>(chunk), feed))
    });
    let kind = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
    Ok((kind, Body::from_stream(chunks)).into_response())
}

struct Feed {
    shared: Arc<Shared>,
    view: View,
    place: Place,
    turn: TurnId,
    conversation: ConversationId,
    events: Subscription,
    ready: VecDeque<Bytes>,
    /// The seq of the last event taken from the ring.
    seq: u64,
    ended: bool,
}

impl Feed {
    async fn begin(
        shared: Arc<Shared>,
        view: View,
        record: &TurnRecord,
        last: Option<u64>,
    ) -> Result<Self, ApiError> {
        let conversation = record.conversation_id;
        let name = view.stored(&record.conversation);
        // The subscription first, then the record: an end between the two is seen by one of them.
        let events = shared.deps.hub.subscribe(conversation, Some(last.unwrap_or(0)));
        let seq = shared.deps.hub.next_seq(conversation).saturating_sub(1);
        let place = Place { channel: record.channel.clone(), conversation: name };
        let (turn, ready) = (record.id, VecDeque::new());
        let mut feed =
            Self { shared, view, place, turn, conversation, events, ready, seq, ended: false };
        if last.is_none() {
            feed.replay().await?;
        }
        feed.look().await;
        Ok(feed)
    }

    /// What the ring still holds of the turn; a snapshot before it, if its beginning is gone.
    async fn replay(&mut self) -> Result<(), ApiError> {
        let mut known = Vec::new();
        while let Some(item) = self.events.try_next() {
            match item {
                HubItem::Event(event) if event.turn == self.turn => known.push(event),
                // From seq 0 the first item says no more than that older events are gone.
                HubItem::Event(_) | HubItem::Gap { .. } => {}
            }
        }
        let is_end = |event: &TurnEvent| matches!(event.kind, TurnEventKind::Ended { .. });
        let whole = known.first().is_some_and(|e| matches!(e.kind, TurnEventKind::Accepted { .. }));
        if !whole {
            if known.last().is_some_and(|event| is_end(event)) {
                // Its words stand in the snapshot.
                known.drain(..known.len() - 1);
            }
            self.gap(&known).await?;
        }
        for event in known {
            self.take(&event);
        }
        Ok(())
    }

    fn take(&mut self, event: &TurnEvent) {
        self.seq = event.seq;
        if event.turn != self.turn || self.ended {
            return;
        }
        self.ended = matches!(event.kind, TurnEventKind::Ended { .. });
        self.push(event.kind.as_str(), &frames::event(event));
    }

    fn push(&mut self, kind: &str, frame: &Value) {
        let id = frame["seq"].as_u64().unwrap_or(self.seq);
        // JSON has no raw line break, so one data line holds it.
        self.ready.push_back(Bytes::from(format!("event: {kind}\nid: {id}\ndata: {frame}\n\n")));
    }

    /// Says that events are lost; `rest` comes after it.
    async fn gap(&mut self, rest: &[Arc<TurnEvent>]) -> Result<(), ApiError> {
        let head = self.shared.deps.hub.next_seq(self.conversation);
        let next = rest.first().map_or(head, |event| event.seq);
        let turn = Some(self.turn);
        let taken =
            snapshot::take(&self.shared, &self.view, &self.place, self.conversation, turn, next);
        let frame = frames::gap(taken.await?, next);
        self.push("gap", &frame);
        Ok(())
    }

    /// Whether the record has ended without an event that says so.
    async fn look(&mut self) {
        if self.ended {
            return;
        }
        let Ok(Some(record)) = self.shared.deps.store.turn(self.turn).await else { return };
        if record.state != TurnState::Ended {
            return;
        }
        // The record comes before the event: one that has just ended is about to be announced.
        let age = record.ended_at.map(|at| self.shared.deps.world.now().duration_since(at));
        let fresh = age.is_some_and(|age| age.unsigned_abs() < FRESH);
        let wait = if fresh { ANNOUNCED } else { Duration::ZERO };
        let deadline = Instant::now() + wait;
        while !self.ended {
            match tokio::time::timeout_at(deadline, self.events.next()).await {
                Ok(HubItem::Event(event)) => self.take(&event),
                Ok(HubItem::Gap { .. }) => {
                    let _no_snapshot_now = self.gap(&[]).await;
                }
                Err(_) => {
                    self.ended = true;
                    let frame = frames::ended(&record, self.seq);
                    self.push("ended", &frame);
                }
            }
        }
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(chunk) = self.ready.pop_front() {
                return Some(chunk);
            }
            if self.ended {
                return None;
            }
            let closing = self.shared.closing.clone();
            let event = tokio::time::timeout(KEEP_ALIVE, self.events.next());
            match closing.run_until_cancelled(event).await {
                // The client comes back with `last-event-id`.
                None => return None,
                Some(Ok(HubItem::Event(event))) => self.take(&event),
                Some(Ok(HubItem::Gap { .. })) => {
                    let rest = snapshot::rest_of_ring(&mut self.events);
                    // Without a snapshot the client has to ask again.
                    self.gap(&rest).await.ok()?;
                    for event in rest {
                        self.take(&event);
                    }
                    self.look().await;
                }
                Some(Err(_)) => {
                    self.look().await;
                    if self.ready.is_empty() {
                        return Some(Bytes::from_static(b": keep-alive\n\n"));
                    }
                }
            }
        }
    }
}
