//! The store: the SQLite backend, the threads that run it, and the client the actors use.
//!
//! The store's actor forwards requests to [`StoreThreads`] and never waits; one writer thread commits
//! them in groups, readers answer beside it. Everybody else talks to it through a [`StoreClient`].

mod actor;
mod client;
mod patient;
mod readers;
pub mod sqlite;
mod writer;

#[cfg(test)]
mod tests;

pub use actor::{OpenStore, OpenedStore, StoreActor};
pub use client::StoreClient;
pub use patient::{commit_patiently, return_claim};
pub use readers::ReadReply;
pub use writer::{StoreThreads, WriteReply};
