//! The gateway: HTTP, WebSocket, the chat page, the admin API (DESIGN.md, section 7).
//!
//! One supervised actor owns the listener's serve loop and every HTTP connection as its tasks; each
//! WebSocket is a child actor whose socket a task holds. Every request passes, from outside in: the
//! version header, error bodies and the catch for panics, the guard of `Host` and `Origin`, the length
//! limit, then authentication, which leaves a [`rookery_messages::caller::Caller`] for the handlers.
//!
//! # Who may do what
//!
//! | caller | may |
//! |---|---|
//! | nobody | the page; `/livez`, `/readyz`, `/metrics` from loopback; a signed webhook; on loopback an unsigned one |
//! | role `chat` | `/v1`: what it created itself |
//! | role `viewer` | read all |
//! | role `operator` | also decide approvals and pairings, cancel, pause, send, handle dead letters |
//! | role `admin` | also stop, kill, restart |
//!
//! Without configured tokens a loopback caller without one is `local` with role `chat`. Its own are all
//! turns of `cli`, `ws` and of webhooks without a secret: whoever sits at the machine is one person. A
//! *token* of role `chat` owns the conversations it began, which are stored under its name
//! ([`crate::channel::scope`]). What is not a caller's own looks to it as if it did not exist.

mod access;
mod actor;
mod admin;
mod approvals;
mod auth;
mod cancel;
mod connection;
mod control;
mod conversations;
mod deps;
mod error;
mod events;
mod extract;
mod follow;
mod frames;
mod grants;
mod guard;
mod hooks;
mod leftover;
mod listen;
mod page;
mod pairings;
mod probes;
mod receipts;
mod routes;
mod send;
mod serve;
mod snapshot;
mod socket;
mod stall;
mod turns;
mod ws;

#[cfg(test)]
mod tests;

pub use actor::{Gateway, GatewayArgs, GatewayMsg, MAILBOX};
pub use auth::{TokenError, Tokens, ensure_admin_token};
pub use deps::{Component, GatewayDeps, Probes, Readiness};
pub use error::ApiError;
pub use extract::{ApiJson, ApiQuery};
pub use listen::{ListenError, listen};
