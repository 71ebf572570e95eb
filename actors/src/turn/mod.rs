//! The turn: a pure machine, the actor that performs what it says, and one module a step (R16).

mod actor;
mod asking;
pub mod budget;
mod bundle;
pub mod delegate;
mod fit;
pub mod loops;
pub mod machine;
mod narrowing;
mod prepare;
mod question;
mod recall;
pub mod recover;
pub(crate) mod relay;
mod tools;
mod vision;
pub mod window;

pub use actor::{TurnActor, TurnArgs};
pub use asking::posted as posted_request;
pub use bundle::{AgentBundle, AskedAt, AskedChat, ChannelFacts, StoredProcesses, TurnDeps};
pub use fit::Anchor;
pub use narrowing::Narrowing;
pub use prepare::Judge;
pub use recall::MemoryAccess;
pub use relay::remainder;
pub use tools::TurnTools;
