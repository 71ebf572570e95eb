//! What a client needs that missed events: where the conversation stands.

use std::collections::HashSet;
use std::sync::Arc;

use rookery_messages::approval::Approval;
use rookery_messages::event::{TurnEvent, TurnEventKind};
use rookery_messages::ids::{ChannelId, ConversationId, TurnId};
use rookery_messages::store::StoreError;
use rookery_messages::turn::{TurnRecord, TurnState};
use serde_json::{Value, json};

use super::access::View;
use super::conversations::shown;
use super::deps::Shared;
use crate::channel::scope;
use crate::observe::{HubItem, Subscription};

/// Messages in a snapshot.
const MESSAGES: u32 = 50;
/// Turns looked at to find the one in hand.
const TURNS: u32 = 100;
/// Pending approvals looked at.
const APPROVALS: u32 = 1_000;

/// A conversation as a connection or a stream knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub channel: ChannelId,
    /// The stored name.
    pub conversation: String,
}

/// Pending approvals that are shown, oldest first.
pub(super) async fn pending(
    shared: &Shared,
    shows: impl Fn(&Approval) -> bool,
) -> Result<Vec<Approval>, StoreError> {
    let mut pending = shared.deps.store.approvals(true, APPROVALS).await?;
    pending.retain(shows);
    Ok(pending)
}

/// The newest turns of a conversation of one agent; all in it have the same conversation id.
pub(super) async fn turns(
    shared: &Shared,
    place: &Place,
    belongs: impl Fn(&TurnRecord) -> bool,
) -> Result<Vec<TurnRecord>, StoreError> {
    let (name, channel) = (place.conversation.clone(), place.channel.clone());
    let mut turns = shared.deps.store.turns(Some(name), Some(channel), None, TURNS).await?;
    turns.retain(belongs);
    Ok(turns)
}

/// What the ring still holds after a gap, taken before the snapshot. Of turns that have ended meanwhile
/// only the end is left: their words stand in the snapshot, and nobody should read them twice.
pub(super) fn rest_of_ring(events: &mut Subscription) -> Vec<Arc<TurnEvent>> {
    let mut rest = Vec::new();
    while let Some(item) = events.try_next() {
        match item {
            HubItem::Event(event) => rest.push(event),
            // Overtaken again: what was taken is older than the new gap.
            HubItem::Gap { .. } => rest.clear(),
        }
    }
    let is_end = |event: &TurnEvent| matches!(event.kind, TurnEventKind::Ended { .. });
    let ended: HashSet<TurnId> =
        rest.iter().filter(|event| is_end(event)).map(|event| event.turn).collect();
    rest.retain(|event| is_end(event) || !ended.contains(&event.turn));
    rest
}

/// `{turn, approvals, messages, next_seq}`: the turn asked for, else the one in hand, else the last.
pub(super) async fn take(
    shared: &Shared,
    view: &View,
    place: &Place,
    conversation: ConversationId,
    turn: Option<TurnId>,
    next_seq: u64,
) -> Result<Value, StoreError> {
    let record = match turn {
        Some(turn) => shared.deps.store.turn(turn).await?,
        None => {
            let turns = turns(shared, place, |turn| turn.conversation_id == conversation).await?;
            // Newest first: the oldest that has not ended is the one in hand.
            let open = turns.iter().rev().find(|turn| turn.state != TurnState::Ended).cloned();
            open.or_else(|| turns.into_iter().next())
        }
    };
    let record = record.and_then(|record| view.turn(shared, record));
    let approvals = pending(shared, |one| one.concerns(conversation)).await?;
    let (name, channel) = (place.conversation.clone(), place.channel.clone());
    let messages = shared.deps.store.messages(channel, name, MESSAGES).await?.unwrap_or_default();
    Ok(json!({
        "conversation": scope::bare(&place.conversation),
        "turn": record,
        "approvals": approvals,
        "messages": messages.iter().map(|stored| shown(stored, &shared.deps.redactor)).collect::<Vec<_>>(),
        "next_seq": next_seq,
    }))
}
