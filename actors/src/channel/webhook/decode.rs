//! A posted message: `{id, sender, conversation, text, attachments?}`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
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
    /// The files that come with it, in order.
    #[serde(default)]
    pub attachments: Vec<WebhookFile>,
}

/// A file as it is posted. The body's own limit holds for all of them together.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookFile {
    /// What its sender calls it.
    pub name: String,
    /// What its sender says it is; its bytes count.
    #[serde(default)]
    pub media_type: Option<String>,
    /// Its bytes in base64, padded (RFC 4648, section 4).
    pub data: String,
}

/// Most files of one message.
const MOST_FILES: usize = 16;

/// A message as it was posted.
#[derive(Debug)]
pub struct Posted {
    /// The message, without its files: they stand nowhere yet.
    pub inbound: Inbound,
    /// Their names and bytes, in order.
    pub files: Vec<(String, Vec<u8>)>,
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
    /// A file can't be read.
    #[error("`attachments[{at}].data` is not base64; encode the file's bytes, with padding")]
    NotBase64 {
        /// Which.
        at: usize,
    },
    /// There are too many files.
    #[error("there are {0} attachments, {MOST_FILES} are allowed; send more than one message")]
    TooManyFiles(usize),
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
) -> Result<Posted, DecodeError> {
    let text = std::str::from_utf8(body).map_err(|_| DecodeError::NotUtf8)?;
    if !is_object(text) {
        return Err(DecodeError::NotAnObject);
    }
    let body: WebhookBody = serde_json::from_str(text).map_err(DecodeError::Json)?;
    check_conversation("id", &body.id)?;
    check_id("sender", &body.sender)?;
    check_conversation("conversation", &body.conversation)?;
    check_text("text", &body.text)?;
    if body.attachments.len() > MOST_FILES {
        return Err(DecodeError::TooManyFiles(body.attachments.len()));
    }
    let files = body.attachments.into_iter().enumerate().map(|(at, file)| {
        let bytes = STANDARD.decode(file.data).map_err(|_| DecodeError::NotBase64 { at })?;
        Ok((file.name, bytes))
    });
    let files = files.collect::<Result<_, DecodeError>>()?;
    let inbound = Inbound {
        channel: channel.clone(),
        external_id: body.id,
        sender: Sender::person(body.sender),
        conversation: match owner {
            Some(owner) => scope::inside(owner, &body.conversation),
            None => body.conversation,
        },
        thread: None,
        text: body.text,
        attachments: Vec::new(),
        origin: TurnOrigin::Channel,
        agent: agent.clone(),
    };
    Ok(Posted { inbound, files })
}
