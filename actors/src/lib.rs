//! Rookery's worker actors, and the runtime layer they stand on.

pub mod channel;
pub mod gateway;
pub mod observe;
pub mod policy;
pub mod runtime;
pub mod store;
pub mod tool;
