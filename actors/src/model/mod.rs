//! Model providers: wire protocols, their streams and errors, and the check of what is sent to them.

pub mod demo;
pub mod error;
pub mod factory;
pub mod openai;
pub mod sse;
pub mod wire_check;
