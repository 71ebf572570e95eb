//! Where a connection stands in its conversation's events, and how it learns that one begins.

use std::sync::Arc;

use rookery_messages::ids::{AgentName, ConversationId};
use rookery_messages::store::StoreError;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::connection::Terms;
use super::deps::Shared;
use super::snapshot::{self, Place};
use crate::observe::{HubItem, Subscription};

/// A conversation got its first message by one connection; others may wait for it.
#[derive(Clone, Debug)]
pub(super) struct Born {
    place: Arc<Place>,
    agent: AgentName,
    id: ConversationId,
}

impl Born {
    /// The conversation of a connection, now that it has an id.
    pub fn of(terms: &Terms, id: ConversationId) -> Self {
        Self { place: Arc::new(terms.place.clone()), agent: terms.agent.clone(), id }
    }

    fn is(&self, terms: &Terms) -> bool {
        self.agent == terms.agent && *self.place == terms.place
    }
}

/// A connection's place in its conversation's events.
pub(super) struct Follower {
    pub conversation: ConversationId,
    pub events: Subscription,
    /// The first gap says only that older events are gone, which nobody asked for.
    pub quiet: bool,
}

impl Follower {
    /// Follows a conversation that has just begun, from its beginning.
    pub fn of_new(shared: &Shared, conversation: ConversationId) -> Self {
        let events = shared.deps.hub.subscribe(conversation, Some(0));
        Self { conversation, events, quiet: true }
    }

    /// Follows what comes after `seq`.
    pub fn after(shared: &Shared, conversation: ConversationId, seq: u64) -> Self {
        let events = shared.deps.hub.subscribe(conversation, Some(seq));
        Self { conversation, events, quiet: false }
    }

    /// Follows the conversation from now on, if it exists yet.
    pub async fn find(shared: &Shared, terms: &Terms) -> Result<Option<Self>, StoreError> {
        let agent = &terms.agent;
        let turns = snapshot::turns(shared, &terms.place, |turn| turn.agent == *agent).await?;
        Ok(turns.first().map(|turn| {
            let conversation = turn.conversation_id;
            let events = shared.deps.hub.subscribe(conversation, None);
            Self { conversation, events, quiet: false }
        }))
    }
}

/// How a connection begins: it follows, or waits for its conversation to begin.
pub(super) struct Opening {
    pub follower: Option<Follower>,
    pub births: broadcast::Receiver<Born>,
}

impl Opening {
    /// Made before the client can say anything: no event of its first message may be missed.
    pub async fn new(shared: &Shared, terms: &Terms) -> Result<Self, StoreError> {
        let births = shared.births.subscribe();
        Ok(Self { follower: Follower::find(shared, terms).await?, births })
    }
}

/// The follower's next event; never, if there is none.
pub(super) async fn next(follower: Option<&mut Follower>) -> HubItem {
    match follower {
        Some(follower) => follower.events.next().await,
        None => std::future::pending().await,
    }
}

/// What a connection without a follower hears of.
pub(super) enum Heard {
    /// Its conversation has begun.
    Ours(ConversationId),
    /// Too many began at once to say whether its own was among them.
    Unsure,
}

/// Until something may have begun that the connection waits for; never, if it follows already. Safe to
/// cancel.
pub(super) async fn heard(
    births: &mut broadcast::Receiver<Born>,
    terms: &Terms,
    waits: bool,
) -> Heard {
    if !waits {
        return std::future::pending().await;
    }
    loop {
        match births.recv().await {
            Ok(born) if born.is(terms) => return Heard::Ours(born.id),
            Ok(_) => {}
            Err(RecvError::Lagged(_)) => return Heard::Unsure,
            Err(RecvError::Closed) => return std::future::pending().await,
        }
    }
}
