//! Requests that are longer than the model's window after all.

use rookery_messages::chat::UserKind;

use super::*;

fn too_long() -> Reply {
    Err(ModelError::new(ModelErrorClass::ContextTooLong, "maximum context length exceeded"))
}

/// An answer to a request of so many tokens, as the provider counts them.
fn says_of(words: &str, input: u64) -> Reply {
    let usage = Usage { input, output: 2 };
    Ok(vec![Ok(ModelDelta::Text(words.into())), Ok(ModelDelta::Usage(usage)), ended(vec![])])
}

/// The lengths of the requests' texts.
fn sizes(rig: &Rig) -> Vec<usize> {
    let requests = rig.provider.requests.lock();
    let size = |request: &ModelRequest| {
        request.messages.iter().map(|message| message.text().len()).sum::<usize>()
    };
    requests.iter().map(size).collect()
}

fn breadcrumbs(request: &ModelRequest) -> usize {
    let is_crumb = |message: &&ChatMessage| {
        matches!(message, ChatMessage::User { kind: UserKind::Breadcrumb, .. })
    };
    request.messages.iter().filter(is_crumb).count()
}

fn trims(told: &[Observation]) -> usize {
    told.iter().filter(|seen| matches!(seen, Observation::Trimmed { .. })).count()
}

async fn talk(rig: &Rig, turns: u32) {
    for n in 0..turns {
        let (_, mut events) = rig.accept(&format!("early{n}"), "ws").await;
        assert_eq!(events.end().await.0, Outcome::Answered);
    }
    rig.provider.requests.lock().clear();
}

// V-C7, A050
#[tokio::test]
async fn a_request_that_is_too_long_is_sent_again_smaller_each_time_and_people_are_told() {
    let rig = Rig::plain().await;
    rig.script((0..6).map(|_| says(&"word ".repeat(300))));
    talk(&rig, 6).await;
    rig.script([too_long(), too_long(), says("it fits")]);
    let (turn, mut events) = rig.accept("m1", "ws").await;
    assert_eq!(events.end().await, (Outcome::Answered, Some("it fits".into())));
    let sizes = sizes(&rig);
    assert!(sizes.len() == 3 && sizes[1] * 3 <= sizes[0] * 2 + 300, "{sizes:?}");
    assert!(sizes[2] < sizes[1], "{sizes:?}");
    let requests = rig.provider.requests.lock().clone();
    assert_eq!(requests.iter().map(breadcrumbs).collect::<Vec<_>>(), [0, 1, 1]);
    assert_eq!(requests[2].messages.last().unwrap().text(), "message m1");
    let notices = events.kinds().iter().filter(|kind| **kind == "notice").count();
    assert_eq!((notices, trims(&rig.observed(turn).await)), (2, 2));
    // The record is whole.
    let stored = rig.store.messages(ChannelId::new("ws"), "c1".into(), 50).await.unwrap().unwrap();
    assert_eq!(stored.len(), 14);
    rig.quiet().await;
}

// V-C8, A049
#[tokio::test]
async fn a_single_turn_that_is_too_long_fails_with_its_sizes_at_once() {
    let rig = Rig::plain().await;
    rig.script([too_long()]);
    let (turn, mut events) = rig.accept("m1", "ws").await;
    assert_eq!(events.end().await.0, Outcome::Failed);
    let error = rig.record(turn).await.error.unwrap();
    assert_eq!(error.code, "provider_context_too_long");
    assert!(error.message.contains("tokens"), "{}", error.message);
    assert_eq!(rig.provider.requests.lock().len(), 1, "nothing can be taken away");
    // The next message starts clean.
    rig.script([says("well")]);
    let (_, mut events) = rig.accept("m2", "ws").await;
    assert_eq!(events.end().await.0, Outcome::Answered);
    rig.quiet().await;
}

// V-C8
#[tokio::test]
async fn a_single_turn_with_a_long_tool_result_is_retried_with_the_result_shortened() {
    let rig = Rig::plain().await;
    let long = "x".repeat(6_000);
    rig.script([asks(&[("read", json!({ "do": long }))]), too_long(), says("short enough")]);
    let (_, mut events) = rig.accept("m1", "ws").await;
    assert_eq!(events.end().await, (Outcome::Answered, Some("short enough".into())));
    let results = rig.last_results();
    assert!(results.len() == 1 && results[0].len() < 1_000, "{}", results[0].len());
    rig.quiet().await;
}

// V-C6, A051
#[tokio::test]
async fn a_report_above_the_window_trims_the_next_request_in_proportion_and_people_are_told() {
    let runtime = RuntimeProfile { max_context_tokens: 4_000, ..RuntimeProfile::default() };
    let rig = Rig::new(RiskProfile::default(), runtime).await;
    let long = "word ".repeat(400);
    rig.script([says_of(&long, 700), says_of(&long, 1_300), says_of(&long, 6_000)]);
    talk(&rig, 3).await;
    // Some 1700 by our estimate, which was good for a third of what the provider counted.
    rig.script([says_of("done", 3_000)]);
    let (turn, mut events) = rig.accept("m1", "ws").await;
    assert_eq!(events.end().await.0, Outcome::Answered);
    let request = rig.provider.requests.lock()[0].clone();
    assert_eq!(breadcrumbs(&request), 1);
    assert!(events.kinds().contains(&"notice"));
    assert_eq!(trims(&rig.observed(turn).await), 1);
    rig.quiet().await;
}

// V-C7: what was learnt outlives the turn
#[tokio::test]
async fn the_turn_after_one_that_was_too_long_is_sent_small_enough_at_once() {
    let rig = Rig::plain().await;
    rig.script((0..6).map(|_| says(&"word ".repeat(300))));
    talk(&rig, 6).await;
    rig.script([too_long(), says("it fits"), says("and this")]);
    let (_, mut events) = rig.accept("m1", "ws").await;
    assert_eq!(events.end().await.0, Outcome::Answered);
    let (turn, mut events) = rig.accept("m2", "ws").await;
    assert_eq!(events.end().await, (Outcome::Answered, Some("and this".into())));
    let sizes = sizes(&rig);
    assert!(sizes.len() == 3 && sizes[2] * 3 <= sizes[0] * 2 + 300, "{sizes:?}");
    // It is trimmed, which nobody has to hear of again.
    assert_eq!(trims(&rig.observed(turn).await), 1);
    assert!(!events.kinds().contains(&"notice"));
    rig.quiet().await;
}
