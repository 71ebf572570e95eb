//! What an agent is granted of the servers there are (T2). Omission grants nothing.

use std::sync::Arc;
use std::time::Duration;

use super::filter::{Filter, Patterns};
use super::link::Link;
use super::names::SEPARATOR;
use super::tool::McpTool;

/// One server's part of a grant.
#[derive(Clone, Debug)]
pub struct ServerGrant {
    link: Arc<Link>,
    /// None: all of its tools.
    tools: Option<Patterns>,
    deferred: bool,
    patience: Duration,
}

impl ServerGrant {
    /// These tools (none: all) of the server behind `link`. `deferred`: by name only, until activated.
    /// `patience`: how long its connection may take.
    pub fn new(
        link: Arc<Link>,
        tools: Option<&[String]>,
        deferred: bool,
        patience: Duration,
    ) -> Self {
        Self { link, tools: tools.map(Patterns::new), deferred, patience }
    }
}

/// An agent's MCP tools: the servers granted by its bundles, and the groups that show their tools.
#[derive(Clone, Debug, Default)]
pub struct McpGrant {
    servers: Vec<ServerGrant>,
    pub(crate) filter: Filter,
}

/// A granted tool.
#[derive(Clone)]
pub struct GrantedTool {
    /// The tool.
    pub tool: Arc<McpTool>,
    /// It is announced by name only, until activated.
    pub deferred: bool,
}

impl McpGrant {
    /// Whether no server is granted.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// From its parts.
    pub fn new(servers: Vec<ServerGrant>, filter: Filter) -> Self {
        Self { servers, filter }
    }

    /// The tools now, each once, in the order of their names.
    pub fn tools(&self) -> Vec<GrantedTool> {
        let mut granted: Vec<GrantedTool> = self
            .servers
            .iter()
            .flat_map(|server| {
                let tools = server.link.tools();
                let kept = tools.iter().filter(|tool| {
                    server.tools.as_ref().is_none_or(|names| names.name_any(tool.names()))
                });
                let deferred = server.deferred;
                kept.map(|tool| GrantedTool { tool: Arc::clone(tool), deferred })
                    .collect::<Vec<_>>()
            })
            .collect();
        granted.sort_by(|a, b| a.tool.name().cmp(b.tool.name()));
        granted.dedup_by(|a, b| a.tool.name() == b.tool.name());
        granted
    }

    /// Whether a granted server defers its tools: then `tool_search` is there.
    pub fn has_deferred(&self) -> bool {
        self.servers.iter().any(|server| server.deferred)
    }

    /// Waits for the servers that `names` belong to and that were never listed yet: a turn that goes on
    /// after a restart may be quicker than its servers.
    pub(crate) async fn settled(&self, names: &[&str]) {
        let meant = self.servers.iter().filter(|server| {
            let prefix = format!("{}{SEPARATOR}", server.link.server());
            names.iter().any(|name| name.starts_with(&prefix))
        });
        futures_util::future::join_all(meant.map(|server| server.link.settled(server.patience)))
            .await;
    }
}
