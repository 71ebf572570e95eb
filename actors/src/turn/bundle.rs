//! What a turn runs with, resolved once (T3): model access, tools, gate, settings, surfaces.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rookery_messages::BoxFuture;
use rookery_messages::address::Address;
use rookery_messages::channel::SenderMsg;
use rookery_messages::ids::{AgentName, ChannelId};
use rookery_messages::settings::RuntimeProfile;
use rookery_messages::store::StoreError;
use rookery_messages::tool::{ProcessLedger, ProcessRecord};

use crate::model::ProfileRef;
use crate::observe::{EventHub, ObserverHandle};
use crate::policy::gate::Gate;
use crate::policy::redact::Redactor;
use crate::store::StoreClient;
use crate::tool::mcp::McpGrant;
use crate::tool::registry::Registry;

/// One agent, resolved.
#[derive(Clone)]
pub struct AgentBundle {
    /// Its name.
    pub name: AgentName,
    /// The provider profiles to try, in order.
    pub chain: Arc<[ProfileRef]>,
    /// Its built-in tools.
    pub tools: Arc<Registry>,
    /// The MCP tools it is granted.
    pub mcp: Arc<McpGrant>,
    /// What they may do.
    pub gate: Gate,
    /// How its turns run.
    pub runtime: RuntimeProfile,
    /// What it is told first.
    pub system_prompt: String,
    /// Where approvals of turns without a way to ask go.
    pub approval_route: Option<String>,
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
    /// Channels by id.
    pub channels: HashMap<ChannelId, ChannelFacts>,
    /// A request becomes *no answer* after this.
    pub approval_timeout: Duration,
    /// About how many characters of history a turn is given at most.
    pub history_chars: usize,
    /// A turn is failed after so many attempts.
    pub max_attempts: u32,
    /// A conversation's actor ends after this idle time.
    pub session_idle: Duration,
    /// Most conversations with an actor at once.
    pub max_sessions: usize,
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
