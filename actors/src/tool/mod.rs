//! Tools: the registry, the built-in ones, and what they stand on.

pub mod builtin;
pub mod process;
pub mod registry;
#[cfg(test)]
pub(crate) mod testing;
pub mod truncate;
