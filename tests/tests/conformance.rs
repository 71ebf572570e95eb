//! Every channel, and a toy, against the conformance suite; and toys with a fault, which it finds.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test fails at the place of the fault; what it plays with is no actor"
)]

mod platforms;
mod toy;

use std::time::Duration;

use platforms::{Bot, Posts, Sockets, Terminals};
use rookery_tests::conformance::{CHECKS, Platform, Report, complaint, passes};
use toy::{Broken, Fault, Toy};

/// Longest wait for what a broken rule keeps from coming.
const NOT_LONG: Duration = Duration::from_secs(4);

/// Everything but these is held.
fn all_but(not_offered: &[&'static str]) -> Report {
    let held = CHECKS.iter().copied().filter(|name| !not_offered.contains(name)).collect();
    Report { held, not_offered: not_offered.to_vec() }
}

/// What a channel without attachments, and without a notion of bots, can't be asked.
const WORDS_ALONE: [&str; 3] = [
    "fetches_files_into_the_workspace",
    "never_answers_itself",
    "drops_bots_and_where_they_may_speak_cuts_their_chain",
];
const DRAFTS: [&str; 2] = [
    "shows_a_draft_and_lets_the_answer_take_it_over",
    "closes_a_draft_of_a_former_life_with_the_answer",
];

// B8, R3, R4, R13, A053, A081, A087
#[tokio::test]
async fn telegram_passes() {
    let report = passes(Bot::start).await;
    let not_offered = ["sends_paragraphs_as_they_come", "streams_text_as_it_comes"];
    assert_eq!(report, all_but(&not_offered));
}

// B8, R3, R4
#[tokio::test]
async fn a_webhook_passes() {
    let report = passes(Posts::start).await;
    let streams = ["sends_paragraphs_as_they_come", "streams_text_as_it_comes"];
    assert_eq!(report, all_but(&[&WORDS_ALONE[..], &DRAFTS, &streams].concat()));
}

// B8, R3, R7, I2
#[tokio::test]
async fn websockets_pass() {
    let report = passes(Sockets::start).await;
    let others = ["sends_paragraphs_as_they_come"];
    assert_eq!(report, all_but(&[&WORDS_ALONE[..], &DRAFTS, &others].concat()));
}

// B8, R3, R7, I2: the program that people type into, and its way back after a lost connection
#[tokio::test]
async fn the_terminal_passes() {
    let report = passes(Terminals::start).await;
    let others = ["sends_paragraphs_as_they_come"];
    assert_eq!(report, all_but(&[&WORDS_ALONE[..], &DRAFTS, &others].concat()));
}

// B8, R13: the contract is small enough for an afternoon.
#[tokio::test]
async fn a_toy_of_less_than_150_lines_passes() {
    let report = passes(|| async { Toy::default() }).await;
    assert_eq!(report, all_but(&[&DRAFTS[..], &["streams_text_as_it_comes"]].concat()));
    let lines = include_str!("toy/mod.rs").lines().count();
    assert!(lines <= 150, "{lines} lines");
}

// R7: what the faulty ones below are, but for their fault
#[tokio::test]
async fn a_toy_that_shows_drafts_passes() {
    let report = passes(|| async { Broken::with_drafts(Fault::None) }).await;
    let others = ["sends_paragraphs_as_they_come", "streams_text_as_it_comes"];
    assert_eq!(report, all_but(&others));
}

async fn finds<P: Platform>(name: &str, platform: P, says: &str) {
    let found = complaint(name, platform, NOT_LONG).await;
    let found = found.unwrap_or_else(|| panic!("{name} does not see the fault"));
    let meant = says.split('|').any(|words| found.contains(words));
    assert!(meant, "{name} complains of something else: {found}");
}

/// Each check, the fault it is there for, and what it complains of, in words of which one is enough.
const FAULTS: [(&str, Fault, &str); 17] = [
    ("takes_what_is_delivered_twice_once", Fault::NewIds, "redeliveries are known again"),
    ("drops_strangers_before_anything_is_fetched", Fault::FetchesFirst, "left: 1"),
    ("acknowledges_after_the_commit", Fault::AcknowledgesAtOnce, "nowhere written"),
    ("takes_messages_in_order", Fault::Backwards, "message 7"),
    ("reconnects_and_loses_nothing", Fault::ForgetsAtFaults, "in vain for this: 1 turns"),
    (
        "gives_the_next_life_what_was_not_acknowledged",
        Fault::SkipsWhatWaited,
        "in vain for this: 2 turns",
    ),
    ("tells_whoever_finds_the_queue_full", Fault::NoNotices, "sees that the queue is full"),
    ("fetches_files_into_the_workspace", Fault::EmptyFiles, "left: []"),
    ("never_answers_itself", Fault::KnowsNotItself, "1 refusals are counted"),
    (
        "drops_bots_and_where_they_may_speak_cuts_their_chain",
        Fault::TellsNoBots,
        "1 refusals are counted",
    ),
    ("delivers_in_order_over_a_retry", Fault::TakesNoForYes, "answer"),
    ("delivers_the_whole_of_a_long_answer_within_the_limit", Fault::CutsLong, "The end|is missing"),
    ("delivers_what_is_due_at_shutdown", Fault::HoldsBack, "a last word"),
    ("shows_a_draft_and_lets_the_answer_take_it_over", Fault::NeverEdits, "left:"),
    ("closes_a_draft_of_a_former_life_with_the_answer", Fault::ForgetsItsMessages, "left:"),
    ("sends_paragraphs_as_they_come", Fault::OneMessage, "left:"),
    ("asks_its_people_and_takes_one_decision", Fault::TrustsTheChat, "approved"),
];

// B8: a suite that finds nothing shows nothing.
#[tokio::test]
async fn each_check_finds_the_fault_it_is_there_for() {
    for (name, fault, says) in FAULTS {
        let platform =
            if DRAFTS.contains(&name) { Broken::with_drafts(fault) } else { Broken::new(fault) };
        finds(name, platform, says).await;
    }
    let last = "streams_text_as_it_comes";
    finds(last, Sockets::start_patient().await, "sees `The first`").await;
    let shown: Vec<&str> = FAULTS.iter().map(|(name, ..)| *name).chain([last]).collect();
    let missing: Vec<_> = CHECKS.iter().filter(|name| !shown.contains(name)).collect();
    assert!(missing.is_empty(), "no fault is shown for {missing:?}");
}
