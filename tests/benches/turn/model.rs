//! The model of both: 20 deltas a reply, or a tool call while there are fewer results than asked for.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::Response;
use axum::routing::{get, post};
use parking_lot::Mutex;
use serde_json::json;
use tokio::net::TcpListener;

use crate::DELTAS;

/// Sizes of the request bodies since they were asked for last.
type Sizes = Arc<Mutex<Vec<usize>>>;

/// Runs until it is killed; its first line of output is its address.
pub async fn serve() {
    let sizes = Sizes::default();
    let app = Router::new()
        .route("/v1/chat/completions", post(complete))
        .route("/sizes", get(take_sizes))
        .layer(DefaultBodyLimit::disable())
        .with_state(sizes);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("http://{}", listener.local_addr().unwrap());
    axum::serve(rookery_tests::without_delay(listener), app).await.unwrap();
}

async fn take_sizes(State(sizes): State<Sizes>) -> String {
    json!(std::mem::take(&mut *sizes.lock())).to_string()
}

async fn complete(State(sizes): State<Sizes>, body: Bytes) -> Response<Body> {
    sizes.lock().push(body.len());
    let chunks = if wants_call(&body) { call(count(&body, b"\"role\":\"tool\"")) } else { text() };
    let stream = futures_util::stream::iter(chunks.into_iter().map(Ok::<_, std::io::Error>));
    Response::builder()
        .header("content-type", "text/event-stream")
        .body(Body::from_stream(stream))
        .unwrap()
}

fn chunk(delta: serde_json::Value, finish: Option<&str>) -> Bytes {
    let data = json!({
        "id": "x", "object": "chat.completion.chunk", "created": 0, "model": "mock",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]
    });
    format!("data: {data}\n\n").into()
}

fn text() -> Vec<Bytes> {
    let mut chunks: Vec<Bytes> =
        (0..DELTAS).map(|n| chunk(json!({"content": format!("word {n} ")}), None)).collect();
    chunks.push(chunk(json!({}), Some("stop")));
    chunks.push("data: [DONE]\n\n".into());
    chunks
}

fn call(number: usize) -> Vec<Bytes> {
    let call = json!({
        "index": 0, "id": format!("call_{number}"), "type": "function",
        "function": {"name": "time", "arguments": "{}"}
    });
    vec![
        chunk(json!({"tool_calls": [call]}), None),
        chunk(json!({}), Some("tool_calls")),
        "data: [DONE]\n\n".into(),
    ]
}

/// The last message asks for `steps:<n>;` and there are fewer results than that.
fn wants_call(body: &[u8]) -> bool {
    let Some(at) = find_last(body, b"steps:") else { return false };
    let digits = body[at + 6..].iter().take_while(|byte| byte.is_ascii_digit());
    let wanted = digits.fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'));
    count(body, b"\"role\":\"tool\"") < wanted
}

fn count(body: &[u8], part: &[u8]) -> usize {
    body.windows(part.len()).filter(|window| *window == part).count()
}

fn find_last(body: &[u8], part: &[u8]) -> Option<usize> {
    body.windows(part.len()).rposition(|window| window == part)
}
