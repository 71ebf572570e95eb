//! The engine inside another Rust program: [`Agent`].
//!
//! The same turns as the service's (R15), on the same store, with the caller's own provider and tools;
//! no gateway and no channels. See [`AgentBuilder`] for what can be chosen.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use rookery_actors::Agent;
//! use rookery_actors::model::demo::DemoProvider;
//! use rookery_messages::event::TurnEventKind;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), rookery_actors::embed::EmbedError> {
//! let agent = Agent::builder(Arc::new(DemoProvider::new(Duration::ZERO)))
//!     .system_prompt("You are brief.")
//!     .build()
//!     .await?;
//!
//! // Events as they come …
//! let mut turn = agent.send("a conversation", "hello").await?;
//! let mut text = String::new();
//! while let Some(event) = turn.next().await {
//!     if let TurnEventKind::Delta { text: more } = event {
//!         text.push_str(&more);
//!     }
//! }
//!
//! // … or only how it ended. Dropping a turn that runs, or `turn.cancel()`, stops it.
//! let answer = agent.send("a conversation", "and again").await?.finish().await?;
//! assert_eq!(answer.outcome, rookery_messages::turn::Outcome::Answered);
//! assert!(!text.is_empty() && answer.reply.is_some());
//! agent.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! Provider, tools and memory are trait objects: [`ModelProvider`], [`Tool`] and [`Memory`] of
//! `rookery-messages`, in any number of implementations. An agent [remembers](AgentBuilder::remembers) in a
//! database by itself; this one knows what a program of its own has to say:
//!
//! ```
//! use std::sync::Arc;
//!
//! use futures_util::stream;
//! use rookery_actors::Agent;
//! use rookery_messages::BoxFuture;
//! use rookery_messages::ids::{AgentName, MemoryId};
//! use rookery_messages::memory::*;
//! use rookery_messages::model::*;
//!
//! /// Says again what it is told.
//! struct Echo;
//!
//! impl ModelProvider for Echo {
//!     fn kind(&self) -> &str {
//!         "echo"
//!     }
//!     fn model(&self) -> &str {
//!         "echo-1"
//!     }
//!     fn stream(&self, request: ModelRequest) -> BoxFuture<'_, Result<ModelStream, ModelError>> {
//!         let told = request.messages.last().map(|it| it.text().to_owned()).unwrap_or_default();
//!         let end = ModelDelta::Ended { calls: vec![], finish: FinishReason::Stop };
//!         let deltas = [Ok(ModelDelta::Text(told)), Ok(end)];
//!         Box::pin(async { Ok(Box::pin(stream::iter(deltas)) as ModelStream) })
//!     }
//! }
//!
//! /// What the house rules say. Nobody changes them here.
//! struct HouseRules;
//!
//! type Answer<'a, T> = BoxFuture<'a, Result<T, MemoryError>>;
//!
//! impl Memory for HouseRules {
//!     fn store(&self, _: NewMemory) -> Answer<'_, Stored> {
//!         Box::pin(async { Err(MemoryError::Invalid("the house rules stand".to_owned())) })
//!     }
//!     fn recall(&self, query: RecallQuery) -> Answer<'_, Vec<Recalled>> {
//!         let rule = MemoryEntry {
//!             id: MemoryId(uuid::Uuid::from_u128(1)),
//!             agent: query.filter.agent.unwrap_or(AgentName::new("embedded")),
//!             scope: MemoryScope::Agent,
//!             key: "shoes".to_owned(),
//!             content: "Shoes stay outside.".to_owned(),
//!             category: Category::Core,
//!             source: Source::User,
//!             via: None,
//!             turn: None,
//!             created_at: jiff::Timestamp::UNIX_EPOCH,
//!             updated_at: jiff::Timestamp::UNIX_EPOCH,
//!             superseded_by: None,
//!         };
//!         let fits = query.text.contains("shoes");
//!         let found = fits.then_some(Recalled { entry: rule, score: Some(1.0) });
//!         Box::pin(async { Ok(found.into_iter().collect()) })
//!     }
//!     fn list(&self, _: ListQuery) -> Answer<'_, Vec<MemoryEntry>> {
//!         Box::pin(async { Ok(vec![]) })
//!     }
//!     fn get(&self, _: MemoryId) -> Answer<'_, Option<MemoryEntry>> {
//!         Box::pin(async { Ok(None) })
//!     }
//!     fn forget(&self, _: Forget) -> Answer<'_, u64> {
//!         Box::pin(async { Ok(0) })
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), rookery_actors::embed::EmbedError> {
//! let agent = Agent::builder(Arc::new(Echo)).memory(Arc::new(HouseRules)).build().await?;
//! let answer = agent.send("a", "where do my shoes go?").await?.finish().await?;
//! let told = answer.reply.unwrap_or_default();
//! assert!(told.contains("- shoes: Shoes stay outside.") && told.ends_with("where do my shoes go?"));
//! agent.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! [`Memory`]: rookery_messages::memory::Memory
//! [`ModelProvider`]: rookery_messages::model::ModelProvider
//! [`Tool`]: rookery_messages::tool::Tool

mod agent;
mod builder;
mod folder;
mod run;
#[cfg(test)]
mod tests;
mod tree;

pub use agent::Agent;
pub use builder::AgentBuilder;
pub use run::{Finished, Run};

/// Why an embedded agent can't do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum EmbedError {
    /// A tool can't be registered.
    #[error("a tool can't be used: {0}")]
    Tool(#[from] crate::tool::registry::RegistryError),
    /// A folder or file can't be made.
    #[error("{what} {path}: {source}; choose another place")]
    File {
        /// What was tried.
        what: &'static str,
        /// Which.
        path: std::path::PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// An actor did not start.
    #[error("the agent did not start: {0}")]
    Start(String),
    /// The message was not taken.
    #[error(transparent)]
    Refused(#[from] crate::channel::ReceiveError),
    /// The text is blank, or has characters no message may have.
    #[error(transparent)]
    Text(#[from] crate::channel::text::TextError),
    /// The store could not be asked.
    #[error(transparent)]
    Store(#[from] rookery_messages::store::StoreError),
}
