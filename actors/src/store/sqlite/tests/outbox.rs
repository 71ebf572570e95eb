//! Sending: order, retries, unknown outcomes, dead letters.

use rookery_messages::settings::OnUnknown;

use super::*;

fn due(db: &mut Db) -> Option<Timestamp> {
    match db.read(Read::OutboxDue(channel())) {
        Found::Due(due) => due,
        other => panic!("{other:?}"),
    }
}

fn mark(db: &mut Db, row: &OutboxRow, at: Timestamp, result: SendResult) {
    let id = row.message.id;
    db.write(Write::MarkOutbox { id, at, result }).unwrap();
}

fn reply_to(row: &OutboxRow) -> &str {
    row.message.address.reply_to.as_deref().unwrap()
}

fn sent() -> SendResult {
    SendResult::Sent { external_id: Some("p1".to_owned()) }
}

/// Conversation c with two replies, d with one.
fn three_replies() -> Db {
    let mut db = Db::new();
    for (conversation, external) in [("c", "c1"), ("c", "c2"), ("d", "d1")] {
        let (_, id) = db.take(conversation, external);
        db.answer(id);
    }
    db
}

// A014
#[test]
fn a_row_that_waits_for_a_retry_holds_back_its_conversation_and_no_other() {
    let mut db = three_replies();
    let first = db.claim_outbox(at(100));
    assert_eq!(first.iter().map(reply_to).collect::<Vec<_>>(), ["c1", "d1"]);
    assert_eq!(db.claim_outbox(at(101)), []);
    mark(&mut db, &first[0], at(101), SendResult::Retry { at: at(200), cause: "429".to_owned() });
    mark(&mut db, &first[1], at(101), sent());

    assert_eq!(db.claim_outbox(at(199)), []);
    assert_eq!(due(&mut db), Some(at(200)));
    let again = db.claim_outbox(at(200));
    assert_eq!(again.iter().map(reply_to).collect::<Vec<_>>(), ["c1"]);
    assert_eq!((again[0].attempts, again[0].possibly_repeated), (1, false));
    assert_eq!(due(&mut db), None);
    mark(&mut db, &again[0], at(201), sent());
    let next = db.claim_outbox(at(202));
    assert_eq!(next.iter().map(reply_to).collect::<Vec<_>>(), ["c2"]);
}

#[test]
fn an_unknown_outcome_is_sent_again_as_possibly_repeated_or_held_as_a_dead_letter() {
    let mut db = three_replies();
    let rows = db.claim_outbox(at(100));
    let cause = "timed out".to_owned();
    let resend = SendResult::Unknown { cause: cause.clone(), resend_at: Some(at(150)) };
    mark(&mut db, &rows[0], at(101), resend);
    mark(&mut db, &rows[1], at(101), SendResult::Unknown { cause, resend_at: None });
    let again = db.claim_outbox(at(150));
    assert_eq!(again.iter().map(reply_to).collect::<Vec<_>>(), ["c1"]);
    assert!(again[0].possibly_repeated);
    let letters = db.dead_letters();
    assert_eq!(letters.len(), 1);
    assert_eq!((letters[0].class.as_str(), letters[0].cause.as_str()), ("transient", "timed out"));

    let retry =
        Write::DeadLetter { id: letters[0].id, retry: true, at: at(160), by: decider("op") };
    db.write(retry).unwrap();
    let back = db.claim_outbox(at(160));
    assert_eq!(back.iter().map(reply_to).collect::<Vec<_>>(), ["d1"]);
    assert!(back[0].possibly_repeated);
    assert_eq!(db.audit(), [("deadletter.retry".to_owned(), "op".to_owned())]);
}

// A010, I11
#[test]
fn a_reply_that_cannot_be_sent_is_a_dead_letter_with_its_cause_until_somebody_handles_it() {
    let mut db = three_replies();
    let rows = db.claim_outbox(at(100));
    let dead = SendResult::Dead { cause: "403 blocked".to_owned() };
    mark(&mut db, &rows[0], at(101), dead);
    let letters = db.dead_letters();
    let expected = DeadLetter {
        id: rows[0].message.id,
        kind: "reply".to_owned(),
        channel: channel(),
        turn: letters[0].turn,
        cause: "403 blocked".to_owned(),
        class: "permanent".to_owned(),
        at: at(101),
        attempts: 1,
    };
    assert_eq!(letters, [expected]);
    assert!(letters[0].turn.is_some());
    // It holds back nothing.
    assert_eq!(db.claim_outbox(at(102)).iter().map(reply_to).collect::<Vec<_>>(), ["c2"]);

    let purge = |id| Write::DeadLetter { id, retry: false, at: at(103), by: decider("op") };
    assert!(matches!(db.write(purge(rows[1].message.id)), Err(StoreError::Conflict(_))));
    db.write(purge(letters[0].id)).unwrap();
    assert_eq!(db.dead_letters(), []);
    assert!(matches!(db.write(purge(letters[0].id)), Err(StoreError::NotFound)));
}

#[test]
fn a_result_marked_again_changes_nothing_and_another_one_is_a_conflict() {
    let mut db = three_replies();
    let rows = db.claim_outbox(at(100));
    mark(&mut db, &rows[0], at(101), sent());
    mark(&mut db, &rows[0], at(102), sent());
    let other = SendResult::Dead { cause: "late".to_owned() };
    let id = rows[0].message.id;
    let refused = db.write(Write::MarkOutbox { id, at: at(103), result: other });
    assert!(matches!(refused, Err(StoreError::Conflict(_))));
    let unknown = OutboxId(db.id());
    let refused = db.write(Write::MarkOutbox { id: unknown, at: at(103), result: sent() });
    assert!(matches!(refused, Err(StoreError::NotFound)));
}

// A007, B1
#[test]
fn what_a_former_life_left_sending_is_sent_again_as_possibly_repeated() {
    let mut db = three_replies();
    assert_eq!(db.claim_outbox(at(100)).len(), 2);
    let mut db = db.restart();
    db.write(release(channel(), at(199), OnUnknown::Resend)).unwrap();
    let rows = db.claim_outbox(at(200));
    assert_eq!(rows.iter().map(reply_to).collect::<Vec<_>>(), ["c1", "d1"]);
    assert!(rows.iter().all(|row| row.possibly_repeated && row.attempts == 1));
    let tail = db.claim_outbox(at(201));
    assert_eq!(tail, []);
}

fn release(channel: ChannelId, at: Timestamp, on_unknown: OnUnknown) -> Write {
    Write::ReleaseOutbox { channel, at, on_unknown }
}

#[test]
fn where_nothing_may_be_repeated_what_a_former_life_left_sending_is_held() {
    let mut db = three_replies();
    let sending = db.claim_outbox(at(100));
    let mut db = db.restart();
    db.write(release(channel(), at(200), OnUnknown::Hold)).unwrap();
    // Nothing of it is sent again; what waited behind it goes its way.
    let rows = db.claim_outbox(at(201));
    assert_eq!(rows.iter().map(reply_to).collect::<Vec<_>>(), ["c2"]);
    let Found::DeadLetters(dead) = db.read(Read::DeadLetters) else {
        panic!("no dead letters");
    };
    assert_eq!(dead.len(), sending.len());
}

#[test]
fn a_new_sender_gets_what_the_former_one_of_its_channel_left_sending() {
    let mut db = three_replies();
    let rows = db.claim_outbox(at(100));
    let other = ChannelId::new("other");
    db.write(release(other, at(101), OnUnknown::Resend)).unwrap();
    assert_eq!(db.claim_outbox(at(102)), []);
    db.write(release(channel(), at(103), OnUnknown::Resend)).unwrap();
    // The former sender's mark came late, but it came: that row is not sent again.
    mark(&mut db, &rows[0], at(104), sent());
    let again = db.claim_outbox(at(105));
    assert_eq!(again.iter().map(reply_to).collect::<Vec<_>>(), ["c2", "d1"]);
    assert_eq!(again.iter().map(|row| row.possibly_repeated).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn the_backlog_counts_what_is_open_and_what_was_given_up() {
    let mut db = three_replies();
    let backlog = |db: &mut Db| match db.read(Read::Backlog) {
        Found::Backlog(backlog) => backlog,
        other => panic!("{other:?}"),
    };
    let before = backlog(&mut db);
    assert_eq!((before.outbox, before.dead_letters, before.approvals), (3, 0, 0));
    assert_eq!((before.open.as_slice(), before.oldest_open), ([].as_slice(), None));
    let rows = db.claim_outbox(at(100));
    let gone = SendResult::Dead { cause: "gone".to_owned() };
    mark(&mut db, &rows[0], at(101), gone);
    let after = backlog(&mut db);
    assert_eq!((after.outbox, after.dead_letters), (2, 1));
}
