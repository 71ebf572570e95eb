//! Model calls: the call's actor, the profile's actor, the providers with their wire protocols, and the
//! check of what is sent to them.

mod actor;
pub mod demo;
pub mod error;
pub mod factory;
pub mod openai;
mod provider_actor;
pub mod sse;
pub mod text;
pub mod wire_check;

pub use actor::{ModelActor, ModelArgs, ModelCall, ProfileRef};
pub use provider_actor::{ProviderActor, ProviderArgs};
