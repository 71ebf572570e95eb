//! One WebSocket connection: `gateway/<connection>`.
//!
//! Supervised by the gateway, temporary. Two tasks hold its socket ([`super::socket`]); each thing a
//! client asks is a task too, so that a cancel never waits behind anything. Messages are handed to the
//! intake one after the other, in the order they came. Ends when the client goes or the gateway stops;
//! a client that goes away cancels nothing.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{WebSocket, close_code};
use futures_util::StreamExt;
use rookery_messages::address::Message;
use rookery_messages::approval::{Approval, Decider};
use rookery_messages::caller::Caller;
use rookery_messages::channel::IntakeError;
use rookery_messages::envelope::{Inbound, Sender, TurnOrigin};
use rookery_messages::exit::{ActorError, StopReason};
use rookery_messages::ids::{AgentName, ApprovalId, ConversationId, TurnId};
use rookery_messages::settings::AuthRole;
use rookery_messages::store::{AcceptOutcome, CancelOutcome};
use rookery_messages::turn::{TurnRecord, TurnState};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::access::View;
use super::approvals::{Choice, choice, settle};
use super::cancel::{cancel, stop_running};
use super::deps::Shared;
use super::error::ApiError;
use super::follow::{Born, Opening};
use super::frames::{self, ClientFrame};
use super::snapshot::Place;
use super::socket::{self, Out, SocketPlace, Writer};
use crate::channel::text::{check_id, check_text};
use crate::channel::{IntakeHandle, ReceiveError, commands, scope};
use crate::runtime::{Ctx, Supervised};

/// Objects that wait for the writer.
const OUT: usize = 64;
/// Messages that wait for the one before them.
const WAITING: usize = 32;
/// Turns of this connection that are remembered for a quick cancel.
const TURNS: usize = 64;
/// How long a goodbye may take.
const GOODBYE: Duration = Duration::from_secs(1);

/// What a connection was opened for.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    pub place: Place,
    pub agent: AgentName,
    pub caller: Caller,
    pub view: View,
    pub intake: IntakeHandle,
}

impl Terms {
    fn decider(&self) -> Decider {
        Decider { who: self.caller.name.clone(), via: self.place.channel.to_string() }
    }

    /// An approval of another conversation is asked here too, of this caller.
    pub fn is_asked(&self, approval: &Approval) -> bool {
        approval.route.as_ref().is_some_and(|route| {
            route.asks(&self.caller.name, self.place.channel.as_str())
                || (self.is_operator() && route.channel == self.place.channel)
        })
    }

    fn is_operator(&self) -> bool {
        self.caller.role >= AuthRole::Operator
    }

    fn inbound(&self, id: &str, text: String) -> Inbound {
        // A client's ids are its own: unique within the conversation, not within the channel.
        let space = format!("{}/{}", self.agent, self.place.conversation);
        Inbound {
            channel: self.place.channel.clone(),
            external_id: scope::inside(&space, id),
            sender: Sender::person(self.caller.name.clone()),
            conversation: self.place.conversation.clone(),
            thread: None,
            text,
            attachments: Vec::new(),
            origin: TurnOrigin::Interactive,
            agent: self.agent.clone(),
        }
    }
}

/// What a connection takes.
pub enum ConnectionMsg {
    /// A frame, or what is wrong with it.
    Frame(Result<FrameBox, ApiError>),
    /// The conversation exists.
    Found(ConversationId),
    /// A message is durable, or was not taken.
    Settled(Box<Settled>),
    /// What a task has to say to the client.
    Say(Vec<Value>),
    /// The client is gone, or has to go.
    Gone(Option<(u16, &'static str)>),
}

/// How handing in a message went.
pub struct Settled {
    id: String,
    answer: Result<AcceptOutcome, ReceiveError>,
    /// Of a message that was known already.
    record: Option<TurnRecord>,
    /// The next one waits for it.
    in_line: bool,
}

/// A client's frame.
pub struct FrameBox(pub(super) ClientFrame);

impl Message for ConnectionMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Frame(_) => "Frame",
            Self::Found(_) => "Found",
            Self::Settled(_) => "Settled",
            Self::Say(_) => "Say",
            Self::Gone(_) => "Gone",
        }
    }
}

/// What it is built from.
pub struct ConnectionArgs {
    pub(super) shared: Arc<Shared>,
    pub(super) socket: WebSocket,
    pub(super) terms: Terms,
    pub(super) place: SocketPlace,
    pub(super) opening: Opening,
}

/// The actor.
pub struct Connection;

/// What it knows.
pub struct ConnectionState {
    shared: Arc<Shared>,
    terms: Arc<Terms>,
    out: mpsc::Sender<Out>,
    conversation: Option<ConversationId>,
    waiting: VecDeque<(String, Inbound)>,
    handing_in: bool,
    /// It has sent a frame.
    heard: bool,
    turns: VecDeque<TurnId>,
}

impl Supervised for Connection {
    const KIND: &'static str = "connection";
    type Msg = ConnectionMsg;
    type Args = ConnectionArgs;
    type State = ConnectionState;

    fn start(ctx: &mut Ctx<Self>, args: ConnectionArgs) -> Result<ConnectionState, ActorError> {
        let ConnectionArgs { shared, socket, terms, place, opening } = args;
        let conversation = opening.follower.as_ref().map(|follower| follower.conversation);
        let terms = Arc::new(terms);
        let (out, commands) = mpsc::channel(OUT);
        let (sink, stream) = socket.split();
        ctx.task(socket::read(stream, ctx.address(), place));
        let (told, agreed) = (Arc::clone(&shared), Arc::clone(&terms));
        let writer = Writer::new(told, agreed, sink, commands, ctx.address(), opening);
        ctx.task(writer.run());
        Ok(ConnectionState {
            shared,
            terms,
            out,
            conversation,
            waiting: VecDeque::new(),
            handing_in: false,
            heard: false,
            turns: VecDeque::new(),
        })
    }

    async fn handle(
        ctx: &mut Ctx<Self>,
        state: &mut ConnectionState,
        message: ConnectionMsg,
    ) -> Result<(), ActorError> {
        match message {
            ConnectionMsg::Frame(Ok(FrameBox(frame))) => state.frame(ctx, frame),
            ConnectionMsg::Frame(Err(error)) => state.refuse(ctx, &error),
            ConnectionMsg::Found(conversation) => state.conversation = Some(conversation),
            ConnectionMsg::Settled(settled) => state.settled(ctx, *settled),
            ConnectionMsg::Say(frames) => {
                for frame in frames {
                    state.say(ctx, Out::Frame(frame));
                }
            }
            ConnectionMsg::Gone(Some((code, reason))) if ctx.stopping().is_none() => {
                state.goodbye(ctx, code, reason);
            }
            ConnectionMsg::Gone(_) => ctx.end(),
        }
        Ok(())
    }

    async fn stop_requested(
        ctx: &mut Ctx<Self>,
        state: &mut ConnectionState,
        _: &StopReason,
    ) -> Result<(), ActorError> {
        state.goodbye(ctx, close_code::RESTART, "the service stops; connect again and resume");
        Ok(())
    }

    fn observe(state: &ConnectionState) -> Value {
        json!({
            "channel": state.terms.place.channel,
            "agent": state.terms.agent,
            "role": state.terms.caller.role.as_str(),
            "conversation": state.conversation,
            "waiting": state.waiting.len(),
        })
    }
}

impl ConnectionState {
    /// The writer says goodbye and ends, which ends us; or the time for it is over.
    fn goodbye(&mut self, ctx: &mut Ctx<Connection>, code: u16, reason: &'static str) {
        if self.out.try_send(Out::Close(code, reason)).is_err() {
            ctx.end();
        }
        ctx.after(GOODBYE, ConnectionMsg::Gone(None));
    }

    fn say(&mut self, ctx: &mut Ctx<Connection>, out: Out) {
        if self.out.try_send(out).is_err() {
            // It asks without reading the answers: nothing is kept for it.
            ctx.end();
        }
    }

    fn refuse(&mut self, ctx: &mut Ctx<Connection>, error: &ApiError) {
        self.say(ctx, Out::Frame(frames::error(error)));
    }

    fn frame(&mut self, ctx: &mut Ctx<Connection>, frame: ClientFrame) {
        let first = !std::mem::replace(&mut self.heard, true);
        if first && !matches!(frame, ClientFrame::Resume { .. }) {
            self.say(ctx, Out::Go);
        }
        match frame {
            ClientFrame::Message { id, text } => self.message(ctx, id, text),
            ClientFrame::Steer { text, id } => self.steer(ctx, text, id),
            ClientFrame::Cancel { turn } => self.cancel(ctx, turn),
            ClientFrame::Approval { id, decision, replacement, reason, scope } => {
                self.decide(ctx, id, choice(decision, replacement, reason, scope));
            }
            ClientFrame::Resume { seq } => self.say(ctx, Out::Resume(seq)),
        }
    }

    fn message(&mut self, ctx: &mut Ctx<Connection>, id: String, text: String) {
        if let Err(error) = check_id("id", &id).and_then(|()| check_text("text", &text)) {
            return self.say(ctx, Out::Frame(about(&id, frames::error(&error.into()))));
        }
        if self.waiting.len() >= WAITING {
            let error: ApiError = ReceiveError::Busy.into();
            return self.say(ctx, Out::Frame(about(&id, frames::error(&error))));
        }
        let inbound = self.terms.inbound(&id, text);
        if commands::parse(&inbound.text).is_some() {
            return self.command(ctx, id, inbound);
        }
        self.waiting.push_back((id, inbound));
        self.hand_in(ctx);
    }

    /// A command waits for no message.
    fn command(&self, ctx: &mut Ctx<Connection>, id: String, inbound: Inbound) {
        let shared = Arc::clone(&self.shared);
        ctx.task(async move {
            let taken = shared.deps.desk.take(&inbound).await?;
            let answer = taken.map(|answer| answer.outcome);
            let answer = answer.map_err(|error| IntakeError::Store(error).into());
            Some(settled(&shared, id, answer, false).await)
        });
    }

    /// One at a time: messages are accepted in the order they came.
    fn hand_in(&mut self, ctx: &mut Ctx<Connection>) {
        if self.handing_in {
            return;
        }
        let Some((id, inbound)) = self.waiting.pop_front() else { return };
        self.handing_in = true;
        let (shared, terms) = (Arc::clone(&self.shared), Arc::clone(&self.terms));
        ctx.task(async move {
            let answer = terms.intake.receive(inbound).await;
            Some(settled(&shared, id, answer, true).await)
        });
    }

    fn settled(&mut self, ctx: &mut Ctx<Connection>, settled: Settled) {
        if settled.in_line {
            self.handing_in = false;
        }
        match settled.answer {
            Ok(outcome) => {
                let envelope = &outcome.envelope;
                if self.turns.len() == TURNS {
                    self.turns.pop_front();
                }
                self.turns.push_back(envelope.turn);
                if self.conversation.is_none() {
                    self.conversation = Some(envelope.conversation_id);
                    self.say(ctx, Out::Follow(envelope.conversation_id));
                    // Nobody may be waiting for it.
                    let born = Born::of(&self.terms, envelope.conversation_id);
                    let _ = self.shared.births.send(born);
                }
                if outcome.duplicate {
                    // Only whoever sent it again is told; the conversation has heard it before.
                    self.say(
                        ctx,
                        Out::Frame(json!({
                            "type": "accepted", "turn": envelope.turn, "id": settled.id,
                            "duplicate": true,
                        })),
                    );
                    if let Some(record) = settled.record.filter(|r| r.state == TurnState::Ended) {
                        let seq = self.shared.deps.hub.next_seq(record.conversation_id);
                        let frame = frames::ended(&record, seq.saturating_sub(1));
                        self.say(ctx, Out::Frame(frame));
                    }
                }
            }
            Err(error) => {
                let frame = about(&settled.id, frames::error(&error.into()));
                self.say(ctx, Out::Frame(frame));
            }
        }
        self.hand_in(ctx);
    }

    /// Words for the turn that runs go past the messages that wait; they are as durable as these.
    fn steer(&mut self, ctx: &mut Ctx<Connection>, text: String, id: Option<String>) {
        let id = id.unwrap_or_else(|| format!("steer-{}", ctx.world().ids.next()));
        if let Err(error) = check_id("id", &id).and_then(|()| check_text("text", &text)) {
            return self.refuse(ctx, &error.into());
        }
        if self.conversation.is_none() {
            let message = "no turn runs in this conversation; send a message instead";
            return self.refuse(ctx, &ApiError::bad_request("no_turn", message));
        }
        let inbound = self.terms.inbound(&id, text);
        let (shared, terms) = (Arc::clone(&self.shared), Arc::clone(&self.terms));
        ctx.task(async move {
            let answer = terms.intake.steer(inbound).await;
            Some(settled(&shared, id, answer, false).await)
        });
    }

    fn cancel(&mut self, ctx: &mut Ctx<Connection>, turn: TurnId) {
        let (shared, terms) = (Arc::clone(&self.shared), Arc::clone(&self.terms));
        let known = self.turns.contains(&turn) || terms.is_operator();
        let conversation = self.conversation;
        if known {
            // At once, whatever the store and everybody else is busy with (R19).
            stop_running(&shared, turn);
        }
        ctx.task(async move {
            let said = cancel_frames(&shared, &terms, conversation, turn, known).await;
            let frames = said.unwrap_or_else(|error| vec![frames::error(&error)]);
            Some(ConnectionMsg::Say(frames))
        });
    }

    fn decide(
        &mut self,
        ctx: &mut Ctx<Connection>,
        id: ApprovalId,
        choice: Result<Choice, ApiError>,
    ) {
        let (shared, terms) = (Arc::clone(&self.shared), Arc::clone(&self.terms));
        let conversation = self.conversation;
        ctx.task(async move {
            let decided = async {
                let approval = shared.deps.store.approval(id).await?;
                // Bound to its conversation: elsewhere it does not exist, but for operators (A088).
                let approval = approval
                    .filter(|a| {
                        terms.is_operator()
                            || conversation.is_some_and(|here| a.concerns(here))
                            || terms.is_asked(a)
                    })
                    .ok_or_else(|| ApiError::not_found("approval"))?;
                let choice = choice?;
                let privileged = terms.is_operator();
                settle(&shared, &approval, choice, terms.decider(), privileged).await
            };
            // A084: what is said comes from what is stored.
            let frame = match decided.await {
                Ok(decided) => json!({
                    "type": "notice", "turn": decided.turn, "approval": decided.id,
                    "text": format!("{}: {}", decided.tool, decided.verdict()),
                }),
                Err(error) => {
                    let mut frame = frames::error(&error);
                    frame["approval"] = json!(id);
                    frame
                }
            };
            Some(ConnectionMsg::Say(vec![frame]))
        });
    }
}

/// How handing in went, with the record of what was known already.
async fn settled(
    shared: &Shared,
    id: String,
    answer: Result<AcceptOutcome, ReceiveError>,
    in_line: bool,
) -> ConnectionMsg {
    let record = match &answer {
        Ok(outcome) if outcome.duplicate => {
            shared.deps.store.turn(outcome.envelope.turn).await.ok().flatten()
        }
        _ => None,
    };
    ConnectionMsg::Settled(Box::new(Settled { id, answer, record, in_line }))
}

/// An error about a message names it.
fn about(id: &str, mut frame: Value) -> Value {
    frame["id"] = json!(id);
    frame
}

async fn cancel_frames(
    shared: &Shared,
    terms: &Terms,
    conversation: Option<ConversationId>,
    turn: TurnId,
    known: bool,
) -> Result<Vec<Value>, ApiError> {
    let unknown = || ApiError::not_found("turn");
    if !known {
        let record = shared.deps.store.turn(turn).await?.ok_or_else(unknown)?;
        let here = record.channel == terms.place.channel
            && record.conversation == terms.place.conversation;
        // What a turn of this conversation handed on is its people's to stop.
        let below = record.parent.as_ref().is_some_and(|of| Some(of.root) == conversation);
        if !here && !below {
            return Err(unknown());
        }
    }
    match cancel(shared, turn, terms.decider()).await? {
        CancelOutcome::NotFound => Err(unknown()),
        CancelOutcome::AlreadyEnded => {
            let record = shared.deps.store.turn(turn).await?.ok_or_else(unknown)?;
            let seq = shared.deps.hub.next_seq(record.conversation_id).saturating_sub(1);
            Ok(vec![frames::ended(&record, seq)])
        }
        // The turn's own end tells the rest.
        CancelOutcome::Ended | CancelOutcome::Marked => Ok(Vec::new()),
    }
}
