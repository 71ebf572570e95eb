//! `/stop` while a thousand conversations are busy: from the request to the turn's durable, announced end.
//!
//! `cargo bench -p rookery-tests --bench stop`. The service and the model each run in a process of their own;
//! every turn is in the middle of a stream that never ends. Numbers are printed, not asserted.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a bench is no actor, and fails at the place of the fault"
)]

use std::convert::Infallible;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::Response;
use axum::routing::post;
use futures_util::StreamExt;
use rookery_tests::api::{fresh_id, message};
use rookery_tests::service::{ServiceProcess, free_port};
use rookery_tests::{Api, Config, program};
use serde_json::json;
use tokio::time::Instant;

/// Conversations with a turn that runs.
const SESSIONS: usize = 1_000;
/// Turns that are stopped, one after the other.
const STOPS: usize = 100;
/// Each stream says something so often.
const PERIOD: Duration = Duration::from_millis(500);
const TARGET: Duration = Duration::from_millis(100);

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    match std::env::args().nth(1).as_deref() {
        Some("serve-model") => runtime.block_on(serve()),
        _ => runtime.block_on(bench()),
    }
}

/// The model's process; ends with the handle.
struct Model {
    child: Child,
    base: String,
}

impl Drop for Model {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Model {
    fn start() -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg("serve-model")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, base: line.trim().to_owned() }
    }
}

async fn serve() {
    let app = Router::new().route("/v1/chat/completions", post(talk));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("http://{}", listener.local_addr().unwrap());
    axum::serve(rookery_tests::without_delay(listener), app).await.unwrap();
}

/// Talks for ever.
async fn talk() -> Response<Body> {
    let data = json!({
        "id": "x", "object": "chat.completion.chunk", "created": 0, "model": "mock",
        "choices": [{"index": 0, "delta": {"content": "word "}, "finish_reason": null}]
    });
    let chunk = Bytes::from(format!("data: {data}\n\n"));
    let words = futures_util::stream::unfold(true, move |first| {
        let chunk = chunk.clone();
        async move {
            if !first {
                tokio::time::sleep(PERIOD).await;
            }
            Some((Ok::<_, Infallible>(chunk), false))
        }
    });
    Response::builder()
        .header("content-type", "text/event-stream")
        .body(Body::from_stream(words.boxed()))
        .unwrap()
}

async fn bench() {
    let model = Model::start();
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("work")).unwrap();
    let port = free_port();
    let config = Config::new().provider("max_concurrency = 2000");
    let text = config.render(dir.path(), port, &format!("{}/v1", model.base));
    std::fs::write(dir.path().join("rookery.toml"), text).unwrap();
    let mut service = ServiceProcess::start(program!().as_ref(), dir.path(), port).await;
    let api = Api::new(&format!("http://127.0.0.1:{port}"), None);

    let mut turns = Vec::new();
    for n in 0..SESSIONS {
        turns.push(api.tell(&format!("c{n}"), "talk").await);
    }
    for turn in &turns {
        let mut events = api.events(turn).await;
        events.until("delta").await;
    }
    let mut took = Vec::new();
    for n in (0..SESSIONS).step_by(SESSIONS / STOPS) {
        let mut events = api.events(&turns[n]).await;
        let body = message(&fresh_id(), &format!("c{n}"), "/stop");
        let began = Instant::now();
        let stop = api.post("/v1/channels/webhook/ci", &body);
        let (answer, seen) = tokio::join!(stop, events.until("ended"));
        took.push(began.elapsed());
        assert_eq!(answer.body["reply"], "stopped", "{answer:?}");
        assert_eq!(seen.last().unwrap()["outcome"], "cancelled");
    }
    took.sort();
    let (median, worst) = (took[took.len() / 2], took[took.len() - 1]);
    let verdict = if median <= TARGET { "met" } else { "MISSED" };
    println!("/stop with {SESSIONS} busy conversations, {STOPS} times; durability `process`");
    println!("cancelled after {median:.1?} at the median, {worst:.1?} at most");
    println!("target at the median <= {TARGET:?}: {verdict}");
    for turn in &turns {
        api.cancel(turn).await;
    }
    let ended = service.term(Duration::from_secs(30)).await;
    assert_eq!(ended.code, Some(0), "{}", service.log_tail(20));
}
