//! Channels: taking messages in, sending replies out, and what a platform needs for both.
//!
//! A channel is two actors: [`Intake`] makes decoded messages durable, [`Sender`] delivers the outbox
//! through a [`rookery_messages::channel::ChannelAdapter`]. Decoding and the adapter are the platform's.

pub mod commands;
pub mod intake;
pub mod pairing;
pub mod pull;
pub mod scope;
pub mod sender;
#[cfg(test)]
pub(crate) mod testing;
pub mod text;
pub mod webhook;

pub use intake::{Intake, IntakeArgs, IntakeHandle, ReceiveError, is_allowed};
pub use pull::PullAdapter;
pub use sender::{Sender, SenderArgs};
