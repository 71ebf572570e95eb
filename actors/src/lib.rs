//! Rookery's worker actors and the runtime layer they stand on.

pub mod store;
