//! A posted message: `{id, sender, conversation, text}`.

use rookery_messages::envelope::{Inbound, Sender, TurnOrigin};
use rookery_messages::ids::{AgentName, ChannelId};
use serde::Deserialize;

use crate::channel::scope;
use crate::channel::text::{TextError, check_conversation, check_id, check_text, is_object};

/// The body as it is posted.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookBody {
    /// The sender's own id of the message: the dedup key.
    pub id: String,
    /// Who says it.
    pub sender: String,
    /// In which conversation.
    pub conversation: String,
    /// What.
    pub text: String,
}

/// Why a body is not a message.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// It is not UTF-8.
    #[error("the body is not valid UTF-8; send JSON in UTF-8")]
    NotUtf8,
    /// It is a list or a string.
    #[error("the body is not a JSON object, line 1; send `{{id, sender, conversation, text}}`")]
    NotAnObject,
    /// It is not the JSON we want; names the field or the position.
    #[error("the body is not `{{id, sender, conversation, text}}` in JSON: {0}")]
    Json(#[source] serde_json::Error),
    /// A field can't be used.
    #[error(transparent)]
    Field(#[from] TextError),
}

/// Decodes and checks a body. `owner`: the chat token it came with, whose conversations are its own. The
/// id is the message's own, whoever posts it: posted again with another token it is the same message.
pub fn decode(
    channel: &ChannelId,
    agent: &AgentName,
    owner: Option<&str>,
    body: &[u8],
) -> Result<Inbound, DecodeError> {
    let text = std::str::from_utf8(body).map_err(|_| DecodeError::NotUtf8)?;
    if !is_object(text) {
        return Err(DecodeError::NotAnObject);
    }
    let body: WebhookBody = serde_json::from_str(text).map_err(DecodeError::Json)?;
    check_conversation("id", &body.id)?;
    check_id("sender", &body.sender)?;
    check_conversation("conversation", &body.conversation)?;
    check_text("text", &body.text)?;
    Ok(Inbound {
        channel: channel.clone(),
        external_id: body.id,
        sender: Sender::person(body.sender),
        conversation: match owner {
            Some(owner) => scope::inside(owner, &body.conversation),
            None => body.conversation,
        },
        thread: None,
        text: body.text,
        origin: TurnOrigin::Channel,
        agent: agent.clone(),
    })
}
