//! What a call may do: the access gate, the path gate, shell commands, and what people are shown of it.
//!
//! One gate for every tool and one path gate for every file: a rule that stands twice is a rule that
//! differs (A094).

pub mod arguments;
pub mod cover;
pub mod display;
pub mod gate;
mod nearest;
pub mod network;
pub mod paths;
pub mod programs;
pub mod rate;
pub mod redact;
pub mod shell;
pub mod taint;

pub use nearest::nearest;
