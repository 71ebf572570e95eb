//! The webhook channel: other programs post messages, and replies are posted back to them.

mod adapter;
mod decode;
pub mod signature;

pub use adapter::WebhookAdapter;
pub use decode::{DecodeError, Posted, WebhookBody, WebhookFile, decode};

use rookery_messages::ids::ChannelId;

/// The id of the webhook called `alias`.
pub fn channel_id(alias: &str) -> ChannelId {
    ChannelId::new(format!("webhook.{alias}"))
}
