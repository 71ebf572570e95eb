//! SIGTERM: what ends, what is parked, what goes on at the next start.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails at the place of the fault"
)]

use std::time::Duration;

use rookery_tests::service::{alive, gone};
use rookery_tests::{Call, Config, Gate, Reply, World, program};
use rustix::process::Signal;
use serde_json::json;

/// More than the phases after the drain may take.
const REST: Duration = Duration::from_secs(15);

fn drain(secs: u64) -> Config {
    Config::new().shutdown(&format!("drain_secs = {secs}"))
}

/// A signal is being worked on once the service says that it takes no new work.
async fn draining(world: &World) {
    rookery_tests::wait::until("the service is not ready any more", || async {
        let request = world.api.request(reqwest::Method::GET, "/readyz").send().await;
        match request {
            Ok(answer) if answer.status().is_success() => Err("ready".to_owned()),
            _ => Ok(()),
        }
    })
    .await;
}

// I14
#[tokio::test]
async fn an_idle_service_ends_at_once_with_exit_code_0() {
    let mut world = World::start(program!(), drain(60)).await;
    world.api.say("c", "hello").await;
    world.assert_quiet().await;
    let ended = world.stop().await;
    assert_eq!(ended.code, Some(0));
    assert!(ended.took < Duration::from_secs(8), "{ended:?}");
    world.over();
}

// I14
#[tokio::test]
async fn a_turn_that_ends_within_the_drain_is_answered_before_the_end() {
    let mut world = World::start(program!(), drain(60)).await;
    let gate = Gate::new();
    world.model.script("go", [Reply::stream().gate(&gate).delta("made it").complete("stop")]);
    let id = world.api.tell("c", "go").await;
    gate.reached().await;
    world.service.signal_term();
    gate.open();
    let ended = world.service.wait(REST).await;
    assert_eq!(ended.code, Some(0), "{}", world.service.log_tail(40));
    world.assert_ended_in_time(&ended).await;
    world.service.restart().await;
    let turn = world.api.turn(&id).await;
    assert_eq!((turn.state.as_str(), turn.text(), turn.attempts), ("ended", "made it", 1));
    assert_eq!(world.model.count(), 1);
    world.finish().await;
}

// I14
#[tokio::test]
async fn a_turn_that_does_not_end_in_time_is_stopped_and_goes_on_at_the_next_start() {
    let mut world = World::start(program!(), drain(1)).await;
    world.model.script("go", [Reply::stream().delta("half").hang(), Reply::text("whole")]);
    let id = world.api.tell("c", "go").await;
    world.model.counted(1).await;
    let ended = world.service.term(Duration::from_secs(1) + REST).await;
    assert_eq!(ended.code, Some(0), "{}", world.service.log_tail(40));
    world.assert_ended_in_time(&ended).await;
    world.model.dropped(0).await;
    world.service.restart().await;
    assert_eq!(world.api.ended(&id).await.text(), "whole");
    assert_eq!(world.api.transcript("c").await, ["user: go", "assistant: whole"]);
    world.finish().await;
}

// V-N2, I14
#[tokio::test]
async fn a_turn_that_waits_for_an_answer_is_parked_at_once_and_asks_again_after_the_start() {
    let config = drain(60).level("supervised").agent("approval_route = \"admin\"");
    let mut world = World::start(program!(), config).await;
    world.model.script("go", [Reply::calls([Call::shell("echo ran >> log")]), Reply::text("done")]);
    let id = world.api.tell("c", "go").await;
    let before = world.api.approval_of(&id).await;
    let ended = world.service.term(REST).await;
    assert_eq!(ended.code, Some(0), "{}", world.service.log_tail(40));
    world.assert_ended_in_time(&ended).await;
    world.service.restart().await;
    let after = world.api.approval_of(&id).await;
    assert_eq!((&after["id"], &after["expires_at"]), (&before["id"], &before["expires_at"]));
    world.api.decide(&after, &json!({"decision": "approve"})).await;
    assert_eq!(world.api.ended(&id).await.text(), "done");
    assert_eq!(world.read("log"), "ran\n");
    world.finish().await;
}

// I14
#[tokio::test]
async fn a_second_signal_skips_the_waiting() {
    let mut world = World::start(program!(), drain(120)).await;
    world.model.script("go", [Reply::silence(), Reply::text("later")]);
    let id = world.api.tell("c", "go").await;
    world.model.counted(1).await;
    world.service.signal_term();
    draining(&world).await;
    world.service.signal_term();
    let ended = world.service.wait(REST).await;
    world.assert_ended_in_time(&ended).await;
    world.service.restart().await;
    assert_eq!(world.api.ended(&id).await.text(), "later");
    world.finish().await;
}

// I6: nothing that a command does to its limits, its session, its group and its environment gets it away
#[tokio::test]
async fn a_process_that_sheds_every_mark_ends_with_its_call() {
    let world = World::start(program!(), Config::new()).await;
    let mark = format!("sleep 7{}", std::process::id());
    let away = |n: u32| format!("setsid env -i /bin/sh -c 'echo > away{n}; exec {mark}{n}'");
    let commands = [
        format!("ulimit -x 9; {} & while [ ! -e away0 ]; do :; done", away(0)),
        // Orphaned at once, twice.
        format!("ulimit -x 9; (({} &) &); while [ ! -e away1 ]; do :; done", away(1)),
        // With a child of its own in a session of its own.
        format!(
            "ulimit -x 9; setsid env -i /bin/sh -c \"setsid {mark}2 & echo > away2; exec {mark}2\" & \
             while [ ! -e away2 ]; do :; done"
        ),
    ];
    for (n, command) in commands.iter().enumerate() {
        let key = format!("go {n}");
        world.model.script(&key, [Reply::calls([Call::shell(command)]), Reply::text("done")]);
        let turn = world.api.say("c", &key).await;
        assert_eq!(turn.call_states(), ["succeeded"], "{command}");
        gone(&mark).await;
    }
    // Nor does a cancel, nor does another call keep it or lose its own.
    let other = format!("{mark}9");
    world.model.script(
        "other",
        [Reply::calls([Call::shell(&format!("setsid {other} & {other}"))]), Reply::text("x")],
    );
    let beside = world.api.tell("beside", "other").await;
    alive(&other).await;
    let command = format!("ulimit -x 9; {} & {mark}8", away(3));
    world.model.script("stop", [Reply::calls([Call::shell(&command)])]);
    let id = world.api.tell("c", "stop").await;
    world.file("away3").await;
    alive(&format!("{mark}8")).await;
    world.api.cancel(&id).await;
    world.api.ended(&id).await;
    gone(&format!("{mark}3")).await;
    // The shell between them, if it stays, shows all of its own words.
    rookery_tests::wait::until("both processes of the other call", || async {
        let all = rookery_tests::service::processes_with(&other);
        let shells = rookery_tests::service::processes_with(&format!("setsid {other}"));
        let found = all.iter().filter(|pid| !shells.contains(pid)).count();
        if found == 2 { Ok(()) } else { Err(format!("{found} processes")) }
    })
    .await;
    world.api.cancel(&beside).await;
    world.api.ended(&beside).await;
    gone(&mark).await;
    // What was left to the service is not left as zombies.
    let zombies = || {
        let pid = world.service.pid().to_string();
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let stats = all.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
        let fields = stats.filter_map(|stat| {
            let (_, rest) = stat.rsplit_once(')')?;
            let mut rest = rest.split_ascii_whitespace();
            Some((rest.next()?.to_owned(), rest.next()?.to_owned()))
        });
        fields.filter(|(state, parent)| state == "Z" && *parent == pid).count()
    };
    rookery_tests::wait::until("no zombie is left", || async {
        if zombies() == 0 { Ok(()) } else { Err(format!("{} zombies", zombies())) }
    })
    .await;
    world.finish().await;
}

// A129, I6
#[tokio::test]
async fn processes_of_tools_end_with_the_service_and_after_a_kill_at_its_next_start() {
    let mut world = World::start(program!(), drain(0)).await;
    let mark = format!("sleep 8{}", std::process::id());
    let call = || Call::shell(&format!("{mark}1 & {mark}2"));
    world.model.script("go", [Reply::calls([call()]), Reply::text("done"), Reply::text("done")]);
    world.model.script("again", [Reply::calls([call()]), Reply::text("done"), Reply::text("done")]);
    world.api.tell("c", "go").await;
    alive(&format!("{mark}1")).await;
    alive(&format!("{mark}2")).await;
    let ended = world.service.term(REST).await;
    assert_eq!(ended.code, Some(0), "{}", world.service.log_tail(40));
    world.assert_ended_in_time(&ended).await;
    gone(&mark).await;
    world.service.restart().await;
    let id = world.api.tell("d", "again").await;
    alive(&format!("{mark}1")).await;
    alive(&format!("{mark}2")).await;
    world.crash().await;
    gone(&mark).await;
    world.api.ended(&id).await;
    let turns = world.api.known_turns();
    for id in turns {
        world.api.ended(&id).await;
    }
    world.finish().await;
}

// I14: a terminal that goes takes nothing with it
#[tokio::test]
async fn a_hang_up_drains_like_a_termination() {
    let mut world = World::start(program!(), drain(60)).await;
    let gate = Gate::new();
    world.model.script("go", [Reply::stream().gate(&gate).delta("made it").complete("stop")]);
    let id = world.api.tell("c", "go").await;
    gate.reached().await;
    // Said twice, as by a kernel and a shell: no hurry.
    world.service.signal(Signal::HUP);
    draining(&world).await;
    world.service.signal(Signal::HUP);
    gate.open();
    let ended = world.service.wait(REST).await;
    assert_eq!(ended.code, Some(0), "{}", world.service.log_tail(40));
    world.assert_ended_in_time(&ended).await;
    world.service.restart().await;
    let turn = world.api.turn(&id).await;
    assert_eq!((turn.state.as_str(), turn.text(), turn.attempts), ("ended", "made it", 1));
    world.finish().await;
}

// I14
#[tokio::test]
async fn who_was_started_to_ignore_a_hang_up_ignores_it() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("nohup");
    std::fs::write(&script, format!("#!/bin/sh\ntrap '' HUP\nexec '{}' \"$@\"\n", program!()))
        .unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut world = World::start(script.to_str().unwrap(), drain(5)).await;
    world.service.signal(Signal::HUP);
    assert_eq!(world.api.say("c", "hello").await.result(), "answered");
    assert!(world.service.lives());
    world.finish().await;
}
