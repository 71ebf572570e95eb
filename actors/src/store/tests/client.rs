//! Deadlines, repeats and restarts as a caller sees them. Time is paused: waiting costs none.

use std::sync::Arc;

use rookery_messages::address::{
    Address, AddressCell, Delivery, Mailbox, MailboxGauge, StopCell, StopHandle, in_handler,
};
use rookery_messages::ids::ActorId;
use rookery_messages::store::*;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::Instant;

use crate::store::StoreClient;
use crate::store::sqlite::tests::{Db, at};

type Inbox = Receiver<Delivery<StoreMsg>>;

/// A mailbox with room for `capacity` messages, installed at `cell`; the test is the actor.
#[allow(clippy::result_large_err, reason = "the contract gives the message back")]
fn incarnation(cell: &AddressCell<StoreMsg>, capacity: usize) -> Inbox {
    let (tell, inbox) = channel(capacity);
    let stop = StopHandle::new(Arc::new(StopCell::default()), Arc::new(|| {}), Arc::new(|| {}));
    let post =
        Box::new(move |delivery| tell.try_send(delivery).map_err(|error| error.into_inner()));
    let gauge = Arc::new(MailboxGauge::default());
    cell.install(Arc::new(Mailbox::new(ActorId(1), capacity, gauge, post, stop)));
    inbox
}

fn client(capacity: usize) -> (StoreClient, Arc<AddressCell<StoreMsg>>, Inbox) {
    let cell = AddressCell::new();
    let inbox = incarnation(&cell, capacity);
    (StoreClient::new(Address::new(Arc::clone(&cell))), cell, inbox)
}

/// The next message is a write; its reply is handed out.
async fn next_write(
    inbox: &mut Inbox,
) -> (Write, tokio::sync::oneshot::Sender<Result<Written, StoreError>>) {
    match inbox.recv().await.unwrap().message {
        StoreMsg::Write { write, reply } => (write, reply),
        other => panic!("{other:?}"),
    }
}

fn row() -> AuditRow {
    AuditRow {
        at: at(1),
        who: "op".to_owned(),
        via: "test".to_owned(),
        action: "x".to_owned(),
        target: "y".to_owned(),
        detail: serde_json::Value::Null,
    }
}

// A114, I2
#[tokio::test(start_paused = true)]
async fn an_accept_whose_answer_is_lost_is_sent_again_under_the_same_key() {
    let mut db = Db::new();
    let accept = db.message("c", "m1");
    let turn = accept.turn;
    let (client, _cell, mut inbox) = client(4);
    let asking = client.accept(accept);
    let store = async {
        // The first is written, but its answer is lost; the second finds it.
        let (first, lost) = next_write(&mut inbox).await;
        db.write(first).unwrap();
        drop(lost);
        let (second, reply) = next_write(&mut inbox).await;
        reply.send(db.write(second)).unwrap();
    };
    let (outcome, ()) = tokio::join!(asking, store);
    let outcome = outcome.unwrap();
    assert_eq!((outcome.envelope.turn, outcome.duplicate), (turn, true));
    assert_eq!(db.ledger(), Ledger { accepted: 1, open: 1, ..Ledger::default() });
}

#[tokio::test(start_paused = true)]
async fn a_keyed_write_that_is_never_answered_is_unknown_after_three_tries() {
    let mut db = Db::new();
    let accept = db.message("c", "m1");
    let (client, _cell, mut inbox) = client(4);
    let begun = Instant::now();
    assert_eq!(client.accept(accept).await, Err(StoreError::Timeout));
    assert_eq!(begun.elapsed().as_secs(), 30);
    let mut sent = 0;
    while inbox.try_recv().is_ok() {
        sent += 1;
    }
    assert_eq!(sent, 3);
}

#[tokio::test(start_paused = true)]
async fn a_write_without_a_key_is_sent_once() {
    let (client, _cell, mut inbox) = client(4);
    assert_eq!(client.audit(row()).await, Err(StoreError::Timeout));
    assert!(inbox.try_recv().is_ok());
    assert!(inbox.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_refusal_after_a_lost_answer_does_not_say_that_nothing_was_written() {
    let mut db = Db::new();
    let accept = db.message("c", "m1");
    let (client, _cell, mut inbox) = client(4);
    let store = async {
        let (_, lost) = next_write(&mut inbox).await;
        drop(lost);
        let (_, reply) = next_write(&mut inbox).await;
        reply.send(Err(StoreError::Full("no room".to_owned()))).unwrap();
    };
    let (outcome, ()) = tokio::join!(client.accept(accept), store);
    assert_eq!(outcome, Err(StoreError::Timeout));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_comes_back_as_it_is() {
    let (client, _cell, mut inbox) = client(4);
    let store = async {
        let (_, reply) = next_write(&mut inbox).await;
        reply.send(Err(StoreError::Full("no room".to_owned()))).unwrap();
    };
    let (outcome, ()) = tokio::join!(client.audit(row()), store);
    assert_eq!(outcome, Err(StoreError::Full("no room".to_owned())));
}

// I10
#[tokio::test(start_paused = true)]
async fn a_mailbox_that_stays_full_is_busy_after_the_deadline_and_not_before() {
    let (client, _cell, _inbox) = client(1);
    let (first, second) = (client.clone(), client);
    let begun = Instant::now();
    let (unanswered, refused) = tokio::join!(first.audit(row()), second.ledger());
    assert_eq!(unanswered, Err(StoreError::Timeout));
    assert_eq!(refused, Err(StoreError::Busy));
    assert_eq!(begun.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_restart_is_waited_out_and_one_that_never_ends_is_unavailable() {
    let (client, cell, former) = client(4);
    drop(former);
    cell.suspend();
    let restart = async {
        tokio::time::advance(std::time::Duration::from_secs(3)).await;
        let mut inbox = incarnation(&cell, 4);
        let (_, reply) = next_write(&mut inbox).await;
        reply.send(Ok(Written::Done)).unwrap();
        inbox
    };
    let (outcome, _inbox) = tokio::join!(client.audit(row()), restart);
    assert_eq!(outcome, Ok(()));

    cell.suspend();
    let begun = Instant::now();
    assert!(matches!(client.ledger().await, Err(StoreError::Unavailable(_))));
    assert_eq!(begun.elapsed().as_secs(), 10);
    cell.close();
    assert_eq!(client.ledger().await, Err(StoreError::Closed));
}

#[tokio::test(start_paused = true)]
async fn a_place_awaited_in_a_dead_incarnation_is_looked_for_in_the_next() {
    let (client, cell, _former) = client(1);
    let stuck = client.clone();
    let next = async {
        tokio::task::yield_now().await;
        let mut inbox = incarnation(&cell, 4);
        match inbox.recv().await.unwrap().message {
            StoreMsg::Read { reply, .. } => {
                reply.send(Ok(Found::Ledger(Ledger::default()))).unwrap()
            }
            other => panic!("{other:?}"),
        }
    };
    let (_, ledger, ()) = tokio::join!(stuck.audit(row()), client.ledger(), next);
    assert_eq!(ledger, Ok(Ledger::default()));
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_would_wait_for_the_store_is_refused() {
    let (client, _cell, _inbox) = client(4);
    let refused = in_handler(client.ledger()).await;
    assert!(matches!(refused, Err(StoreError::Failed(_))));
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_another_question_is_an_error_and_not_a_panic() {
    let (client, _cell, mut inbox) = client(4);
    let store = async {
        match inbox.recv().await.unwrap().message {
            StoreMsg::Read { reply, .. } => reply.send(Ok(Found::Flag(true))).unwrap(),
            other => panic!("{other:?}"),
        }
    };
    let (outcome, ()) = tokio::join!(client.ledger(), store);
    assert!(matches!(outcome, Err(StoreError::Failed(_))));
}
