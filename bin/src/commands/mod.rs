//! Commands that do one thing and end.

pub mod backup;
pub mod config;
pub mod doctor;
pub mod mcp;
mod memory;
pub mod policy;
pub mod remote;
mod sessions;
mod top;
