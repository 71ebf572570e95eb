//! Channels: taking messages in, sending replies out, and what a platform needs for both.
//!
//! A channel is up to three actors: [`Receiver`] takes what a platform has for us, [`Intake`] makes it
//! durable, [`Sender`] delivers the outbox and shows turns while they run, each with a draft below it. The
//! platform's part is a [`rookery_messages::channel::ChannelAdapter`]; what is the same everywhere is here.

pub mod budget;
pub mod commands;
mod deliver;
pub mod draft;
pub mod intake;
pub mod pairing;
pub mod post;
pub mod prompt;
pub mod pull;
pub mod receiver;
pub mod render;
pub mod scope;
pub mod sender;
pub mod telegram;
#[cfg(test)]
pub(crate) mod testing;
pub mod text;
pub mod view;
pub mod webhook;

pub use draft::Prompts;
pub use intake::{Intake, IntakeArgs, IntakeHandle, ReceiveError, is_allowed};
pub use pull::PullAdapter;
pub use receiver::{BotRules, Receiver, ReceiverArgs, ReceiverMsg, ReceiverStatus};
pub use sender::{Sender, SenderArgs};
