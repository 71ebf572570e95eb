//! Taking messages in.

use rookery_messages::turn::{Outcome, TurnRecord};

use super::super::{ANN, BEN, Bench, EVE, Platform, QUEUE_LIMIT};
use crate::wait::until;

/// R3, I2: the platform's own id is the key, whatever the text.
pub(in crate::conformance) async fn takes_what_is_delivered_twice_once<P: Platform>(
    bench: Bench<P>,
) {
    bench.platform.say(ANN, "ok");
    bench.platform.say(ANN, "ok");
    bench.turns_are(2).await;
    bench.all_acknowledged().await;
    bench.platform.deliver_again();
    bench.recognised(1).await;
    bench.platform.say(BEN, "something after it");
    bench.turns_are(3).await;
    bench.all_acknowledged().await;
    assert_eq!(bench.turns().await.len(), 3);
    bench.end().await;
}

/// R4, A076: not a word, not a byte.
pub(in crate::conformance) async fn drops_strangers_before_anything_is_fetched<P: Platform>(
    bench: Bench<P>,
) {
    bench.platform.say(EVE, "/start");
    bench.platform.send_file(EVE, "a.txt", b"bytes");
    // Dropped, and counted.
    bench.refused(1).await;
    bench.platform.say(ANN, "hello");
    bench.turns_are(1).await;
    bench.all_acknowledged().await;
    assert_eq!(bench.turns().await.len(), 1);
    assert_eq!(bench.platform.fetched(), 0);
    assert_eq!(bench.platform.seen(EVE), []);
    bench.end().await;
}

/// B1: acknowledged is durable.
pub(in crate::conformance) async fn acknowledges_after_the_commit<P: Platform>(bench: Bench<P>) {
    bench.platform.say(ANN, "first");
    bench.turns_are(1).await;
    bench.all_acknowledged().await;
    bench.break_store();
    bench.platform.say(ANN, "second");
    // The platform gives it, and nothing can take it.
    bench.store_refused().await;
    assert!(bench.platform.unacknowledged() > 0, "acknowledged, and nowhere written");
    bench.mend_store();
    bench.turns_are(2).await;
    bench.all_acknowledged().await;
    bench.end().await;
}

/// A014: first come, first served.
pub(in crate::conformance) async fn takes_messages_in_order<P: Platform>(bench: Bench<P>) {
    let texts: Vec<String> = (0..8).map(|n| format!("message {n}")).collect();
    for text in &texts {
        bench.platform.say(ANN, text);
    }
    let turns = bench.turns_are(texts.len()).await;
    for text in &texts {
        let claim = bench.claim(turns[0].conversation_id).await;
        assert_eq!(&claim.text, text);
        bench.answer(&claim, &format!("answer to {text}")).await;
    }
    bench.end().await;
}

/// A fault in passing costs time and nothing else.
pub(in crate::conformance) async fn reconnects_and_loses_nothing<P: Platform>(bench: Bench<P>) {
    bench.platform.stumble();
    bench.platform.say(ANN, "one");
    bench.turns_are(1).await;
    bench.platform.stumble();
    bench.platform.stumble();
    bench.platform.say(ANN, "two");
    bench.turns_are(2).await;
    bench.all_acknowledged().await;
    bench.end().await;
}

/// B1, R3: what a killed life had in hand comes again, once.
pub(in crate::conformance) async fn gives_the_next_life_what_was_not_acknowledged<P: Platform>(
    mut bench: Bench<P>,
) {
    bench.platform.say(ANN, "before");
    bench.turns_are(1).await;
    bench.all_acknowledged().await;
    bench.break_store();
    bench.platform.say(ANN, "in between");
    bench.store_refused().await;
    bench.kill().await;
    bench.mend_store();
    bench.begin_life().await;
    bench.turns_are(2).await;
    bench.all_acknowledged().await;
    assert_eq!(bench.turns().await.len(), 2);
    bench.end().await;
}

/// Files come under safe names, and what follows waits for them.
pub(in crate::conformance) async fn fetches_files_into_the_workspace<P: Platform>(bench: Bench<P>) {
    bench.platform.send_file(ANN, "../../a b.txt", b"content");
    bench.platform.say(ANN, "and now?");
    let turns = bench.turns_are(2).await;
    let first = bench.claim(turns[0].conversation_id).await;
    let (_, rest) = first.text.split_once("[attached: ").unwrap();
    let (name, _) = rest.split_once(" (").unwrap();
    assert!(name.starts_with("attachments/") && name.ends_with("a_b.txt"), "{name}");
    assert_eq!(std::fs::read(bench.workspace().join(name)).unwrap(), b"content");
    bench.answer(&first, "seen").await;
    let second = bench.claim(turns[0].conversation_id).await;
    assert_eq!(second.text, "and now?");
    bench.all_acknowledged().await;
    bench.end().await;
}

/// B5, I10: too much is an outcome that its sender sees, and what was taken before stays.
pub(in crate::conformance) async fn tells_whoever_finds_the_queue_full<P: Platform>(
    bench: Bench<P>,
) {
    let room = QUEUE_LIMIT as usize;
    for n in 0..=room {
        bench.platform.say(ANN, &format!("message {n}"));
    }
    let turns = bench.turns_are(room + 1).await;
    let turned_away = |turn: &&TurnRecord| turn.outcome == Some(Outcome::Rejected);
    assert_eq!(turns.iter().filter(turned_away).count(), 1);
    bench.due().await;
    until("the sender sees that the queue is full", || async {
        let seen = bench.all_seen(ANN);
        let told = seen.contains("queue full") || seen.contains("too many messages");
        if told { Ok(()) } else { Err(seen) }
    })
    .await;
    bench.all_acknowledged().await;
    bench.end().await;
}
