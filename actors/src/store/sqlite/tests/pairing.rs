//! Codes, wrong tries, and who is told what.

use std::time::Duration;

use rookery_messages::pairing::{Knock, KnockBounds, Knocked, PairingWrite};

use super::*;

const BOUNDS: KnockBounds = KnockBounds {
    tries: 3,
    channel_tries: 6,
    lock: Duration::from_secs(3_600),
    tell_every: Duration::from_secs(86_400),
};

fn code(db: &mut Db, hash: &str, for_secs: i64) {
    let now = db.now();
    let write = PairingWrite::NewCode {
        channel: channel(),
        hash: hash.to_owned(),
        by: decider("ops"),
        at: now,
        expires_at: now + SignedDuration::from_secs(for_secs),
    };
    db.write(Write::Pairing(write)).unwrap();
}

fn knock_at(db: &mut Db, sender: &str, hash: Option<&str>, at: Timestamp) -> Knocked {
    let knock = Knock {
        channel: channel(),
        sender: sender.to_owned(),
        display: Some("Eve".to_owned()),
        hash: hash.map(str::to_owned),
        at,
        bounds: BOUNDS,
    };
    match db.write(Write::Pairing(PairingWrite::Knock(knock))).unwrap() {
        Written::Knocked(knocked) => knocked,
        other => panic!("{other:?}"),
    }
}

fn knock(db: &mut Db, sender: &str, hash: Option<&str>) -> Knocked {
    let at = db.now();
    knock_at(db, sender, hash, at)
}

fn pairings(db: &mut Db) -> Vec<String> {
    match db.read(Read::Pairings) {
        Found::Pairings(found) => found.into_iter().map(|pairing| pairing.sender).collect(),
        other => panic!("{other:?}"),
    }
}

// R4
#[test]
fn a_code_pairs_one_sender_once_and_outlives_the_process() {
    let mut db = Db::new();
    code(&mut db, "h", 60);
    db = db.restart();
    assert_eq!(knock(&mut db, "eve", Some("h")), Knocked::Paired);
    assert_eq!(knock(&mut db, "bob", Some("h")), Knocked::Wrong { left: 2 });
    db = db.restart();
    assert_eq!(knock(&mut db, "eve", None), Knocked::Known);
    assert_eq!(pairings(&mut db), ["eve"]);
    let revoke = PairingWrite::Revoke {
        channel: channel(),
        sender: "eve".to_owned(),
        by: decider("ops"),
        at: db.now(),
    };
    db.write(Write::Pairing(revoke.clone())).unwrap();
    assert_eq!(db.write(Write::Pairing(revoke)).unwrap_err(), StoreError::NotFound);
    assert_eq!(knock(&mut db, "eve", None), Knocked::Stranger { tell: true });
    let done: Vec<String> = db.audit().into_iter().map(|(action, _)| action).collect();
    assert_eq!(done, ["pairing.code", "pairing.paired", "pairing.revoke"]);
}

#[test]
fn a_code_is_void_after_its_time() {
    let mut db = Db::new();
    code(&mut db, "h", 60);
    let late = at(10_000);
    assert_eq!(knock_at(&mut db, "eve", Some("h"), late), Knocked::Wrong { left: 2 });
}

// R4: guessing is locked out for the sender and for the channel, also after a restart
#[test]
fn wrong_codes_lock_the_sender_and_then_the_channel() {
    let mut db = Db::new();
    code(&mut db, "right", 100_000);
    for left in [2, 1, 0] {
        assert_eq!(knock(&mut db, "eve", Some("x")), Knocked::Wrong { left });
    }
    db = db.restart();
    assert!(matches!(knock(&mut db, "eve", Some("right")), Knocked::Locked { .. }));
    // Another sender may still try, until all together were wrong too often.
    for left in [2, 1, 0] {
        assert_eq!(knock(&mut db, "mallory", Some("x")), Knocked::Wrong { left });
    }
    assert!(matches!(knock(&mut db, "bob", Some("right")), Knocked::Locked { .. }));
    let after = at(8_000);
    assert_eq!(knock_at(&mut db, "bob", Some("right"), after), Knocked::Paired);
    assert_eq!(knock_at(&mut db, "eve", Some("right"), after), Knocked::Wrong { left: 2 });
}

// A076: rate-limited
#[test]
fn a_stranger_is_told_once_a_day() {
    let mut db = Db::new();
    let told = |db: &mut Db, seconds| knock_at(db, "eve", None, at(seconds));
    assert_eq!(told(&mut db, 100), Knocked::Stranger { tell: true });
    assert_eq!(told(&mut db, 200), Knocked::Stranger { tell: false });
    assert_eq!(told(&mut db, 86_499), Knocked::Stranger { tell: false });
    assert_eq!(told(&mut db, 86_500), Knocked::Stranger { tell: true });
}
