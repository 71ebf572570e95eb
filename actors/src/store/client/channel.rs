//! What channels ask the store for, besides inbox and outbox.

use jiff::Timestamp;
use rookery_messages::ids::{ApprovalId, ChannelId, OutboxId, TurnId};
use rookery_messages::store::{
    AuditRow, BotChain, ChannelFound, ChannelRead, ChannelWrite, DraftRow, Found, NewOutbox,
    OutboxStatus, PromptRow, Read, SpoolRow, StoreError, Write, Written,
};

use super::{StoreClient, mixed_up};

/// Writes.
impl StoreClient {
    /// Parts of an outbox row that the platform has.
    pub async fn outbox_progress(&self, id: OutboxId, sent: Vec<String>) -> Result<(), StoreError> {
        self.done(Write::Channel(ChannelWrite::Progress { id, sent })).await
    }

    /// What people see of a turn's answer so far.
    pub async fn note_draft(&self, row: DraftRow) -> Result<(), StoreError> {
        self.done(Write::Channel(ChannelWrite::Draft(row))).await
    }

    /// Keeps a message until its attachments are there; says whether it is new. Sent again after a lost
    /// answer, it says that it isn't: what is in the spool is looked at all the same.
    pub async fn spool(&self, row: SpoolRow) -> Result<bool, StoreError> {
        let write = Write::Channel(ChannelWrite::Spool(Box::new(row)));
        answer!(self.write(write).await?, Written::Spooled)
    }

    /// Something to send that belongs to no turn's step, once; says whether it is new. Sent again after a
    /// lost answer, it says that it isn't.
    pub async fn post(
        &self,
        message: NewOutbox,
        audit: Option<AuditRow>,
        at: Timestamp,
    ) -> Result<bool, StoreError> {
        let (message, audit) = (Box::new(message), audit.map(Box::new));
        let write = Write::Channel(ChannelWrite::Post { message, audit, at });
        answer!(self.write(write).await?, Written::Posted)
    }

    /// Messages of the spool are accepted, or given up.
    pub async fn unspool(
        &self,
        channel: ChannelId,
        external_ids: Vec<String>,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.done(Write::Channel(ChannelWrite::Unspool { channel, external_ids, at })).await
    }
}

/// Reads.
impl StoreClient {
    /// What people see of a turn's answer so far.
    pub async fn draft(&self, turn: TurnId) -> Result<Option<DraftRow>, StoreError> {
        answer!(self.kept(ChannelRead::Draft(turn)).await?, ChannelFound::Draft)
    }

    /// Messages of a channel whose attachments are on their way, oldest first.
    pub async fn spooled(&self, channel: ChannelId) -> Result<Vec<SpoolRow>, StoreError> {
        answer!(self.kept(ChannelRead::Spool(channel)).await?, ChannelFound::Spool)
    }

    /// Where an outbox row stands.
    pub async fn outbox(&self, id: OutboxId) -> Result<Option<OutboxStatus>, StoreError> {
        answer!(self.kept(ChannelRead::Outbox(id)).await?, ChannelFound::Outbox)
    }

    /// The platform's id of the message that a request stands in, if it was posted in a chat.
    pub async fn prompt(
        &self,
        channel: ChannelId,
        turn: TurnId,
        approval: ApprovalId,
    ) -> Result<Option<String>, StoreError> {
        let read = ChannelRead::Prompt { channel, turn, approval };
        answer!(self.kept(read).await?, ChannelFound::Prompt)
    }

    /// Requests nobody has decided that were posted in chats of a channel.
    pub async fn prompts(&self, channel: ChannelId) -> Result<Vec<PromptRow>, StoreError> {
        answer!(self.kept(ChannelRead::Prompts(channel)).await?, ChannelFound::Prompts)
    }

    /// How many of a conversation's newest messages bots wrote, before the one that comes now.
    pub async fn bots(
        &self,
        channel: ChannelId,
        conversation: String,
        external_id: String,
        limit: u32,
    ) -> Result<BotChain, StoreError> {
        let read = ChannelRead::Bots { channel, conversation, external_id, limit };
        answer!(self.kept(read).await?, ChannelFound::Bots)
    }

    async fn kept(&self, read: ChannelRead) -> Result<ChannelFound, StoreError> {
        answer!(self.read(Read::Channel(read)).await?, Found::Channel)
    }
}
