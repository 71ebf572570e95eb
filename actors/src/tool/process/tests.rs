use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rookery_messages::ids::CallId;
use uuid::Uuid;

use super::*;

fn call(n: u64) -> CallId {
    CallId(Uuid::from_u64_pair(u64::from(std::process::id()) << 16, n))
}

/// A process in a group of its own, as a former life would have left it.
struct Left {
    child: std::process::Child,
    record: ProcessRecord,
}

impl Left {
    fn start(script: &str, call: CallId) -> Self {
        let child = Command::new("sh")
            .args(["-c", script])
            .env(CALL_VARIABLE, call.to_string())
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("sh starts");
        let pgid = i32::try_from(child.id()).expect("a process id");
        let start_ticks = process_start_ticks(pgid).expect("it lives");
        let boot_id = boot_id().expect("Linux tells");
        Self { child, record: ProcessRecord { boot_id, pgid, start_ticks, call } }
    }

    fn lives(&mut self) -> bool {
        self.child.try_wait().expect("it is ours").is_none()
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lives(pid: i32) -> bool {
    scan::stat(pid).is_ok_and(|stat| !matches!(stat.state, 'Z' | 'X'))
}

#[test]
fn a_process_line_is_read_whatever_the_name_holds() {
    let line = "42 (a) R 1 ) S 1 40 39 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 777 9 9";
    let stat = scan::parse(line).expect("a line");
    assert_eq!((stat.state, stat.parent, stat.group, stat.start_ticks), ('S', 1, 40, 777));
    assert_eq!(scan::parse("42 (a"), None);
    let own = i32::try_from(std::process::id()).expect("a process id");
    assert!(process_start_ticks(own).expect("we live") > 0);
}

// A129
#[tokio::test]
async fn survivors_of_a_former_life_are_ended_with_their_children() {
    let mut left = Left::start("sleep 60 & wait", call(1));
    let mut deaf = Left::start("trap '' TERM; while :; do sleep 60; done", call(2));
    let ended = end_survivors(&[left.record.clone(), deaf.record.clone()]).await;
    assert_eq!(ended, [left.record.clone(), deaf.record.clone()]);
    assert!(!left.lives() && !deaf.lives());
    for record in [&left.record, &deaf.record] {
        let group = Pid::from_raw(record.pgid);
        assert!(scan::members(&scan::Mark { group, call: record.call, since: 0 }).is_empty());
    }
    assert_eq!(end_survivors(&[left.record.clone()]).await, []);
}

// A129
#[tokio::test]
async fn a_child_that_outlived_its_leader_is_known_by_its_mark() {
    let mut left = Left::start("sleep 60 & exit 0", call(3));
    left.child.wait().expect("the leader ends");
    let group = Pid::from_raw(left.record.pgid);
    let mark = scan::Mark { group, call: left.record.call, since: left.record.start_ticks };
    let later = scan::Mark { since: u64::MAX, ..mark };
    assert!(scan::members(&later).is_empty());
    let members = scan::members(&mark);
    assert_eq!(members.len(), 1);
    assert_eq!(end_survivors(&[left.record.clone()]).await, [left.record.clone()]);
    assert!(!lives(members[0].pid.as_raw_pid()));
}

// A129
#[tokio::test]
async fn a_process_that_only_has_the_recorded_id_is_never_touched() {
    let mut left = Left::start("sleep 60 & wait", call(4));
    let mut other = left.record.clone();
    other.call = call(5);
    let wrong_start = ProcessRecord { start_ticks: other.start_ticks + 1, ..other.clone() };
    let wrong_boot = ProcessRecord { boot_id: "another boot".to_owned(), ..left.record.clone() };
    let no_group = ProcessRecord { pgid: 0, ..other.clone() };
    let all = ProcessRecord { pgid: -1, ..other.clone() };
    let init = ProcessRecord { pgid: 1, ..other };
    assert_eq!(end_survivors(&[wrong_start, wrong_boot, no_group, all, init]).await, []);
    assert!(left.lives());
    assert_eq!(end_survivors(&[left.record.clone()]).await.len(), 1);
}
