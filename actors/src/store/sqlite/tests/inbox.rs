//! Accepting, the queue limit, cancelling what waits.

use rookery_messages::turn::TurnState;

use super::*;

// I2, R3
#[test]
fn a_message_delivered_again_finds_its_first_envelope_also_after_a_restart() {
    let mut db = Db::new();
    let first = db.message("c", "m1");
    let accepted = db.accept(first);
    let again = db.message("c", "m1");
    let found = db.accept(again);
    assert_eq!(found, AcceptOutcome { duplicate: true, ..accepted.clone() });

    let mut db = db.restart();
    let again = db.message("c", "m1");
    assert_eq!(db.accept(again).envelope, accepted.envelope);
    assert_eq!(db.ledger(), Ledger { accepted: 1, open: 1, ..Ledger::default() });
}

#[test]
fn the_same_id_in_another_channel_is_another_message() {
    let mut db = Db::new();
    let (first, _) = db.take("c", "m1");
    let mut other = db.message("c", "m1");
    other.inbound.channel = ChannelId::new("other");
    let other = db.accept(other);
    assert!(!other.duplicate);
    assert_ne!(other.envelope.turn, first);
}

#[test]
fn a_conversation_is_one_for_each_channel_platform_id_and_agent() {
    let mut db = Db::new();
    let (_, first) = db.take("c", "m1");
    assert_eq!(db.take("c", "m2").1, first);
    assert_ne!(db.take("d", "m3").1, first);
    let mut other_agent = db.message("c", "m4");
    other_agent.inbound.agent = AgentName::new("work");
    assert_ne!(db.accept(other_agent).envelope.conversation_id, first);
    match db.read(Read::Conversations { limit: 10 }) {
        Found::Conversations(rows) => {
            let agents: Vec<_> = rows.iter().map(|row| row.agent.as_str()).collect();
            assert_eq!(agents, ["work", "home", "home"]);
        }
        other => panic!("{other:?}"),
    }
}

// A008, I1
#[test]
fn a_message_over_the_queue_limit_is_rejected_the_sender_is_told_and_the_ledger_adds_up() {
    let mut db = Db::new();
    let (_, conversation) = db.take("c", "running");
    db.claim(conversation);
    for n in 0..2 {
        let mut message = db.message("c", &format!("waiting{n}"));
        message.queue_limit = 2;
        assert!(!db.accept(message).rejected, "the running turn is not among the waiting");
    }
    let mut over = db.message("c", "over");
    over.queue_limit = 2;
    let outcome = db.accept(over.clone());
    assert!(outcome.rejected && !outcome.duplicate);

    let record = db.turn(over.turn);
    assert_eq!((record.state, record.outcome), (TurnState::Ended, Some(Outcome::Rejected)));
    let ledger = db.ledger();
    assert_eq!(ledger, Ledger { accepted: 4, open: 3, rejected: 1, ..Ledger::default() });
    let sent = db.claim_outbox(at(1_000));
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].message.address, over.inbound.reply_address());
    match &sent[0].message.payload {
        OutboxPayload::Notice { turn, text } => {
            assert_eq!(*turn, Some(over.turn));
            assert!(text.starts_with("queue full"), "{text}");
        }
        other => panic!("{other:?}"),
    }

    // Delivered again, it is known, and no second notice goes out.
    let again = Accept { turn: TurnId(db.id()), envelope: EnvelopeId(db.id()), ..over.clone() };
    let again = db.accept(again);
    assert!(again.duplicate && again.rejected);
    assert_eq!(again.envelope, outcome.envelope);
    assert_eq!(db.ledger(), ledger);

    // Its sender was told to send it again later: with room, it is taken.
    let room =
        Accept { turn: TurnId(db.id()), envelope: EnvelopeId(db.id()), queue_limit: 3, ..over };
    let taken = db.accept(room.clone());
    assert!(!taken.duplicate && !taken.rejected);
    assert_eq!(taken.envelope.turn, room.turn);
    assert_eq!(db.ledger(), Ledger { accepted: 5, open: 4, ..ledger });
}

// I3: claimed in the transaction that accepts it, and only if it has its conversation for itself
#[test]
fn a_message_is_claimed_as_it_is_accepted_unless_another_of_its_conversation_is_open() {
    let mut db = Db::new();
    let claiming = |db: &mut Db, id: &str| Accept { claim: Some(terms()), ..db.message("c", id) };
    let message = claiming(&mut db, "m1");
    let claim = db.accept(message.clone()).claim.unwrap();
    assert_eq!((claim.record.id, claim.fence.attempt), (message.turn, 1));
    assert_eq!(claim.text, "text of m1");
    assert_eq!(claim.history.len(), 1);
    assert_eq!(db.turn(message.turn).state, TurnState::Running);

    // Delivered again, and behind one that runs.
    assert_eq!(db.accept(message).claim, None);
    let second = claiming(&mut db, "m2");
    assert_eq!(db.accept(second).claim, None);
    // Behind one that waits only.
    let end = db.ending(&claim, 1);
    db.commit(end).unwrap();
    let third = claiming(&mut db, "m3");
    assert_eq!(db.accept(third).claim, None);
}

// I1, I3
#[test]
fn a_claim_that_is_returned_leaves_the_message_waiting_as_it_came() {
    let mut db = Db::new();
    let message = Accept { claim: Some(terms()), ..db.message("c", "m1") };
    let claim = db.accept(message).claim.unwrap();
    let (turn, conversation_id) = (claim.record.id, claim.record.conversation_id);
    let back = Write::ReturnClaim { turn, conversation_id, fence: claim.fence };
    db.write(back.clone()).unwrap();
    let record = db.turn(turn);
    assert_eq!((record.state, record.attempts, record.started_at), (TurnState::Queued, 0, None));

    let again = db.claim(conversation_id);
    assert_eq!((again.record.id, again.fence.attempt), (turn, 1));
    assert_eq!((again.history.len(), again.journal.len()), (1, 0), "nothing is there twice");
    // One that began is not returned: what it did stands.
    let mut step = db.step(&again);
    step.entries.push(entry(&again, 1, notice("step")));
    db.commit(step).unwrap();
    assert_eq!(db.write(back).unwrap_err(), StoreError::Stale);
}

// I1
#[test]
fn a_queued_turn_is_cancelled_at_once_and_a_running_one_is_marked() {
    let mut db = Db::new();
    let (running, conversation) = db.take("c", "m1");
    let (queued, _) = db.take("c", "m2");
    db.claim(conversation);
    let mut cancel = |turn| {
        let at = db.now();
        match db.write(Write::CancelTurn { turn, at, by: decider("ann") }).unwrap() {
            Written::Cancelled(outcome) => outcome,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(cancel(queued), CancelOutcome::Ended);
    assert_eq!(cancel(queued), CancelOutcome::AlreadyEnded);
    assert_eq!(cancel(running), CancelOutcome::Marked);
    assert_eq!(cancel(running), CancelOutcome::Marked);
    assert_eq!(cancel(TurnId(Uuid::from_u128(999))), CancelOutcome::NotFound);

    assert_eq!(db.turn(queued).outcome, Some(Outcome::Cancelled));
    let cancelled = ("turn.cancel".to_owned(), "ann".to_owned());
    assert_eq!(db.audit(), [cancelled.clone(), cancelled]);
    // The session that takes the turn over learns of the mark.
    let claim = db.claim(conversation);
    assert_eq!((claim.record.id, claim.cancel_requested), (running, true));
    let ledger = db.ledger();
    assert_eq!(ledger, Ledger { accepted: 2, open: 1, cancelled: 1, ..Ledger::default() });
}

#[test]
fn open_rows_are_found_until_they_end() {
    let mut db = Db::new();
    let (_, late) = db.take("c", "m1");
    let (_, early) = db.take("d", "m2");
    let open = |db: &mut Db| match db.read(Read::OpenConversations) {
        Found::OpenConversations(ids) => ids,
        other => panic!("{other:?}"),
    };
    assert_eq!(open(&mut db), [late, early]);
    db.answer(late);
    assert_eq!(open(&mut db), [early]);
    assert!(matches!(db.read(Read::HasOpen(late)), Found::Flag(false)));
    assert!(matches!(db.read(Read::HasOpen(early)), Found::Flag(true)));
}

#[test]
fn turns_are_listed_newest_first_by_conversation_channel_and_state() {
    let mut db = Db::new();
    let (first, conversation) = db.take("c", "m1");
    let (second, _) = db.take("c", "m2");
    let (third, _) = db.take("d", "m3");
    db.answer(conversation);
    let mut list = |conversation: Option<&str>, channel: Option<ChannelId>, state, limit| {
        let conversation = conversation.map(str::to_owned);
        match db.read(Read::Turns { conversation, channel, state, limit }) {
            Found::Turns(turns) => turns.into_iter().map(|turn| turn.id).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(list(None, None, None, 10), [third, second, first]);
    assert_eq!(list(None, None, None, 1), [third]);
    assert_eq!(list(Some("c"), None, None, 10), [second, first]);
    assert_eq!(list(Some("c"), Some(channel()), Some(TurnState::Ended), 10), [first]);
    assert_eq!(list(None, Some(channel()), Some(TurnState::Queued), 10), [third, second]);
    assert_eq!(list(None, Some(ChannelId::new("other")), None, 10), []);
}

#[test]
fn the_newest_messages_of_a_conversation_are_read_oldest_first() {
    let mut db = Db::new();
    for (n, agent) in ["home", "work", "home"].into_iter().enumerate() {
        let mut message = db.message("c", &format!("m{n}"));
        message.inbound.agent = AgentName::new(agent);
        let conversation = db.accept(message).envelope.conversation_id;
        db.answer(conversation);
    }
    let mut newest = |conversation: &str, limit| {
        let conversation = conversation.to_owned();
        match db.read(Read::Messages { channel: channel(), conversation, limit }) {
            Found::Messages(found) => found.map(|messages| {
                messages.iter().map(|m| m.message.text().to_owned()).collect::<Vec<_>>()
            }),
            other => panic!("{other:?}"),
        }
    };
    let expected = ["done", "text of m1", "done", "text of m2", "done"];
    assert_eq!(newest("c", 5).unwrap(), expected);
    assert_eq!(newest("c", 0).unwrap(), Vec::<String>::new());
    assert_eq!(newest("nowhere", 5), None);
}
