//! The request a person gets to see: what it shows, who may decide it, where it is asked.

use rookery_messages::approval::{
    ADMIN_ROUTE, Approval, ApprovalRoute, ApprovalState, BatchPlace, GrantOffer, Risk,
};
use rookery_messages::chat::ToolCall;
use rookery_messages::delegation::AskedFor;
use rookery_messages::envelope::ReplyAddress;
use rookery_messages::ids::{ApprovalId, ChannelId, OutboxId};
use rookery_messages::store::{NewOutbox, OutboxPayload};
use rookery_messages::time::rfc3339_millis;
use rookery_messages::tool::{JudgedCall, Verdict, text};
use serde_json::{Map, Value};

use super::bundle::{AskedAt, AskedChat};
use super::prepare::Judge;
use super::question;
use crate::policy::cover::Cover;
use crate::policy::display::{visible, visible_lines};

/// The conversation a routed request is posted to.
const ROUTED_CONVERSATION: &str = "approvals";

/// What the gate and the grants say of a call that asks.
pub(super) struct Why<'a> {
    pub risk: Risk,
    pub reason: String,
    pub offer: Option<&'a Cover>,
}

impl Judge {
    /// The request, or why nobody can be asked.
    pub(super) fn request(
        &self,
        call: &ToolCall,
        name: &str,
        arguments: &Map<String, Value>,
        arguments_hash: String,
        why: Why<'_>,
    ) -> Result<Approval, &'static str> {
        let route = self.route()?;
        let redactor = &self.deps.redactor;
        let now = self.world.now();
        Ok(Approval {
            id: ApprovalId(self.world.ids.next()),
            turn: self.turn,
            conversation_id: self.conversation_id,
            asked_for: self.child_of.as_ref().map(AskedFor::from),
            channel: self.channel_id.clone(),
            call: call.id,
            tool: name.to_owned(),
            arguments: Value::Object(redactor.clean_arguments(arguments)),
            arguments_hash,
            risk: why.risk,
            reason: why.reason,
            asked_at: now,
            expires_at: now + self.deps.approval_timeout,
            approvers: self.approvers(),
            summary: redactor.summary(arguments),
            offer: why.offer.map(|cover| GrantOffer {
                pattern: redactor.clean(&cover.pattern),
                key: cover.key.clone(),
                narrow: cover.narrow,
            }),
            batch: None,
            route,
            state: ApprovalState::Pending,
            decision: None,
            decided_by: None,
            decided_at: None,
        })
    }

    /// The people of the turn's own channel who may decide.
    fn approvers(&self) -> Vec<String> {
        self.channel.approvers.clone().unwrap_or_else(|| vec![self.sender.clone()])
    }

    /// Where else it is asked. An error: nowhere at all (V-H6, V-H14).
    fn route(&self) -> Result<Option<ApprovalRoute>, &'static str> {
        let own = self.channel.can_ask;
        match &self.bundle.approval_route {
            None if own => Ok(None),
            None => Err(text::DENIED_NOBODY_ASKED),
            Some(AskedAt::Admin) => Ok(Some(ApprovalRoute {
                channel: ChannelId::new(ADMIN_ROUTE),
                approvers: Vec::new(),
                posted: false,
                address: None,
            })),
            Some(AskedAt::Chat(chat)) => Ok(Some(self.in_chat(chat))),
            Some(AskedAt::Channel(channel)) => match self.routed(channel) {
                Some(route) => Ok(Some(route)),
                None if own && self.bundle.approval_inherits => Ok(None),
                None => Err(text::DENIED_NO_ROUTE),
            },
        }
    }

    /// The channel's people, if it has some, and they can be reached there.
    pub(super) fn routed(&self, channel: &ChannelId) -> Option<ApprovalRoute> {
        let facts = self.deps.channels.get(channel)?;
        if facts.asks_in_chats() {
            // Which of its chats, only the agent's route says.
            return match &self.bundle.approval_route {
                Some(AskedAt::Chat(chat)) if chat.address.channel == *channel => {
                    Some(self.in_chat(chat))
                }
                _ => None,
            };
        }
        let posted = facts.posts_replies;
        let approvers = facts.approvers.clone().filter(|approvers| !approvers.is_empty())?;
        (posted || facts.can_ask).then(|| ApprovalRoute {
            channel: channel.clone(),
            approvers,
            posted,
            address: None,
        })
    }

    /// The chat's people. In the turn's own chat the request is shown anyway; they may decide it there.
    fn in_chat(&self, chat: &AskedChat) -> ApprovalRoute {
        let AskedChat { address, approvers } = chat;
        let own = address.channel == self.channel_id && address.conversation == self.conversation;
        ApprovalRoute {
            channel: address.channel.clone(),
            approvers: approvers.clone(),
            posted: !own,
            address: (!own).then(|| address.clone()),
        }
    }
}

/// What a routed request's channel is told: the request, and how to answer.
pub fn posted(request: &Approval, id: OutboxId) -> Option<NewOutbox> {
    if request.is_question() {
        return note(request, id, question::posted(request));
    }
    let arguments = serde_json::to_string_pretty(&request.arguments).unwrap_or_default();
    let always = match &request.offer {
        Some(offer) => format!("/always {}   ({})\n", request.id, visible(&offer.pattern)),
        None => String::new(),
    };
    let text = format!(
        "Approval needed: {} ({} risk)\n{}\n{}\nAnswer here until {} with one of\n/approve {id}\n{always}\
         /deny {id} [reason]\n/replace {id} result to give instead",
        visible(&request.tool),
        request.risk.as_str(),
        visible(&request.reason),
        visible_lines(&arguments),
        rfc3339_millis(request.expires_at),
        id = request.id,
    );
    note(request, id, text)
}

/// What the channel is told of a decision that was made somewhere else.
pub(super) fn settled(request: &Approval, id: OutboxId) -> Option<NewOutbox> {
    // A prompt with buttons is changed by whoever decides there, too; that is lost with its process.
    let untold = |route: &ApprovalRoute| {
        route.address.is_some()
            || request.decided_by.as_ref().is_none_or(|by| by.via != route.channel.as_str())
    };
    request.route.as_ref().filter(|route| untold(route))?;
    let (tool, stands) = (visible(&request.tool), visible(&request.stands()));
    note(request, id, format!("Approval {} of {tool} is {stands}", request.id))
}

/// What the channel is told of a request that nobody need decide any more.
pub(super) fn withdrawn(request: &Approval, id: OutboxId) -> Option<NewOutbox> {
    let tool = visible(&request.tool);
    note(request, id, format!("Approval {} of {tool} is withdrawn: the turn has ended", request.id))
}

fn note(request: &Approval, id: OutboxId, text: String) -> Option<NewOutbox> {
    let route = request.route.as_ref().filter(|route| route.posted)?;
    let (channel, turn) = (route.channel.clone(), request.turn);
    let (address, payload) = match &route.address {
        // The channel shows the request as it stands.
        Some(chat) => (chat.clone(), OutboxPayload::Approval { turn, approval: request.id }),
        None => {
            let address = ReplyAddress {
                channel: channel.clone(),
                conversation: ROUTED_CONVERSATION.to_owned(),
                thread: None,
                reply_to: None,
            };
            (address, OutboxPayload::Notice { turn: Some(turn), text })
        }
    };
    Some(NewOutbox { id, channel, address, payload })
}

/// The new requests of one response belong together: each says which of how many it is.
pub(super) fn place(judged: &mut [JudgedCall]) {
    let new: Vec<&mut Approval> = judged
        .iter_mut()
        .filter_map(|call| match &mut call.verdict {
            Verdict::Ask(request) if request.batch.is_none() => Some(&mut **request),
            _ => None,
        })
        .collect();
    let Some(id) = new.first().map(|request| request.id).filter(|_| new.len() > 1) else { return };
    let of = u32::try_from(new.len()).unwrap_or(u32::MAX);
    for (request, position) in new.into_iter().zip(1..) {
        request.batch = Some(BatchPlace { id, position, of });
    }
}
