//! What is sent for no turn, and who wrote last.

use super::*;

fn message(id: u128, text: &str) -> NewOutbox {
    let address = serde_json::from_value(json!({ "channel": channel(), "conversation": "c" }));
    NewOutbox {
        id: OutboxId(Uuid::from_u128(id)),
        channel: channel(),
        address: address.unwrap(),
        payload: OutboxPayload::Notice { turn: None, text: text.to_owned() },
    }
}

fn post(db: &mut Db, message: NewOutbox) -> Result<bool, StoreError> {
    let now = db.now();
    let audit = AuditRow {
        at: now,
        who: "ops".to_owned(),
        via: "admin".to_owned(),
        action: "channel.send".to_owned(),
        target: channel().to_string(),
        detail: json!({}),
    };
    let (message, audit) = (Box::new(message), Some(Box::new(audit)));
    match db.write(Write::Channel(ChannelWrite::Post { message, audit, at: now }))? {
        Written::Posted(new) => Ok(new),
        other => panic!("{other:?}"),
    }
}

fn status(db: &mut Db, id: u128) -> Option<OutboxStatus> {
    match db.read(Read::Channel(ChannelRead::Outbox(OutboxId(Uuid::from_u128(id))))) {
        Found::Channel(ChannelFound::Outbox(status)) => status,
        other => panic!("{other:?}"),
    }
}

fn audited(db: &mut Db) -> usize {
    match db.read(Read::Audit { since: None, limit: 10 }) {
        Found::Audit(rows) => rows.len(),
        other => panic!("{other:?}"),
    }
}

// B1, B5
#[test]
fn what_is_posted_under_an_id_is_one_thing_audited_once_and_goes_by_age_once_it_was_sent() {
    let mut db = Db::new();
    assert_eq!(post(&mut db, message(1, "hi")), Ok(true));
    assert_eq!(post(&mut db, message(1, "hi")), Ok(false));
    let other = post(&mut db, message(1, "something else"));
    assert!(matches!(other, Err(StoreError::Conflict(_))), "{other:?}");
    assert_eq!(post(&mut db, message(2, "later")), Ok(true));
    assert_eq!((audited(&mut db), status(&mut db, 3)), (2, None));
    let now = db.now();
    let rows = db.claim_outbox(now);
    assert_eq!(rows.len(), 1, "a conversation's first");
    let result = SendResult::Sent { external_id: Some("m".to_owned()) };
    db.write(Write::MarkOutbox { id: rows[0].message.id, at: now, result }).unwrap();
    let sent = status(&mut db, 1).unwrap();
    assert_eq!((sent.state.as_str(), sent.external_id.as_deref()), ("sent", Some("m")));
    let prune = Prune { journal_before: None, inbox_before: Some(at(1_000)), limit: 10, after: 0 };
    db.write(Write::Prune(prune)).unwrap();
    assert_eq!(status(&mut db, 1), None);
    assert_eq!(status(&mut db, 2).unwrap().state, "pending", "it still has to be sent");
}

#[test]
fn a_chain_of_bots_is_counted_back_to_a_persons_word() {
    let mut db = Db::new();
    let bots = |db: &mut Db, external: &str| {
        let read = ChannelRead::Bots {
            channel: channel(),
            conversation: "c".to_owned(),
            external_id: external.to_owned(),
            limit: 2,
        };
        match db.read(Read::Channel(read)) {
            Found::Channel(ChannelFound::Bots(chain)) => chain,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(bots(&mut db, "1"), BotChain::default());
    db.take("c", "1");
    let mut last = None;
    for (length, external) in [(1, "2"), (2, "3"), (2, "4")] {
        let mut accept = db.message("c", external);
        accept.inbound.sender.is_bot = true;
        last = Some(accept.envelope);
        db.accept(accept);
        let chain = bots(&mut db, "next");
        assert_eq!((chain.length, chain.last, chain.known), (length, last, false));
    }
    assert!(bots(&mut db, "4").known);
    let mut elsewhere = db.message("d", "5");
    elsewhere.inbound.sender.is_bot = true;
    db.accept(elsewhere);
    assert_eq!(bots(&mut db, "next").last, last);
    db.take("c", "6");
    assert_eq!(bots(&mut db, "next").length, 0);
}
