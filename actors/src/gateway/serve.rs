//! The serve loop and one HTTP/1.1 connection.
//!
//! `axum::serve` would start its connections outside the tree and give headers any time they like.

use std::convert::Infallible;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use futures_util::FutureExt;
use futures_util::future::{Either, select};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rookery_messages::address::{Address, SendError};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::actor::GatewayMsg;
use super::guard::Peer;
use super::leftover;
use super::stall::Impatient;

/// HTTP connections at once; more wait in the listener's backlog.
pub(super) const MAX_HTTP: usize = 2_048;
/// A request's head has to be there within this time; an idle connection ends after it.
const HEAD_LIMIT: Duration = Duration::from_secs(30);
/// Largest request head, in bytes.
const MAX_HEAD: usize = 64 * 1_024;
/// Delay after the system could not give us a connection.
const ACCEPT_DELAY: Duration = Duration::from_millis(200);

/// Accepts until told to close. An error means that the listener is gone.
pub(super) async fn accept(
    listener: std::net::TcpListener,
    gateway: Address<GatewayMsg>,
    closing: CancellationToken,
) -> Result<(), String> {
    let listener = TcpListener::from_std(listener)
        .map_err(|error| format!("the listener can't be served: {error}"))?;
    let places = Arc::new(Semaphore::new(MAX_HTTP));
    let serve = async {
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file handles, or the client is gone already: both pass.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_DELAY).await;
                    continue;
                }
            };
            let _only_slower = stream.set_nodelay(true);
            match gateway.send(GatewayMsg::Accepted { stream, peer, place }).await {
                Ok(()) => {}
                Err(SendError::Closed(_)) => return,
                // Dropping the message closes the connection; its client tries again.
                Err(_) => tokio::task::yield_now().await,
            }
        }
    };
    // The listener is dropped at once: what comes now waits for the next incarnation.
    closing.run_until_cancelled(serve).await;
    Ok(())
}

/// Serves one connection to its end. Never panics, whatever is inside.
pub(super) fn connection(
    stream: TcpStream,
    peer: Peer,
    app: axum::Router,
    closing: CancellationToken,
) -> impl Future<Output = ()> + Send {
    let inner = TowerToHyperService::new(app);
    let (unread, left) = leftover::channel();
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let mut request = leftover::watched(request, &unread);
        request.extensions_mut().insert(peer);
        let answer = inner.call(request);
        async move {
            let response: Result<Response, Infallible> = answer.await;
            response
        }
    });
    async move {
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_LIMIT)
            .max_buf_size(MAX_HEAD)
            .serve_connection(TokioIo::new(Impatient::new(stream)), service)
            .with_upgrades();
        let served = AssertUnwindSafe(async move {
            let mut connection = pin!(connection);
            let mut unread = pin!(leftover::discard(left, &closing));
            let served = closing.run_until_cancelled(select(connection.as_mut(), unread.as_mut()));
            // A client that broke off is no concern of ours.
            if served.await.is_none() {
                connection.as_mut().graceful_shutdown();
                match select(connection, unread).await {
                    Either::Left(_ended) => {}
                    Either::Right((never, _)) => match never {},
                }
            }
        });
        if served.catch_unwind().await.is_err() {
            tracing::error!("a connection panicked");
        }
    }
}
