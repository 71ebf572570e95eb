//! A child's row: written once, however often its call is run.

use rookery_messages::delegation::{ChildMode, ChildOf, NewChild};
use rookery_messages::envelope::{Inbound, Sender};
use rookery_messages::ids::{CallId, ConversationId, EnvelopeId, TurnId};
use rookery_messages::store::{Accept, StoreError};
use serde_json::{Map, Value};

use super::request::Request;
use super::{Delegator, ORIGIN};

/// An accepted child.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub(super) turn: TurnId,
    pub(super) conversation_id: ConversationId,
}

impl Delegator {
    /// Accepts the child of a call. The call's id is the key: a call that is run again after a restart finds
    /// the child it began then. An error is what the model reads.
    pub(super) async fn begin(
        &self,
        call: CallId,
        arguments: &Map<String, Value>,
        mode: ChildMode,
    ) -> Result<Begun, String> {
        let request = Request::read(arguments)?;
        if let (Some(tools), Some(own)) = (&request.tools, self.tools()) {
            // After a restart the call may be quicker than the servers whose tools it hands over.
            own.settled(tools.iter().map(String::as_str)).await;
        }
        let (agent, grant) = self.grant(&request)?;
        let limits = &self.bundle.runtime.delegation;
        let new = || self.world.ids.next();
        let of = ChildOf {
            turn: self.turn,
            call,
            root: self.root(),
            people_of: self.people_of(),
            depth: self.depth() + 1,
            mode,
            grant,
            reply_to: self.reply_to.clone(),
        };
        let accept = Accept {
            inbound: Inbound {
                channel: self.channel_id.clone(),
                external_id: format!("child/{call}"),
                sender: Sender::person(self.sender.clone()),
                // Below its parent's name, so that whoever owns that one sees this one.
                conversation: format!("{}/{call}", self.conversation),
                thread: None,
                text: request.task,
                attachments: Vec::new(),
                origin: ORIGIN,
                agent,
            },
            envelope: EnvelopeId(new()),
            turn: TurnId(new()),
            conversation_id: ConversationId(new()),
            queue_limit: 1,
            child: Some(Box::new(NewChild {
                of,
                max_children: limits.max_children,
                max_tasks: limits.max_tasks,
            })),
            claim: None,
            at: self.world.now(),
        };
        match self.deps.store.accept(accept).await {
            Ok(accepted) => Ok(Begun {
                turn: accepted.envelope.turn,
                conversation_id: accepted.envelope.conversation_id,
            }),
            Err(StoreError::Conflict(why)) => Err(format!("not handed on: {why}")),
            Err(error) => Err(format!("not handed on: {error}")),
        }
    }
}
