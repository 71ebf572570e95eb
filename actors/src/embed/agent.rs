//! A running embedded agent.

use std::sync::Arc;

use rookery_messages::address::Address;
use rookery_messages::approval::{Approval, Decider, Decision};
use rookery_messages::envelope::{Inbound, Sender, TurnOrigin};
use rookery_messages::exit::StopReason;
use rookery_messages::ids::{AgentName, ApprovalId, ChannelId};
use rookery_messages::model::ModelProvider;
use rookery_messages::session::RouterMsg;
use rookery_messages::store::{DecideApproval, DecideOutcome, StoredMessage};

use super::folder::Folder;
use super::run::Run;
use super::tree::{AGENT, CHANNEL, EmbeddedMsg};
use super::{AgentBuilder, EmbedError};
use crate::channel::IntakeHandle;
use crate::channel::commands::Stopper;
use crate::channel::text::{check_id, check_text};
use crate::observe::EventHub;
use crate::runtime::{Child, Spawner};
use crate::store::StoreClient;

/// What the actors left for the handles.
pub(super) struct Parts {
    pub(super) store: StoreClient,
    pub(super) hub: Arc<EventHub>,
    pub(super) intake: IntakeHandle,
    pub(super) stopper: Stopper,
    pub(super) router: Address<RouterMsg>,
}

/// An agent inside a program: conversations, each with its history, on one provider and one set of tools.
///
/// Dropping it stops everything as a shutdown does; [`Agent::close`] also waits for it. Turns that run then
/// go on when an agent is built on the same store again.
pub struct Agent {
    parts: Parts,
    root: Child<EmbeddedMsg>,
    spawner: Spawner,
    /// Goes with the agent.
    folder: Option<Folder>,
}

impl Agent {
    /// Begins to build one that calls this provider.
    pub fn builder(provider: Arc<dyn ModelProvider>) -> AgentBuilder {
        AgentBuilder::new(provider)
    }

    pub(super) fn new(
        parts: Parts,
        root: Child<EmbeddedMsg>,
        spawner: Spawner,
        folder: Option<Folder>,
    ) -> Self {
        Self { parts, root, spawner, folder }
    }

    /// Says something in a conversation, which begins with its first message. Returns once the message is
    /// durable, with the turn that answers it.
    pub async fn send(&self, conversation: &str, text: &str) -> Result<Run, EmbedError> {
        let id = self.spawner.world().ids.next().to_string();
        self.send_once(conversation, &id, text).await
    }

    /// As [`Agent::send`], under an id of the caller's: sent again, in this life or a later one, it is the
    /// same message and has the same turn (R3).
    pub async fn send_once(
        &self,
        conversation: &str,
        id: &str,
        text: &str,
    ) -> Result<Run, EmbedError> {
        check_id("conversation", conversation)?;
        check_id("id", id)?;
        check_text("text", text)?;
        let inbound = Inbound {
            channel: ChannelId::new(CHANNEL),
            external_id: format!("{conversation}/{id}"),
            sender: Sender::person(CHANNEL),
            conversation: conversation.to_owned(),
            thread: None,
            text: text.to_owned(),
            attachments: Vec::new(),
            origin: TurnOrigin::Direct,
            agent: AgentName::new(AGENT),
        };
        let outcome = self.parts.intake.receive(inbound).await?;
        Ok(Run::new(
            outcome.envelope.turn,
            self.parts.hub.subscribe(outcome.envelope.conversation_id, Some(0)),
            self.parts.store.clone(),
            self.parts.stopper.clone(),
            self.root.address.clone(),
            outcome.duplicate,
        ))
    }

    /// Decides an approval, for exactly the arguments it shows; the first decision stands (I7).
    pub async fn decide(
        &self,
        approval: &Approval,
        decision: Decision,
    ) -> Result<DecideOutcome, EmbedError> {
        let request = DecideApproval {
            approval: approval.id,
            decision,
            decider: Decider { who: CHANNEL.to_owned(), via: CHANNEL.to_owned() },
            privileged: false,
            at: self.spawner.world().now(),
            grant: None,
        };
        let outcome = self.parts.store.decide(request).await?;
        self.hint(approval, approval.id);
        Ok(outcome)
    }

    fn hint(&self, approval: &Approval, id: ApprovalId) {
        let (conversation, turn) = (approval.conversation_id, approval.turn);
        // A lost hint costs time only: whoever waits looks at the store by itself.
        let _ = self.parts.router.try_send(RouterMsg::ApprovalHint {
            conversation,
            turn,
            approval: id,
        });
    }

    /// A conversation's history, oldest first: the newest `limit` messages. None if it has not begun.
    pub async fn history(
        &self,
        conversation: &str,
        limit: u32,
    ) -> Result<Option<Vec<StoredMessage>>, EmbedError> {
        let channel = ChannelId::new(CHANNEL);
        Ok(self.parts.store.messages(channel, conversation.to_owned(), limit).await?)
    }

    #[cfg(test)]
    pub(super) async fn record(
        &self,
        turn: rookery_messages::ids::TurnId,
    ) -> rookery_messages::turn::TurnRecord {
        loop {
            let record = self.parts.store.turn(turn).await.unwrap().unwrap();
            if record.outcome.is_some() {
                return record;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Stops everything and waits for it. What ran goes on with the next agent on the same store.
    pub async fn close(mut self) {
        let folder = self.folder.take();
        self.root.address.stop(StopReason::Shutdown);
        self.spawner.directory().wait_empty().await;
        drop(folder);
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.root.address.stop(StopReason::Shutdown);
    }
}
