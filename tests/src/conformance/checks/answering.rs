//! Delivering answers.

use super::super::{ANN, BEN, Bench, Platform};

/// A014, A054: a chat keeps its order when it is told to wait; another goes on.
pub(in crate::conformance) async fn delivers_in_order_over_a_retry<P: Platform>(bench: Bench<P>) {
    for text in ["one", "two", "three"] {
        let claim = bench.taken(ANN, "go").await;
        if text == "one" {
            bench.platform.slow_down();
        }
        bench.answer(&claim, &format!("answer {text}")).await;
    }
    let claim = bench.taken(BEN, "go").await;
    bench.answer(&claim, "answer for Ben").await;
    bench.sees(BEN, "answer for Ben").await;
    bench.sees(ANN, "answer three").await;
    bench.all_sent().await;
    let seen = bench.all_seen(ANN);
    let places = ["answer one", "answer two", "answer three"]
        .map(|answer| -> Vec<usize> { seen.match_indices(answer).map(|(at, _)| at).collect() });
    assert!(places.iter().all(|places| places.len() == 1) && places.is_sorted(), "{seen}");
    bench.end().await;
}

/// R13, I11: nothing is lost, nothing is too long, a code block stays one.
pub(in crate::conformance) async fn delivers_the_whole_of_a_long_answer_within_the_limit<
    P: Platform,
>(
    bench: Bench<P>,
) {
    let able = &bench.able;
    let limit = able.limit.unwrap_or(2_000);
    let code: String = (0..limit / 8).map(|n| format!("let x{n} = {n};\n")).collect();
    let words: String = (0..limit / 10).map(|n| format!("wort{n}é ")).collect();
    let claim = bench.taken(ANN, "go").await;
    bench.answer(&claim, &format!("{words}\n\n```rust\n{code}```\n\nThe end 😀")).await;
    bench.sees(ANN, "The end 😀").await;
    bench.all_sent().await;
    let seen = bench.platform.seen(ANN);
    let all: String = seen.iter().map(|one| one.text.as_str()).collect();
    for n in 0..limit / 8 {
        assert!(all.contains(&format!("let x{n} = {n};")), "line {n} is missing");
    }
    for n in 0..limit / 10 {
        assert!(all.contains(&format!("wort{n}é")), "word {n} is missing");
    }
    for one in &seen {
        let length = able.unit.measure(&one.text);
        assert!(able.limit.is_none() || length <= limit, "{length} of {limit}");
        assert_eq!(one.text.matches("```").count() % 2, 0, "{}", one.text);
    }
    bench.end().await;
}

/// What is due at the end is delivered first.
pub(in crate::conformance) async fn delivers_what_is_due_at_shutdown<P: Platform>(
    mut bench: Bench<P>,
) {
    for who in [ANN, BEN] {
        let claim = bench.taken(who, "go").await;
        bench.answer(&claim, "a last word").await;
    }
    bench.shut_down().await;
    for who in [ANN, BEN] {
        bench.sees(who, "a last word").await;
        let seen = bench.all_seen(who);
        assert_eq!(seen.matches("a last word").count(), 1, "{seen}");
    }
    bench.end().await;
}
