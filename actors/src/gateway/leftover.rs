//! What a client still sends after its answer: read and thrown away, within bounds.
//!
//! Many answers don't need the body: a wrong path, a missing token, a body that is too large. Closing a
//! connection while bytes of it wait unread makes the system reset it, and the reset overtakes the
//! answer: the client sees a broken pipe instead of what is wrong (RFC 9112, section 9.6). So a body that
//! nobody reads to its end is taken over here, beside the answer, which is not held back for it.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header;
use futures_util::StreamExt;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Most bytes that are thrown away for one request …
const MAX_BYTES: u64 = 16 * 1_024 * 1_024;
/// … and the longest time.
const MAX_TIME: Duration = Duration::from_secs(5);

/// Where unread bodies of one connection go. HTTP/1.1 has one request at a time, so one at most waits.
pub(super) fn channel() -> (mpsc::Sender<Incoming>, mpsc::Receiver<Incoming>) {
    mpsc::channel(1)
}

/// A request whose body is handed to `leftover` if nobody reads it to its end.
pub(super) fn watched(
    request: hyper::Request<Incoming>,
    leftover: &mpsc::Sender<Incoming>,
) -> hyper::Request<Body> {
    // Such a client waits for our word before it sends the body. Reading would be that word.
    let waits = request.headers().contains_key(header::EXPECT);
    request.map(|body| {
        if waits || HttpBody::is_end_stream(&body) {
            Body::new(body)
        } else {
            Body::new(Watched { body: Some(body), leftover: leftover.clone() })
        }
    })
}

struct Watched {
    /// Gone once it was read to its end, or broke.
    body: Option<Incoming>,
    leftover: mpsc::Sender<Incoming>,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let polled = Pin::new(body).poll_frame(cx);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.body = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(body) = self.body.take().filter(|body| !HttpBody::is_end_stream(body)) {
            // A connection that has ended takes nothing; there is nobody left to read from.
            let _ = self.leftover.try_send(body);
        }
    }
}

/// Reads what is handed over for as long as the connection lives: polled beside it, never done.
pub(super) async fn discard(
    mut leftover: mpsc::Receiver<Incoming>,
    closing: &CancellationToken,
) -> Infallible {
    while let Some(body) = leftover.recv().await {
        let end = closing.run_until_cancelled(tokio::time::timeout(MAX_TIME, read_up(body)));
        // Past a limit the body is dropped, which closes the connection once the answer is out.
        let _either_way_over = end.await;
    }
    std::future::pending().await
}

async fn read_up(body: Incoming) {
    let mut left = MAX_BYTES;
    let mut data = Body::new(body).into_data_stream();
    while let Some(Ok(bytes)) = data.next().await {
        left = left.saturating_sub(bytes.len() as u64);
        if left == 0 {
            return;
        }
    }
}
