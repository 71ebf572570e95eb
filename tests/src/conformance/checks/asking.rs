//! Approvals.

use rookery_messages::approval::{ApprovalState, Decision};

use super::super::{ANN, BEN, Bench, Platform};
use crate::wait::until;

/// A081, A087, I7: asked where its people are, decided once, by whoever was asked.
pub(in crate::conformance) async fn asks_its_people_and_takes_one_decision<P: Platform>(
    bench: Bench<P>,
) {
    let claim = bench.taken(ANN, "go").await;
    bench.show(&claim).await;
    let approval = bench.ask(&claim).await;
    let prompt = bench.sees(ANN, "file_write").await;
    let labels: Vec<&str> = prompt.buttons.iter().map(|(label, _)| label.as_str()).collect();
    assert_eq!(labels, ["Approve", "Deny"]);
    let stored = async || bench.store.approval(approval.id).await.unwrap().unwrap();
    let mut answers = 0;
    // Somebody else is shown nothing to press; or presses in vain.
    if bench.platform.press(BEN, &prompt, "Approve") {
        answers += 1;
        let said = bench.answered(answers).await;
        assert!(said.contains("not among those") || said.contains("no such"), "{said}");
    } else {
        assert!(!bench.all_seen(BEN).contains("file_write"));
    }
    assert_eq!(stored().await.state, ApprovalState::Pending);
    assert!(bench.platform.press(ANN, &prompt, "Deny"), "there is nothing to press");
    answers += 1;
    let said = bench.answered(answers).await;
    assert!(said.contains("denied"), "{said}");
    let decided = stored().await;
    assert_eq!(decided.decision, Some(Decision::Deny { reason: None }));
    assert_eq!(decided.decided_by.as_ref().map(|by| by.who.as_str()), Some(ANN));
    if bench.able.buttons {
        let settled = bench.sees(ANN, "denied").await;
        assert_eq!((settled.id, settled.buttons), (prompt.id.clone(), vec![]));
    }
    if bench.platform.press(ANN, &prompt, "Approve") {
        let said = bench.answered(answers + 1).await;
        assert!(said.contains("already decided by 7"), "{said}");
    }
    assert_eq!(stored().await, decided);
    bench.answer(&claim, "Then not.").await;
    bench.sees(ANN, "Then not.").await;
    until("the answer is all that is left", || async {
        let left = bench.store.outbox_due(claim.record.channel.clone()).await.unwrap();
        if left.is_none() { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
    bench.end().await;
}
