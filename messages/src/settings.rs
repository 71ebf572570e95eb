//! The configuration's sections: names, types, defaults, meanings (`rookery config schema`).
//!
//! Pure data. Reading, overlays and error texts are the program's; each section's consumer takes its struct.

pub mod budget;
mod delegation;
mod hooks;
mod loops;
mod retention;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use schemars::JsonSchema;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::channel::QueuePolicy;
use crate::ids::ChannelId;

pub use budget::{BudgetSettings, Price, SpendLimit};
pub use delegation::DelegationSettings;
pub use hooks::HookSettings;
pub use loops::LoopDetection;
pub use retention::RetentionSettings;
mod mcp;
mod memory;
mod telegram;
pub use mcp::{
    FilterMode, McpBundle, McpOAuthSettings, McpServerSettings, McpSettings, OAuthGrant,
    ToolFilterGroup,
};

pub use memory::{EmbeddingSettings, MemoryBackend, MemorySettings};
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

/// HTTP, WebSocket, web page, admin API.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GatewaySettings {
    /// Address and port. An address off loopback needs `tokens`.
    pub listen: String,
    /// Names under which requests may come beside loopback and `listen`, such as that of a proxy before it. A
    /// request for any other name is refused, so that no foreign page reaches the service by a name of its own.
    /// With a `listen` for all addresses (0.0.0.0) they are all unknown, so that from elsewhere any name goes,
    /// unless some are given here; an address always goes then.
    pub hosts: Vec<String>,
    /// Largest request body.
    pub body_limit_bytes: usize,
    /// Bearer tokens. None: an admin token is made in `data_dir` at first start.
    pub tokens: Vec<TokenSettings>,
    /// Most WebSocket connections at once.
    pub max_connections: usize,
}

impl Default for GatewaySettings {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:7717".to_owned(),
            hosts: Vec::new(),
            body_limit_bytes: 1_048_576,
            tokens: Vec::new(),
            max_connections: 1_024,
        }
    }
}

/// What a token's holder may do. Each role may do what those before it may.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum AuthRole {
    /// Its own conversations and turns.
    Chat,
    /// Read everything.
    Viewer,
    /// Decide approvals, cancel, pause, handle dead letters.
    Operator,
    /// Stop, kill and restart actors; configuration.
    Admin,
}

impl AuthRole {
    /// The word in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

/// A bearer token.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenSettings {
    /// Who it is, for the audit.
    pub name: String,
    /// The token; at least 16 characters.
    pub token: Secret,
    /// What it may do.
    pub role: AuthRole,
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

/// A provider's wire protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProviderKind {
    /// OpenAI-compatible chat completions.
    Openai,
    /// OpenAI's Responses.
    OpenaiResponses,
    /// Anthropic's Messages.
    Anthropic,
    /// Google's Gemini.
    Gemini,
    /// Ollama's own chat.
    Ollama,
    /// Built in, deterministic, offline.
    Demo,
}

/// How a model asks for tools.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolMode {
    /// By the provider's own tool calls. Calls written as text are understood too, unless parsing is
    /// strict.
    #[default]
    Native,
    /// As text: the tools and how to call them stand in the system prompt.
    Text,
}

/// How much a model is asked to think before it answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningEffort {
    /// Not at all.
    None,
    /// A little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
}

impl ReasoningEffort {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// Which ids of tool calls a provider takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallIdForm {
    /// Up to 64 characters.
    #[default]
    Any,
    /// Nine letters and digits, as Mistral has it.
    Short,
}

/// A model provider profile.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProviderSettings {
    /// `openai` (compatible chat completions), `openai_responses`, `anthropic`, `gemini`, `ollama` or
    /// `demo`.
    pub kind: ProviderKind,
    /// Where it is, up to and including `/v1` (Gemini: `/v1beta`; Ollama: the host). Default: the
    /// kind's own.
    #[serde(default)]
    pub base_url: Option<String>,
    /// Its key.
    #[serde(default)]
    pub api_key: Option<Secret>,
    /// The model's name.
    #[serde(default)]
    pub model: String,
    /// How the model asks for tools: `native` or `text`, for models without tool calls of their own.
    #[serde(default)]
    pub tool_mode: ToolMode,
    /// How much the model is asked to think. Absent: nothing is said, the model's own default holds.
    #[serde(default)]
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Most tokens of one answer. Absent: the provider's own limit; for Anthropic, which wants a number,
    /// 16384 and what it may think.
    #[serde(default)]
    pub max_output_tokens: Option<u64>,
    /// The window a model of kind `ollama` is loaded with, in tokens. Absent: the largest
    /// `max_context_tokens` that is set for agents that use it; else Ollama's own, which is small.
    #[serde(default)]
    pub num_ctx: Option<u64>,
    /// Ids of tool calls in requests of kind `openai`: `any`, or `short` for Mistral's.
    #[serde(default)]
    pub call_ids: CallIdForm,
    /// The model sees images. Absent: as far as its name tells.
    #[serde(default)]
    pub vision: Option<bool>,
    /// Profiles to try when this one fails, in order.
    #[serde(default)]
    pub fallback: Vec<String>,
    /// A stream that sends nothing for so many seconds has failed.
    #[serde(default = "defaults::idle_timeout_secs")]
    pub idle_timeout_secs: u64,
    /// Most calls at once.
    #[serde(default = "defaults::max_concurrency")]
    pub max_concurrency: usize,
    /// Tries of one call at this profile before the next in the chain.
    #[serde(default = "defaults::max_attempts")]
    pub max_attempts: u32,
    /// What its tokens cost. Needed by a `max_cost`.
    #[serde(default)]
    pub price: Option<Price>,
    /// Most calls begun in a minute. Absent: as many as come.
    #[serde(default)]
    pub requests_per_minute: Option<u32>,
    /// The longest wait in seconds that the provider may ask for (`Retry-After`); one that asks for days is asked
    /// again after this time.
    #[serde(default = "defaults::max_retry_after_secs")]
    pub max_retry_after_secs: u64,
}

impl ProviderSettings {
    /// A profile of which only kind and model are known; the rest is what a file gets that leaves it out.
    pub fn new(kind: ProviderKind, model: impl Into<String>) -> Self {
        Self {
            kind,
            base_url: None,
            api_key: None,
            model: model.into(),
            tool_mode: ToolMode::default(),
            reasoning_effort: None,
            max_output_tokens: None,
            num_ctx: None,
            call_ids: CallIdForm::default(),
            vision: None,
            fallback: Vec::new(),
            idle_timeout_secs: defaults::idle_timeout_secs(),
            max_concurrency: defaults::max_concurrency(),
            max_attempts: defaults::max_attempts(),
            price: None,
            requests_per_minute: None,
            max_retry_after_secs: defaults::max_retry_after_secs(),
        }
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

/// How much an agent may do by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AutonomyLevel {
    /// Only tools that read.
    Readonly,
    /// Medium and high risk ask.
    #[default]
    Supervised,
    /// Nothing asks; lists still hold.
    Full,
}

/// What agents of this profile may do. A key that is absent restricts nothing; `[]` admits nothing.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RiskProfile {
    /// `readonly`, `supervised` or `full`.
    pub level: AutonomyLevel,
    /// Only these tools.
    pub allowed_tools: Option<Vec<String>>,
    /// Never these tools, whatever else admits them.
    pub excluded_tools: Vec<String>,
    /// Medium-risk calls of these tools don't ask.
    pub auto_approve: Vec<String>,
    /// Calls of these tools always ask, whatever else admits them.
    pub always_ask: Vec<String>,
    /// Only these shell commands, by first word; `*` is any. The list admits, it approves nothing: the risk
    /// of each command decides as for any tool, and reading commands don't ask. Absent: any command.
    pub allowed_commands: Option<Vec<String>>,
    /// Paths no tool may touch, beside our own configuration and data.
    pub forbidden_paths: Vec<PathBuf>,
    /// Paths of the workspace that tools may read and not write.
    pub read_only_paths: Vec<PathBuf>,
    /// Paths of the workspace that tools may write and not read.
    pub write_only_paths: Vec<PathBuf>,
    /// High-risk calls are blocked instead of asked about.
    pub block_high_risk: bool,
    /// Most successful calls of a tool by one sender, by the tool's name. None: no limit.
    pub rate_limits: BTreeMap<String, RateLimit>,
    /// Where network tools may go.
    pub network: NetworkSettings,
}

/// How often a tool may be called by one sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateLimit {
    /// Most calls within any minute that succeed or run; 0 is never.
    pub per_minute: u32,
}

/// Where network tools may go. Hosts are `example.org`, `*.example.org` (all below it), an address, or a
/// network such as `192.0.2.0/24`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NetworkSettings {
    /// Only these hosts. Absent: every public one.
    pub allow_hosts: Option<Vec<String>>,
    /// Never these hosts, whatever else admits them.
    pub deny_hosts: Vec<String>,
    /// Only these ports of public hosts.
    pub allow_ports: Vec<u16>,
    /// Private destinations that are open all the same, with a port or at every port: `10.1.0.0/16`,
    /// `127.0.0.1:8080`, `wiki.example:443`.
    pub allow_private: Vec<String>,
}

impl Default for NetworkSettings {
    fn default() -> Self {
        Self {
            allow_hosts: None,
            deny_hosts: Vec::new(),
            allow_ports: vec![80, 443],
            allow_private: Vec::new(),
        }
    }
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
