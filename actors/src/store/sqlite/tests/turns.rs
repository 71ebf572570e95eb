//! Claims, fences, commits.

use rookery_messages::invariant::{Invariant, Tolerate};
use rookery_messages::turn::{CallRecord, CallState, Fence, TurnState};

use super::*;

// I3, V-N8
#[test]
fn turns_of_a_conversation_are_claimed_one_after_the_other_in_arrival_order() {
    let mut db = Db::new();
    let (first, conversation) = db.take("c", "m1");
    let (second, _) = db.take("c", "m2");
    assert_eq!(db.claim(conversation).record.id, first);
    // While the first has no end, a claim finds it and not the next.
    let claim = db.claim(conversation);
    assert_eq!((claim.record.id, claim.fence), (first, Fence { epoch: 1, attempt: 2 }));
    let ending = db.ending(&claim, 1);
    db.commit(ending).unwrap();
    assert_eq!(db.answer(conversation).record.id, second);
    let request = db.claim_request(conversation);
    assert_eq!(db.claim_with(request), ClaimOutcome::Nothing);
}

#[test]
fn a_claim_carries_what_the_turn_needs() {
    let mut db = Db::new();
    let (first, conversation) = db.take("c", "m1");
    let claim = db.claim(conversation);
    assert_eq!(claim.record.id, first);
    assert_eq!(claim.record.state, TurnState::Running);
    assert_eq!(claim.record.attempts, 1);
    assert_eq!((claim.text.as_str(), claim.sender.as_str()), ("text of m1", "ann"));
    assert_eq!(claim.reply_address.reply_to.as_deref(), Some("m1"));
    assert_eq!(claim.fence, Fence { epoch: 1, attempt: 1 });
    assert_eq!((&claim.journal, &claim.approvals), (&vec![], &vec![]));
    assert!(!claim.history_cut && !claim.cancel_requested);
    let texts: Vec<_> = claim.history.iter().map(|message| message.message.clone()).collect();
    assert_eq!(texts, [ChatMessage::user("text of m1")]);
    assert_eq!(db.turn(first), claim.record);
}

// B2, A114
#[test]
fn a_second_attempt_gets_the_journal_of_the_first_and_the_message_stands_once() {
    let mut db = Db::new();
    let (turn, conversation) = db.take("c", "m1");
    let first = db.claim(conversation);
    let mut step = db.step(&first);
    step.entries.push(entry(&first, 1, notice("one")));
    step.state = Some(TurnState::WaitingApproval);
    step.usage = Some(Usage { input: 5, output: 1 });
    let asked = db.approval(&first);
    step.approvals.push(asked.clone());
    db.commit(step).unwrap();
    assert_eq!(db.turn(turn).state, TurnState::WaitingApproval);

    let mut db = db.restart();
    let second = db.claim(conversation);
    assert_eq!(second.fence, Fence { epoch: 2, attempt: 2 });
    assert_eq!(
        second.journal,
        [entry(&first, 0, JournalKind::Started), entry(&first, 1, notice("one"))]
    );
    assert_eq!(second.approvals, [asked]);
    assert_eq!(second.history, first.history);
    assert_eq!(second.record.usage, Usage { input: 5, output: 1 });
    assert_eq!(second.record.started_at, first.record.started_at);
}

// I3
#[test]
fn a_stale_attempt_or_epoch_writes_nothing() {
    let mut db = Db::new();
    let (turn, conversation) = db.take("c", "m1");
    let old = db.claim(conversation);
    let new = db.claim(conversation);
    let stale = db.ending(&old, 1);
    assert_eq!(db.commit(stale), Err(StoreError::Stale));

    let mut db = db.restart();
    let former_life = db.ending(&new, 1);
    assert_eq!(db.commit(former_life), Err(StoreError::Stale));

    assert_eq!(db.turn(turn).state, TurnState::Running);
    assert_eq!(db.history("c").len(), 1);
    assert_eq!(db.claim_outbox(at(1_000)), []);
    db.answer(conversation);
    assert_eq!(db.turn(turn).outcome, Some(Outcome::Answered));
}

// I3
#[test]
fn a_turn_that_never_began_takes_no_step() {
    let mut db = Db::new();
    let (turn, conversation_id) = db.take("c", "m1");
    for attempt in 0..2 {
        let fence = Fence { epoch: 1, attempt };
        let mut step = TurnCommit::new(turn, conversation_id, fence, at(50));
        step.entries.push(JournalEntry { attempt, seq: 1, kind: notice("x") });
        assert_eq!(db.commit(step), Err(StoreError::Stale));
    }
    let unknown = TurnId(db.id());
    let fence = Fence { epoch: 1, attempt: 1 };
    let step = TurnCommit::new(unknown, conversation_id, fence, at(50));
    assert_eq!(db.commit(step), Err(StoreError::NotFound));
}

// I3: breaking the file shows in the count.
#[test]
fn two_running_turns_of_a_conversation_are_counted_as_a_violation() {
    let tolerated = Tolerate::on_this_thread();
    let mut db = Db::new();
    let (_, conversation) = db.take("c", "m1");
    db.take("c", "m2");
    db.store.conn.execute("UPDATE turns SET state = 'running', attempts = 1", []).unwrap();
    db.claim(conversation);
    assert!(tolerated.seen(Invariant::I3) > 0);
}

// A114
#[test]
fn a_commit_sent_again_is_acknowledged_again_and_changes_nothing() {
    let mut db = Db::new();
    let (turn, conversation) = db.take("c", "m1");
    let claim = db.claim(conversation);
    let mut step = db.step(&claim);
    step.entries.push(entry(&claim, 1, notice("one")));
    step.audit.push(AuditRow {
        at: step.at,
        who: "runtime".to_owned(),
        via: "runtime".to_owned(),
        action: "once".to_owned(),
        target: turn.to_string(),
        detail: json!({}),
    });
    let first = db.commit(step.clone()).unwrap();
    assert_eq!(db.commit(step).unwrap(), first);

    let ending = db.ending(&claim, 2);
    let ack = db.commit(ending.clone()).unwrap();
    assert_eq!(ack.outbox, [(ending.outbox[0].id, channel())]);
    let record = db.turn(turn);
    assert_eq!(db.commit(ending).unwrap(), ack);

    assert_eq!(db.turn(turn), record);
    assert_eq!(db.audit().len(), 1);
    assert_eq!(db.history("c").len(), 2);
    assert_eq!(db.claim_outbox(at(1_000)).len(), 1);
    assert_eq!(db.ledger(), Ledger { accepted: 1, answered: 1, ..Ledger::default() });
}

// A114
#[test]
fn the_same_message_appended_by_two_commits_stands_once() {
    let mut db = Db::new();
    let (_, conversation) = db.take("c", "m1");
    let claim = db.claim(conversation);
    let id = MessageId(db.id());
    for seq in 1..3 {
        let mut step = db.step(&claim);
        step.entries.push(entry(&claim, seq, notice("n")));
        step.messages.push(StoredMessage {
            id,
            turn: claim.record.id,
            at: step.at,
            message: ChatMessage::assistant("only once"),
        });
        db.commit(step).unwrap();
    }
    assert_eq!(db.history("c").len(), 2);
}

#[test]
fn another_step_under_the_same_number_is_a_conflict() {
    let mut db = Db::new();
    let (_, conversation) = db.take("c", "m1");
    let claim = db.claim(conversation);
    for (text, expected) in [("one", true), ("two", false)] {
        let mut step = db.step(&claim);
        step.entries.push(entry(&claim, 1, notice(text)));
        let result = db.commit(step);
        assert_eq!(result.is_ok(), expected);
        assert!(expected || matches!(result, Err(StoreError::Conflict(_))));
    }
}

// I1
#[test]
fn a_turn_ends_once() {
    let mut db = Db::new();
    let (turn, conversation) = db.take("c", "m1");
    let claim = db.answer(conversation);
    let mut other = db.ending(&claim, 5);
    if let Some(finish) = &mut other.finish {
        finish.outcome = Outcome::Cancelled;
    }
    assert_eq!(db.commit(other.clone()), Err(StoreError::Stale));
    other.entries.clear();
    assert_eq!(db.commit(other), Err(StoreError::Stale));
    assert_eq!(db.turn(turn).outcome, Some(Outcome::Answered));
    assert_eq!(db.ledger(), Ledger { accepted: 1, answered: 1, ..Ledger::default() });
}

// A015
#[test]
fn a_reply_goes_to_the_address_its_message_came_from_and_to_no_other() {
    let mut db = Db::new();
    let (turn, conversation) = db.take("c", "m1");
    let claim = db.claim(conversation);
    let mut astray = db.ending(&claim, 1);
    astray.outbox[0].address.conversation = "somebody else".to_owned();
    assert!(matches!(db.commit(astray), Err(StoreError::Conflict(_))));
    assert_eq!(db.turn(turn).outcome, None);
    assert_eq!(db.claim_outbox(at(1_000)), []);
}

// I4
#[test]
fn calls_keep_their_order_and_their_first_end() {
    let tolerated = Tolerate::on_this_thread();
    let mut db = Db::new();
    let (turn, conversation) = db.take("c", "m1");
    let claim = db.claim(conversation);
    let mut calls: Vec<_> = (0..3)
        .map(|_| CallRecord {
            id: CallId(db.id()),
            tool: "time".to_owned(),
            state: CallState::Planned,
            started_at: None,
            ended_at: None,
        })
        .collect();
    let mut step = db.step(&claim);
    step.calls = calls.clone();
    db.commit(step).unwrap();
    calls[2].state = CallState::Running;
    calls[2].started_at = Some(at(60));
    calls[0].state = CallState::Succeeded;
    calls[0].ended_at = Some(at(61));
    let mut step = db.step(&claim);
    step.calls = vec![calls[2].clone(), calls[0].clone()];
    db.commit(step).unwrap();
    assert_eq!(db.turn(turn).calls, calls);

    let mut step = db.step(&claim);
    step.calls = vec![CallRecord { state: CallState::Failed, ..calls[0].clone() }];
    db.commit(step).unwrap();
    assert_eq!(db.turn(turn).calls, calls);
    assert_eq!(tolerated.seen(Invariant::I4), 1);
}

#[test]
fn history_holds_the_newest_whole_turns_that_fit_and_says_what_was_left_out() {
    let mut db = Db::new();
    let mut conversation = ConversationId(Uuid::nil());
    for n in 0..4 {
        (_, conversation) = db.take("c", &format!("m{n}"));
        db.answer(conversation);
    }
    let (turn, _) = db.take("c", "last");
    let all = db.history("c");
    let size = |messages: &[StoredMessage]| -> usize {
        messages.iter().map(|m| serde_json::to_string(&m.message).unwrap().chars().count()).sum()
    };
    // Room for two former turns beside the turn's own message, and for half of a third.
    let own = serde_json::to_string(&ChatMessage::user("text of last")).unwrap().len();
    let room = own + size(&all[4..]) + size(&all[3..4]);
    let mut request = db.claim_request(conversation);
    request.terms.history_chars = room;
    let ClaimOutcome::Turn(claim) = db.claim_with(request) else { panic!("no turn") };
    assert_eq!(&claim.history[..4], &all[4..]);
    assert_eq!(claim.history[4].turn, turn);
    assert_eq!(claim.history.len(), 5);
    assert!(claim.history_cut);

    // However small the room is, the turn's own messages stay.
    let mut request = db.claim_request(conversation);
    request.terms.history_chars = 0;
    let ClaimOutcome::Turn(claim) = db.claim_with(request) else { panic!("no turn") };
    let turns: Vec<_> = claim.history.iter().map(|message| message.turn).collect();
    assert_eq!(turns, [turn]);
}

// I1, B1
#[test]
fn after_its_last_attempt_a_turn_is_failed_notified_and_a_dead_letter() {
    let mut db = Db::new();
    let (turn, conversation) = db.take("c", "m1");
    let (next, _) = db.take("c", "m2");
    let mut claim = db.claim(conversation);
    let mut step = db.step(&claim);
    let call = CallRecord {
        id: CallId(db.id()),
        tool: "shell".to_owned(),
        state: CallState::Running,
        started_at: Some(step.at),
        ended_at: None,
    };
    step.calls.push(call);
    let asked = db.approval(&claim);
    step.approvals.push(asked.clone());
    db.commit(step).unwrap();
    for _ in 0..2 {
        claim = db.claim(conversation);
    }
    assert_eq!(claim.fence.attempt, 3);
    let request = db.claim_request(conversation);
    let ClaimOutcome::Exhausted(record) = db.claim_with(request) else { panic!("not exhausted") };
    assert_eq!(*record, db.turn(turn));
    assert_eq!(record.outcome, Some(Outcome::Failed));
    let error = record.error.unwrap();
    assert_eq!(
        (error.code.as_str(), error.message.as_str()),
        ("crashed", "failed after 3 attempts")
    );
    assert_eq!(record.calls[0].state, CallState::Unknown);
    match db.read(Read::Approval(asked.id)) {
        Found::Approval(Some(approval)) => assert_eq!(approval.state, ApprovalState::Cancelled),
        other => panic!("{other:?}"),
    }
    // The last attempt's actor may still be somewhere: it writes nothing.
    let late = db.ending(&claim, 1);
    assert_eq!(db.commit(late), Err(StoreError::Stale));

    let sent = db.claim_outbox(at(1_000));
    assert_eq!(sent.len(), 1);
    assert!(
        matches!(&sent[0].message.payload, OutboxPayload::Notice { turn: Some(t), .. } if *t == turn)
    );
    let letters = db.dead_letters();
    assert_eq!(letters.len(), 1);
    assert_eq!((letters[0].kind.as_str(), letters[0].turn), ("turn", Some(turn)));
    assert_eq!(letters[0].cause, "failed after 3 attempts");
    assert_eq!(letters[0].attempts, 3);
    // Its end stands: it can be thrown away, not tried again.
    let (id, now) = (letters[0].id, db.now());
    let retry = Write::DeadLetter { id, retry: true, at: now, by: decider("op") };
    assert!(matches!(db.write(retry), Err(StoreError::Conflict(_))));
    let purge = Write::DeadLetter { id, retry: false, at: now, by: decider("op") };
    db.write(purge).unwrap();
    assert_eq!(db.dead_letters(), []);

    assert_eq!(db.claim(conversation).record.id, next);
    assert_eq!(db.ledger(), Ledger { accepted: 2, failed: 1, open: 1, ..Ledger::default() });
}

// I3
#[test]
fn one_refusal_in_a_group_undoes_itself_only() {
    let mut db = Db::new();
    let (_, conversation) = db.take("c", "m1");
    let old = db.claim(conversation);
    let claim = db.claim(conversation);
    let stale = db.ending(&old, 1);
    let good = db.ending(&claim, 1);
    // The refusal comes after its request has written: all of that goes.
    let (_, other) = db.take("d", "m2");
    let other = db.claim(other);
    let mut half = db.ending(&other, 1);
    half.outbox[0].address.conversation = "astray".to_owned();
    let message = db.message("c", "m3");
    let answers = db.store.apply(&[
        Write::Commit(Box::new(stale)),
        Write::Commit(Box::new(half)),
        Write::Accept(Box::new(message)),
        Write::Commit(Box::new(good)),
    ]);
    assert!(matches!(answers[0], Err(StoreError::Stale)));
    assert!(matches!(answers[1], Err(StoreError::Conflict(_))));
    assert!(matches!(answers[2], Ok(Written::Accepted(_))));
    assert!(matches!(answers[3], Ok(Written::Committed(_))));
    assert_eq!(db.history("d").len(), 1);
    assert_eq!(db.turn(other.record.id).outcome, None);
    assert_eq!(db.ledger(), Ledger { accepted: 3, answered: 1, open: 2, ..Ledger::default() });
}

// V-N2: waiting for a person, or leaving in good order, is no sign of a crash, however often it happens.
#[test]
fn attempts_that_wait_or_leave_in_good_order_do_not_use_up_a_turn() {
    let mut db = Db::new();
    let (_, conversation) = db.take("c", "m1");
    for _ in 0..5 {
        let claim = db.claim(conversation);
        let mut step = db.step(&claim);
        step.state = Some(TurnState::WaitingApproval);
        step.entries.push(entry(&claim, 1, notice("waits")));
        db.commit(step).unwrap();
    }
    for _ in 0..5 {
        let claim = db.claim(conversation);
        let fence = claim.fence;
        db.write(Write::ReleaseTurn {
            turn: claim.record.id,
            conversation_id: conversation,
            fence,
        })
        .unwrap();
    }
    assert_eq!(db.claim(conversation).record.attempts, 11);
}
