//! How workers tell what happened. Never blocks; what can't be told is counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rookery_messages::address::Address;
use rookery_messages::event::TurnEventKind;
use rookery_messages::ids::ConversationId;
use rookery_messages::observe::{Observation, ObserverMsg, TurnScope};

use super::hub::EventHub;

/// Tells the observer actor. Best effort: a full or missing observer costs the observation, not the
/// turn (V-N5).
#[derive(Clone, Debug)]
pub struct ObserverHandle {
    address: Option<Address<ObserverMsg>>,
    lost: Arc<AtomicU64>,
}

impl ObserverHandle {
    /// Tells this actor.
    pub fn new(address: Address<ObserverMsg>) -> Self {
        Self { address: Some(address), lost: Arc::default() }
    }

    /// Tells nobody.
    pub fn nobody() -> Self {
        Self { address: None, lost: Arc::default() }
    }

    /// Tells, if there is room.
    pub fn observe(&self, observation: Observation) {
        let Some(address) = &self.address else { return };
        if address.try_send(ObserverMsg::Observed(Box::new(observation))).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Observations nobody could take.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// One turn's voice: events to its clients, observations with its scope.
#[derive(Clone)]
pub struct TurnVoice {
    /// The turn.
    pub scope: TurnScope,
    hub: Arc<EventHub>,
    observer: ObserverHandle,
    /// Where its people are, if that is another conversation.
    asking_at: Option<ConversationId>,
}

impl TurnVoice {
    /// For one turn.
    pub fn new(scope: TurnScope, hub: Arc<EventHub>, observer: ObserverHandle) -> Self {
        Self { scope, hub, observer, asking_at: None }
    }

    /// Questions are put in that conversation, too: the turn was handed on by one there.
    #[must_use]
    pub fn asking_at(self, conversation: Option<ConversationId>) -> Self {
        Self { asking_at: conversation, ..self }
    }

    /// Tells the clients.
    pub fn tell(&self, event: TurnEventKind) {
        if let (Some(root), TurnEventKind::Approval { .. }) = (self.asking_at, &event) {
            self.hub.publish(root, self.scope.turn, event.clone());
        }
        self.hub.publish(self.scope.conversation_id, self.scope.turn, event);
    }

    /// Tells the observer.
    pub fn observe(&self, observation: impl FnOnce(TurnScope) -> Observation) {
        self.observer.observe(observation(self.scope.clone()));
    }
}
