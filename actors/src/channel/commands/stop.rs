//! Stopping a turn: the stop cell first, then the record.

use std::sync::Arc;
use std::time::Duration;

use rookery_messages::address::Address;
use rookery_messages::approval::Decider;
use rookery_messages::event::TurnEventKind;
use rookery_messages::exit::StopReason;
use rookery_messages::ids::TurnId;
use rookery_messages::session::RouterMsg;
use rookery_messages::store::{CancelOutcome, StoreError};
use rookery_messages::time::World;
use rookery_messages::turn::Outcome;

use crate::observe::EventHub;
use crate::runtime::{Directory, Entry};
use crate::store::StoreClient;

/// A store that is busy gets so many tries.
const TRIES: u32 = 3;
const DELAY: Duration = Duration::from_millis(200);
/// How long the router may take to have room.
const HINT_LIMIT: Duration = Duration::from_secs(5);

/// A turn's actor, if it has one.
pub fn running_turn(directory: &Directory, turn: TurnId) -> Option<Arc<Entry>> {
    let segment = format!("turn/{turn}");
    directory.of_kind("turn").into_iter().find(|entry| entry.segment == segment)
}

/// Whoever stops turns. Cheap to clone.
#[derive(Clone)]
pub struct Stopper {
    /// Who lives.
    pub directory: Arc<Directory>,
    /// The store.
    pub store: StoreClient,
    /// The event streams.
    pub hub: Arc<EventHub>,
    /// Who has the sessions.
    pub router: Address<RouterMsg>,
    /// Clock.
    pub world: World,
}

impl Stopper {
    /// Sets the stop cell of a running turn. Needs no mailbox, no store, nobody's time (R19).
    pub fn stop_running(&self, turn: TurnId) -> bool {
        let Some(entry) = running_turn(&self.directory, turn) else { return false };
        entry.stop(StopReason::User);
        true
    }

    /// Stops a turn that runs, ends one that waits; idempotent.
    pub async fn cancel(&self, turn: TurnId, by: Decider) -> Result<CancelOutcome, StoreError> {
        let stopped = self.stop_running(turn);
        let outcome = match self.mark(turn, by).await {
            Ok(outcome) => outcome,
            // It stops all the same, and writes its own end.
            Err(_) if stopped => CancelOutcome::Marked,
            Err(error) => return Err(error),
        };
        match outcome {
            // Between the look and the mark the turn may have begun.
            CancelOutcome::Marked if !stopped && !self.stop_running(turn) => self.hint(turn).await,
            // Nobody runs it, so nobody else tells.
            CancelOutcome::Ended => self.announce(turn).await,
            _ => {}
        }
        Ok(outcome)
    }

    async fn mark(&self, turn: TurnId, by: Decider) -> Result<CancelOutcome, StoreError> {
        let now = self.world.now();
        let mut tries = 1;
        loop {
            match self.store.cancel_turn(turn, now, by.clone()).await {
                Err(error) if error.is_transient() && tries < TRIES => {
                    tries += 1;
                    tokio::time::sleep(DELAY).await;
                }
                answer => return answer,
            }
        }
    }

    /// The row is claimed and marked, and there is no actor yet: the claim's answer may have left the store
    /// before the mark was set. Its session knows which, and stops the turn as soon as it is there.
    async fn hint(&self, turn: TurnId) {
        let Ok(Some(record)) = self.store.turn(turn).await else { return };
        let hint = RouterMsg::Cancel { conversation: record.conversation_id, turn };
        let sent = tokio::time::timeout(HINT_LIMIT, self.router.send(hint)).await;
        if !matches!(sent, Ok(Ok(()))) {
            tracing::warn!(%turn, "the session could not be told of a cancel; the mark is in the store");
        }
    }

    async fn announce(&self, turn: TurnId) {
        if let Ok(Some(record)) = self.store.turn(turn).await {
            let ended = TurnEventKind::Ended {
                outcome: record.outcome.unwrap_or(Outcome::Cancelled),
                reply: record.reply,
                usage: record.usage,
                error: record.error,
                into: record.into,
            };
            self.hub.publish(record.conversation_id, turn, ended);
        }
    }
}
