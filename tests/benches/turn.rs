//! A whole turn beside a bare loop: webhook in, a model's 20 streamed deltas, reply.
//!
//! `cargo bench -p rookery-tests --bench turn`. The service, the bare loop and the model each run in a
//! process of their own; both servers get the same client, the same model and the same profile. Numbers are
//! printed, not asserted: only the idle memory has a limit that fails the run.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a bench is no actor, and fails at the place of the fault"
)]

#[path = "turn/bare.rs"]
mod bare;
#[path = "turn/measure.rs"]
mod measure;
#[path = "turn/model.rs"]
mod model;
#[path = "turn/steps.rs"]
mod steps;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use measure::{Load, Round};
use rookery_tests::service::{ServiceProcess, free_port};
use rookery_tests::{Config, program};

/// Deltas of each reply.
const DELTAS: usize = 20;
/// How often service and bare loop take turns; the ratio is the middle one's.
const ROUNDS: usize = 5;
/// How long it is left alone before its idle memory is read.
const SETTLE: Duration = Duration::from_secs(2);
/// Idle memory the service may take, in KiB.
const IDLE_KIB: u64 = 25 * 1024;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    match args.get(1).map(String::as_str) {
        Some("serve-model") => runtime.block_on(model::serve()),
        Some("serve-bare") => runtime.block_on(bare::serve(&args[2])),
        _ => runtime.block_on(bench()),
    }
}

/// One of this program's other selves; ends with the handle.
struct Helper {
    child: Child,
    base: String,
}

impl Drop for Helper {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Helper {
    fn start(args: &[&str]) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, base: line.trim().to_owned() }
    }
}

async fn bench() {
    let model = Helper::start(&["serve-model"]);
    let bare = Helper::start(&["serve-bare", &model.base]);
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("work")).unwrap();
    let port = free_port();
    let config = Config::new()
        .sessions("idle_secs = 60")
        .webhook("queue_limit = 1000")
        .runtime("max_tool_iterations = 50")
        .runtime("duplicate_guard = false")
        // The steps are the same call again and again.
        .runtime("loop_detection = { enabled = false }");
    let text = config.render(dir.path(), port, &format!("{}/v1", model.base));
    std::fs::write(dir.path().join("rookery.toml"), text).unwrap();
    let mut service = ServiceProcess::start(program!().as_ref(), dir.path(), port).await;
    // What the first look at it brought up is gone by then.
    tokio::time::sleep(SETTLE).await;
    let idle = service.level();

    let ours = Load::webhook(&format!("http://127.0.0.1:{port}"));
    let theirs = Load::bare(&bare.base);
    for load in [&ours, &theirs] {
        load.run(32, 400).await;
    }
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let alone = (ours.run(1, 150).await, theirs.run(1, 150).await);
        let many = (ours.run(32, 1_600).await, theirs.run(32, 1_600).await);
        rounds.push(Round { alone, many });
    }
    println!("one turn: webhook in, {DELTAS} streamed deltas, reply; durability `process`");
    measure::report(&rounds);
    steps::report(&ours, &model.base).await;
    println!("idle memory: {} KiB, limit {IDLE_KIB}", idle.rss_kib);
    let ended = service.term(Duration::from_secs(30)).await;
    assert_eq!(ended.code, Some(0), "{}", service.log_tail(20));
    assert!(idle.rss_kib < IDLE_KIB, "the idle service takes {} KiB", idle.rss_kib);
}
