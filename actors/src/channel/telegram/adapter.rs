//! The adapter: long polling in, messages out.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use rookery_messages::BoxFuture;
use rookery_messages::channel::{
    AttachmentRef, Capabilities, ChannelAdapter, ChannelEvent, DownloadFault, Markup, Outgoing,
    Press, ReceiveFault, Received, SendAttempt, SendBudget, Streaming, Unit,
};
use rookery_messages::envelope::ReplyAddress;
use rookery_messages::ids::ChannelId;
use rookery_messages::settings::{GroupMode, TelegramSettings};
use rookery_messages::tool::head;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::api::{ApiError, BotApi};
use super::decode::{self, Me};
use super::send::{self, chat, is_group, place};
use super::types::{FilePath, Update, User};

/// Longest message, in UTF-16 units, once its tags are read (`sendMessage`, field `text`).
const MAX_MESSAGE: usize = 4_096;
/// Longest notice on a press, in bytes; 200 characters are allowed (`answerCallbackQuery`).
const MAX_NOTICE: usize = 190;
/// How long Telegram shows somebody typing: 5 s (`sendChatAction`).
const TYPING: Duration = Duration::from_secs(4);
/// About one message a second to a person (bots FAQ, "My bot is hitting limits").
const PERSON_GAP: Duration = Duration::from_secs(1);
/// At most 20 messages a minute to a group (there, too).
const GROUP_GAP: Duration = Duration::from_secs(3);
/// What a poll gets beyond its own time before it is given up.
const POLL_MARGIN: Duration = Duration::from_secs(10);
/// A short call may take so long.
const CALL_LIMIT: Duration = Duration::from_secs(20);
/// A sign of life may take so long.
const TYPING_LIMIT: Duration = Duration::from_secs(5);

/// A command as the platform's menu shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BotCommand {
    /// Without its slash.
    pub name: &'static str,
    /// What it does.
    pub description: &'static str,
}

/// One bot.
pub struct TelegramAdapter {
    id: ChannelId,
    api: BotApi,
    groups: GroupMode,
    draft_interval: Option<Duration>,
    poll: Duration,
    attachments: u64,
    commands: Vec<BotCommand>,
    me: OnceCell<Me>,
    /// The first update that is not acknowledged; 0: whatever there is.
    next: AtomicI64,
}

impl TelegramAdapter {
    /// For one bot, with the commands of its menu. The error says which setting can't be used.
    pub fn new(
        id: ChannelId,
        settings: &TelegramSettings,
        commands: &[BotCommand],
    ) -> Result<Self, String> {
        let api = BotApi::new(&settings.api_base_url, settings.bot_token.clone())
            .map_err(|why| format!("channels.{id}.{why}"))?;
        Ok(Self {
            id,
            api,
            groups: settings.groups,
            draft_interval: settings
                .stream
                .then_some(Duration::from_millis(settings.draft_interval_ms)),
            poll: Duration::from_secs(settings.poll_timeout_secs),
            attachments: settings.max_attachment_bytes,
            commands: commands.to_vec(),
            me: OnceCell::new(),
            next: AtomicI64::new(0),
        })
    }

    /// Who we are, asked once. The menu is set then, too.
    async fn me(&self) -> Result<&Me, ReceiveFault> {
        self.me
            .get_or_try_init(|| async {
                let user: User =
                    self.call("getMe", &json!({})).await.map_err(|error| self.fault(error))?;
                self.set_menu().await;
                Ok(Me { id: user.id, username: user.username.unwrap_or_default() })
            })
            .await
    }

    async fn set_menu(&self) {
        let commands: Vec<Value> = self
            .commands
            .iter()
            .map(|command| json!({ "command": command.name, "description": command.description }))
            .collect();
        let set = self.call::<bool>("setMyCommands", &json!({ "commands": commands })).await;
        if let Err(error) = set {
            // Commands work without it; only the menu is missing.
            tracing::warn!(channel = %self.id, %error, "the menu of commands could not be set");
        }
    }

    async fn call<T: serde::de::DeserializeOwned>(
        &self,
        method: &str,
        body: &Value,
    ) -> Result<T, ApiError> {
        self.api.call(method, body, CALL_LIMIT).await
    }

    async fn poll(&self) -> Result<Vec<Received>, ReceiveFault> {
        let me = self.me().await?;
        let mut body = json!({
            "timeout": self.poll.as_secs(),
            "allowed_updates": ["message", "channel_post", "callback_query"],
        });
        // Asking for what follows is what confirms all before it, so this waits for the commit.
        match self.next.load(Ordering::Acquire) {
            0 => {}
            next => body["offset"] = json!(next),
        }
        let limit = self.poll + POLL_MARGIN;
        let updates: Vec<Value> =
            self.api.call("getUpdates", &body, limit).await.map_err(|error| self.fault(error))?;
        Ok(updates.into_iter().filter_map(|update| self.received(me, update)).collect())
    }

    fn received(&self, me: &Me, update: Value) -> Option<Received> {
        let number = update.get("update_id").and_then(Value::as_i64)?;
        let event = match serde_json::from_value::<Update>(update) {
            Ok(update) => decode::event(&self.id, me, self.groups, update),
            Err(error) => {
                tracing::warn!(channel = %self.id, update = number, %error, "an update can't be read");
                ChannelEvent::Ignored("unreadable")
            }
        };
        Some(Received { token: number.to_string(), event })
    }

    fn fault(&self, error: ApiError) -> ReceiveFault {
        let id = &self.id;
        match &error {
            ApiError::Refused { code: 401 | 404, .. } => ReceiveFault::Permanent {
                cause: format!(
                    "{error}: the bot's token is not known there; check channels.{id}.bot_token, then \
                     restart the channel"
                ),
            },
            ApiError::Refused { code: 409, description, .. } if description.contains("webhook") => {
                ReceiveFault::Conflict {
                    cause: format!(
                        "{error}: a webhook is set for this bot; remove it with deleteWebhook"
                    ),
                }
            }
            ApiError::Refused { code: 409, .. } => ReceiveFault::Conflict {
                cause: format!("{error}: another instance uses this bot's token; stop it"),
            },
            ApiError::Refused { retry_after, .. } => {
                ReceiveFault::Passing { cause: error.to_string(), retry_after: *retry_after }
            }
            ApiError::NotSent | ApiError::Unknown(_) => {
                ReceiveFault::Passing { cause: error.to_string(), retry_after: None }
            }
        }
    }
}

impl ChannelAdapter for TelegramAdapter {
    fn id(&self) -> &ChannelId {
        &self.id
    }

    fn own_id(&self) -> Option<String> {
        self.me.get().map(|me| me.id.to_string())
    }

    fn address(&self, conversation: &str) -> Result<ReplyAddress, String> {
        super::address(&self.id, conversation)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            limit: Some(MAX_MESSAGE),
            unit: Unit::Utf16,
            markup: Markup::TelegramHtml,
            streaming: match self.draft_interval {
                Some(interval) => Streaming::Draft { interval },
                None => Streaming::None,
            },
            typing: Some(TYPING),
            buttons: true,
            attachments: Some(self.attachments),
            bots: true,
        }
    }

    fn send<'a>(&'a self, message: &'a Outgoing<'a>) -> BoxFuture<'a, SendAttempt> {
        Box::pin(send::send(&self.api, message))
    }

    fn receive(&self) -> BoxFuture<'_, Result<Vec<Received>, ReceiveFault>> {
        Box::pin(self.poll())
    }

    fn acknowledge<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<(), ReceiveFault>> {
        // Told with the next poll.
        if let Ok(number) = token.parse::<i64>() {
            self.next.fetch_max(number.saturating_add(1), Ordering::AcqRel);
        }
        Box::pin(async { Ok(()) })
    }

    fn download<'a>(
        &'a self,
        file: &'a AttachmentRef,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<u8>, DownloadFault>> {
        Box::pin(async move {
            let found: Result<FilePath, ApiError> =
                self.call("getFile", &json!({ "file_id": file.id })).await;
            match found {
                Ok(FilePath { file_path: Some(path) }) => self.api.file(&path, limit).await,
                Ok(FilePath { file_path: None }) => Err(DownloadFault {
                    cause: "Telegram does not give this file".to_owned(),
                    again: false,
                }),
                Err(error) => {
                    let again = !matches!(error, ApiError::Refused { code: 400..=428, .. });
                    Err(DownloadFault { cause: error.to_string(), again })
                }
            }
        })
    }

    fn typing<'a>(&'a self, address: &'a ReplyAddress) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let mut body = place(address);
            body["action"] = json!("typing");
            let shown: Result<bool, ApiError> =
                self.api.call("sendChatAction", &body, TYPING_LIMIT).await;
            if let Err(error) = shown {
                tracing::debug!(channel = %self.id, %error, "typing could not be shown");
            }
        })
    }

    fn answer<'a>(&'a self, press: &'a Press, text: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let body = json!({ "callback_query_id": press.id, "text": head(text, MAX_NOTICE) });
            let told: Result<bool, ApiError> = self.call("answerCallbackQuery", &body).await;
            if let Err(error) = told {
                // Presses that are old can't be answered any more; what they decided stands.
                tracing::debug!(channel = %self.id, %error, "a press could not be answered");
            }
        })
    }

    fn budget(&self, address: &ReplyAddress) -> SendBudget {
        let gap = if is_group(address) { GROUP_GAP } else { PERSON_GAP };
        SendBudget { key: chat(address).to_owned(), gap }
    }
}
