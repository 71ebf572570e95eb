//! Rookery's worker actors and the runtime layer they stand on.

pub mod policy;
pub mod tool;
