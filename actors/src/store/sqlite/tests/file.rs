//! The file: one owner, versions, a full disk, damage, foreign locks.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use rookery_messages::ids::AgentName;
use rusqlite::Connection;

use super::super::{lock::beside, open_with, schema};
use super::*;

fn mode(path: &std::path::Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_second_instance_is_refused_naming_the_first_and_may_start_when_that_one_is_gone() {
    let db = Db::new();
    let options = options(&db.dir);
    let Err(StoreError::InUse { owner }) = open(&options) else { panic!("opened twice") };
    assert!(owner.contains(&format!("pid {}", std::process::id())), "{owner}");
    assert!(owner.contains("since 20"), "{owner}");
    let Db { dir: _dir, store, reader, .. } = db;
    drop((store, reader));
    // The lock file of the former one is still there, and only text.
    assert!(open(&options).is_ok());
}

#[test]
fn another_name_of_the_same_file_is_the_same_database() {
    let db = Db::new();
    let link = db.dir.path().join("link.db");
    std::os::unix::fs::symlink(db.path(), &link).unwrap();
    let by_link = SqliteOptions { path: link, durability: Durability::Power };
    assert!(matches!(open(&by_link), Err(StoreError::InUse { .. })));
}

#[test]
fn only_we_can_read_the_files() {
    let mut db = Db::new();
    db.take("c", "m1");
    for suffix in ["", "-wal", "-shm", ".lock"] {
        assert_eq!(mode(&beside(&db.path(), suffix)), 0o600, "{suffix}");
    }
}

#[test]
fn durability_decides_what_a_commit_waits_for() {
    let dir = tempfile::tempdir().unwrap();
    for (durability, expected) in [(Durability::Power, 2), (Durability::Process, 1)] {
        let store = open(&SqliteOptions { durability, ..options(&dir) }).unwrap();
        let synchronous: i64 =
            store.conn.query_row("PRAGMA synchronous", [], |row| row.get(0)).unwrap();
        assert_eq!(synchronous, expected);
    }
}

// A018
#[test]
fn a_second_instance_is_refused_though_somebody_removed_the_lock_file() {
    let db = Db::new();
    std::fs::remove_file(beside(&db.path(), ".lock")).unwrap();
    let Err(StoreError::InUse { owner }) = open(&options(&db.dir)) else { panic!("opened twice") };
    assert!(owner.contains("rookery.db itself"), "{owner}");
    assert!(!beside(&db.path(), ".lock").exists(), "the refused one left a lock file");
}

// I1: what goes into a file that has no name any more is lost, so that it is never acknowledged
#[test]
fn a_database_that_was_moved_or_deleted_takes_nothing_until_it_is_back() {
    for suffix in ["", "-wal"] {
        let mut db = Db::new();
        db.take("c", "m1");
        let (path, away) = (beside(&db.path(), suffix), db.dir.path().join("away"));
        let accept = db.message("c", "m2");
        let write = [Write::Accept(Box::new(accept))];
        assert!(db.store.check().is_ok());
        std::fs::rename(&path, &away).unwrap();
        let refused = db.store.apply(&write).remove(0).unwrap_err();
        let why = refused.to_string();
        assert!(refused.is_of_the_disk() && why.contains("moved, replaced or deleted"), "{why}");
        assert!(why.contains(&path.display().to_string()), "{why}");
        assert_eq!(db.store.check(), Err(refused.clone()));
        assert_eq!(db.store.probe(), Err(refused.clone()));
        // Another file by that name is not it.
        std::fs::write(&path, "").unwrap();
        assert_eq!(db.store.check(), Err(refused));
        std::fs::rename(&away, &path).unwrap();
        assert!(db.store.probe().is_ok());
        let taken = db.store.apply(&write).remove(0);
        assert!(matches!(taken, Ok(Written::Accepted(_))), "{taken:?}");
    }
}

// B12
#[test]
fn a_newer_schema_is_refused_and_the_file_left_alone() {
    let db = Db::new();
    let path = db.path();
    db.store.conn.pragma_update(None, "user_version", 99).unwrap();
    let Db { dir, store, reader, .. } = db;
    drop((store, reader));
    let known = u32::try_from(schema::STEPS.len()).unwrap();
    let refused = open(&options(&dir));
    assert_eq!(refused.err(), Some(StoreError::SchemaNewer { found: 99, known }));
    assert!(matches!(open_reader(&path), Err(StoreError::SchemaNewer { .. })));
}

// B12
#[test]
fn an_upgrade_is_preceded_by_a_backup_and_keeps_everything() {
    let mut db = Db::new();
    let (turn, _) = db.take("c", "m1");
    let path = db.path();
    let Db { dir, store, reader, .. } = db;
    drop((store, reader));
    let mut steps = schema::STEPS.to_vec();
    steps.push("ALTER TABLE turns ADD COLUMN more TEXT");
    let upgraded = open_with(&options(&dir), &steps).unwrap();
    let version: usize =
        upgraded.conn.query_row("PRAGMA user_version", [], |row| row.get::<_, u32>(0)).unwrap()
            as usize;
    assert_eq!(version, steps.len());
    upgraded.conn.execute("UPDATE turns SET more = 'x'", []).unwrap();
    drop(upgraded);

    let backup = beside(&path, &format!(".v{}.bak", schema::STEPS.len()));
    assert_eq!(mode(&backup), 0o600);
    let mut reader = open_reader(&backup).unwrap();
    assert!(matches!(reader.read(&Read::Turn(turn)), Ok(Found::Turn(Some(_)))));
}

// B12
#[test]
fn grants_of_the_first_version_hold_on_and_say_what_they_cover() {
    let dir = tempfile::tempdir().unwrap();
    let first = open_with(&options(&dir), &schema::STEPS[..1]).unwrap();
    first
        .conn
        .execute_batch(
            "INSERT INTO conversations (id, channel, conversation, agent, last_at)
                 VALUES (zeroblob(16), 'ws', 'c', 'home', 0);
             INSERT INTO approvals (id, turn_id, conversation_id, channel, call_id, tool, arguments,
                 arguments_hash, risk, reason, asked_at, expires_at, approvers, state)
                 VALUES (x'01', x'01', zeroblob(16), 'ws', x'01', 't', '{\"a\":1}', 'hash', 'high',
                 'r', 0, 1, '[]', 'approved');
             INSERT INTO grants VALUES (zeroblob(16), zeroblob(16), 't', 'hash',
                 '{\"who\":\"ann\",\"via\":\"ws\"}', 0, 9223372036854775807);",
        )
        .unwrap();
    drop(first);
    let store = open(&options(&dir)).unwrap();
    let mut reader = open_reader(store.path()).unwrap();
    let read = Read::Grant {
        conversation_id: ConversationId(uuid::Uuid::nil()),
        agent: AgentName::new("home"),
        tool: "t".to_owned(),
        key: "hash".to_owned(),
        at: at(0),
    };
    let Ok(Found::Grant(Some(grant))) = reader.read(&read) else { panic!("no grant") };
    assert_eq!((grant.pattern.as_str(), grant.agent.as_str()), ("t {\"a\":1}", "home"));
}

// B12
#[test]
fn a_step_that_fails_leaves_the_former_version() {
    let mut db = Db::new();
    let (turn, _) = db.take("c", "m1");
    let Db { dir, store, reader, .. } = db;
    drop((store, reader));
    let mut steps = schema::STEPS.to_vec();
    steps.push("ALTER TABLE turns ADD COLUMN more TEXT; INSERT INTO nowhere VALUES (1)");
    assert!(matches!(open_with(&options(&dir), &steps), Err(StoreError::Failed(_))));
    let mut store = open(&options(&dir)).unwrap();
    let cancel = Write::CancelTurn { turn, at: at(9), by: decider("ann") };
    assert!(matches!(store.apply(&[cancel])[0], Ok(Written::Cancelled(CancelOutcome::Ended))));
}

#[test]
fn the_database_of_another_program_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = options(&dir).path;
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE theirs (x)").unwrap();
    assert!(matches!(open(&options(&dir)), Err(StoreError::Failed(_))));
}

#[test]
fn a_file_that_is_no_database_is_corrupt_and_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let garbage = "not a database, whatever else it may be. ".repeat(50);
    std::fs::write(options(&dir).path, &garbage).unwrap();
    assert!(matches!(open(&options(&dir)), Err(StoreError::Corrupt(_))));
    assert_eq!(std::fs::read_to_string(options(&dir).path).unwrap(), garbage);
}

#[test]
fn a_damaged_page_is_corrupt_when_it_is_met() {
    let mut db = Db::new();
    let (turn, _) = db.take("c", "m1");
    let root = "SELECT rootpage FROM sqlite_schema WHERE name = 'turns'";
    let page: u32 = db.store.conn.query_row(root, [], |row| row.get(0)).unwrap();
    let path = db.path();
    let Db { dir, store, reader, .. } = db;
    // The last connection that can write moves the log into the file.
    drop(reader);
    drop(store);
    let mut bytes = std::fs::read(&path).unwrap();
    let begin = (page as usize - 1) * 4_096;
    bytes[begin..begin + 4_096].fill(0xa5);
    std::fs::write(&path, bytes).unwrap();
    let mut reader = open_reader(&path).unwrap();
    assert!(matches!(reader.read(&Read::Turn(turn)), Err(StoreError::Corrupt(_))));
    let mut store = open(&options(&dir)).unwrap();
    let cancel = Write::CancelTurn { turn, at: at(9), by: decider("ann") };
    assert!(matches!(store.apply(&[cancel])[0], Err(StoreError::Corrupt(_))));
}

// A126, I1
#[test]
fn a_full_disk_is_a_typed_error_and_nothing_acknowledged_is_lost() {
    let mut db = Db::new();
    let pages: i64 = db.store.conn.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    let limit = |db: &Db, pages: i64| {
        let set: i64 = db
            .store
            .conn
            .query_row(&format!("PRAGMA max_page_count = {pages}"), [], |row| row.get(0))
            .unwrap();
        assert_eq!(set, pages);
    };
    limit(&db, pages + 4);
    let mut acknowledged = Vec::new();
    let mut n = 0;
    let error = loop {
        n += 1;
        let mut message = db.message("c", &format!("m{n}"));
        message.inbound.text = "x".repeat(1_000);
        message.queue_limit = 10_000;
        let turn = message.turn;
        match db.write(Write::Accept(Box::new(message))) {
            Ok(_) => acknowledged.push(turn),
            Err(error) => break error,
        }
        assert!(n < 1_000, "the disk never fills");
    };
    assert!(matches!(error, StoreError::Full(_)), "{error:?}");
    assert!(error.is_transient() && !acknowledged.is_empty());
    let accepted = acknowledged.len() as u64;
    assert_eq!(db.ledger(), Ledger { accepted, open: accepted, ..Ledger::default() });

    // Space is free again: it goes on by itself, and the refused message is not known.
    limit(&db, pages + 1_000);
    let again = db.message("c", &format!("m{n}"));
    assert!(!db.accept(again).duplicate);
    let mut db = db.restart();
    for turn in acknowledged {
        assert_eq!(db.turn(turn).id, turn);
    }
    assert!(db.ledger().adds_up());
}

// A124
#[test]
fn a_foreign_lock_is_unavailable_and_later_fine() {
    let mut db = Db::new();
    db.store.conn.busy_timeout(Duration::ZERO).unwrap();
    let foreign = Connection::open(db.path()).unwrap();
    foreign.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (first, second) = (db.message("c", "m1"), db.message("c", "m2"));
    let answers =
        db.store.apply(&[Write::Accept(Box::new(first.clone())), Write::Accept(Box::new(second))]);
    assert_eq!(answers.len(), 2);
    assert!(answers.iter().all(|answer| matches!(answer, Err(StoreError::Unavailable(_)))));
    // Readers don't mind.
    assert_eq!(db.ledger(), Ledger::default());
    foreign.execute_batch("ROLLBACK").unwrap();
    assert!(!db.accept(first).duplicate);
}

// A124
#[test]
fn a_read_transaction_held_open_stops_no_writer_and_sees_its_snapshot() {
    let mut db = Db::new();
    db.take("c", "m1");
    let foreign = Connection::open(db.path()).unwrap();
    let count = |conn: &Connection| -> i64 {
        conn.query_row("SELECT count(*) FROM inbox", [], |row| row.get(0)).unwrap()
    };
    foreign.execute_batch("BEGIN").unwrap();
    assert_eq!(count(&foreign), 1);
    for n in 2..50 {
        db.take("c", &format!("m{n}"));
    }
    assert_eq!(count(&foreign), 1);
    foreign.execute_batch("COMMIT").unwrap();
    assert_eq!(count(&foreign), 49);
}

#[test]
fn a_value_somebody_changed_by_hand_is_damage_and_not_a_panic() {
    let mut db = Db::new();
    let (turn, conversation) = db.take("c", "m1");
    db.store.conn.execute("UPDATE turns SET state = 'dancing'", []).unwrap();
    assert!(matches!(db.reader.read(&Read::Turn(turn)), Err(StoreError::Corrupt(_))));
    let claim = db.claim_request(conversation);
    assert!(matches!(db.write(Write::Claim(claim)), Err(StoreError::Corrupt(_))));
}
