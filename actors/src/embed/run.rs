//! A turn as the program follows it.

use std::time::Duration;

use rookery_messages::address::Address;
use rookery_messages::chat::Usage;
use rookery_messages::event::TurnEventKind;
use rookery_messages::ids::TurnId;
use rookery_messages::store::StoreError;
use rookery_messages::turn::{Outcome, TurnError, TurnRecord, TurnState};

use super::EmbedError;
use super::tree::EmbeddedMsg;
use crate::channel::commands::Stopper;
use crate::observe::{HubItem, Subscription};
use crate::store::StoreClient;

/// How often the record is looked at while no event comes: the store is the truth, an event a hint.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// A turn: its events, its end, and the hand on its brake. Dropped before its end, it is cancelled.
pub struct Run {
    turn: TurnId,
    events: Subscription,
    store: StoreClient,
    stopper: Stopper,
    root: Address<EmbeddedMsg>,
    /// Its end has been seen.
    ended: Option<Finished>,
    /// The record has to be looked at before anything is waited for.
    look: bool,
    /// Events are gone: perhaps the end is among them.
    lost: bool,
    detached: bool,
}

/// How a turn ended.
#[derive(Clone, PartialEq, Debug)]
pub struct Finished {
    /// How.
    pub outcome: Outcome,
    /// The final text, if it was answered.
    pub reply: Option<String>,
    /// Why it failed or was cancelled.
    pub error: Option<TurnError>,
    /// Tokens.
    pub usage: Usage,
    /// The turn that answers its message too, if it is merged.
    pub into: Option<TurnId>,
}

impl Finished {
    fn of(record: TurnRecord) -> Option<Self> {
        let TurnRecord { outcome, reply, error, usage, into, .. } = record;
        Some(Self { outcome: outcome?, reply, error, usage, into })
    }
}

impl Run {
    pub(super) fn new(
        turn: TurnId,
        events: Subscription,
        store: StoreClient,
        stopper: Stopper,
        root: Address<EmbeddedMsg>,
        known: bool,
    ) -> Self {
        Self {
            turn,
            events,
            store,
            stopper,
            root,
            ended: None,
            look: known,
            lost: false,
            detached: false,
        }
    }

    /// The turn's id.
    pub fn id(&self) -> TurnId {
        self.turn
    }

    /// The turn's next event; none after its end. Events that nobody took in time are left out, the end
    /// never is.
    pub async fn next(&mut self) -> Option<TurnEventKind> {
        while self.ended.is_none() {
            if self.look && self.look().await {
                break;
            }
            // What is there already comes first: a turn may have ended before anybody follows it.
            let item = match self.events.try_next() {
                Some(item) => item,
                None if std::mem::take(&mut self.lost) => {
                    self.look = true;
                    continue;
                }
                None => match tokio::time::timeout(LOOK_AGAIN, self.events.next()).await {
                    Ok(item) => item,
                    Err(_) => {
                        self.look = true;
                        continue;
                    }
                },
            };
            match item {
                HubItem::Event(event) if event.turn == self.turn => {
                    self.see(&event.kind);
                    return Some(event.kind.clone());
                }
                HubItem::Event(_) => {}
                HubItem::Gap { .. } => self.lost = true,
            }
        }
        None
    }

    /// Waits for the end.
    pub async fn finish(mut self) -> Result<Finished, EmbedError> {
        while self.next().await.is_some() {}
        match self.ended.clone() {
            Some(ended) => Ok(ended),
            None => Err(StoreError::Closed.into()),
        }
    }

    /// Stops the turn. Its end is an event like any other.
    pub fn cancel(&self) {
        self.stopper.stop_running(self.turn);
        // A full mailbox is no harm to a turn that runs: the stop has been set. One that waits begins, and
        // is stopped by whoever asks again.
        let _ = self.root.try_send(EmbeddedMsg::Cancel(self.turn));
    }

    /// Lets the turn run without anybody following it.
    pub fn detach(mut self) {
        self.detached = true;
    }

    fn see(&mut self, event: &TurnEventKind) {
        if let TurnEventKind::Ended { outcome, reply, usage, error, into } = event {
            self.ended = Some(Finished {
                outcome: *outcome,
                reply: reply.clone(),
                error: error.clone(),
                usage: *usage,
                into: *into,
            });
        }
    }

    /// Whether the record says that there is nothing more to wait for.
    async fn look(&mut self) -> bool {
        self.look = false;
        match self.store.turn(self.turn).await {
            Ok(Some(record)) if record.state == TurnState::Ended => {
                self.ended = Finished::of(record);
                true
            }
            // Nobody will ever say more.
            Err(StoreError::Closed) => true,
            Ok(_) | Err(_) => false,
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if self.ended.is_none() && !self.detached {
            self.cancel();
        }
    }
}
