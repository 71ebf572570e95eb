//! The store: the SQLite backend, the threads that run it, and the client the actors use.
//!
//! The store's actor forwards requests to [`StoreThreads`] and never waits; one writer thread commits
//! them in groups, readers answer beside it. Everybody else talks to it through a [`StoreClient`].

mod client;
mod readers;
pub mod sqlite;
mod writer;

#[cfg(test)]
mod tests;

pub use client::StoreClient;
pub use readers::ReadReply;
pub use writer::{StoreThreads, WriteReply};
