//! From an update to an event: who, where, what. Sender, chat, thread and message have fields of their own
//! (A056); nothing is taken from a name that people can change.

use rookery_messages::channel::{AttachmentRef, ChannelEvent, Incoming, Press};
use rookery_messages::envelope::{ReplyAddress, Sender};
use rookery_messages::ids::ChannelId;
use rookery_messages::settings::GroupMode;
use rookery_messages::tool::head;

use super::types::{CallbackQuery, Chat, File, Message, Update, User};
use crate::policy::display::visible;

/// Longest quote of the message that is answered, in bytes.
const MAX_QUOTE: usize = 500;

/// Who the bot is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Me {
    pub(super) id: i64,
    pub(super) username: String,
}

/// What an update means.
pub(super) fn event(
    channel: &ChannelId,
    me: &Me,
    groups: GroupMode,
    update: Update,
) -> ChannelEvent {
    if let Some(press) = update.callback_query {
        return self::press(channel, press);
    }
    match update.message.or(update.channel_post) {
        Some(message) => match incoming(me, groups, message) {
            Ok(incoming) => ChannelEvent::Message(Box::new(incoming)),
            Err(reason) => ChannelEvent::Ignored(reason),
        },
        None => ChannelEvent::Ignored("not_for_us"),
    }
}

fn press(channel: &ChannelId, press: CallbackQuery) -> ChannelEvent {
    let (Some(message), Some(data)) = (press.message, press.data) else {
        return ChannelEvent::Ignored("not_for_us");
    };
    let address = ReplyAddress {
        channel: channel.clone(),
        conversation: conversation(&message),
        thread: thread(&message),
        reply_to: None,
    };
    ChannelEvent::Press(Box::new(Press {
        id: press.id,
        sender: press.from.as_ref().map(user),
        address,
        message: message.message_id.to_string(),
        data,
    }))
}

fn incoming(me: &Me, groups: GroupMode, message: Message) -> Result<Incoming, &'static str> {
    let sender = match (&message.sender_chat, &message.from) {
        (Some(chat), _) => of_chat(chat),
        (None, Some(from)) => user(from),
        (None, None) => return Err("no_sender"),
    };
    let private = message.chat.kind.as_deref() == Some("private");
    let group = matches!(message.chat.kind.as_deref(), Some("group" | "supergroup"));
    let said = message.text.as_deref().or(message.caption.as_deref()).unwrap_or_default();
    if group && groups == GroupMode::Mention && !is_for(me, said, &message) {
        return Err("not_addressed");
    }
    let mut text = without_name(me, said);
    let attachments = attachments(&message);
    if text.trim().is_empty() && attachments.is_empty() {
        text = stand_in(&message).ok_or("nothing_to_read")?;
    }
    let answered = message
        .reply_to_message
        .as_deref()
        // A topic's first message stands as answered by all of its messages.
        .filter(|answered| answered.forum_topic_created.is_none());
    Ok(Incoming {
        external_id: format!("{}:{}", message.chat.id, message.message_id),
        sender,
        conversation: conversation(&message),
        thread: thread(&message),
        reply_to: answered.map(|answered| answered.message_id.to_string()),
        quote: answered.and_then(quote),
        private,
        text,
        attachments,
        album: message.media_group_id.clone(),
    })
}

fn user(user: &User) -> Sender {
    let name = [user.first_name.as_str(), user.last_name.as_deref().unwrap_or_default()].join(" ");
    let name = match (name.trim(), &user.username) {
        ("", Some(username)) => username.clone(),
        (name, _) => name.to_owned(),
    };
    Sender {
        id: user.id.to_string(),
        display: Some(name).filter(|name| !name.is_empty()),
        is_bot: user.is_bot,
    }
}

fn of_chat(chat: &Chat) -> Sender {
    Sender { id: chat.id.to_string(), display: chat.title.clone(), is_bot: false }
}

/// A topic is a conversation of its own.
fn conversation(message: &Message) -> String {
    match thread(message) {
        Some(thread) => format!("{}/{thread}", message.chat.id),
        None => message.chat.id.to_string(),
    }
}

/// Only topics have one that can be sent to: elsewhere the number names a message (A056).
fn thread(message: &Message) -> Option<String> {
    let thread = message.message_thread_id.filter(|_| message.is_topic_message)?;
    Some(thread.to_string())
}

/// Whether something said in a group is said to us.
fn is_for(me: &Me, said: &str, message: &Message) -> bool {
    let answers_us = message
        .reply_to_message
        .as_ref()
        .and_then(|answered| answered.from.as_ref())
        .is_some_and(|from| from.id == me.id);
    answers_us
        || mentions(said).any(|name| name.eq_ignore_ascii_case(&me.username))
        || is_command(said)
}

/// A command that names no other bot.
fn is_command(said: &str) -> bool {
    let word = said.split_whitespace().next().unwrap_or_default();
    word.len() > 1 && word.starts_with('/') && !word.contains('@')
}

fn mentions(said: &str) -> impl Iterator<Item = &str> {
    said.match_indices('@').map(|(at, _)| {
        let rest = &said[at + 1..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        &rest[..end.unwrap_or(rest.len())]
    })
}

/// The text without our own name in front, and commands without it behind.
fn without_name(me: &Me, said: &str) -> String {
    let is_me = |name: &str| name.eq_ignore_ascii_case(&me.username);
    let (word, rest) = match said.find(char::is_whitespace) {
        Some(end) => said.split_at(end),
        None => (said, ""),
    };
    match word.split_once('@') {
        Some(("", name)) if is_me(name.trim_end_matches([',', ':'])) => {
            rest.trim_start().to_owned()
        }
        Some((command, name)) if command.starts_with('/') && is_me(name) => {
            format!("{command}{rest}")
        }
        _ => said.to_owned(),
    }
}

fn quote(answered: &Message) -> Option<String> {
    let said = answered.text.as_deref().or(answered.caption.as_deref())?;
    let who = match (&answered.sender_chat, &answered.from) {
        (Some(chat), _) => chat.title.clone().unwrap_or_default(),
        (None, Some(from)) => user(from).display.unwrap_or_default(),
        (None, None) => String::new(),
    };
    Some(format!("{}: {}", head(&visible(&who), 64), head(&visible(said), MAX_QUOTE)))
}

fn attachments(message: &Message) -> Vec<AttachmentRef> {
    let number = message.message_id;
    let file = |file: &File, kind: &str, end: &str, mime: Option<&str>| AttachmentRef {
        id: file.file_id.clone(),
        name: file.file_name.clone().unwrap_or_else(|| format!("{kind}-{number}.{end}")),
        mime: file.mime_type.clone().or(mime.map(str::to_owned)),
        size: file.file_size,
    };
    // Photos come in several sizes, the largest last.
    let photo = message.photo.last().map(|one| file(one, "photo", "jpg", Some("image/jpeg")));
    let of = |one: &Option<File>, kind: &str, end: &str| {
        one.as_ref().map(|one| file(one, kind, end, None))
    };
    [
        photo,
        of(&message.document, "document", "bin"),
        of(&message.voice, "voice", "ogg"),
        of(&message.audio, "audio", "mp3"),
        of(&message.video, "video", "mp4"),
        of(&message.video_note, "video", "mp4"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What stands for a message without words.
fn stand_in(message: &Message) -> Option<String> {
    if let Some(sticker) = &message.sticker {
        return Some(format!("[sticker {}]", sticker.emoji.as_deref().unwrap_or_default()));
    }
    let place = message.location.as_ref()?;
    Some(format!("[location: {}, {}]", place.latitude, place.longitude))
}
