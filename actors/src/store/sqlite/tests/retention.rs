//! What has ended goes by age, in pieces.

use super::*;

/// One piece after another; gives how many there were.
fn prune(db: &mut Db, journal: Option<i64>, inbox: Option<i64>, limit: u32) -> u32 {
    let (journal_before, inbox_before) = (journal.map(at), inbox.map(at));
    let (mut after, mut pieces) = (0, 0);
    loop {
        pieces += 1;
        let prune = Prune { journal_before, inbox_before, limit, after };
        match db.write(Write::Prune(prune)).unwrap() {
            Written::Pruned { next: Some(next) } => after = next,
            Written::Pruned { next: None } => return pieces,
            other => panic!("{other:?}"),
        }
    }
}

fn count(db: &Db, table: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {table}");
    db.store.conn.query_row(&sql, [], |row| row.get(0)).unwrap()
}

// R3, B5: bounded by age, and the ledger adds up all the same (I1)
#[test]
fn old_turns_go_in_pieces_and_the_ledger_still_adds_up() {
    let mut db = Db::new();
    let (first, conversation) = db.take("c1", "1");
    db.answer(conversation);
    for external in ["2", "3", "4"] {
        db.take("c1", external);
        db.answer(conversation);
    }
    let (open, _) = db.take("c1", "5");
    let now = db.now();
    for row in db.claim_outbox(now) {
        let result = SendResult::Sent { external_id: None };
        db.write(Write::MarkOutbox { id: row.message.id, at: now, result }).unwrap();
    }
    let before = db.ledger();
    assert_eq!(prune(&mut db, Some(0), Some(0), 10), 1, "nothing is that old");
    assert_eq!(count(&db, "inbox"), 5);
    // Journals first, two turns at a time: five turns are three pieces.
    assert_eq!(prune(&mut db, Some(1_000), None, 2), 3);
    assert_eq!(count(&db, "journal"), 0);
    // Then the rows, as far as nothing of them is still to be sent: one claim takes a conversation's first.
    prune(&mut db, None, Some(1_000), 10);
    assert_eq!(count(&db, "inbox"), 4);
    assert!(matches!(db.read(Read::Turn(first)), Found::Turn(None)));
    assert_eq!(db.ledger(), before);
    assert!(before.adds_up());
    // The history stays, and a message that comes again after so long is a new one.
    assert_eq!(db.history("c1").len(), 8);
    let again = db.message("c1", "1");
    assert!(!db.accept(again).duplicate);
    let again = db.message("c1", "2");
    assert!(db.accept(again).duplicate);
    assert_eq!(db.turn(open).outcome, None);
}

#[test]
fn what_waits_for_somebody_keeps_its_journal_and_its_row() {
    let mut db = Db::new();
    let (_, conversation) = db.take("c1", "1");
    db.claim(conversation);
    prune(&mut db, Some(1_000_000), Some(1_000_000), 10);
    assert_eq!((count(&db, "inbox"), count(&db, "journal")), (1, 1));
}

// B5: a turn that waits for a person for weeks keeps its own rows, not everybody's
#[test]
fn what_is_behind_a_turn_that_waits_goes_all_the_same() {
    let mut db = Db::new();
    let (open, conversation) = db.take("c1", "1");
    db.claim(conversation);
    for external in ["2", "3", "4"] {
        let (_, other) = db.take("c2", external);
        db.answer(other);
    }
    // Its answer was never sent: a dead letter, or a channel that is down.
    let (unsent, other) = db.take("c3", "5");
    db.answer(other);
    for row in db.claim_outbox(at(900_000)) {
        if row.message.address.conversation != "c3" {
            let result = SendResult::Sent { external_id: None };
            db.write(Write::MarkOutbox { id: row.message.id, at: at(900_000), result }).unwrap();
        }
    }
    prune(&mut db, Some(1_000_000), Some(1_000_000), 2);
    assert_eq!(db.turn(open).outcome, None);
    assert!(db.turn(unsent).outcome.is_some());
    // Only the first of a conversation's answers was sent so far.
    assert_eq!((count(&db, "inbox"), count(&db, "journal")), (4, 1));
}
