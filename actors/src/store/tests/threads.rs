//! The writer and the readers.

use std::sync::Barrier;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use jiff::Timestamp;
use rookery_messages::approval::{Approval, Decision};
use rookery_messages::ids::{ConversationId, EnvelopeId, TurnId};
use rookery_messages::store::*;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::store::StoreThreads;
use crate::store::sqlite::tests::{Db, at, channel, decider, entry, notice};
use crate::store::sqlite::{SqliteStore, open_reader};

fn on_end() -> (Box<dyn FnOnce(String) + Send>, Receiver<String>) {
    let (tell, told) = sync_channel(1);
    (Box::new(move |cause| tell.send(cause).unwrap()), told)
}

fn start(store: SqliteStore) -> StoreThreads {
    let path = store.path().to_owned();
    let readers =
        (0..2).map(|_| Box::new(open_reader(&path).unwrap()) as Box<dyn StoreReader>).collect();
    StoreThreads::start(Box::new(store), readers, Box::new(|_| {})).unwrap()
}

fn write(threads: &StoreThreads, write: Write) -> Result<Written, StoreError> {
    let (reply, answer) = oneshot::channel();
    threads.submit_write(write, reply)?;
    answer.blocking_recv().unwrap_or(Err(StoreError::Closed))
}

fn read(threads: &StoreThreads, read: Read) -> Result<Found, StoreError> {
    let (reply, answer) = oneshot::channel();
    threads.submit_read(read, reply)?;
    answer.blocking_recv().unwrap_or(Err(StoreError::Closed))
}

fn numbered(template: &Accept, n: u128) -> Accept {
    let mut accept = template.clone();
    accept.inbound.external_id = format!("m{n}");
    accept.inbound.conversation = format!("c{}", n % 7);
    accept.envelope = EnvelopeId(Uuid::from_u128(1_000 + 3 * n));
    accept.turn = TurnId(Uuid::from_u128(1_001 + 3 * n));
    accept.conversation_id = ConversationId(Uuid::from_u128(1_002 + 3 * n));
    accept.queue_limit = 10_000;
    accept
}

// A124, I1, I2
#[test]
fn eight_writers_and_four_readers_at_once_see_no_failure_and_lose_nothing() {
    const EACH: u128 = 60;
    let mut db = Db::new();
    let template = db.message("c", "m");
    let Db { dir: _dir, store, .. } = db;
    let threads = start(store);
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let (threads, template) = (&threads, &template);
            scope.spawn(move || {
                for n in 0..EACH {
                    // Every message is delivered by two writers: the second finds the first's.
                    let accept = numbered(template, (writer / 2) * EACH + n);
                    write(threads, Write::Accept(Box::new(accept))).unwrap();
                }
            });
        }
        for _ in 0..4 {
            let threads = &threads;
            scope.spawn(move || {
                for _ in 0..EACH {
                    match read(threads, Read::Ledger).unwrap() {
                        Found::Ledger(ledger) => assert!(ledger.adds_up(), "{ledger:?}"),
                        other => panic!("{other:?}"),
                    }
                }
            });
        }
    });
    let accepted = 4 * EACH as u64;
    match read(&threads, Read::Ledger).unwrap() {
        Found::Ledger(ledger) => {
            assert_eq!(ledger, Ledger { accepted, open: accepted, ..Ledger::default() });
        }
        other => panic!("{other:?}"),
    }
    threads.shutdown();
}

fn with_approval() -> (Db, Approval) {
    let mut db = Db::new();
    let (_, conversation) = db.take("c", "m1");
    let claim = db.claim(conversation);
    let approval = db.approval(&claim);
    let mut step = db.step(&claim);
    step.entries.push(entry(&claim, 1, notice("asks")));
    step.approvals.push(approval.clone());
    db.commit(step).unwrap();
    (db, approval)
}

// I7
#[test]
fn of_two_deciders_at_once_one_wins_and_both_learn_what_stands() {
    let (db, approval) = with_approval();
    let Db { dir: _dir, store, .. } = db;
    let threads = start(store);
    let barrier = Barrier::new(2);
    let decide = |who: &str, decision: Decision| {
        let request = DecideApproval {
            approval: approval.id,
            decision,
            decider: decider(who),
            privileged: false,
            at: at(500),
            grant: None,
        };
        barrier.wait();
        match write(&threads, Write::DecideApproval(request)).unwrap() {
            Written::Decided(outcome) => outcome,
            other => panic!("{other:?}"),
        }
    };
    let outcomes = std::thread::scope(|scope| {
        let ann = scope.spawn(|| decide("ann", Decision::Approve));
        let bob = scope.spawn(|| decide("bob", Decision::Deny { reason: None }));
        [ann.join().unwrap(), bob.join().unwrap()]
    });
    let (won, lost): (Vec<_>, Vec<_>) =
        outcomes.into_iter().partition(|outcome| matches!(outcome, DecideOutcome::Decided(_)));
    match (&won[..], &lost[..]) {
        ([DecideOutcome::Decided(stands)], [DecideOutcome::AlreadyDecided(seen)]) => {
            assert_eq!(stands, seen);
        }
        other => panic!("{other:?}"),
    }
}

/// A backend that stops at each batch until told, and notes the batches' sizes.
struct Gated {
    entered: SyncSender<usize>,
    go: Receiver<()>,
}

impl Store for Gated {
    fn apply(&mut self, writes: &[Write]) -> Vec<Result<Written, StoreError>> {
        self.entered.send(writes.len()).unwrap();
        self.go.recv().unwrap();
        writes.iter().map(|_| Ok(Written::Done)).collect()
    }

    fn begin_life(&mut self, _at: Timestamp) -> Result<(), StoreError> {
        Ok(())
    }
}

fn audit(n: i64) -> Write {
    Write::Audit(AuditRow {
        at: at(n),
        who: "op".to_owned(),
        via: "test".to_owned(),
        action: "x".to_owned(),
        target: "y".to_owned(),
        detail: serde_json::Value::Null,
    })
}

fn gated() -> (StoreThreads, Receiver<usize>, SyncSender<()>, Receiver<String>) {
    let (entered, seen) = sync_channel(100);
    let (go_on, go) = sync_channel(100);
    let (on_end, told) = on_end();
    let threads = StoreThreads::start(Box::new(Gated { entered, go }), Vec::new(), on_end).unwrap();
    (threads, seen, go_on, told)
}

#[test]
fn what_comes_in_during_a_commit_is_committed_together_after_it() {
    let (threads, batches, go_on, told) = gated();
    let mut answers = Vec::new();
    let mut submit = || {
        let (reply, answer) = oneshot::channel();
        threads.submit_write(audit(1), reply).unwrap();
        answers.push(answer);
    };
    // Alone, it is taken at once.
    submit();
    assert_eq!(batches.recv().unwrap(), 1);
    for _ in 0..130 {
        submit();
    }
    for expected in [128, 2] {
        go_on.send(()).unwrap();
        assert_eq!(batches.recv().unwrap(), expected);
    }
    go_on.send(()).unwrap();
    for answer in answers {
        assert!(matches!(answer.blocking_recv(), Ok(Ok(Written::Done))));
    }
    threads.shutdown();
    assert_eq!(told.recv().unwrap(), "shut down");
}

// B5, I10
#[test]
fn a_full_queue_is_busy_at_once_and_the_asker_is_told() {
    let (threads, batches, go_on, _told) = gated();
    let mut waiting = Vec::new();
    let error = loop {
        let (reply, answer) = oneshot::channel();
        match threads.submit_write(audit(1), reply) {
            Ok(()) => waiting.push(answer),
            Err(error) => {
                assert!(matches!(answer.blocking_recv(), Ok(Err(StoreError::Busy))));
                break error;
            }
        }
        assert!(waiting.len() < 10_000, "the queue has no bound");
    };
    assert_eq!(error, StoreError::Busy);
    // What was taken is answered, also when the end is asked for meanwhile.
    for _ in 0..=waiting.len() / 128 + 1 {
        go_on.send(()).unwrap();
    }
    threads.shutdown();
    assert_eq!(batches.iter().sum::<usize>(), waiting.len());
    for answer in waiting {
        assert!(matches!(answer.blocking_recv(), Ok(Ok(Written::Done))));
    }
}

/// A backend that panics at its second batch.
struct Brittle {
    batches: u32,
}

impl Store for Brittle {
    fn apply(&mut self, writes: &[Write]) -> Vec<Result<Written, StoreError>> {
        self.batches += 1;
        assert!(self.batches < 2, "the disk caught fire");
        writes.iter().map(|_| Ok(Written::Done)).collect()
    }

    fn begin_life(&mut self, _at: Timestamp) -> Result<(), StoreError> {
        Ok(())
    }
}

#[test]
fn a_panic_of_the_writer_is_told_with_its_text_and_nobody_waits_for_ever() {
    let (on_end, told) = on_end();
    let threads =
        StoreThreads::start(Box::new(Brittle { batches: 0 }), Vec::new(), on_end).unwrap();
    assert!(matches!(write(&threads, audit(1)), Ok(Written::Done)));
    assert!(matches!(write(&threads, audit(2)), Err(StoreError::Closed)));
    assert_eq!(told.recv().unwrap(), "the writer panicked: the disk caught fire");
    // The queue is closed before anybody is told.
    let (reply, answer) = oneshot::channel();
    assert_eq!(threads.submit_write(audit(3), reply), Err(StoreError::Closed));
    assert!(matches!(answer.blocking_recv(), Ok(Err(StoreError::Closed))));
    threads.shutdown();
}

/// A reader that panics when asked for the ledger.
struct Moody;

impl StoreReader for Moody {
    fn read(&mut self, read: &Read) -> Result<Found, StoreError> {
        assert!(!matches!(read, Read::Ledger), "not today");
        Ok(Found::Flag(true))
    }
}

#[test]
fn a_panic_of_a_reader_fails_its_question_only() {
    let (on_end, _told) = on_end();
    let readers: Vec<Box<dyn StoreReader>> = vec![Box::new(Moody)];
    let threads = StoreThreads::start(Box::new(Brittle { batches: 0 }), readers, on_end).unwrap();
    match read(&threads, Read::Ledger) {
        Err(StoreError::Failed(text)) => assert!(text.contains("not today"), "{text}"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(read(&threads, Read::DeadLetters), Ok(Found::Flag(true))));
    threads.shutdown();
}

/// A backend that tells of each batch and waits; the real one does the work.
struct Held {
    store: SqliteStore,
    entered: SyncSender<()>,
    go: Receiver<()>,
}

impl Store for Held {
    fn apply(&mut self, writes: &[Write]) -> Vec<Result<Written, StoreError>> {
        self.entered.send(()).unwrap();
        self.go.recv().unwrap();
        self.store.apply(writes)
    }

    fn begin_life(&mut self, at: Timestamp) -> Result<(), StoreError> {
        self.store.begin_life(at)
    }
}

#[test]
fn outbox_rows_claimed_for_somebody_who_gave_up_waiting_are_claimed_by_the_next() {
    let mut db = Db::new();
    let (_, conversation) = db.take("c", "m1");
    db.answer(conversation);
    let Db { dir: _dir, store, .. } = db;
    let (go_on, go) = sync_channel(3);
    let (entered, batches) = sync_channel(3);
    let held = Held { store, entered, go };
    let threads = StoreThreads::start(Box::new(held), Vec::new(), Box::new(|_| {})).unwrap();
    let claim = || Write::ClaimOutbox { channel: channel(), at: at(600), limit: 10 };
    let (reply, answer) = oneshot::channel();
    threads.submit_write(claim(), reply).unwrap();
    batches.recv().unwrap();
    drop(answer);
    // The claim, giving back, the next claim.
    for _ in 0..3 {
        go_on.send(()).unwrap();
    }
    match write(&threads, claim()).unwrap() {
        Written::Outbox(rows) => assert_eq!(rows.len(), 1),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_claim_nobody_waits_for_any_more_costs_the_turn_no_attempt() {
    let mut db = Db::new();
    let (_, conversation) = db.take("c", "m1");
    let request = db.claim_request(conversation);
    let Db { dir: _dir, store, .. } = db;
    let (go_on, go) = sync_channel(3);
    let (entered, batches) = sync_channel(3);
    let held = Held { store, entered, go };
    let threads = StoreThreads::start(Box::new(held), Vec::new(), Box::new(|_| {})).unwrap();
    // While this one is in hand, a claim is queued and given up.
    let (reply, _answer) = oneshot::channel();
    threads.submit_write(audit(1), reply).unwrap();
    batches.recv().unwrap();
    let (reply, answer) = oneshot::channel();
    threads.submit_write(Write::Claim(request.clone()), reply).unwrap();
    drop(answer);
    for _ in 0..2 {
        go_on.send(()).unwrap();
    }
    match write(&threads, Write::Claim(request)).unwrap() {
        Written::Claimed(ClaimOutcome::Turn(claim)) => assert_eq!(claim.fence.attempt, 1),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_turn_claimed_again_and_again_for_somebody_who_is_gone_is_not_given_up_for_it() {
    const LOST: usize = 5;
    let mut db = Db::new();
    let (_, conversation) = db.take("c", "m1");
    let request = db.claim_request(conversation);
    assert!((request.terms.max_attempts as usize) < LOST);
    let Db { dir: _dir, store, .. } = db;
    let (go_on, go) = sync_channel(2 * LOST + 1);
    let (entered, batches) = sync_channel(2 * LOST + 1);
    let held = Held { store, entered, go };
    let threads = StoreThreads::start(Box::new(held), Vec::new(), Box::new(|_| {})).unwrap();
    for _ in 0..LOST {
        let (reply, answer) = oneshot::channel();
        threads.submit_write(Write::Claim(request.clone()), reply).unwrap();
        // In hand, so it is carried out; then giving back.
        batches.recv().unwrap();
        drop(answer);
        go_on.send(()).unwrap();
        batches.recv().unwrap();
        go_on.send(()).unwrap();
    }
    go_on.send(()).unwrap();
    match write(&threads, Write::Claim(request)).unwrap() {
        Written::Claimed(ClaimOutcome::Turn(claim)) => {
            assert_eq!(claim.fence.attempt as usize, LOST + 1);
        }
        other => panic!("{other:?}"),
    }
}
