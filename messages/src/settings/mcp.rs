//! Servers of the Model Context Protocol, and who is granted their tools.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Secret;

/// Servers of the Model Context Protocol.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct McpSettings {
    /// The servers, by a name that becomes the prefix of their tools' names.
    pub servers: BTreeMap<String, McpServerSettings>,
}

/// One server: a program that speaks on its standard input and output, or an address.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpServerSettings {
    /// Whether it is connected to at all.
    #[serde(default = "defaults::yes")]
    pub enabled: bool,
    /// The program to start.
    #[serde(default)]
    pub command: Option<String>,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Its environment beside PATH, HOME, LANG and TZ.
    #[serde(default)]
    pub env: BTreeMap<String, Secret>,
    /// The folder it is started in. Default: the service's own.
    #[serde(default)]
    pub cwd: Option<PathBuf>,
    /// The address of a server that is reached by streamable HTTP, instead of a program.
    #[serde(default)]
    pub url: Option<String>,
    /// Headers of every request to `url`.
    #[serde(default)]
    pub headers: BTreeMap<String, Secret>,
    /// What the server says of its tools' effects is believed. Otherwise each call counts as of high risk.
    #[serde(default)]
    pub trust_annotations: bool,
    /// Its tools are announced by name only, until the model looks for them with `tool_search`.
    #[serde(default)]
    pub deferred: bool,
    /// It must be connected within so many seconds.
    #[serde(default = "defaults::connect_timeout_secs")]
    pub connect_timeout_secs: u64,
    /// One call may take so many seconds.
    #[serde(default = "defaults::call_timeout_secs")]
    pub call_timeout_secs: u64,
}

/// A grant: the tools of some servers.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpBundle {
    /// The servers whose tools it grants.
    pub servers: Vec<String>,
    /// Only these of their tools, as `<server>__<tool>`; `*` and `?` match anything. Absent: all.
    #[serde(default)]
    pub tools: Option<Vec<String>>,
}

/// When a group's tools are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FilterMode {
    /// In every turn.
    Always,
    /// In turns whose message has one of the keywords.
    Dynamic,
}

/// MCP tools that are shown together.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolFilterGroup {
    /// `always` or `dynamic`.
    pub mode: FilterMode,
    /// The tools, as `<server>__<tool>`; `*` and `?` match anything.
    pub tools: Vec<String>,
    /// A `dynamic` group is shown when the person's message has one of these words, in any case.
    #[serde(default)]
    pub keywords: Vec<String>,
}

/// Defaults that serde needs as functions.
mod defaults {
    pub(super) fn yes() -> bool {
        true
    }
    pub(super) fn connect_timeout_secs() -> u64 {
        30
    }
    pub(super) fn call_timeout_secs() -> u64 {
        120
    }
}
