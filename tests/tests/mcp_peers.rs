//! MCP servers nobody here wrote: the reference *everything* (as a program and over HTTP) and
//! *filesystem*, and a Python one, driven end to end, killed and stopped in the middle of a call.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails at the place of the fault"
)]

use std::process::Stdio;

use rookery_tests::mcp::{McpPeers, bundle, offered_of, section};
use rookery_tests::model::result_texts;
use rookery_tests::service::{free_port, processes_with};
use rookery_tests::wait::until;
use rookery_tests::{Call, Config, Reply, World, program};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

fn call(name: &str, arguments: serde_json::Value) -> Call {
    Call::new(name, arguments)
}

fn granting(names: &[&str], sections: &[String]) -> Config {
    let config = Config::new().agent(&format!("mcp_bundles = {}", json!(names)));
    let config = names.iter().fold(config, |config, name| config.extra(&bundle(name)));
    sections.iter().fold(config, |config, section| config.extra(section))
}

/// The results of one turn that makes these calls.
async fn results(world: &World, key: &str, calls: Vec<Call>) -> (Vec<String>, Vec<String>) {
    world.model.script(key, [Reply::calls(calls), Reply::text("done")]);
    let turn = world.api.say(key, key).await;
    assert_eq!(turn.text(), "done");
    let states = turn.call_states().into_iter().map(str::to_owned).collect();
    (states, result_texts(&world.model.last_request()))
}

fn signal_all(mark: &str, signal: Signal) {
    let found = processes_with(mark);
    assert!(!found.is_empty(), "no process with {mark}");
    for pid in found {
        // One of them may be gone by now.
        let _ = kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal);
    }
}

/// A call that is running: its turn, and the progress that says so.
async fn long_call(world: &World, key: &str) -> String {
    let arguments = json!({"duration": 60, "steps": 120});
    let call = call("everything__trigger-long-running-operation", arguments);
    world.model.script(key, [Reply::calls([call]), Reply::text("done")]);
    let id = world.api.tell(key, key).await;
    let mut events = world.api.events(&id).await;
    // The server reports its progress: it has the call.
    events.until("notice").await;
    id
}

// A101, A108
#[tokio::test]
async fn the_reference_server_is_driven_killed_and_stopped_in_the_middle_of_a_call() {
    let Some(peers) = McpPeers::find() else { return };
    // Part of its command line: other tests have servers of their own.
    let mark = format!("--mark={}.8821", std::process::id());
    let program = peers.reference("server-everything");
    let section = section(
        "everything",
        &peers.node(),
        &[&program, "stdio", &mark],
        "trust_annotations = true\ncall_timeout_secs = 3",
    );
    let world = World::start(program!(), granting(&["everything"], &[section])).await;
    world.mcp_ready("everything").await;
    let calls = vec![
        call("everything__echo", json!({"message": "rooks"})),
        call("everything__get-sum", json!({"a": 2, "b": 40})),
        call("everything__get-tiny-image", json!({})),
        call(
            "everything__get-resource-reference",
            json!({"resourceType": "Blob", "resourceId": 2}),
        ),
        call("everything__get-structured-content", json!({"location": "Chicago"})),
    ];
    let (states, texts) = results(&world, "all", calls).await;
    assert_eq!(states, ["succeeded"; 5], "{texts:?}");
    assert!(texts[0].contains("rooks") && texts[1].contains("42"), "{texts:?}");
    let image = texts[2].lines().find(|line| line.contains("kept as ")).unwrap();
    let path = image.rsplit_once("kept as ").unwrap().1.trim_end_matches(']');
    assert!(std::fs::read(world.work(path)).unwrap().starts_with(b"\x89PNG"), "{image}");
    assert!(texts[3].contains("[resource "), "{texts:?}");

    let id = long_call(&world, "kill").await;
    signal_all(&mark, Signal::KILL);
    let killed = world.api.ended(&id).await;
    assert_eq!((killed.text(), killed.call_states()), ("done", vec!["failed"]));
    let texts = result_texts(&world.model.last_request());
    assert!(texts[0].contains("died") && texts[0].contains("may be made again"), "{texts:?}");
    let (states, _) =
        results(&world, "again", vec![call("everything__echo", json!({"message": "x"}))]).await;
    assert_eq!(states, ["succeeded"]);

    let id = long_call(&world, "stop").await;
    signal_all(&mark, Signal::STOP);
    let hung = world.api.ended(&id).await;
    assert_eq!((hung.text(), hung.call_states()), ("done", vec!["failed"]));
    world
        .mcp_when("everything", "its third life", |state| {
            state["status"] == "ready" && state["connections"] == 3
        })
        .await;
    let (states, _) =
        results(&world, "back", vec![call("everything__echo", json!({"message": "y"}))]).await;
    assert_eq!(states, ["succeeded"]);
    world.finish().await;
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
}

#[tokio::test]
async fn the_reference_server_is_driven_over_http_and_comes_back_after_it_was_killed() {
    let Some(peers) = McpPeers::find() else { return };
    let port = free_port();
    let start = || {
        tokio::process::Command::new(peers.node())
            .arg(peers.reference("server-everything"))
            .arg("streamableHttp")
            .env("PORT", port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap()
    };
    let mut server = start();
    let section = format!(
        "[mcp.servers.remote]\nurl = \"http://127.0.0.1:{port}/mcp\"\nheaders = {{ X-Key = \"sesame-4711\" }}\n"
    );
    let world = World::start(program!(), granting(&["remote"], &[section])).await;
    world.mcp_ready("remote").await;
    let echo = |text: &str| vec![call("remote__echo", json!({"message": text}))];
    let (states, texts) = results(&world, "one", echo("over http")).await;
    assert_eq!(states, ["succeeded"]);
    assert!(texts[0].contains("over http"), "{texts:?}");

    server.kill().await.unwrap();
    let (states, texts) = results(&world, "two", echo("nobody hears")).await;
    // I5: the request may have left before the connection broke.
    assert_eq!(states, ["unknown"], "{texts:?}");
    let _server = start();
    world
        .mcp_when("remote", "connected anew", |state| {
            state["status"] == "ready" && state["connections"].as_u64() > Some(1)
        })
        .await;
    let (states, _) = results(&world, "three", echo("again")).await;
    assert_eq!(states, ["succeeded"]);
    world.finish().await;
}

#[tokio::test]
async fn the_filesystem_and_the_python_server_are_driven_side_by_side() {
    let Some(peers) = McpPeers::find() else { return };
    let shared = tempfile::tempdir().unwrap();
    let root = shared.path().canonicalize().unwrap();
    let sections = [
        section(
            "files",
            &peers.node(),
            &[&peers.reference("server-filesystem"), root.to_str().unwrap()],
            "",
        ),
        section("clock", &peers.time(), &["--local-timezone", "Etc/UTC"], "deferred = true"),
    ];
    let world = World::start(program!(), granting(&["files", "clock"], &sections)).await;
    world.mcp_ready("files").await;
    world.mcp_ready("clock").await;
    let path = root.join("note.txt");
    let calls = vec![
        call("files__write_file", json!({"path": path, "content": "remember the milk"})),
        call("files__read_text_file", json!({"path": "/etc/hostname"})),
    ];
    let (states, texts) = results(&world, "write", calls).await;
    assert_eq!(states, ["succeeded", "failed"], "{texts:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "remember the milk");

    // The clock's tools are announced by name only, until they are looked for.
    let convert =
        json!({"source_timezone": "Etc/UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"});
    world.model.script(
        "time",
        [
            Reply::calls([call("tool_search", json!({"query": "convert time"}))]),
            Reply::calls([call("clock__convert_time", convert)]),
            Reply::text("done"),
        ],
    );
    let turn = world.api.say("time", "time").await;
    assert_eq!(turn.call_states(), ["succeeded"; 2]);
    let requests = world.model.requests_for("time");
    assert_eq!(offered_of(&requests[0], "clock"), Vec::<String>::new());
    let prompt = requests[0]["messages"][0]["content"].as_str().unwrap();
    assert!(prompt.contains("clock__convert_time"), "{prompt}");
    assert!(offered_of(&requests[1], "clock").contains(&"clock__convert_time".to_owned()));
    let texts = result_texts(&world.model.last_request());
    assert!(texts.last().unwrap().contains("21:00"), "{texts:?}");

    signal_all("mcp-server-time", Signal::KILL);
    world
        .mcp_when("clock", "its second life", |state| {
            state["status"] == "ready" && state["connections"] == 2
        })
        .await;
    until("its tools are found again", || async {
        world.model.script(
            "more",
            [
                Reply::calls([call(
                    "tool_search",
                    json!({"query": "select:clock__get_current_time"}),
                )]),
                Reply::calls([call("get_current_time", json!({"timezone": "Asia/Tokyo"}))]),
                Reply::text("done"),
            ],
        );
        let turn = world.api.say("more", "more").await;
        if turn.call_states() == ["succeeded"; 2] { Ok(()) } else { Err(format!("{turn:?}")) }
    })
    .await;
    world.finish().await;
}
