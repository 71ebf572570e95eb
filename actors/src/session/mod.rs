//! Conversations: the router, and one session actor a conversation.

mod actor;
mod router;
#[cfg(test)]
mod tests;

pub use actor::{SessionActor, SessionArgs};
pub use router::{RouterActor, RouterArgs};
