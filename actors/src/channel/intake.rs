//! The intake of one channel: decoded messages become durable.
//!
//! Owns nothing but its counters; supervised below its channel. Each message is one task: one store
//! transaction, then the clients' `accepted` event, the router's hint, the sender's hint for a
//! rejection's notice, and the answer. Ends when told to. What was accepted just before it ends without
//! a hint is found by the router's sweep: messages are hints, the inbox is the queue.

use std::sync::Arc;
use std::time::Duration;

use rookery_messages::address::{Address, SendError};
use rookery_messages::channel::{IntakeError, IntakeMsg, QueuePolicy, SenderMsg};
use rookery_messages::envelope::Inbound;
use rookery_messages::event::TurnEventKind;
use rookery_messages::exit::ActorError;
use rookery_messages::ids::{AgentName, ChannelId, ConversationId, EnvelopeId, TurnId};
use rookery_messages::observe::Observation;
use rookery_messages::session::{Arrival, RouterMsg, Steering};
use rookery_messages::store::{Accept, AcceptOutcome, ClaimTerms, StoreError};
use rookery_messages::time::World;
use rookery_messages::turn::{Outcome, TurnClaim, TurnError};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::observe::{EventHub, ObserverHandle};
use crate::runtime::{Ctx, Supervised};
use crate::store::{StoreClient, return_claim};

/// How many times its debounce a message waits for others at most.
const MOST_DEBOUNCES: u32 = 5;

/// Whether a channel's list admits a sender. `*` is everybody; an empty list is nobody.
pub fn is_allowed(allowed: &[String], sender: &str) -> bool {
    allowed.iter().any(|entry| entry == "*" || entry == sender)
}

/// What an intake is built from.
#[derive(Clone)]
pub struct IntakeArgs {
    /// The channel.
    pub channel: ChannelId,
    /// What happens to a message while a turn runs.
    pub queue: QueuePolicy,
    /// Most waiting messages a conversation.
    pub queue_limit: u32,
    /// With `coalesce`: how long a message waits for others.
    pub debounce: Duration,
    /// A message that finds its conversation quiet is claimed as it is accepted, on these terms.
    pub claim: Option<ClaimTerms>,
    /// The store.
    pub store: StoreClient,
    /// The event streams.
    pub hub: Arc<EventHub>,
    /// Who finds a session for the message.
    pub router: Address<RouterMsg>,
    /// The channel's sender, if it has one: a rejection's notice waits for it.
    pub sender: Option<Address<SenderMsg>>,
    /// Who is told.
    pub observer: ObserverHandle,
}

/// The actor.
pub struct Intake;

/// What it knows.
pub struct IntakeState {
    args: Arc<IntakeArgs>,
    accepted: u64,
    duplicates: u64,
    rejected: u64,
}

impl Supervised for Intake {
    const KIND: &'static str = "intake";
    const PAUSABLE: bool = true;
    type Msg = IntakeMsg;
    type Args = IntakeArgs;
    type State = IntakeState;

    fn start(_: &mut Ctx<Self>, args: IntakeArgs) -> Result<IntakeState, ActorError> {
        Ok(IntakeState { args: Arc::new(args), accepted: 0, duplicates: 0, rejected: 0 })
    }

    async fn handle(
        ctx: &mut Ctx<Self>,
        state: &mut IntakeState,
        message: IntakeMsg,
    ) -> Result<(), ActorError> {
        match message {
            IntakeMsg::Receive { inbound, steer, reply } => {
                if ctx.is_paused() {
                    let _nobody_waits = reply.send(Err(if ctx.is_draining() {
                        IntakeError::Draining
                    } else {
                        IntakeError::Paused
                    }));
                    return Ok(());
                }
                let (args, world) = (Arc::clone(&state.args), ctx.world().clone());
                let policy = if steer { QueuePolicy::Steer } else { args.queue };
                ctx.task(async move {
                    let answer = accept(&args, &world, policy, *inbound).await;
                    let outcome = answer.as_ref().ok().cloned();
                    let _nobody_waits = reply.send(answer.map_err(IntakeError::Store));
                    Some(IntakeMsg::Accepted { outcome: Box::new(outcome?) })
                });
            }
            IntakeMsg::Accepted { outcome } => state.count(&outcome),
        }
        Ok(())
    }

    fn observe(state: &IntakeState) -> Value {
        json!({
            "channel": state.args.channel,
            "accepted": state.accepted,
            "duplicates": state.duplicates,
            "rejected": state.rejected,
        })
    }
}

impl IntakeState {
    fn count(&mut self, outcome: &AcceptOutcome) {
        if outcome.duplicate {
            self.duplicates += 1;
        } else if outcome.rejected {
            self.rejected += 1;
        } else {
            self.accepted += 1;
        }
        self.args.observer.observe(Observation::Accepted {
            channel: self.args.channel.clone(),
            duplicate: outcome.duplicate,
            rejected: outcome.rejected,
        });
    }
}

/// Makes one message durable and tells whoever waits for it.
async fn accept(
    args: &IntakeArgs,
    world: &World,
    policy: QueuePolicy,
    inbound: Inbound,
) -> Result<AcceptOutcome, StoreError> {
    let request = Accept {
        inbound,
        envelope: EnvelopeId(world.ids.next()),
        turn: TurnId(world.ids.next()),
        conversation_id: ConversationId(world.ids.next()),
        queue_limit: args.queue_limit,
        child: None,
        claim: args.claim.clone().filter(|_| policy != QueuePolicy::Coalesce),
        at: world.now(),
    };
    let mut outcome = match args.store.accept(request).await {
        Ok(outcome) => outcome,
        Err(error) => {
            args.observer.observe(Observation::StoreFailed { code: error.code() });
            return Err(error);
        }
    };
    let claim = outcome.claim.take();
    if !outcome.duplicate
        && let Some(claim) = announce(args, policy, &outcome, claim)
    {
        return_claim(&args.store, &claim).await;
    }
    Ok(outcome)
}

/// The record is durable: clients, router and sender may know. Gives the claim back that the router has
/// no room for.
fn announce(
    args: &IntakeArgs,
    policy: QueuePolicy,
    outcome: &AcceptOutcome,
    claim: Option<Box<TurnClaim>>,
) -> Option<Box<TurnClaim>> {
    let envelope = &outcome.envelope;
    let tell = |kind| args.hub.publish(envelope.conversation_id, envelope.turn, kind);
    let id = super::scope::bare(&envelope.inbound.external_id).to_owned();
    tell(TurnEventKind::Accepted { id, duplicate: false });
    if outcome.rejected {
        tell(rejection());
        if let Some(sender) = &args.sender {
            // A full mailbox is fine: the sender looks by itself now and then.
            let _ = sender.try_send(SenderMsg::Due);
        }
        return None;
    }
    let arrival = match (claim, policy) {
        (Some(claim), _) => Arrival::Claimed(claim),
        (None, QueuePolicy::Queue) => Arrival::Waits,
        (None, QueuePolicy::Interrupt) => Arrival::Interrupts(envelope.turn),
        (None, QueuePolicy::Steer) => Arrival::Steers(Box::new(Steering {
            turn: envelope.turn,
            inbound: envelope.inbound.clone(),
        })),
        (None, QueuePolicy::Coalesce) => {
            Arrival::Gathers { quiet: args.debounce, most: args.debounce * MOST_DEBOUNCES }
        }
    };
    // A full mailbox is fine: the router sweeps.
    let hint = RouterMsg::Hint { conversation: envelope.conversation_id, arrival };
    match args.router.try_send(hint) {
        Ok(()) => None,
        Err(refused) => refused.into_message().into_claim(),
    }
}

fn rejection() -> TurnEventKind {
    TurnEventKind::Ended {
        outcome: Outcome::Rejected,
        reply: None,
        usage: Default::default(),
        error: Some(TurnError::new("queue_full", QUEUE_FULL)),
        into: None,
    }
}

/// What a client reads whose message found the queue full.
pub const QUEUE_FULL: &str = "too many messages of this conversation wait already, so this one was not taken; send it again later";

/// Why a message was not taken by its intake.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReceiveError {
    /// The intake said so.
    #[error(transparent)]
    Refused(#[from] IntakeError),
    /// Too many messages are on their way into this channel.
    #[error("the channel has too many messages in hand; send the message again in a moment")]
    Busy,
    /// The channel is between two lives, or has ended.
    #[error("the channel is not running now; send the message again in a moment")]
    Down,
}

/// A channel's intake as the gateway uses it.
#[derive(Clone, Debug)]
pub struct IntakeHandle {
    /// Where messages go.
    pub address: Address<IntakeMsg>,
    /// The agent that owns the channel.
    pub agent: AgentName,
}

impl IntakeHandle {
    /// Whether it takes messages now.
    pub fn is_up(&self) -> bool {
        self.address.actor().is_some()
    }

    /// Hands a message in and waits until it is durable.
    pub async fn receive(&self, inbound: Inbound) -> Result<AcceptOutcome, ReceiveError> {
        self.hand_in(inbound, false).await
    }

    /// As [`IntakeHandle::receive`], for the turn that runs: it takes the message in before its next model
    /// call. If it ends before that, or none runs, the message is answered by a turn of its own.
    pub async fn steer(&self, inbound: Inbound) -> Result<AcceptOutcome, ReceiveError> {
        self.hand_in(inbound, true).await
    }

    async fn hand_in(&self, inbound: Inbound, steer: bool) -> Result<AcceptOutcome, ReceiveError> {
        let (reply, answer) = oneshot::channel();
        let message = IntakeMsg::Receive { inbound: Box::new(inbound), steer, reply };
        match self.address.try_send(message) {
            Ok(()) => {}
            Err(SendError::Full(_)) => return Err(ReceiveError::Busy),
            Err(_) => return Err(ReceiveError::Down),
        }
        // Without an answer it is unknown whether it was taken; its id makes a repetition safe.
        Ok(answer.await.map_err(|_| ReceiveError::Down)??)
    }
}
