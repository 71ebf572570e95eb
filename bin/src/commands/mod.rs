//! Commands that do one thing and end.

pub mod config;
pub mod doctor;
pub mod mcp;
mod memory;
pub mod policy;
pub mod remote;
