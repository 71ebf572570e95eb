//! Telegram bots.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{OnUnknown, Secret, defaults};
use crate::channel::QueuePolicy;

/// What of a group's messages is for the bot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GroupMode {
    /// What mentions it, answers it, or is a command.
    #[default]
    Mention,
    /// Everything its privacy mode lets it see.
    All,
}

/// A Telegram bot.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TelegramSettings {
    /// Its token, as BotFather gives it: `123456:ABC…`, without the words around it.
    pub bot_token: Secret,
    /// Where the Bot API is: Telegram's own, or a server of yours.
    #[serde(default = "api_base_url")]
    pub api_base_url: String,
    /// Numeric ids of the people, and of the channels that post, it listens to; `*` is everybody. Default:
    /// nobody.
    #[serde(default)]
    pub allowed_users: Vec<String>,
    /// Others may come in by a one-time code (`rookery pair new`).
    #[serde(default)]
    pub pairing: bool,
    /// Numeric ids of the people who may decide approvals. Default: the turn's sender.
    #[serde(default)]
    pub approvers: Option<Vec<String>>,
    /// What of a group's messages is for it: `mention` (what mentions or answers it, and commands) or `all`.
    #[serde(default)]
    pub groups: GroupMode,
    /// Messages of other bots are answered, if `allowed_users` admits them. Its own never are.
    #[serde(default)]
    pub allow_bots: bool,
    /// With `allow_bots`: so many messages of bots in a row are answered, until a person writes.
    #[serde(default = "bot_chain_limit")]
    pub bot_chain_limit: u32,
    /// Answers are shown while they are written, by changing one message in place.
    #[serde(default = "yes")]
    pub stream: bool,
    /// The shortest time between two changes of that message, in milliseconds.
    #[serde(default = "draft_interval_ms")]
    pub draft_interval_ms: u64,
    /// How long one poll waits for messages, in seconds.
    #[serde(default = "poll_timeout_secs")]
    pub poll_timeout_secs: u64,
    /// Largest attachment that is fetched, in bytes. Telegram's own server gives no more than 20 MB.
    #[serde(default = "max_attachment_bytes")]
    pub max_attachment_bytes: u64,
    /// What happens to a message that arrives while a turn runs: `queue`, `steer`, `interrupt` or `coalesce`.
    #[serde(default)]
    pub queue: QueuePolicy,
    /// Most messages that wait, a conversation.
    #[serde(default = "defaults::queue_limit")]
    pub queue_limit: u32,
    /// With `coalesce`: how long a message waits for others of its sender, in milliseconds.
    #[serde(default = "defaults::debounce_ms")]
    pub debounce_ms: u64,
    /// What is done with a message whose sending has an unknown outcome: `resend` or `hold`.
    #[serde(default)]
    pub on_unknown: OnUnknown,
}

fn api_base_url() -> String {
    "https://api.telegram.org".to_owned()
}

fn yes() -> bool {
    true
}

fn bot_chain_limit() -> u32 {
    3
}

fn draft_interval_ms() -> u64 {
    1_500
}

fn poll_timeout_secs() -> u64 {
    50
}

fn max_attachment_bytes() -> u64 {
    20 * 1_024 * 1_024
}
