//! What Rookery's actors say to each other, and the contracts that others implement.
//!
//! Data, message enums and traits; no I/O and no business logic. Whoever writes a channel adapter, a
//! tool or a model provider depends on this crate alone. One noun a file.

pub mod address;
pub mod approval;
pub mod attachment;
pub mod caller;
pub mod channel;
pub mod chat;
pub mod child;
pub mod delegation;
pub mod envelope;
pub mod event;
pub mod exit;
pub mod hook;
pub mod ids;
pub mod invariant;
pub mod journal;
pub mod memory;
pub mod model;
pub mod observe;
pub mod pairing;
pub mod progress;
pub mod receipt;
pub mod session;
pub mod settings;
pub mod store;
pub mod time;
pub mod tool;
pub mod tree;
pub mod turn;

pub use futures_util::future::BoxFuture;
