//! What the gateway is wired to.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use rookery_messages::BoxFuture;
use rookery_messages::address::Address;
use rookery_messages::channel::{ChannelAdapter, SenderMsg};
use rookery_messages::ids::{AgentName, ChannelId};
use rookery_messages::session::RouterMsg;
use rookery_messages::settings::{Settings, WebhookSettings};
use rookery_messages::time::World;
use serde::Serialize;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use super::actor::GatewayMsg;
use super::auth::Tokens;
use super::follow::Born;
use crate::channel::IntakeHandle;
use crate::channel::commands::Desk;
use crate::channel::pairing::Door;
use crate::observe::{EventHub, ObserverHandle};
use crate::policy::redact::Redactor;
use crate::runtime::Directory;
use crate::store::StoreClient;
use crate::tool::receipts::ReceiptKeys;

/// One part of the service, for `/readyz`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Component {
    /// Its name.
    pub name: String,
    /// Whether it can do its work.
    pub ready: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Whether the service can take work.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Readiness {
    /// All of it.
    pub ready: bool,
    /// Part by part.
    pub components: Vec<Component>,
}

/// What the probes ask. None of these may block.
#[derive(Clone)]
pub struct Probes {
    /// Prometheus text; bounded in time.
    pub metrics: Arc<dyn Fn() -> BoxFuture<'static, String> + Send + Sync>,
    /// Whether the service can take work.
    pub ready: Arc<dyn Fn() -> Readiness + Send + Sync>,
    /// Whether the tree is alive.
    pub live: Arc<dyn Fn() -> bool + Send + Sync>,
}

/// What the gateway is wired to. Shared by its incarnations.
pub struct GatewayDeps {
    /// The configuration.
    pub settings: Arc<Settings>,
    /// Knows what is shown to nobody.
    pub redactor: Arc<Redactor>,
    /// The store.
    pub store: StoreClient,
    /// The event streams.
    pub hub: Arc<EventHub>,
    /// Who lives: a cancel finds its turn here.
    pub directory: Arc<Directory>,
    /// Steering and approval hints go here.
    pub router: Address<RouterMsg>,
    /// The channels messages come in by: `ws`, `cli`, `webhook.<alias>`.
    pub intakes: HashMap<ChannelId, IntakeHandle>,
    /// The agents' folders: what comes with a message is put there.
    pub workspaces: HashMap<AgentName, PathBuf>,
    /// The channels that carry what is sent to them. Others are read by whoever is connected.
    pub outlets: HashMap<ChannelId, Arc<dyn ChannelAdapter>>,
    /// The channels' senders: what an operator sends, or sends again, is due at once.
    pub senders: HashMap<ChannelId, Address<SenderMsg>>,
    /// Who is told.
    pub observer: ObserverHandle,
    /// Who is let into the channels that take messages in here.
    pub doors: HashMap<ChannelId, Arc<Door>>,
    /// Carries out commands that come as messages, and stops turns.
    pub desk: Arc<Desk>,
    /// Clock, ids, jitter.
    pub world: World,
    /// Health and metrics.
    pub probes: Probes,
    /// Who may come in.
    pub tokens: Tokens,
    /// The keys of receipts, for those who check one.
    pub receipts: Arc<ReceiptKeys>,
    /// Routes from elsewhere, without a fallback: the tree, actor operations. The auth layer stands
    /// before them, and they find the `Caller` in the request's extensions.
    pub extra: Vec<axum::Router>,
}

/// What one incarnation's handlers share.
pub(super) struct Shared {
    pub deps: Arc<GatewayDeps>,
    /// Where we really listen: the port of a configured `:0` is known only now.
    pub local: SocketAddr,
    /// Upgraded sockets go here.
    pub gateway: Address<GatewayMsg>,
    /// WebSocket connections now.
    pub sockets: Arc<AtomicUsize>,
    /// Conversations that got their first message over a WebSocket.
    pub births: broadcast::Sender<Born>,
    /// Cancelled: streams end, waiting requests are answered, connections close after that.
    pub closing: CancellationToken,
}

impl Shared {
    /// The webhook called `alias`.
    pub fn webhook(&self, alias: &str) -> Option<&WebhookSettings> {
        self.deps.settings.channels.webhook.get(alias)
    }

    /// Whether anybody on this machine may post to the channel and read what came of it.
    pub fn is_open_channel(&self, channel: &ChannelId) -> bool {
        match channel.as_str().split_once('.') {
            None => matches!(channel.as_str(), "ws" | "cli"),
            Some(("webhook", alias)) => {
                self.webhook(alias).is_some_and(|webhook| webhook.secret.is_none())
            }
            Some(_) => false,
        }
    }
}
