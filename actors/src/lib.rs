//! Rookery's worker actors, and the runtime layer they stand on.

pub mod approval;
pub mod channel;
pub mod embed;
pub mod gateway;
#[cfg(test)]
mod generated;
pub mod hook;
mod media;
pub mod memory;
pub mod model;
pub mod observe;
pub mod outbound;
pub mod policy;
pub mod runtime;
pub mod session;
pub mod starters;
pub mod store;
pub mod tool;
pub mod turn;

pub use embed::Agent;
