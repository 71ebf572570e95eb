//! The two tasks that hold a WebSocket: one reads frames, one writes events.
//!
//! The writer takes events from the conversation's ring at the speed at which the client reads; a client
//! too slow for the ring loses its place in it and gets `gap`. Nothing else ever waits for it (V-E24).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, close_code};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use rookery_messages::address::Address;
use rookery_messages::approval::Approval;
use rookery_messages::ids::ConversationId;
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite;

use super::connection::{ConnectionMsg, FrameBox, Terms};
use super::deps::Shared;
use super::error::ApiError;
use super::follow::{Follower, Heard, Opening, heard, next};
use super::frames;
use super::snapshot;
use crate::observe::HubItem;

/// A ping goes out this often.
const PING: Duration = Duration::from_secs(30);
/// A client that sends nothing, not even the answer to a ping, for so long is gone.
const SILENCE: Duration = Duration::from_secs(90);
/// Events are held back so long for a first frame: `resume` wants the older ones before the newer.
const HOLD: Duration = Duration::from_millis(250);

/// One of the WebSocket connections that may be open at once.
pub(super) struct SocketPlace(Arc<AtomicUsize>);

impl SocketPlace {
    /// Takes a place, if there is one.
    pub fn take(open: &Arc<AtomicUsize>, limit: usize) -> Option<Self> {
        let more = |now: usize| (now < limit).then_some(now + 1);
        open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Self(Arc::clone(open)))
    }
}

impl Drop for SocketPlace {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What the actor tells the writer.
#[derive(Debug)]
pub(super) enum Out {
    /// Send this.
    Frame(Value),
    /// The conversation has its id now: follow it from its beginning.
    Follow(ConversationId),
    /// Follow again, from after this seq.
    Resume(u64),
    /// The client's first frame is not a resume: nothing has to be held back.
    Go,
    /// Say goodbye.
    Close(u16, &'static str),
}

/// Reads frames until the client goes, in order, as fast as the actor takes them.
pub(super) async fn read(
    mut stream: SplitStream<WebSocket>,
    actor: Address<ConnectionMsg>,
    place: SocketPlace,
) -> Option<ConnectionMsg> {
    let _place = place;
    loop {
        let message = match tokio::time::timeout(SILENCE, stream.next()).await {
            Ok(Some(Ok(message))) => message,
            // A frame too large or not UTF-8 ends the connection: the stream can't be read on.
            Ok(Some(Err(error))) => return Some(ConnectionMsg::Gone(reason_of(&error))),
            Ok(None) => return Some(ConnectionMsg::Gone(None)),
            Err(_) => {
                return Some(ConnectionMsg::Gone(Some((close_code::AWAY, "no sign of life"))));
            }
        };
        let frame = match message {
            Message::Text(text) => frames::parse(&text).map(FrameBox),
            Message::Binary(_) => {
                Err(ApiError::bad_request("not_text", "frames are JSON texts, not binary"))
            }
            Message::Ping(_) | Message::Pong(_) => continue,
            Message::Close(_) => return Some(ConnectionMsg::Gone(None)),
        };
        // Waits for room: a client that sends faster than we work is slowed by its own socket.
        if actor.send(ConnectionMsg::Frame(frame)).await.is_err() {
            return None;
        }
    }
}

/// Why a frame could not be read, if it is the client's doing.
fn reason_of(error: &axum::Error) -> Option<(u16, &'static str)> {
    match std::error::Error::source(error)?.downcast_ref::<tungstenite::Error>()? {
        tungstenite::Error::Capacity(_) => {
            Some((close_code::SIZE, "the frame is larger than gateway.body_limit_bytes"))
        }
        tungstenite::Error::Utf8(_) => Some((close_code::INVALID, "the frame is not valid UTF-8")),
        tungstenite::Error::Protocol(_) => {
            Some((close_code::PROTOCOL, "the frame is not a WebSocket frame"))
        }
        _ => None,
    }
}

/// Writes until told to close, or until the client is gone.
pub(super) struct Writer {
    shared: Arc<Shared>,
    terms: Arc<Terms>,
    sink: SplitSink<WebSocket, Message>,
    commands: mpsc::Receiver<Out>,
    actor: Address<ConnectionMsg>,
    opening: Opening,
    /// The seq of the last event sent.
    seq: u64,
}

struct Closed;

impl Writer {
    pub fn new(
        shared: Arc<Shared>,
        terms: Arc<Terms>,
        sink: SplitSink<WebSocket, Message>,
        commands: mpsc::Receiver<Out>,
        actor: Address<ConnectionMsg>,
        opening: Opening,
    ) -> Self {
        let next = |follower: &Follower| shared.deps.hub.next_seq(follower.conversation);
        let seq = opening.follower.as_ref().map_or(0, |f| next(f).saturating_sub(1));
        Self { shared, terms, sink, commands, actor, opening, seq }
    }

    /// The task.
    pub async fn run(mut self) -> Option<ConnectionMsg> {
        let _closed = self.write().await;
        let _already_gone = self.sink.close().await;
        Some(ConnectionMsg::Gone(None))
    }

    async fn write(&mut self) -> Result<(), Closed> {
        if let Ok(first) = tokio::time::timeout(HOLD, self.commands.recv()).await {
            self.obey(first.ok_or(Closed)?).await?;
        }
        while let Some(item) = self.opening.follower.as_mut().and_then(|f| f.events.try_next()) {
            self.pass_on(item).await?;
        }
        // A086: whoever comes back sees again what waits for a decision.
        self.show_pending().await?;
        let mut routed = self.shared.deps.hub.routed();
        let mut ping = tokio::time::interval_at(Instant::now() + PING, PING);
        loop {
            let Opening { follower, births } = &mut self.opening;
            let waits = follower.is_none();
            tokio::select! {
                command = self.commands.recv() => self.obey(command.ok_or(Closed)?).await?,
                item = next(follower.as_mut()) => self.pass_on(item).await?,
                heard = heard(births, &self.terms, waits) => self.begin(heard).await?,
                asked = routed.recv() => match asked {
                    Ok(approval) => self.pass_routed(&approval).await?,
                    Err(RecvError::Lagged(_)) => self.show_pending().await?,
                    // The hub lives as long as the service.
                    Err(RecvError::Closed) => return Err(Closed),
                },
                _ = ping.tick() => self.raw(Message::Ping(Default::default())).await?,
            }
        }
    }

    /// Somebody else has begun the conversation, or may have.
    async fn begin(&mut self, heard: Heard) -> Result<(), Closed> {
        match heard {
            Heard::Ours(conversation) => {
                self.opening.follower = Some(Follower::of_new(&self.shared, conversation));
            }
            // A store that does not answer now is asked again when the client says something.
            Heard::Unsure => {
                let found = Follower::find(&self.shared, &self.terms).await.ok().flatten();
                self.opening.follower = found;
            }
        }
        self.tell_found().await
    }

    async fn tell_found(&self) -> Result<(), Closed> {
        let Some(follower) = &self.opening.follower else { return Ok(()) };
        let found = ConnectionMsg::Found(follower.conversation);
        self.actor.send(found).await.map_err(|_| Closed)
    }

    async fn obey(&mut self, command: Out) -> Result<(), Closed> {
        match command {
            Out::Frame(frame) => self.send(frame).await,
            Out::Follow(conversation) => {
                if self.opening.follower.is_none() {
                    self.opening.follower = Some(Follower::of_new(&self.shared, conversation));
                }
                Ok(())
            }
            Out::Resume(seq) => self.resume(seq).await,
            Out::Go => Ok(()),
            Out::Close(code, reason) => {
                // What has happened is told first: nobody has to come back for an answer that is there.
                while let Some(item) =
                    self.opening.follower.as_mut().and_then(|f| f.events.try_next())
                {
                    self.pass_on(item).await?;
                }
                let reason = Utf8Bytes::from_static(reason);
                self.raw(Message::Close(Some(CloseFrame { code, reason }))).await?;
                Err(Closed)
            }
        }
    }

    async fn resume(&mut self, seq: u64) -> Result<(), Closed> {
        if self.opening.follower.is_none() {
            // Somebody else may have begun it meanwhile.
            match Follower::find(&self.shared, &self.terms).await {
                Ok(found) => self.opening.follower = found,
                Err(error) => return self.send(frames::error(&error.into())).await,
            }
            self.tell_found().await?;
        }
        let Some(conversation) = self.opening.follower.as_ref().map(|f| f.conversation) else {
            let message = "there is nothing to resume: the conversation has no message yet";
            let error = ApiError::bad_request("nothing_to_resume", message);
            return self.send(frames::error(&error)).await;
        };
        self.seq = seq;
        self.opening.follower = Some(Follower::after(&self.shared, conversation, seq));
        Ok(())
    }

    async fn pass_on(&mut self, item: HubItem) -> Result<(), Closed> {
        let Some(follower) = &mut self.opening.follower else { return Ok(()) };
        let quiet = std::mem::take(&mut follower.quiet);
        match item {
            HubItem::Event(event) => {
                self.seq = event.seq;
                self.send(frames::event(&event)).await
            }
            HubItem::Gap { .. } if quiet => Ok(()),
            HubItem::Gap { next } => self.gap(next).await,
        }
    }

    async fn gap(&mut self, oldest: u64) -> Result<(), Closed> {
        let Some(follower) = &mut self.opening.follower else { return Ok(()) };
        let conversation = follower.conversation;
        let rest = snapshot::rest_of_ring(&mut follower.events);
        let head = self.shared.deps.hub.next_seq(conversation);
        let next = rest.first().map_or(head, |event| event.seq).max(oldest);
        let Terms { place, view, .. } = &*self.terms;
        let taken = snapshot::take(&self.shared, view, place, conversation, None, next).await;
        self.seq = next.saturating_sub(1);
        match taken {
            Ok(snapshot) => self.send(frames::gap(snapshot, next)).await?,
            Err(error) => {
                // The client must not take a hole for the whole: it gets a gap all the same.
                self.send(frames::gap(Value::Null, next)).await?;
                self.send(frames::error(&error.into())).await?;
            }
        }
        for event in rest {
            self.seq = event.seq;
            self.send(frames::event(&event)).await?;
        }
        Ok(())
    }

    /// A request of another conversation that is asked here too; our own's come with its events.
    async fn pass_routed(&mut self, approval: &Approval) -> Result<(), Closed> {
        let own = self.opening.follower.as_ref().map(|follower| follower.conversation);
        if own.is_some_and(|own| approval.concerns(own)) || !self.terms.is_asked(approval) {
            return Ok(());
        }
        self.send(frames::approval(approval, self.seq)).await
    }

    async fn show_pending(&mut self) -> Result<(), Closed> {
        let own = self.opening.follower.as_ref().map(|follower| follower.conversation);
        let terms = Arc::clone(&self.terms);
        let shows = move |approval: &Approval| {
            own.is_some_and(|own| approval.concerns(own)) || terms.is_asked(approval)
        };
        match snapshot::pending(&self.shared, shows).await {
            Ok(pending) => {
                for approval in pending {
                    self.send(frames::approval(&approval, self.seq)).await?;
                }
                Ok(())
            }
            Err(error) => self.send(frames::error(&error.into())).await,
        }
    }

    /// Sends an object; one that is no event carries the seq of the last event.
    async fn send(&mut self, mut frame: Value) -> Result<(), Closed> {
        if let Value::Object(fields) = &mut frame {
            fields.entry("seq").or_insert(json!(self.seq));
        }
        self.raw(Message::Text(frame.to_string().into())).await
    }

    async fn raw(&mut self, message: Message) -> Result<(), Closed> {
        self.sink.send(message).await.map_err(|_| Closed)
    }
}
