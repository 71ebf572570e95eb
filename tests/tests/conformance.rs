//! Every channel, and a toy, against the conformance suite.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails at the place of the fault"
)]

mod platforms;
mod toy;

use platforms::{Bot, Fetched, Posted};
use rookery_tests::conformance::passes;

/// What a channel that receives, carries, and shows drafts is held to.
const FULL: [&str; 13] = [
    "takes_what_is_delivered_twice_once",
    "drops_strangers_before_anything_is_fetched",
    "acknowledges_after_the_commit",
    "takes_messages_in_order",
    "reconnects_and_loses_nothing",
    "gives_the_next_life_what_was_not_acknowledged",
    "fetches_files_into_the_workspace",
    "delivers_in_order_over_a_retry",
    "delivers_the_whole_of_a_long_answer_within_the_limit",
    "delivers_what_is_due_at_shutdown",
    "shows_a_draft_and_lets_the_answer_take_it_over",
    "closes_a_draft_of_a_former_life_with_the_answer",
    "asks_in_the_chat_and_takes_one_decision",
];

// B8, R3, R4, R13, A053, A081, A087
#[tokio::test]
async fn telegram_passes() {
    assert_eq!(passes(Bot::start).await, FULL);
}

// B8
#[tokio::test]
async fn a_webhook_passes_what_is_asked_of_whoever_carries_answers() {
    let ran = passes(Posted::start).await;
    assert_eq!(ran, FULL[7..10]);
}

// B8: their messages come by the gateway, and their readers fetch the answers.
#[tokio::test]
async fn websocket_and_terminal_pass_and_carry_nothing() {
    for name in ["ws", "cli"] {
        assert_eq!(passes(|| async { Fetched::new(name) }).await, Vec::<&str>::new());
    }
}

// B8, R13: the contract is small enough for an afternoon.
#[tokio::test]
async fn a_toy_of_less_than_150_lines_passes() {
    let ran = passes(|| async { toy::Toy::default() }).await;
    for name in ["sends_paragraphs_as_they_come", "asks_in_the_chat_and_takes_one_decision"] {
        assert!(ran.contains(&name), "{ran:?}");
    }
    let lines = include_str!("toy/mod.rs").lines().count();
    assert!(lines <= 150, "{lines} lines");
}
