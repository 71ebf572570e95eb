//! An `approval_route` that names a chat: `telegram.main:123`.

use rookery_messages::settings::Settings;

/// A chat of a Telegram bot, as it is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ChatRoute<'a> {
    /// The bot.
    pub(crate) alias: &'a str,
    /// The chat, perhaps with a topic; none was named.
    pub(crate) chat: Option<&'a str>,
}

impl<'a> ChatRoute<'a> {
    /// Reads a route. None: it names no Telegram bot.
    pub(crate) fn parse(route: &'a str) -> Option<Self> {
        let rest = route.strip_prefix("telegram.")?;
        Some(match rest.split_once(':') {
            Some((alias, chat)) => Self { alias, chat: Some(chat) },
            None => Self { alias: rest, chat: None },
        })
    }

    /// Who may decide there: the bot's approvers; in a chat of two, whoever it is with. None: nobody is
    /// named, and in a group nobody is meant by its number.
    pub(crate) fn approvers(&self, settings: &Settings) -> Option<Vec<String>> {
        let bot = settings.channels.telegram.get(self.alias)?;
        let named = bot.approvers.clone().filter(|approvers| !approvers.is_empty());
        named.or_else(|| {
            let chat = self.chat?;
            let person = chat.parse::<i64>().is_ok_and(|number| number > 0);
            person.then(|| vec![chat.to_owned()])
        })
    }
}
