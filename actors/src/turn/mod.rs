//! The turn: a pure machine, the actor that performs what it says, and one module a step (R16).

pub mod machine;
pub mod recover;
pub mod window;
