//! What a channel keeps: parts that were sent, drafts, the spool.

use rookery_messages::channel::Incoming;

use super::*;

fn incoming(external: &str) -> Incoming {
    serde_json::from_value(json!({
        "external_id": external, "sender": { "id": "ann" }, "conversation": "c", "text": "t",
        "attachments": [{ "id": "f", "name": "n" }], "album": "g",
    }))
    .unwrap()
}

fn spool(db: &mut Db, external: &str) -> bool {
    let row = SpoolRow { channel: channel(), incoming: incoming(external), at: db.now() };
    match db.write(Write::Channel(ChannelWrite::Spool(Box::new(row)))).unwrap() {
        Written::Spooled(fresh) => fresh,
        other => panic!("{other:?}"),
    }
}

fn spooled(db: &mut Db) -> Vec<String> {
    match db.read(Read::Channel(ChannelRead::Spool(channel()))) {
        Found::Channel(ChannelFound::Spool(rows)) => {
            rows.into_iter().map(|row| row.incoming.external_id).collect()
        }
        other => panic!("{other:?}"),
    }
}

fn draft(db: &mut Db, turn: TurnId) -> Option<DraftRow> {
    match db.read(Read::Channel(ChannelRead::Draft(turn))) {
        Found::Channel(ChannelFound::Draft(row)) => row,
        other => panic!("{other:?}"),
    }
}

// A058, R3
#[test]
fn the_spool_keeps_messages_in_order_over_a_restart_and_knows_them_for_a_week() {
    let mut db = Db::new();
    for external in ["m1", "m2", "m3"] {
        assert!(spool(&mut db, external));
    }
    assert!(!spool(&mut db, "m2"));
    let mut db = db.restart();
    assert_eq!(spooled(&mut db), ["m1", "m2", "m3"]);
    let unspool = |ids: &[&str], at| {
        let external_ids = ids.iter().map(|id| (*id).to_owned()).collect();
        Write::Channel(ChannelWrite::Unspool { channel: channel(), external_ids, at })
    };
    db.write(unspool(&["m1", "m3"], at(100))).unwrap();
    assert_eq!(spooled(&mut db), ["m2"]);
    assert!(!spool(&mut db, "m1"));
    let week = 7 * 24 * 3_600;
    db.write(unspool(&["m2"], at(101 + week))).unwrap();
    assert!(spool(&mut db, "m1") && !spool(&mut db, "m2"));
}

// I11
#[test]
fn parts_that_were_sent_and_the_draft_are_known_to_the_next_try_and_end_with_the_answer() {
    let mut db = Db::new();
    let (turn, conversation) = db.take("c", "m1");
    let row = DraftRow { turn, message: Some("p7".into()), shown: String::new() };
    db.write(Write::Channel(ChannelWrite::Draft(row.clone()))).unwrap();
    db.answer(conversation);
    let first = db.claim_outbox(at(100)).remove(0);
    assert_eq!(first.progress, Vec::<String>::new());
    let id = first.message.id;
    let sent = vec!["p7".to_owned(), "p8".to_owned()];
    db.write(Write::Channel(ChannelWrite::Progress { id, sent: sent.clone() })).unwrap();
    let mut db = db.restart();
    assert_eq!(draft(&mut db, turn), Some(row));
    let on_unknown = rookery_messages::settings::OnUnknown::Resend;
    db.write(Write::ReleaseOutbox { channel: channel(), at: at(150), on_unknown }).unwrap();
    let again = db.claim_outbox(at(200)).remove(0);
    assert_eq!((again.progress, again.possibly_repeated), (sent, true));
    let result = SendResult::Sent { external_id: None };
    db.write(Write::MarkOutbox { id, at: at(201), result }).unwrap();
    assert_eq!(draft(&mut db, turn), None);
    let unknown = Write::Channel(ChannelWrite::Progress { id: OutboxId(db.id()), sent: vec![] });
    assert_eq!(db.write(unknown).err(), Some(StoreError::NotFound));
}
