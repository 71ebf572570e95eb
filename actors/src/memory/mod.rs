//! Memory: what is remembered from one conversation to the next (R5, R6, R11).
//!
//! A backend ([`rookery_messages::memory::Memory`]) keeps and finds entries; the built-in one is SQLite with
//! FTS5. The actor `root/service/memory` owns it. Turns are told what has to do with their message
//! (`turn/recall`), by the policy of their origin and through the one renderer; the tools read and write
//! on the model's wish; the admin routes are the operators'.

mod actor;
mod client;
mod hybrid;
mod meaning;
mod policy;
mod render;
mod routes;
mod score;
pub mod sqlite;
pub mod tools;
mod words;

pub use actor::{MemoryActor, MemoryArgs, OpenMemory};
pub use client::{MemoryClient, MemoryLink};
pub use hybrid::{HybridArgs, HybridMemory};
pub use meaning::{Embedder, Likeness, MAX_DIMENSIONS};
pub use policy::{Injection, injection};
pub use render::{Block, Floor, arranged, render};
pub use routes::{AuditHook, router};
