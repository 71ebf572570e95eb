//! Stopping a turn: the stop cell first, then the record.

use std::time::Duration;

use rookery_messages::approval::Decider;
use rookery_messages::event::TurnEventKind;
use rookery_messages::exit::StopReason;
use rookery_messages::ids::TurnId;
use rookery_messages::session::RouterMsg;
use rookery_messages::store::{CancelOutcome, StoreError};
use rookery_messages::turn::Outcome;

use super::deps::Shared;

/// A store that is busy gets so many tries.
const TRIES: u32 = 3;
const DELAY: Duration = Duration::from_millis(200);
/// How long the router may take to have room.
const HINT_LIMIT: Duration = Duration::from_secs(5);

/// Sets the stop cell of a running turn. Needs no mailbox, no store, nobody's time (R19).
pub(super) fn stop_running(shared: &Shared, turn: TurnId) -> bool {
    let segment = format!("turn/{turn}");
    let running = shared.deps.directory.of_kind("turn");
    let Some(entry) = running.iter().find(|entry| entry.segment == segment) else { return false };
    entry.stop(StopReason::User);
    true
}

/// Stops a turn that runs, ends one that waits; idempotent.
pub(super) async fn cancel(
    shared: &Shared,
    turn: TurnId,
    by: Decider,
) -> Result<CancelOutcome, StoreError> {
    let stopped = stop_running(shared, turn);
    let outcome = match mark(shared, turn, by).await {
        Ok(outcome) => outcome,
        // It stops all the same, and writes its own end.
        Err(_) if stopped => CancelOutcome::Marked,
        Err(error) => return Err(error),
    };
    match outcome {
        // Between the look and the mark the turn may have begun.
        CancelOutcome::Marked if !stopped && !stop_running(shared, turn) => {
            hint(shared, turn).await
        }
        // Nobody runs it, so nobody else tells.
        CancelOutcome::Ended => announce(shared, turn).await,
        _ => {}
    }
    Ok(outcome)
}

async fn mark(shared: &Shared, turn: TurnId, by: Decider) -> Result<CancelOutcome, StoreError> {
    let now = shared.deps.world.now();
    let mut tries = 1;
    loop {
        match shared.deps.store.cancel_turn(turn, now, by.clone()).await {
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
async fn hint(shared: &Shared, turn: TurnId) {
    let Ok(Some(record)) = shared.deps.store.turn(turn).await else { return };
    let hint = RouterMsg::Cancel { conversation: record.conversation_id, turn };
    let sent = tokio::time::timeout(HINT_LIMIT, shared.deps.router.send(hint)).await;
    if !matches!(sent, Ok(Ok(()))) {
        tracing::warn!(%turn, "the session could not be told of a cancel; the mark is in the store");
    }
}

async fn announce(shared: &Shared, turn: TurnId) {
    if let Ok(Some(record)) = shared.deps.store.turn(turn).await {
        let ended = TurnEventKind::Ended {
            outcome: record.outcome.unwrap_or(Outcome::Cancelled),
            reply: record.reply,
            usage: record.usage,
            error: record.error,
        };
        shared.deps.hub.publish(record.conversation_id, turn, ended);
    }
}
