//! The canonical inbound message: what every adapter decodes to.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::attachment::Attachment;
use crate::ids::{AgentName, ChannelId, ConversationId, EnvelopeId, TurnId};

/// Where a turn comes from. Absent or unknown reads as a sub-turn: fail closed (V-A8).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnOrigin {
    /// A chat platform or webhook.
    Channel,
    /// A terminal or an editor: somebody sits there.
    Interactive,
    /// The embedded API.
    Direct,
    /// A schedule.
    Cron,
    /// A background job of ours.
    Daemon,
    /// Another turn.
    #[default]
    #[serde(other)]
    SubTurn,
}

impl TurnOrigin {
    /// Short stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Channel => "channel",
            Self::Interactive => "interactive",
            Self::Direct => "direct",
            Self::Cron => "cron",
            Self::Daemon => "daemon",
            Self::SubTurn => "sub_turn",
        }
    }
}

/// Who sent it. The id decides; the name is only shown.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sender {
    /// The platform's id of the sender.
    pub id: String,
    /// What people call them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display: Option<String>,
    /// The platform says that this account is a program.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_bot: bool,
}

impl Sender {
    /// A person without a name.
    pub fn person(id: impl Into<String>) -> Self {
        Self { id: id.into(), display: None, is_bot: false }
    }
}

/// Where the answer goes. Fixed in the turn's record when the message is accepted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReplyAddress {
    /// The channel.
    pub channel: ChannelId,
    /// The platform's id of the conversation (chat id, address, room).
    pub conversation: String,
    /// The thread within it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// The platform's id of the message that is answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
}

/// A decoded message, before it is accepted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Inbound {
    /// The channel it came by.
    pub channel: ChannelId,
    /// The platform's own id of the message: the dedup key within the channel (R3).
    pub external_id: String,
    /// Who sent it.
    pub sender: Sender,
    /// The platform's id of the conversation.
    pub conversation: String,
    /// The thread within it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// The text; never blank: of what came with it, it says where it is.
    pub text: String,
    /// The files that came with it, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// Where it comes from.
    #[serde(default)]
    pub origin: TurnOrigin,
    /// The agent that owns the channel.
    pub agent: AgentName,
}

impl Inbound {
    /// Where the answer to this message goes.
    pub fn reply_address(&self) -> ReplyAddress {
        ReplyAddress {
            channel: self.channel.clone(),
            conversation: self.conversation.clone(),
            thread: self.thread.clone(),
            reply_to: Some(self.external_id.clone()),
        }
    }
}

/// An accepted message: durable, with its turn.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Envelope {
    /// Our id.
    pub id: EnvelopeId,
    /// The turn that answers it.
    pub turn: TurnId,
    /// Our id of the conversation.
    pub conversation_id: ConversationId,
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// What was received.
    pub inbound: Inbound,
}

#[cfg(test)]
mod tests {
    use super::*;

    // V-A8: what says nothing of where it comes from gets least
    #[test]
    fn an_envelope_without_an_origin_is_a_sub_turns() {
        let origin = |text: &str| serde_json::from_str::<TurnOrigin>(text).ok();
        assert_eq!(TurnOrigin::default(), TurnOrigin::SubTurn);
        assert_eq!(origin(r#""channel""#), Some(TurnOrigin::Channel));
        assert_eq!(origin(r#""from a newer version""#), Some(TurnOrigin::SubTurn));
        let text = r#"{"channel":"ws","external_id":"1","sender":{"id":"ann"},"conversation":"c",
                       "text":"hi","agent":"home"}"#;
        let inbound: Inbound = serde_json::from_str(text).unwrap();
        assert_eq!(inbound.origin, TurnOrigin::SubTurn);
        // A row of a version that knew no attachments.
        assert_eq!(inbound.attachments, []);
    }
}
