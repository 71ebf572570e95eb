//! The gateway's actor: owns the serve loop, every HTTP connection as a task, every WebSocket as a child.
//!
//! Supervised below `service`. Connections are bounded by places that the serve loop takes before it
//! accepts. Told to stop, it accepts nothing more, lets requests in hand end, tells WebSocket clients to
//! come back, and ends when all are gone or its deadline comes. A restart serves on the same listener.

use std::net::TcpListener;
use std::sync::Arc;

use axum::extract::ws::WebSocket;
use rookery_messages::address::Message;
use rookery_messages::exit::{ActorError, StopReason};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::connection::{Connection, ConnectionArgs, Terms};
use super::deps::{GatewayDeps, Shared};
use super::follow::Opening;
use super::guard::Peer;
use super::socket::SocketPlace;
use super::{routes, serve};
use crate::runtime::{ChildExit, Ctx, SpawnSpec, Supervised};

/// New conversations that are kept for connections to hear of.
const BIRTHS: usize = 64;

/// What the gateway takes.
pub enum GatewayMsg {
    /// A connection came in; its place is given back when it ends.
    Accepted {
        /// The connection.
        stream: TcpStream,
        /// Who.
        peer: std::net::SocketAddr,
        /// Its place.
        place: OwnedSemaphorePermit,
    },
    /// A connection's task is over.
    HttpClosed,
    /// A connection became a WebSocket.
    Upgraded(Box<Upgraded>),
    /// The serve loop can't go on.
    ServeEnded(String),
}

/// A fresh WebSocket.
pub struct Upgraded {
    pub(super) socket: WebSocket,
    pub(super) terms: Terms,
    pub(super) place: SocketPlace,
    pub(super) opening: Opening,
}

impl Message for GatewayMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Accepted { .. } => "Accepted",
            Self::HttpClosed => "HttpClosed",
            Self::Upgraded(_) => "Upgraded",
            Self::ServeEnded(_) => "ServeEnded",
        }
    }
}

/// What it is built from.
#[derive(Clone)]
pub struct GatewayArgs {
    /// What it is wired to.
    pub deps: Arc<GatewayDeps>,
    /// The bound listener, non-blocking, shared by all incarnations.
    pub listener: Arc<TcpListener>,
}

/// The capacity its mailbox needs: a connection's task keeps the place of the message it came by.
pub const MAILBOX: usize = serve::MAX_HTTP + 256;

/// The actor.
pub struct Gateway;

/// What it knows.
pub struct GatewayState {
    shared: Arc<Shared>,
    app: axum::Router,
    http: usize,
    served: u64,
}

impl Supervised for Gateway {
    const KIND: &'static str = "gateway";
    type Msg = GatewayMsg;
    type Args = GatewayArgs;
    type State = GatewayState;

    fn start(ctx: &mut Ctx<Self>, args: GatewayArgs) -> Result<GatewayState, ActorError> {
        let unusable = |error: std::io::Error| {
            ActorError::transient(format!("the listener is unusable: {error}"))
        };
        let local = args.listener.local_addr().map_err(unusable)?;
        let listener = args.listener.try_clone().map_err(unusable)?;
        let shared = Arc::new(Shared {
            deps: args.deps,
            local,
            gateway: ctx.address(),
            sockets: Arc::default(),
            births: tokio::sync::broadcast::Sender::new(BIRTHS),
            closing: CancellationToken::new(),
        });
        let accept = serve::accept(listener, ctx.address(), shared.closing.clone());
        ctx.task(async move { accept.await.err().map(GatewayMsg::ServeEnded) });
        let app = routes::build(&shared);
        Ok(GatewayState { shared, app, http: 0, served: 0 })
    }

    async fn handle(
        ctx: &mut Ctx<Self>,
        state: &mut GatewayState,
        message: GatewayMsg,
    ) -> Result<(), ActorError> {
        match message {
            GatewayMsg::Accepted { stream, peer, place } => {
                if ctx.stopping().is_some() {
                    return Ok(());
                }
                let closing = state.shared.closing.clone();
                let connection = serve::connection(stream, Peer(peer), state.app.clone(), closing);
                let started = ctx.task(async move {
                    connection.await;
                    drop(place);
                    Some(GatewayMsg::HttpClosed)
                });
                if started.is_some() {
                    state.http += 1;
                    state.served += 1;
                }
            }
            GatewayMsg::HttpClosed => state.http = state.http.saturating_sub(1),
            GatewayMsg::Upgraded(upgraded) => {
                if ctx.stopping().is_some() {
                    return Ok(());
                }
                let Upgraded { socket, terms, place, opening } = *upgraded;
                let name = ctx.world().ids.next().to_string();
                let args = ConnectionArgs {
                    shared: Arc::clone(&state.shared),
                    socket,
                    terms,
                    place,
                    opening,
                };
                if let Err(error) = ctx.spawn::<Connection>(SpawnSpec::new(name), args).await {
                    tracing::warn!(%error, "a WebSocket connection could not be taken");
                }
            }
            GatewayMsg::ServeEnded(cause) => return Err(ActorError::transient(cause)),
        }
        end_if_done(ctx, state);
        Ok(())
    }

    async fn child_exited(
        ctx: &mut Ctx<Self>,
        state: &mut GatewayState,
        _: ChildExit,
    ) -> Result<(), ActorError> {
        end_if_done(ctx, state);
        Ok(())
    }

    async fn stop_requested(
        ctx: &mut Ctx<Self>,
        state: &mut GatewayState,
        reason: &StopReason,
    ) -> Result<(), ActorError> {
        state.shared.closing.cancel();
        ctx.stop_children(reason);
        end_if_done(ctx, state);
        Ok(())
    }

    fn observe(state: &GatewayState) -> Value {
        json!({
            "listen": state.shared.local.to_string(),
            "http": state.http,
            "websockets": state.shared.sockets.load(std::sync::atomic::Ordering::Relaxed),
            "served": state.served,
        })
    }
}

fn end_if_done(ctx: &mut Ctx<Gateway>, state: &GatewayState) {
    if ctx.stopping().is_some() && state.http == 0 && ctx.children().next().is_none() {
        ctx.end();
    }
}
