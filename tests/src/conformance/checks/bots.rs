//! Our own messages, and those of other programs.

use super::super::{ANN, BOT, Bench, Platform};

/// A068: whatever it may look like, and whoever may speak.
pub(in crate::conformance) async fn never_answers_itself<P: Platform>(mut bench: Bench<P>) {
    bench.kill().await;
    bench.allow_bots(10);
    bench.begin_life().await;
    bench.platform.say_as_bot(&bench.platform.ours(), "What I said");
    bench.refused(1).await;
    bench.platform.say(ANN, "hello");
    bench.turns_are(1).await;
    bench.all_acknowledged().await;
    assert_eq!(bench.turns().await.len(), 1);
    assert_eq!(bench.all_seen(ANN), "");
    bench.end().await;
}

/// A071: two programs that answer each other are stopped, in sight, until a person writes.
pub(in crate::conformance) async fn drops_bots_and_where_they_may_speak_cuts_their_chain<
    P: Platform,
>(
    mut bench: Bench<P>,
) {
    bench.platform.say_as_bot(BOT, "hello");
    bench.refused(1).await;
    bench.all_acknowledged().await;
    assert_eq!((bench.turns().await.len(), bench.all_seen(ANN)), (0, String::new()));
    bench.kill().await;
    bench.allow_bots(2);
    bench.begin_life().await;
    for n in 0..4 {
        bench.platform.say_as_bot(BOT, &format!("and you? {n}"));
    }
    bench.refused(3).await;
    bench.all_acknowledged().await;
    assert_eq!(bench.turns().await.len(), 2);
    bench.sees(ANN, "2 messages in a row came from bots").await;
    bench.all_sent().await;
    assert_eq!(bench.platform.seen(ANN).len(), 1);
    bench.platform.say(ANN, "go on");
    bench.turns_are(3).await;
    bench.platform.say_as_bot(BOT, "thank you");
    bench.turns_are(4).await;
    bench.end().await;
}
