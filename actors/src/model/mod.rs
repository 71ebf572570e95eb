//! Model calls: the call's actor, the profile's actor, the providers.

mod actor;
mod provider_actor;

pub use actor::{ModelActor, ModelArgs, ModelCall, ProfileRef};
pub use provider_actor::{ProviderActor, ProviderArgs};
