//! The turn: a pure machine, the actor that performs what it says, and one module a step (R16).

mod actor;
mod bundle;
pub mod machine;
mod prepare;
pub mod recover;
mod relay;
mod tools;
pub mod window;

pub use actor::{TurnActor, TurnArgs};
pub use bundle::{AgentBundle, ChannelFacts, StoredProcesses, TurnDeps};
pub use prepare::Judge;
pub use relay::remainder;
pub use tools::TurnTools;
