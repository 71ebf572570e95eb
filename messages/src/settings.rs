//! The configuration's sections: names, types, defaults, meanings (`rookery config schema`).
//!
//! Pure data. Reading, overlays and error texts are the program's; each section's consumer takes its struct.

pub mod budget;
mod channel;
mod delegation;
mod gateway;
mod hooks;
mod loops;
mod mcp;
mod memory;
mod provider;
mod retention;
mod risk;
mod telegram;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use schemars::JsonSchema;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use budget::{BudgetSettings, Price, SpendLimit};
pub use channel::{ChannelSettings, OnUnknown, OwnChannelSettings, WebhookSettings};
pub use delegation::DelegationSettings;
pub use gateway::{AuthRole, GatewaySettings, TokenSettings};
pub use hooks::HookSettings;
pub use loops::LoopDetection;
pub use mcp::{
    FilterMode, McpBundle, McpOAuthSettings, McpServerSettings, McpSettings, OAuthGrant,
    ToolFilterGroup,
};
pub use memory::{EmbeddingSettings, MemoryBackend, MemorySettings};
pub use provider::{CallIdForm, ProviderKind, ProviderSettings, ReasoningEffort, ToolMode};
pub use retention::RetentionSettings;
pub use risk::{AutonomyLevel, NetworkSettings, RateLimit, RiskProfile};
pub use telegram::{GroupMode, TelegramSettings};

/// A configured secret. Shown nowhere; read only by the request it authenticates (I12).
#[derive(Clone)]
pub struct Secret(SecretString);

impl Secret {
    /// From its text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(SecretString::from(text.into()))
    }

    /// The secret itself.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

/// Written out, it is `[secret]`: the effective configuration can be shown (I12).
impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("[secret]")
    }
}

impl JsonSchema for Secret {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Secret".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "writeOnly": true })
    }
}

/// The whole configuration.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Version of this file's form. Only 1 is known.
    pub config_version: u32,
    /// Folder for the database, the admin token (mode 0600) and the log file.
    pub data_dir: PathBuf,
    /// The database.
    pub store: StoreSettings,
    /// HTTP, WebSocket, web page, admin API.
    pub gateway: GatewaySettings,
    /// How the service ends.
    pub shutdown: ShutdownSettings,
    /// Conversations.
    pub sessions: SessionSettings,
    /// Approvals.
    pub approvals: ApprovalSettings,
    /// How long what has ended is kept.
    pub retention: RetentionSettings,
    /// What all turns together may spend, a day (UTC). At a limit the next model call is refused.
    pub budget: SpendLimit,
    /// What is remembered from one conversation to the next.
    pub memory: MemorySettings,
    /// Model providers, by profile name.
    pub providers: BTreeMap<String, ProviderSettings>,
    /// Agents, by name.
    pub agents: BTreeMap<String, AgentSettings>,
    /// What agents may do, by profile name.
    pub risk_profiles: BTreeMap<String, RiskProfile>,
    /// How turns run, by profile name.
    pub runtime_profiles: BTreeMap<String, RuntimeProfile>,
    /// Hooks outside the process, by name.
    pub hooks: BTreeMap<String, HookSettings>,
    /// Channels, by platform, then alias.
    pub channels: ChannelSettings,
    /// Servers of the Model Context Protocol, whose tools agents may be granted.
    pub mcp: McpSettings,
    /// Grants of MCP servers' tools, by a name that agents refer to.
    pub mcp_bundles: BTreeMap<String, McpBundle>,
    /// What references to files, and to the environment's secrets, stand for, whatever key they are in: as
    /// secret as a key that is one. Not a key itself.
    #[serde(skip)]
    pub referenced: Vec<Secret>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            config_version: 1,
            data_dir: PathBuf::from("data"),
            store: StoreSettings::default(),
            gateway: GatewaySettings::default(),
            shutdown: ShutdownSettings::default(),
            sessions: SessionSettings::default(),
            approvals: ApprovalSettings::default(),
            retention: RetentionSettings::default(),
            budget: SpendLimit::default(),
            memory: MemorySettings::default(),
            providers: BTreeMap::new(),
            agents: BTreeMap::new(),
            risk_profiles: BTreeMap::new(),
            runtime_profiles: BTreeMap::new(),
            hooks: BTreeMap::new(),
            channels: ChannelSettings::default(),
            mcp: McpSettings::default(),
            mcp_bundles: BTreeMap::new(),
            referenced: Vec::new(),
        }
    }
}

/// What a commit survives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Loss of power: every commit is synced to disk.
    #[default]
    Power,
    /// The end of the process, `kill -9` included; not loss of power.
    Process,
}

/// The database.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StoreSettings {
    /// The file. Default: `rookery.db` in `data_dir`.
    pub path: Option<PathBuf>,
    /// What a commit survives: `power` or `process`.
    pub durability: Durability,
}

/// How the service ends.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ShutdownSettings {
    /// How long running turns may take to finish after SIGTERM, in seconds.
    pub drain_secs: u64,
}

impl Default for ShutdownSettings {
    fn default() -> Self {
        Self { drain_secs: 20 }
    }
}

/// Conversations.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SessionSettings {
    /// A conversation's actor ends after so many idle seconds; its state is in the store.
    pub idle_secs: u64,
    /// Most conversations with an actor at once.
    pub max_active: usize,
    /// A turn is failed after so many attempts in a row that ended in a crash without getting any further.
    pub max_attempts: u32,
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self { idle_secs: 60, max_active: 10_000, max_attempts: 3 }
    }
}

/// Approvals.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ApprovalSettings {
    /// A request becomes *no answer* after so many seconds.
    pub timeout_secs: u64,
    /// An *always* grant ends after so many seconds.
    pub grant_secs: u64,
}

impl Default for ApprovalSettings {
    fn default() -> Self {
        Self { timeout_secs: 3_600, grant_secs: 86_400 }
    }
}

/// Defaults that serde needs as functions.
mod defaults {
    pub(super) fn idle_timeout_secs() -> u64 {
        90
    }
    pub(super) fn max_retry_after_secs() -> u64 {
        // A call waits for 300 s in all, and those that wait come back spread out.
        240
    }
    pub(super) fn max_concurrency() -> usize {
        64
    }
    pub(super) fn max_attempts() -> u32 {
        4
    }
    pub(super) fn queue_limit() -> u32 {
        20
    }
    pub(super) fn debounce_ms() -> u64 {
        1_000
    }
    pub(super) fn allow_all() -> Vec<String> {
        vec!["*".to_owned()]
    }
    pub(super) fn yes() -> bool {
        true
    }
    pub(super) fn profile() -> String {
        "default".to_owned()
    }
}

/// An agent.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentSettings {
    /// The provider profile it calls first. Default: `main`, `openai`, or the first there is.
    #[serde(default)]
    pub provider: String,
    /// Provider profiles its people may choose by `/model`, beside this one and its fallbacks.
    #[serde(default)]
    pub models: Vec<String>,
    /// The provider profile that is asked first while the conversation shows images, if the model that would
    /// be asked does not see them. Absent: that one reads where they are, and nothing more.
    #[serde(default)]
    pub vision_provider: Option<String>,
    /// What it may do.
    #[serde(default = "defaults::profile")]
    pub risk_profile: String,
    /// How its turns run.
    #[serde(default = "defaults::profile")]
    pub runtime_profile: String,
    /// Its folder. Default: `work/<name>`.
    #[serde(default)]
    pub workspace: Option<PathBuf>,
    /// The channels it owns, such as `webhook.ci`, `cli`, `ws`. A channel has one owner.
    #[serde(default)]
    pub channels: Vec<String>,
    /// What it is told first.
    #[serde(default)]
    pub system_prompt: Option<String>,
    /// The hooks of its turns, in the order they are asked.
    #[serde(default)]
    pub hooks: Vec<String>,
    /// Where approvals are asked beside the turn's own channel: `admin`, or a channel with `approvers`, who
    /// answer there: `ws`, `cli`, a webhook such as `webhook.ops` with a `secret` and a `reply_url`, or a chat
    /// of a Telegram bot such as `telegram.main:123456`, where it is asked with buttons.
    #[serde(default)]
    pub approval_route: Option<String>,
    /// If nobody can be reached by `approval_route`, the turn's own people are asked; else it is denied.
    #[serde(default)]
    pub approval_route_inherit: bool,
    /// Receipts of its tool results.
    #[serde(default)]
    pub tool_receipts: ReceiptSettings,
    /// The bundles of MCP tools it is granted. None: no MCP tools.
    #[serde(default)]
    pub mcp_bundles: Vec<String>,
    /// Which of the granted MCP tools a turn is shown. None: all. They hide; they never grant.
    #[serde(default)]
    pub tool_filter_groups: Vec<ToolFilterGroup>,
    /// Its turns are told unasked what memory holds about their message. Its tools read and write it all the
    /// same.
    #[serde(default = "defaults::yes")]
    pub uses_memory: bool,
}

/// Receipts of an agent's tool results.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReceiptSettings {
    /// Each successful result gets a receipt, which `rookery receipts verify` checks.
    pub enabled: bool,
    /// A turn's receipts are listed below its reply.
    pub show_in_response: bool,
}

/// What a turn does when it reaches its iteration cap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CapBehaviour {
    /// It fails, naming the cap.
    #[default]
    Error,
    /// It makes one more call without tools, and answers with that.
    Summary,
}

/// How turns run.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RuntimeProfile {
    /// Most model calls that may ask for tools, a turn.
    pub max_tool_iterations: u32,
    /// Several safe calls of one response run at once.
    pub parallel_tools: bool,
    /// Longest tool result that enters the history, in characters; 0 is no limit.
    pub max_tool_result_chars: usize,
    /// The window to keep a conversation in, in tokens; 0 is no limit.
    pub max_context_tokens: u64,
    /// What happens at the cap: `error` or `summary`.
    pub at_cap: CapBehaviour,
    /// Identical calls within one response run once; read-only tools and those below are exempt.
    pub duplicate_guard: bool,
    /// Tools the duplicate guard leaves alone.
    pub duplicate_exempt: Vec<String>,
    /// Only native tool calls count: calls written as text are shown as text, and a model with
    /// `tool_mode = "text"` gets no tools.
    pub strict_tool_parsing: bool,
    /// How long a stopped tool may take before it is aborted, in milliseconds.
    pub stop_grace_ms: u64,
    /// A turn without progress for so many seconds is failed; 0 is never.
    pub progress_timeout_secs: u64,
    /// A model call, its retries and fallbacks included, that takes so many seconds is ended, however lively its
    /// stream; 0 is never.
    pub step_timeout_secs: u64,
    /// What turns may spend.
    pub budget: BudgetSettings,
    /// How far turns may hand work on to children.
    pub delegation: DelegationSettings,
    /// When a turn that gets nowhere is told so, held up and ended.
    pub loop_detection: LoopDetection,
}

impl Default for RuntimeProfile {
    fn default() -> Self {
        Self {
            max_tool_iterations: 10,
            parallel_tools: true,
            max_tool_result_chars: 50_000,
            max_context_tokens: 100_000,
            at_cap: CapBehaviour::Error,
            duplicate_guard: true,
            duplicate_exempt: Vec::new(),
            strict_tool_parsing: false,
            stop_grace_ms: 2_000,
            progress_timeout_secs: 1_800,
            step_timeout_secs: 0,
            budget: BudgetSettings::default(),
            delegation: DelegationSettings::default(),
            loop_detection: LoopDetection::default(),
        }
    }
}
