//! The adapter of channels whose clients come for their replies: terminal, web, webhooks without a
//! `reply_url`.

use rookery_messages::BoxFuture;
use rookery_messages::channel::{Capabilities, ChannelAdapter, Outgoing, SendAttempt, Streaming};
use rookery_messages::ids::ChannelId;

/// Nothing has to be carried anywhere: the reply stands in the turn's record and in its events.
pub struct PullAdapter {
    id: ChannelId,
    streaming: Streaming,
}

impl PullAdapter {
    /// For a channel whose clients ask for the record.
    pub fn new(id: ChannelId) -> Self {
        Self { id, streaming: Streaming::None }
    }

    /// For a channel whose clients hold a connection, and read events as they come.
    pub fn live(id: ChannelId) -> Self {
        Self { id, streaming: Streaming::Live }
    }
}

impl ChannelAdapter for PullAdapter {
    fn id(&self) -> &ChannelId {
        &self.id
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { streaming: self.streaming, ..Capabilities::default() }
    }

    fn send<'a>(&'a self, _: &'a Outgoing<'a>) -> BoxFuture<'a, SendAttempt> {
        Box::pin(async { SendAttempt::Sent { external_id: None } })
    }
}
