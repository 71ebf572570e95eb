//! What agents may do.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
