//! Tools: the registry, the built-in ones, and what they stand on.

pub mod builtin;
pub mod process;
pub mod registry;
pub mod truncate;
