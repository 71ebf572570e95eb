//! Channels, and what is common to them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Secret, TelegramSettings, defaults};
use crate::channel::QueuePolicy;
use crate::ids::ChannelId;

/// What there is to say of a built-in channel.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OwnChannelSettings {
    /// Callers that may decide approvals, by their tokens' names; `local` is whoever needs none. Default: the
    /// turn's sender.
    pub approvers: Option<Vec<String>>,
    /// What happens to a message that arrives while a turn runs: `queue`, `steer`, `interrupt` or `coalesce`.
    pub queue: QueuePolicy,
    /// Most messages that wait, a conversation.
    pub queue_limit: u32,
    /// With `coalesce`: a message waits for others until so long none came, in milliseconds; five times as
    /// long in all.
    pub debounce_ms: u64,
}

impl Default for OwnChannelSettings {
    fn default() -> Self {
        Self {
            approvers: None,
            queue: QueuePolicy::Queue,
            queue_limit: defaults::queue_limit(),
            debounce_ms: defaults::debounce_ms(),
        }
    }
}

/// Channels, by platform, then alias. `cli` and `ws` are built in and need no section.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ChannelSettings {
    /// The terminal's chat.
    pub cli: OwnChannelSettings,
    /// WebSocket clients and the web page.
    pub ws: OwnChannelSettings,
    /// Webhooks: `POST /v1/channels/webhook/<alias>`.
    pub webhook: BTreeMap<String, WebhookSettings>,
    /// Telegram bots.
    pub telegram: BTreeMap<String, TelegramSettings>,
}

impl ChannelSettings {
    /// All that there are, by their ids.
    pub fn ids(&self) -> Vec<ChannelId> {
        let own = ["cli", "ws"].map(ChannelId::new);
        let aliases = self.webhook.keys().map(|alias| ChannelId::new(format!("webhook.{alias}")));
        let bots = self.telegram.keys().map(|alias| ChannelId::new(format!("telegram.{alias}")));
        own.into_iter().chain(aliases).chain(bots).collect()
    }
}

/// What is done with a send whose outcome is unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnUnknown {
    /// Sent again, marked as possibly repeated.
    #[default]
    Resend,
    /// Kept as a dead letter.
    Hold,
}

/// A webhook.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookSettings {
    /// Requests must be signed with it. None: callers on loopback may post, or, once `gateway.tokens` are
    /// configured, only callers with a token.
    #[serde(default)]
    pub secret: Option<Secret>,
    /// Senders that may use it; `*` is everybody.
    #[serde(default = "defaults::allow_all")]
    pub allowed_users: Vec<String>,
    /// Others may come in by a one-time code (`rookery pair new`).
    #[serde(default)]
    pub pairing: bool,
    /// Senders that may decide approvals. Default: the turn's sender.
    #[serde(default)]
    pub approvers: Option<Vec<String>>,
    /// Replies are posted there too, signed with the secret.
    #[serde(default)]
    pub reply_url: Option<String>,
    /// What happens to a message that arrives while a turn runs: `queue`, `steer`, `interrupt` or `coalesce`.
    #[serde(default)]
    pub queue: QueuePolicy,
    /// Most messages that wait, a conversation.
    #[serde(default = "defaults::queue_limit")]
    pub queue_limit: u32,
    /// With `coalesce`: a message waits for others until so long none came, in milliseconds; five times as
    /// long in all.
    #[serde(default = "defaults::debounce_ms")]
    pub debounce_ms: u64,
    /// What is done with a post to `reply_url` whose outcome is unknown: `resend` or `hold`.
    #[serde(default)]
    pub on_unknown: OnUnknown,
}

impl Default for WebhookSettings {
    fn default() -> Self {
        Self {
            secret: None,
            allowed_users: defaults::allow_all(),
            pairing: false,
            approvers: None,
            reply_url: None,
            queue: QueuePolicy::Queue,
            queue_limit: defaults::queue_limit(),
            debounce_ms: defaults::debounce_ms(),
            on_unknown: OnUnknown::Resend,
        }
    }
}
