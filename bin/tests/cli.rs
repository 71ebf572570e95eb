//! The program from outside: exit codes, and what goes to which stream.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs the program in a folder of its own, without this process's settings.
fn rookery(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rookery"))
        .args(args)
        .current_dir(folder)
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn code(folder: &Path, args: &[&str]) -> i32 {
    rookery(folder, args).status.code().unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn usage_errors_are_2_and_help_is_0() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(code(dir.path(), &["--help"]), 0);
    assert_eq!(code(dir.path(), &["--version"]), 0);
    assert_eq!(code(dir.path(), &["no-such-command"]), 2);
    assert_eq!(code(dir.path(), &["chat", "-m", " "]), 2);
    assert_eq!(code(dir.path(), &["turns", "list", "--state", "lost"]), 2);
    assert_eq!(code(dir.path(), &["tree", "--url", "nonsense"]), 2);
}

#[test]
fn a_service_that_is_not_there_is_4() {
    let dir = tempfile::tempdir().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    for command in [&["tree"][..], &["turns", "list"], &["chat", "-m", "hi"], &["doctor"]] {
        let output = rookery(dir.path(), &[command, &["--url", &url]].concat());
        assert_eq!(output.status.code(), Some(4), "{command:?}: {}", err(&output));
    }
}

#[test]
fn a_wrong_configuration_is_1_for_every_command_that_reads_it() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("rookery.toml"), "[gateway]\nlisen = 'x'\n").unwrap();
    let expected = "rookery.toml: line 2: gateway.lisen: unknown key; the nearest known key is `gateway.listen`";
    for command in [&["config", "check"][..], &["config", "show"], &["run"], &["chat"], &["tree"]] {
        let output = rookery(dir.path(), command);
        assert_eq!(output.status.code(), Some(1), "{command:?}");
        assert!(err(&output).contains(expected), "{command:?}: {}", err(&output));
        assert!(!dir.path().join("data").exists(), "{command:?} wrote something");
    }
}

#[test]
fn a_configuration_is_written_checked_and_shown() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(code(dir.path(), &["config", "init"]), 0);
    assert_eq!(code(dir.path(), &["config", "init"]), 1);
    assert_eq!(code(dir.path(), &["config", "check"]), 0);
    let shown = rookery(dir.path(), &["config", "show", "--json"]);
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown["agents"]["home"]["provider"], "demo");
    let schema = rookery(dir.path(), &["config", "schema", "--json"]);
    let schema: serde_json::Value = serde_json::from_slice(&schema.stdout).unwrap();
    assert!(schema.as_array().unwrap().iter().any(|row| row["name"] == "gateway.listen"));
}

#[test]
fn a_chat_does_not_talk_to_a_program_that_is_none_of_ours() {
    let dir = tempfile::tempdir().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let config = format!("[gateway]\nlisten = '{address}'\n");
    std::fs::write(dir.path().join("rookery.toml"), config).unwrap();
    let other = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 1024]).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
    });
    let output = rookery(dir.path(), &["chat", "-m", "hi"]);
    other.join().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("gateway.listen"), "{}", err(&output));
    assert!(output.stdout.is_empty());
}
