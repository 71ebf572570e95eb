//! Crashes, process groups, audit.

use rookery_messages::tool::ProcessRecord;

use super::*;

#[test]
fn crashes_of_the_same_kind_cause_and_place_are_one_row_that_counts() {
    let mut db = Db::new();
    let mut row = CrashRow {
        id: 0,
        kind: "tool".to_owned(),
        path: "root/a".to_owned(),
        cause: "index out of bounds".to_owned(),
        location: None,
        at: at(1),
        count: 1,
        message_in_hand: Some("Start".to_owned()),
    };
    db.write(Write::Crash(row.clone())).unwrap();
    row.path = "root/b".to_owned();
    row.at = at(2);
    db.write(Write::Crash(row.clone())).unwrap();
    let elsewhere = CrashRow { location: Some("a.rs:1:1".to_owned()), at: at(3), ..row.clone() };
    db.write(Write::Crash(elsewhere.clone())).unwrap();
    let crashes = match db.read(Read::Crashes { limit: 10 }) {
        Found::Crashes(rows) => rows,
        other => panic!("{other:?}"),
    };
    let ids: Vec<_> = crashes.iter().map(|row| row.id).collect();
    let counted = CrashRow { id: ids[1], count: 2, ..row };
    assert_eq!(crashes, [CrashRow { id: ids[0], ..elsewhere }, counted]);
}

// A129
#[test]
fn a_process_group_is_on_record_until_it_is_gone_also_after_a_restart() {
    let mut db = Db::new();
    let record = ProcessRecord {
        boot_id: "boot".to_owned(),
        pgid: 4_242,
        start_ticks: 99,
        call: CallId(db.id()),
    };
    db.write(Write::ProcessStarted(record.clone())).unwrap();
    db.write(Write::ProcessStarted(record.clone())).unwrap();
    let mut db = db.restart();
    let processes = |db: &mut Db| match db.read(Read::Processes) {
        Found::Processes(records) => records,
        other => panic!("{other:?}"),
    };
    assert_eq!(processes(&mut db), std::slice::from_ref(&record));
    for _ in 0..2 {
        db.write(Write::ProcessEnded { pgid: record.pgid, call: record.call }).unwrap();
    }
    assert_eq!(processes(&mut db), []);
}

#[test]
fn audit_rows_come_back_whole_newest_first() {
    let mut db = Db::new();
    let row = |n: i64| AuditRow {
        at: at(n),
        who: "op".to_owned(),
        via: "admin".to_owned(),
        action: "actor.stop".to_owned(),
        target: "root/service".to_owned(),
        detail: json!({"reason": "test", "n": n}),
    };
    db.write(Write::Audit(row(1))).unwrap();
    db.write(Write::Audit(row(2))).unwrap();
    match db.read(Read::Audit { since: None, limit: 10 }) {
        Found::Audit(rows) => assert_eq!(rows, [row(2), row(1)]),
        other => panic!("{other:?}"),
    }
}
