//! Model calls: the call's actor, the profile's actor, the providers with their wire protocols, and the
//! check of what is sent to them.

mod actor;
mod anthropic;
pub mod ceiling;
pub mod demo;
pub mod embeddings;
pub mod error;
pub mod factory;
pub mod gallery;
mod gemini;
mod health;
mod http;
mod offer;
mod ollama;
mod openai;
mod provider_actor;
mod responses;
mod schema;
mod sight;
pub mod sse;
mod stream;
pub mod text;
mod wire;
pub mod wire_check;

#[cfg(test)]
mod generated_tests;
#[cfg(test)]
mod history_tests;
#[cfg(test)]
mod image_tests;
#[cfg(test)]
mod recorded_tests;
#[cfg(test)]
mod testing;

pub use actor::{ModelActor, ModelArgs, ModelCall, ProfileRef};
pub use ceiling::Ceiling;
pub use provider_actor::{ProviderActor, ProviderArgs};
pub use sight::Sight;
