//! The contract of a chat platform: what an adapter does, what it can do, and what passes between it and
//! its host.
//!
//! An adapter speaks its platform's protocol and nothing else. Its host (`rookery_actors::channel`) does
//! the rest for every platform alike: who may speak, deduplication, durability, order, splitting, drafts,
//! send budgets, retries, approvals. Only [`ChannelAdapter::id`] and [`ChannelAdapter::send`] have to be
//! written; everything else has a default that says "can't".

use std::time::Duration;

use crate::BoxFuture;
use crate::envelope::{ReplyAddress, Sender};
use crate::ids::ChannelId;
use crate::store::OutboxRow;

/// A platform. Every future is bounded in time by the adapter, and safe to drop.
pub trait ChannelAdapter: Send + Sync + 'static {
    /// Which channel.
    fn id(&self) -> &ChannelId;

    /// What it can do, as data. Asked once.
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    /// The platform's id of our own account there, once it is known: what it says is never answered.
    fn own_id(&self) -> Option<String> {
        None
    }

    /// The address of a conversation that somebody names by the platform's id. An error says what is
    /// wrong with the name, and how one is written.
    fn address(&self, conversation: &str) -> Result<ReplyAddress, String> {
        Ok(ReplyAddress {
            channel: self.id().clone(),
            conversation: conversation.to_owned(),
            thread: None,
            reply_to: None,
        })
    }

    /// Sends one message, or changes one that is there; says what is known of it.
    fn send<'a>(&'a self, message: &'a Outgoing<'a>) -> BoxFuture<'a, SendAttempt>;

    /// Waits for what comes next, in order. Nothing is taken from the platform before
    /// [`ChannelAdapter::acknowledge`]: what was not acknowledged may be given again.
    fn receive(&self) -> BoxFuture<'_, Result<Vec<Received>, ReceiveFault>> {
        Box::pin(std::future::pending())
    }

    /// Everything up to this token is durable.
    fn acknowledge<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<(), ReceiveFault>> {
        let _ = token;
        Box::pin(async { Ok(()) })
    }

    /// Fetches an attachment of at most `limit` bytes. Asked only for people who may speak.
    fn download<'a>(
        &'a self,
        file: &'a AttachmentRef,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<u8>, DownloadFault>> {
        let _ = (file, limit);
        let cause = "this channel has no attachments".to_owned();
        Box::pin(async { Err(DownloadFault { cause, again: false }) })
    }

    /// Shows that an answer is on its way, for as long as the platform shows it.
    fn typing<'a>(&'a self, address: &'a ReplyAddress) -> BoxFuture<'a, ()> {
        let _ = address;
        Box::pin(async {})
    }

    /// Tells whoever pressed a button what came of it, and nobody else.
    fn answer<'a>(&'a self, press: &'a Press, text: &'a str) -> BoxFuture<'a, ()> {
        let _ = (press, text);
        Box::pin(async {})
    }

    /// Which send budget an address draws on: one a chat, by default without a limit.
    fn budget(&self, address: &ReplyAddress) -> SendBudget {
        SendBudget { key: address.conversation.clone(), gap: Duration::ZERO }
    }
}

/// In what a platform measures the length of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Unit {
    /// Bytes of UTF-8.
    Bytes,
    /// Unicode scalar values.
    #[default]
    Chars,
    /// UTF-16 code units.
    Utf16,
}

impl Unit {
    /// The length of a text.
    pub fn measure(self, text: &str) -> usize {
        match self {
            Self::Bytes => text.len(),
            Self::Chars => text.chars().count(),
            Self::Utf16 => text.chars().map(char::len_utf16).sum(),
        }
    }
}

/// What a reply, which is Markdown, is turned into.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Markup {
    /// Left as it is. A code block that is cut is closed and opened again.
    #[default]
    Markdown,
    /// Text without marks.
    Plain,
    /// Telegram's HTML.
    TelegramHtml,
}

/// How a reply is shown while it is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Streaming {
    /// Not at all: it is sent once, at the end.
    #[default]
    None,
    /// One message is changed in place, at most once in this interval.
    Draft {
        /// The shortest time between two changes.
        interval: Duration,
    },
    /// Each paragraph is a message of its own, as soon as it is complete.
    Paragraphs,
    /// Piece by piece as it comes, over a connection that the reader holds: the adapter has no part in it.
    Live,
}

impl Streaming {
    /// Whether messages of a turn are in the chat before its answer is.
    pub fn is_in_chat(self) -> bool {
        matches!(self, Self::Draft { .. } | Self::Paragraphs)
    }
}

/// What an adapter can do.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Capabilities {
    /// Longest message, in `unit`, after rendering. None: no limit, and a reply is never split.
    pub limit: Option<usize>,
    /// In what `limit` is measured.
    pub unit: Unit,
    /// What replies are turned into.
    pub markup: Markup,
    /// How replies are shown while they are written.
    pub streaming: Streaming,
    /// How often [`ChannelAdapter::typing`] has to be repeated. None: there is no such sign.
    pub typing: Option<Duration>,
    /// Messages can carry buttons, and presses come back: approvals are asked in the chat.
    pub buttons: bool,
    /// Largest attachment that is fetched, in bytes. None: none are.
    pub attachments: Option<u64>,
    /// The platform tells programs from people, and says which account is ours: `Sender::is_bot` and
    /// [`ChannelAdapter::own_id`] are filled in.
    pub bots: bool,
}

/// One message to send.
#[derive(Clone, Debug)]
pub struct Outgoing<'a> {
    /// Where to.
    pub address: &'a ReplyAddress,
    /// The text in the platform's markup, within its limit; never blank.
    pub text: &'a str,
    /// The same without marks: for when the platform refuses the marks.
    pub plain: &'a str,
    /// The platform's id of the message to change. None: a new one.
    pub edit: Option<&'a str>,
    /// Buttons below it, row by row. Empty: none, and those that were there go.
    pub buttons: &'a [Vec<Button>],
    /// The outbox row this is, or is a part of; none for drafts and prompts.
    pub row: Option<&'a OutboxRow>,
}

/// A button.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Button {
    /// What stands on it.
    pub label: String,
    /// What comes back when it is pressed; at most 64 bytes.
    pub data: String,
}

/// How one try to send went.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SendAttempt {
    /// The platform has it.
    Sent {
        /// The platform's id of the message.
        external_id: Option<String>,
    },
    /// It surely did not arrive; another try may help.
    Failed {
        /// Why.
        cause: String,
        /// When the platform says to come back.
        retry_after: Option<Duration>,
    },
    /// It may have arrived.
    Unknown {
        /// Why.
        cause: String,
    },
    /// It can't arrive: the chat is gone, the bot is blocked, the request is refused.
    Refused {
        /// Why.
        cause: String,
    },
}

/// Which budget a send draws on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SendBudget {
    /// The chat.
    pub key: String,
    /// The shortest time between two sends.
    pub gap: Duration,
}

/// Something that came, and what acknowledges it and all before it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Received {
    /// The token for [`ChannelAdapter::acknowledge`].
    pub token: String,
    /// What came.
    pub event: ChannelEvent,
}

/// What came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChannelEvent {
    /// A message.
    Message(Box<Incoming>),
    /// A button was pressed.
    Press(Box<Press>),
    /// Nothing for us, for this reason; acknowledged and counted.
    Ignored(&'static str),
}

/// A message as the adapter decodes it: nothing was fetched yet, nobody was judged yet.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Incoming {
    /// The platform's own id of the message, unique within the channel: the dedup key (R3).
    pub external_id: String,
    /// Who sent it; the id decides, the name is only shown.
    pub sender: Sender,
    /// The platform's id of the conversation.
    pub conversation: String,
    /// The thread within it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// The platform's id of the message it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// The text of that message, if somebody else wrote it or it may be long gone; bounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quote: Option<String>,
    /// Only the two of us are there: a stranger's knock may be answered.
    #[serde(default)]
    pub private: bool,
    /// The text; may be blank if there are attachments.
    pub text: String,
    /// What it carries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<AttachmentRef>,
    /// Messages of one album share this; they become one message of ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub album: Option<String>,
}

/// An attachment that can be fetched.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct AttachmentRef {
    /// The platform's id of the file.
    pub id: String,
    /// What the sender calls it; not a safe name.
    pub name: String,
    /// What the sender says it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime: Option<String>,
    /// Its size in bytes, if the platform says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// A press of a button.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Press {
    /// The platform's id of the press.
    pub id: String,
    /// Who pressed. None: the platform doesn't say, and nothing is decided.
    pub sender: Option<Sender>,
    /// The message the button stands below: its address, and its id.
    pub address: ReplyAddress,
    /// The platform's id of that message.
    pub message: String,
    /// The button's data.
    pub data: String,
}

/// Why nothing came.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReceiveFault {
    /// It may come later.
    #[error("{cause}")]
    Passing {
        /// Why.
        cause: String,
        /// When the platform says to come back.
        retry_after: Option<Duration>,
    },
    /// Somebody else receives in our name.
    #[error("{cause}")]
    Conflict {
        /// Why.
        cause: String,
    },
    /// It can't come: the token was revoked, the configuration is wrong. Parks the channel.
    #[error("{cause}")]
    Permanent {
        /// What was tried, what to do.
        cause: String,
    },
}

/// Why an attachment was not fetched.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{cause}")]
pub struct DownloadFault {
    /// Why; the model and the sender read it.
    pub cause: String,
    /// Another try may help.
    pub again: bool,
}
