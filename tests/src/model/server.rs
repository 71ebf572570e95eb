//! The HTTP side: one route, bodies played step by step.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, Response, StatusCode};
use axum::routing::post;
use futures_util::Stream;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::reply::{Reply, Step};
use super::{Fate, Shared};

pub(super) async fn serve(shared: Arc<Shared>) -> (SocketAddr, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = Router::new()
        .route("/v1/chat/completions", post(complete))
        .layer(DefaultBodyLimit::disable())
        .with_state(shared);
    let server = tokio::spawn(async move {
        let _ = axum::serve(crate::without_delay(listener), app).await;
    });
    (address, server)
}

async fn complete(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let Ok(body) = serde_json::from_slice(&body) else {
        shared.book.lock().violations.push("a request body that is no JSON".to_owned());
        let mut refusal = Response::new(Body::from("no JSON"));
        *refusal.status_mut() = StatusCode::BAD_REQUEST;
        return refusal;
    };
    let authorization = headers.get("authorization").and_then(|value| value.to_str().ok());
    let (reply, fate) = shared.answer(body, authorization.unwrap_or_default());
    let Reply { status, headers, steps } = reply;
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(name, value);
    }
    response.body(Body::from_stream(play(steps, FateGuard(fate)))).unwrap()
}

/// Says `Dropped` unless the body was played to its end.
struct FateGuard(watch::Sender<Fate>);

impl FateGuard {
    fn sent(&self) {
        self.0.send_replace(Fate::Sent);
    }
}

impl Drop for FateGuard {
    fn drop(&mut self) {
        self.0.send_if_modified(|fate| {
            let cut_short = *fate == Fate::Streaming;
            if cut_short {
                *fate = Fate::Dropped;
            }
            cut_short
        });
    }
}

fn play(
    steps: VecDeque<Step>,
    guard: FateGuard,
) -> impl Stream<Item = Result<Bytes, std::io::Error>> {
    futures_util::stream::unfold((steps, guard), |(mut steps, guard)| async move {
        loop {
            match steps.pop_front() {
                None => {
                    guard.sent();
                    return None;
                }
                Some(Step::Bytes(bytes)) => return Some((Ok(bytes), (steps, guard))),
                Some(Step::Gate(gate)) => gate.pass().await,
                Some(Step::Hang) => std::future::pending().await,
                Some(Step::Cut) => {
                    // One pause, so that what came before is on the wire.
                    tokio::task::yield_now().await;
                    guard.sent();
                    let cut = std::io::Error::other("the script breaks the connection");
                    return Some((Err(cut), (VecDeque::new(), guard)));
                }
            }
        }
    })
}
