//! What an embedded agent is made of.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rookery_messages::channel::QueuePolicy;
use rookery_messages::hook::Hook;
use rookery_messages::memory::Memory;
use rookery_messages::model::ModelProvider;
use rookery_messages::observe::Observer;
use rookery_messages::settings::{
    Durability, Price, RetentionSettings, RiskProfile, RuntimeProfile, Secret,
};
use rookery_messages::time::World;
use rookery_messages::tool::Tool;

use super::agent::Agent;
use super::{EmbedError, tree};
use crate::memory::Floor;
use crate::runtime::system_world;
use crate::tool::registry::Registry;

/// Builds an [`Agent`].
pub struct AgentBuilder {
    pub(super) providers: Vec<Arc<dyn ModelProvider>>,
    pub(super) system_prompt: String,
    pub(super) tools: Registry,
    pub(super) refused_tool: Option<EmbedError>,
    pub(super) risk: RiskProfile,
    pub(super) runtime: RuntimeProfile,
    pub(super) workspace: Option<PathBuf>,
    pub(super) store: Option<PathBuf>,
    pub(super) durability: Durability,
    pub(super) can_ask: bool,
    pub(super) approval_timeout: Duration,
    pub(super) policy: QueuePolicy,
    pub(super) queue_limit: u32,
    pub(super) retention: RetentionSettings,
    pub(super) price: Option<Price>,
    pub(super) hooks: Vec<Arc<dyn Hook>>,
    pub(super) observers: Vec<Arc<dyn Observer>>,
    pub(super) world: World,
    pub(super) memory: Option<Remembers>,
    pub(super) floor: Floor,
    pub(super) secrets: Vec<Secret>,
}

/// Where an embedded agent remembers.
pub(super) enum Remembers {
    /// In a file that goes with the agent.
    WithAgent,
    /// In this file.
    File(PathBuf),
    /// In a backend of the program's own.
    Own(Arc<dyn Memory>),
}

impl AgentBuilder {
    pub(super) fn new(provider: Arc<dyn ModelProvider>) -> Self {
        Self {
            providers: vec![provider],
            memory: None,
            floor: Floor::default(),
            secrets: Vec::new(),
            system_prompt: "You are a helpful assistant.".to_owned(),
            tools: Registry::new(),
            refused_tool: None,
            risk: RiskProfile::default(),
            runtime: RuntimeProfile::default(),
            workspace: None,
            store: None,
            durability: Durability::Process,
            can_ask: false,
            approval_timeout: Duration::from_secs(3_600),
            policy: QueuePolicy::Queue,
            queue_limit: 20,
            retention: RetentionSettings::default(),
            price: None,
            hooks: Vec::new(),
            observers: Vec::new(),
            world: system_world(),
        }
    }

    /// What the model is told first.
    pub fn system_prompt(mut self, text: impl Into<String>) -> Self {
        self.system_prompt = text.into();
        self
    }

    /// Adds a provider that is asked when those before it can't answer.
    pub fn fallback(mut self, provider: Arc<dyn ModelProvider>) -> Self {
        self.providers.push(provider);
        self
    }

    /// The agent remembers from one conversation to the next, for as long as it lives: its turns are told
    /// what has to do with their message, and the memory tools are on offer.
    pub fn remembers(mut self) -> Self {
        self.memory = Some(Remembers::WithAgent);
        self
    }

    /// As [`AgentBuilder::remembers`], in a file that outlives the agent.
    pub fn remembers_in(mut self, file: impl Into<PathBuf>) -> Self {
        self.memory = Some(Remembers::File(file.into()));
        self
    }

    /// As [`AgentBuilder::remembers`], in a backend of your own. It is closed with the agent.
    pub fn memory(mut self, memory: Arc<dyn Memory>) -> Self {
        self.memory = Some(Remembers::Own(memory));
        self
    }

    /// Which entries turns are told unasked. Default: relevance 0.4, halved every seven days.
    pub fn recall_floor(mut self, floor: Floor) -> Self {
        self.floor = floor;
        self
    }

    /// A text that is taken out wherever it would be shown, logged or remembered.
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secrets.push(secret);
        self
    }

    /// Adds a tool. A name that can't be used is reported by [`AgentBuilder::build`].
    pub fn tool(mut self, tool: Arc<dyn Tool>) -> Self {
        if let Err(error) = self.tools.insert(tool) {
            self.refused_tool.get_or_insert(error.into());
        }
        self
    }

    /// What the tools may do. Default: *supervised*.
    pub fn risk(mut self, risk: RiskProfile) -> Self {
        self.risk = risk;
        self
    }

    /// How turns run: caps, windows, budgets.
    pub fn runtime(mut self, runtime: RuntimeProfile) -> Self {
        self.runtime = runtime;
        self
    }

    /// The folder tools work in. Default: an empty one that goes with the agent.
    pub fn workspace(mut self, folder: impl Into<PathBuf>) -> Self {
        self.workspace = Some(folder.into());
        self
    }

    /// The database, which outlives the agent: the next one on it goes on where this one ended. Default:
    /// one that goes with the agent.
    pub fn store(mut self, file: impl Into<PathBuf>, durability: Durability) -> Self {
        self.store = Some(file.into());
        self.durability = durability;
        self
    }

    /// The program answers approvals: [`Agent::decide`]. Otherwise what would ask is denied at once.
    pub fn asks(mut self, timeout: Duration) -> Self {
        self.can_ask = true;
        self.approval_timeout = timeout;
        self
    }

    /// What becomes of a message that comes while the conversation's turn runs, and how many may wait.
    pub fn queue(mut self, policy: QueuePolicy, limit: u32) -> Self {
        self.policy = policy;
        self.queue_limit = limit;
        self
    }

    /// What a million of the provider's tokens cost: for the record, and for a `max_cost` of the runtime
    /// profile's budget.
    pub fn price(mut self, price: Price) -> Self {
        self.price = Some(price);
        self
    }

    /// How long what has ended is kept.
    pub fn retention(mut self, retention: RetentionSettings) -> Self {
        self.retention = retention;
        self
    }

    /// Asked before and after calls, in the order they are added.
    pub fn hook(mut self, hook: Arc<dyn Hook>) -> Self {
        self.hooks.push(hook);
        self
    }

    /// Told what happens. Must not block.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.push(observer);
        self
    }

    /// Clock, ids and jitter: for tests.
    pub fn world(mut self, world: World) -> Self {
        self.world = world;
        self
    }

    /// Opens the store and starts the actors. Open turns of a former agent on the same store go on.
    pub async fn build(self) -> Result<Agent, EmbedError> {
        tree::build(self).await
    }
}
