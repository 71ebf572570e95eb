//! Telegram, by its Bot API (<https://core.telegram.org/bots/api>) and long polling.

mod adapter;
mod api;
mod decode;
mod send;
mod types;

use rookery_messages::envelope::ReplyAddress;
use rookery_messages::ids::ChannelId;

pub use adapter::{BotCommand, TelegramAdapter};

/// The id of the bot called `alias`.
pub fn channel_id(alias: &str) -> ChannelId {
    ChannelId::new(format!("telegram.{alias}"))
}

/// The address of a chat, or of a topic in it, by their numbers: `123`, `-100123`, `-100123/45`.
pub fn address(channel: &ChannelId, conversation: &str) -> Result<ReplyAddress, String> {
    let (chat, topic) = match conversation.split_once('/') {
        Some((chat, topic)) => (chat, Some(topic)),
        None => (conversation, None),
    };
    let is_number = |text: &str| text.parse::<i64>().is_ok_and(|number| number.to_string() == text);
    if !is_number(chat) || topic.is_some_and(|topic| !is_number(topic)) {
        return Err(
            "a chat is named by its number, such as 123 or -100123, and a topic by -100123/45"
                .to_owned(),
        );
    }
    Ok(ReplyAddress {
        channel: channel.clone(),
        conversation: conversation.to_owned(),
        thread: topic.map(str::to_owned),
        reply_to: None,
    })
}

/// Whether a text looks like a bot's token: `<digits>:<35 or so letters, digits, - and _>`.
pub fn is_token(text: &str) -> bool {
    let Some((id, key)) = text.split_once(':') else { return false };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    !id.is_empty()
        && id.bytes().all(|b| b.is_ascii_digit())
        && key.len() >= 20
        && key.chars().all(plain)
}

#[cfg(test)]
mod tests;
