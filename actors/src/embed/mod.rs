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
