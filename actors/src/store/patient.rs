//! A commit that is not given up for a passing reason, and a claim that nobody could take over.

use std::time::Duration;

use rookery_messages::store::{CommitAck, StoreError, TurnCommit};
use rookery_messages::turn::TurnClaim;
use tokio::time::sleep;

use super::client::StoreClient;

/// How long to wait before the same commit is sent again, at first and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// Sends a commit until it is written or refused for good. The same keys every time: whether an earlier
/// try was written may be unknown, and no other branch is taken. Ends with the task it runs in.
pub async fn commit_patiently(
    store: &StoreClient,
    commit: TurnCommit,
) -> Result<CommitAck, StoreError> {
    let mut pause = PAUSE.0;
    loop {
        match store.commit(commit.clone()).await {
            Err(error) if error.is_transient() => {
                sleep(pause).await;
                pause = (pause * 2).min(PAUSE.1);
            }
            answer => return answer,
        }
    }
}

/// Nobody took the claim over: its row waits, and the router's sweep finds it.
pub async fn return_claim(store: &StoreClient, claim: &TurnClaim) {
    let record = &claim.record;
    if let Err(error) = store.return_claim(record.id, record.conversation_id, claim.fence).await {
        // It is claimed again all the same, as an attempt that crashed.
        tracing::warn!(turn = %record.id, %error, "a turn that did not begin could not be given back");
    }
}
