//! Telegram, by its Bot API (<https://core.telegram.org/bots/api>) and long polling.

mod adapter;
mod api;
mod decode;
mod send;
mod types;

use rookery_messages::ids::ChannelId;

pub use adapter::{BotCommand, TelegramAdapter};

/// The id of the bot called `alias`.
pub fn channel_id(alias: &str) -> ChannelId {
    ChannelId::new(format!("telegram.{alias}"))
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
