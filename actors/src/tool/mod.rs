//! Tools: one actor an invocation, the collector of a batch, the registry, and the built-in ones.

mod actor;
pub mod builtin;
pub mod collector;
pub mod mcp;
pub mod process;
pub mod receipts;
pub mod registry;
pub mod schema;
#[cfg(test)]
pub(crate) mod testing;
pub mod truncate;

pub use actor::{ToolActor, ToolArgs};
