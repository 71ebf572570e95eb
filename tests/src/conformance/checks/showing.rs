//! What is seen of an answer while it is written.

use super::super::{ANN, Bench, Platform};
use crate::wait::until;

/// A003, A053, A077: one message, from the first word to the answer.
pub(in crate::conformance) async fn shows_a_draft_and_lets_the_answer_take_it_over<P: Platform>(
    bench: Bench<P>,
) {
    let claim = bench.taken(ANN, "go").await;
    bench.show(&claim).await;
    bench.write(&claim, "The first ");
    let draft = bench.sees(ANN, "The first").await;
    bench.write(&claim, "and the second");
    bench.sees(ANN, "and the second").await;
    bench.answer(&claim, "The first and the second.").await;
    let last = bench.sees(ANN, "the second.").await;
    assert_eq!(last.id, draft.id);
    bench.all_sent().await;
    assert_eq!(bench.platform.seen(ANN).len(), 1);
    // Another turn has a message of its own.
    let claim = bench.taken(ANN, "again").await;
    bench.show(&claim).await;
    bench.write(&claim, "Another");
    bench.answer(&claim, "Another").await;
    until("two messages", || async {
        let seen = bench.platform.seen(ANN);
        if seen.len() == 2 { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await;
    bench.all_sent().await;
    bench.end().await;
}

/// The draft outlives the process: the answer takes it over in the next life.
pub(in crate::conformance) async fn closes_a_draft_of_a_former_life_with_the_answer<P: Platform>(
    mut bench: Bench<P>,
) {
    let claim = bench.taken(ANN, "go").await;
    bench.show(&claim).await;
    bench.write(&claim, "Half");
    let draft = bench.sees(ANN, "Half").await;
    until("the draft is recorded", || async {
        let row = bench.store.draft(claim.record.id).await.unwrap();
        row.map(|_| ()).ok_or_else(|| "not yet".to_owned())
    })
    .await;
    bench.kill().await;
    bench.begin_life().await;
    bench.answer(&claim, "Half and whole").await;
    let last = bench.sees(ANN, "Half and whole").await;
    assert_eq!(last.id, draft.id);
    bench.all_sent().await;
    assert_eq!(bench.platform.seen(ANN).len(), 1);
    bench.end().await;
}

/// R13: each paragraph as soon as it is complete, the rest with the answer, nothing twice.
pub(in crate::conformance) async fn sends_paragraphs_as_they_come<P: Platform>(bench: Bench<P>) {
    let claim = bench.taken(ANN, "go").await;
    bench.show(&claim).await;
    bench.write(&claim, "First.\n\nSec");
    bench.sees(ANN, "First.").await;
    bench.write(&claim, "ond.\n\nThird");
    bench.sees(ANN, "Second.").await;
    bench.answer(&claim, "First.\n\nSecond.\n\nThird.").await;
    bench.sees(ANN, "Third.").await;
    bench.all_sent().await;
    let seen: Vec<String> = bench.platform.seen(ANN).into_iter().map(|one| one.text).collect();
    assert_eq!(seen, ["First.", "Second.", "Third."]);
    bench.end().await;
}

/// R7: each piece as it comes, and the answer is not said twice.
pub(in crate::conformance) async fn streams_text_as_it_comes<P: Platform>(bench: Bench<P>) {
    let claim = bench.taken(ANN, "go").await;
    bench.show(&claim).await;
    bench.write(&claim, "The first ");
    bench.sees(ANN, "The first").await;
    bench.write(&claim, "and the second");
    bench.sees(ANN, "and the second").await;
    bench.answer(&claim, "The first and the second.").await;
    bench.sees(ANN, "The first and the second.").await;
    let seen = bench.all_seen(ANN);
    assert_eq!(seen.matches("The first").count(), 1, "{seen}");
    // Who was away meanwhile has all of it, once.
    let claim = bench.taken(ANN, "again").await;
    bench.write(&claim, "Before, ");
    bench.sees(ANN, "Before,").await;
    bench.platform.slow_down();
    bench.write(&claim, "halfway ");
    bench.answer(&claim, "Before, halfway and after.").await;
    bench.sees(ANN, "and after.").await;
    let seen = bench.all_seen(ANN);
    for part in ["halfway ", "and after."] {
        assert_eq!(seen.matches(part).count(), 1, "{seen}");
    }
    bench.end().await;
}
