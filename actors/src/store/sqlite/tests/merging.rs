//! Rows that go with another's turn.

use rookery_messages::attachment::Attachment;
use rookery_messages::chat::UserKind;

use super::*;

fn take(db: &mut Db, external: &str, sender: &str) -> TurnId {
    let mut message = db.message("c1", external);
    message.inbound.sender.id = sender.to_owned();
    let turn = message.turn;
    db.accept(message);
    turn
}

fn together(db: &mut Db, conversation: ConversationId) -> TurnClaim {
    let channel = db.message("c1", "x").inbound.channel;
    let mut claim = db.claim_request(conversation);
    claim.terms.together = [channel].into();
    match db.write(Write::Claim(claim)) {
        Ok(Written::Claimed(ClaimOutcome::Turn(claim))) => *claim,
        other => panic!("{other:?}"),
    }
}

fn texts(claim: &TurnClaim) -> Vec<&str> {
    claim.history.iter().map(|stored| stored.message.text()).collect()
}

// I1: each id is answered, with the one it goes with
#[test]
fn waiting_messages_of_one_sender_go_together_and_nobody_is_overtaken() {
    let mut db = Db::new();
    let rows: Vec<TurnId> = [("1", "ann"), ("2", "ann"), ("3", "bob"), ("4", "ann")]
        .into_iter()
        .map(|(external, sender)| take(&mut db, external, sender))
        .collect();
    let conversation = db.turn(rows[0]).conversation_id;
    let claim = together(&mut db, conversation);
    assert_eq!((claim.record.id, &claim.merged[..]), (rows[0], &rows[1..2]));
    assert_eq!(texts(&claim), ["text of 1", "text of 2"]);
    assert_eq!(claim.text, "text of 1\n\ntext of 2");
    let kinds: Vec<bool> = claim.history.iter().map(|m| m.message.starts_turn()).collect();
    assert_eq!(kinds, [true, false]);
    let merged = db.turn(rows[1]);
    assert_eq!((merged.outcome, merged.into), (Some(Outcome::Merged), Some(rows[0])));
    assert_eq!(db.turn(rows[3]).outcome, None, "it stands behind another's");
    let ledger = db.ledger();
    assert_eq!((ledger.merged, ledger.open), (1, 3));
    assert!(ledger.adds_up());
    // A redelivery is known as what it became.
    let again = db.message("c1", "2");
    let known = db.accept(again);
    assert!(known.duplicate && known.envelope.turn == rows[1]);
}

#[test]
fn each_of_the_messages_that_go_together_keeps_its_files_in_order() {
    let mut db = Db::new();
    let photo = |n: &str| Attachment {
        name: "photo".into(),
        path: format!("attachments/{n}.jpg"),
        media_type: "image/jpeg".into(),
        size: 7,
    };
    let mut turn = None;
    for n in ["1", "2", "3"] {
        let mut message = db.message("c1", n);
        message.inbound.attachments = vec![photo(n)];
        turn.get_or_insert(message.turn);
        db.accept(message);
    }
    let conversation = db.turn(turn.unwrap()).conversation_id;
    let first = together(&mut db, conversation);
    let attached = |claim: &TurnClaim| -> Vec<Attachment> {
        claim.history.iter().flat_map(|stored| stored.message.attachments().to_vec()).collect()
    };
    assert_eq!((first.merged.len(), attached(&first)), (2, ["1", "2", "3"].map(photo).to_vec()));
    // And so does a later life, which reads them again.
    let mut db = db.restart();
    assert_eq!(attached(&db.claim(conversation)), attached(&first));
}

#[test]
fn without_the_policy_each_message_has_a_turn_of_its_own() {
    let mut db = Db::new();
    let first = take(&mut db, "1", "ann");
    let second = take(&mut db, "2", "ann");
    let conversation = db.turn(first).conversation_id;
    let claim = db.claim(conversation);
    assert!(claim.merged.is_empty());
    assert_eq!(db.turn(second).outcome, None);
}

// I1, A114: a step that takes a row in may be sent again, and a row that has ended is left out of it
#[test]
fn a_step_merges_what_waits_once_and_leaves_out_what_has_ended() {
    let mut db = Db::new();
    let first = take(&mut db, "1", "ann");
    let conversation = db.turn(first).conversation_id;
    let claim = db.claim(conversation);
    let (taken, gone) = (take(&mut db, "2", "ann"), take(&mut db, "3", "ann"));
    let by = Decider { who: "ann".into(), via: "test".into() };
    let at = db.now();
    db.write(Write::CancelTurn { turn: gone, at, by }).unwrap();
    let mut step = db.step(&claim);
    for (seq, row) in [(1, taken), (2, gone)] {
        let (text, attachments) = ("said".to_owned(), Vec::new());
        let kind = JournalKind::Steered { text, attachments, row: Some(row) };
        step.entries.push(JournalEntry { attempt: claim.fence.attempt, seq, kind });
        step.merge.push(row);
        step.messages.push(StoredMessage {
            id: MessageId(row.0),
            turn: first,
            at,
            message: ChatMessage::of_kind(UserKind::Steering, "said"),
        });
    }
    for _ in 0..2 {
        let Ok(Written::Committed(ack)) = db.write(Write::Commit(Box::new(step.clone()))) else {
            panic!("not committed")
        };
        assert_eq!(ack.unmerged, [gone]);
    }
    assert_eq!(db.turn(taken).into, Some(first));
    assert_eq!(db.turn(gone).outcome, Some(Outcome::Cancelled));
    // The next life sees what was said, and nothing of the other.
    let again = db.claim(claim.record.conversation_id);
    assert_eq!(texts(&again), ["text of 1", "said"]);
    let steered = again.journal.iter().filter(|entry| entry.kind.as_str() == "steered").count();
    assert_eq!(steered, 1);
    assert!(db.ledger().adds_up());
}
