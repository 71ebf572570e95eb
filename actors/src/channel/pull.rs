//! The adapter of channels whose clients fetch their replies: terminal, web, webhooks without a
//! `reply_url`.

use rookery_messages::BoxFuture;
use rookery_messages::channel::{ChannelAdapter, Outgoing, SendAttempt};
use rookery_messages::ids::ChannelId;

/// Nothing has to be carried anywhere: the reply stands in the turn's record and in its events.
pub struct PullAdapter {
    id: ChannelId,
}

impl PullAdapter {
    /// For one channel.
    pub fn new(id: ChannelId) -> Self {
        Self { id }
    }
}

impl ChannelAdapter for PullAdapter {
    fn id(&self) -> &ChannelId {
        &self.id
    }

    fn send<'a>(&'a self, _: &'a Outgoing<'a>) -> BoxFuture<'a, SendAttempt> {
        Box::pin(async { SendAttempt::Sent { external_id: None } })
    }
}
