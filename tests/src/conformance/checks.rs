//! What every channel promises, one function each.

use rookery_messages::approval::{ApprovalState, Decision};

use super::{ANN, BEN, Bench, EVE, Platform};
use crate::wait::until;

/// R3, I2: the platform's own id is the key, whatever the text.
pub(super) async fn takes_what_is_delivered_twice_once<P: Platform>(bench: Bench<P>) {
    bench.platform.say(ANN, "ok");
    bench.platform.say(ANN, "ok");
    bench.turns_are(2).await;
    bench.all_acknowledged().await;
    bench.platform.deliver_again();
    bench.platform.say(BEN, "something after it");
    bench.turns_are(3).await;
    bench.all_acknowledged().await;
    assert_eq!(bench.turns().await.len(), 3);
    bench.end().await;
}

/// R4, A076: not a word, not a byte.
pub(super) async fn drops_strangers_before_anything_is_fetched<P: Platform>(bench: Bench<P>) {
    bench.platform.say(EVE, "/start");
    bench.platform.send_file(EVE, "a.txt", b"bytes");
    bench.platform.say(ANN, "hello");
    bench.turns_are(1).await;
    bench.all_acknowledged().await;
    assert_eq!(bench.platform.fetched(), 0);
    assert_eq!(bench.platform.seen(EVE), []);
    bench.end().await;
}

/// B1: acknowledged is durable.
pub(super) async fn acknowledges_after_the_commit<P: Platform>(bench: Bench<P>) {
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
pub(super) async fn takes_messages_in_order<P: Platform>(bench: Bench<P>) {
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
pub(super) async fn reconnects_and_loses_nothing<P: Platform>(bench: Bench<P>) {
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
pub(super) async fn gives_the_next_life_what_was_not_acknowledged<P: Platform>(
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
pub(super) async fn fetches_files_into_the_workspace<P: Platform>(bench: Bench<P>) {
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

/// A014, A054: a chat keeps its order when it is told to wait; another goes on.
pub(super) async fn delivers_in_order_over_a_retry<P: Platform>(bench: Bench<P>) {
    bench.platform.slow_down();
    for text in ["one", "two", "three"] {
        let claim = bench.taken(ANN, "go").await;
        bench.answer(&claim, &format!("answer {text}")).await;
    }
    let claim = bench.taken(BEN, "go").await;
    bench.answer(&claim, "answer for Ben").await;
    bench.sees(BEN, "answer for Ben").await;
    bench.sees(ANN, "answer three").await;
    bench.all_sent().await;
    let seen: Vec<String> = bench.platform.seen(ANN).into_iter().map(|one| one.text).collect();
    assert_eq!(seen, ["answer one", "answer two", "answer three"]);
    bench.end().await;
}

/// R13, I11: nothing is lost, nothing is too long, a code block stays one.
pub(super) async fn delivers_the_whole_of_a_long_answer_within_the_limit<P: Platform>(
    bench: Bench<P>,
) {
    let able = bench.platform.adapter().capabilities();
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
pub(super) async fn delivers_what_is_due_at_shutdown<P: Platform>(mut bench: Bench<P>) {
    for who in [ANN, BEN] {
        let claim = bench.taken(who, "go").await;
        bench.answer(&claim, "a last word").await;
    }
    bench.shut_sender_down().await;
    for who in [ANN, BEN] {
        let seen = bench.platform.seen(who);
        assert_eq!(seen.len(), 1, "{seen:?}");
    }
    bench.end().await;
}

/// A003, A053, A077: one message, from the first word to the answer.
pub(super) async fn shows_a_draft_and_lets_the_answer_take_it_over<P: Platform>(bench: Bench<P>) {
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
pub(super) async fn closes_a_draft_of_a_former_life_with_the_answer<P: Platform>(
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
pub(super) async fn sends_paragraphs_as_they_come<P: Platform>(bench: Bench<P>) {
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

/// A081, A087, I7: asked where the turn is, decided once, by whoever was asked.
pub(super) async fn asks_in_the_chat_and_takes_one_decision<P: Platform>(bench: Bench<P>) {
    let claim = bench.taken(ANN, "go").await;
    bench.show(&claim).await;
    let approval = bench.ask(&claim).await;
    let prompt = bench.sees(ANN, "Approval needed: file_write").await;
    let labels: Vec<&str> = prompt.buttons.iter().map(|(label, _)| label.as_str()).collect();
    assert_eq!(labels, ["Approve", "Deny"]);
    let answered = |count: usize| {
        let bench = &bench;
        async move {
            until(&format!("{count} answers"), || async {
                let answers = bench.platform.answers();
                if answers.len() == count { Ok(answers) } else { Err(format!("{answers:?}")) }
            })
            .await
        }
    };
    bench.platform.press(BEN, &prompt, "Approve");
    assert!(answered(1).await[0].contains("not among those"));
    let open = bench.store.approval(approval.id).await.unwrap().unwrap();
    assert_eq!(open.state, ApprovalState::Pending);
    bench.platform.press(ANN, &prompt, "Deny");
    assert_eq!(answered(2).await[1], "denied");
    let decided = bench.store.approval(approval.id).await.unwrap().unwrap();
    assert_eq!(decided.decision, Some(Decision::Deny { reason: None }));
    let settled = bench.sees(ANN, "denied").await;
    assert_eq!((settled.id, settled.buttons), (prompt.id.clone(), vec![]));
    bench.platform.press(ANN, &prompt, "Approve");
    assert!(answered(3).await[2].contains("already decided by 7"));
    let still = bench.store.approval(approval.id).await.unwrap().unwrap();
    assert_eq!(still, decided);
    bench.answer(&claim, "Then not.").await;
    bench.sees(ANN, "Then not.").await;
    bench.end().await;
}
