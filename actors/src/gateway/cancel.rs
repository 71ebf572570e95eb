//! Stopping a turn, for those who name one.

use rookery_messages::approval::Decider;
use rookery_messages::ids::TurnId;
use rookery_messages::store::{CancelOutcome, StoreError};

use super::deps::Shared;

/// Sets the stop cell of a running turn. Needs no mailbox, no store, nobody's time (R19).
pub(super) fn stop_running(shared: &Shared, turn: TurnId) -> bool {
    shared.deps.desk.stopper().stop_running(turn)
}

/// Stops a turn that runs, ends one that waits; idempotent.
pub(super) async fn cancel(
    shared: &Shared,
    turn: TurnId,
    by: Decider,
) -> Result<CancelOutcome, StoreError> {
    shared.deps.desk.stopper().cancel(turn, by).await
}
