//! What a turn runs with, resolved once (T3): model access, tools, gate, settings, surfaces.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rookery_messages::BoxFuture;
use rookery_messages::address::Address;
use rookery_messages::channel::SenderMsg;
use rookery_messages::envelope::ReplyAddress;
use rookery_messages::ids::{AgentName, ChannelId};
use rookery_messages::session::RouterMsg;
use rookery_messages::settings::{ReceiptSettings, RetentionSettings, RuntimeProfile, SpendLimit};
use rookery_messages::store::{ClaimTerms, StoreError};
use rookery_messages::tool::{ProcessLedger, ProcessRecord};

use super::budget::Prices;
use super::delegate::Nested;
use super::fit::Anchor;
use super::narrowing::Narrowing;
use super::recall::MemoryAccess;
use crate::hook::Hooks;
use crate::model::ProfileRef;
use crate::observe::{EventHub, ObserverHandle};
use crate::policy::gate::Gate;
use crate::policy::rate::RateLimiter;
use crate::policy::redact::Redactor;
use crate::store::StoreClient;
use crate::tool::mcp::McpGrant;
use crate::tool::receipts::ReceiptKeys;
use crate::tool::registry::Registry;

/// One agent, resolved.
#[derive(Clone)]
pub struct AgentBundle {
    /// Its name.
    pub name: AgentName,
    /// The provider profiles to try, in order.
    pub chain: Arc<[ProfileRef]>,
    /// Profiles its people may choose instead of the first.
    pub models: Arc<[ProfileRef]>,
    /// Profiles that see, asked first while there are images and its first profile doesn't.
    pub vision: Arc<[ProfileRef]>,
    /// Its built-in tools.
    pub tools: Arc<Registry>,
    /// The MCP tools it is granted.
    pub mcp: Arc<McpGrant>,
    /// What they may do.
    pub gate: Gate,
    /// What this run may use of them (T2).
    pub narrowing: Narrowing,
    /// Its own channels: where its tools may deliver.
    pub channels: Arc<[ChannelId]>,
    /// Who is asked before and after its calls.
    pub hooks: Hooks,
    /// How its turns run.
    pub runtime: RuntimeProfile,
    /// What it is told first.
    pub system_prompt: String,
    /// Where approvals are asked beside the turn's own channel.
    pub approval_route: Option<AskedAt>,
    /// If nobody can be reached there, the turn's own people are asked.
    pub approval_inherits: bool,
    /// Receipts of its tool results.
    pub receipts: ReceiptSettings,
    /// What its provider counted in the last request.
    pub anchor: Arc<Anchor>,
    /// What its turns are told unasked; none: it has no memory.
    pub memory: Option<MemoryAccess>,
}

/// Where approvals are asked beside the turn's own channel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AskedAt {
    /// The admin API, its command line included.
    Admin,
    /// A channel whose approvers answer there.
    Channel(ChannelId),
    /// A chat with buttons.
    Chat(AskedChat),
}

/// A chat where approvals of other conversations are asked, and its people who may decide.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AskedChat {
    /// The chat.
    pub address: ReplyAddress,
    /// Its people; never nobody.
    pub approvers: Vec<String>,
}

impl AskedAt {
    /// From its word in the configuration.
    pub fn new(word: &str) -> Self {
        match word {
            "admin" => Self::Admin,
            channel => Self::Channel(ChannelId::new(channel)),
        }
    }
}

impl ChannelFacts {
    /// Its people are asked in their chats: elsewhere than in the turn's own, a route has to name which.
    pub fn asks_in_chats(&self) -> bool {
        self.can_ask && self.posts_replies
    }
}

impl AgentBundle {
    /// Whether policy and this run leave a tool, by its resolved name (T2, T5).
    pub fn admits(&self, tool: &str) -> bool {
        self.gate.admits(tool) && self.narrowing.admits(tool)
    }

    /// The same agent, answered by this profile first; none if it is not among those that may be chosen.
    pub fn answered_by(&self, profile: &str) -> Option<Self> {
        let chosen = self.models.iter().find(|model| model.name == profile)?.clone();
        let others = self.chain.iter().filter(|other| other.name != profile).cloned();
        let chain = std::iter::once(chosen).chain(others).collect();
        Some(Self { chain, ..self.clone() })
    }

    /// The same agent for a run that may use less.
    pub fn narrowed(&self, narrowing: &Narrowing) -> Self {
        Self { narrowing: self.narrowing.and(narrowing), ..self.clone() }
    }
}

/// What a turn has to know of its channel.
#[derive(Clone, Debug)]
pub struct ChannelFacts {
    /// Ends are posted by the channel's sender.
    pub posts_replies: bool,
    /// Its people can be asked for approvals.
    pub can_ask: bool,
    /// Who may decide; none: the turn's sender.
    pub approvers: Option<Vec<String>>,
    /// The actor that sends, if ends are posted.
    pub sender: Option<Address<SenderMsg>>,
}

/// What every session and turn of the service shares.
pub struct TurnDeps {
    /// The store.
    pub store: StoreClient,
    /// The clients' event streams.
    pub hub: Arc<EventHub>,
    /// Metrics and log.
    pub observer: ObserverHandle,
    /// Cleans what is shown.
    pub redactor: Arc<Redactor>,
    /// Agents by name.
    pub agents: HashMap<AgentName, Arc<AgentBundle>>,
    /// Tasks begin, and are stopped, by a hint to it.
    pub router: Address<RouterMsg>,
    /// Turns that run below another's call.
    pub nested: Nested,
    /// Channels by id.
    pub channels: HashMap<ChannelId, ChannelFacts>,
    /// A request becomes *no answer* after this.
    pub approval_timeout: Duration,
    /// On which terms a turn is claimed: its attempts, its history, channels whose waiting messages go
    /// together.
    pub terms: ClaimTerms,
    /// A conversation's actor ends after this idle time.
    pub session_idle: Duration,
    /// Most conversations with an actor at once.
    pub max_sessions: usize,
    /// How long what has ended is kept.
    pub retention: RetentionSettings,
    /// What tokens cost.
    pub prices: Prices,
    /// What all turns together may spend, a day.
    pub budget: SpendLimit,
    /// The keys of receipts.
    pub receipts: Arc<ReceiptKeys>,
    /// How often senders had tools run.
    pub rates: Arc<RateLimiter>,
}

/// The list of live process groups, in the store (A129).
pub struct StoredProcesses(pub StoreClient);

impl ProcessLedger for StoredProcesses {
    fn started(&self, record: ProcessRecord) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move { self.0.process_started(record).await })
    }

    fn ended(&self, record: ProcessRecord) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // A row that stays is looked at by the next life, which finds the group gone.
            if let Err(error) = self.0.process_ended(record.pgid, record.call).await {
                tracing::warn!(pgid = record.pgid, %error, "an ended process group stays recorded");
            }
        })
    }
}
