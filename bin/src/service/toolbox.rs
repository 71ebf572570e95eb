//! MCP servers: from settings to links, grants and actors.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rookery_actors::observe::Metrics;
use rookery_actors::policy::redact::Redactor;
use rookery_actors::store::StoreClient;
use rookery_actors::tool::mcp::{
    Filter, HttpTarget, Link, McpArgs, McpGrant, OAuth, SdkConnector, ServerGrant, StdioTarget,
    Target, policy_name,
};
use rookery_actors::turn::StoredProcesses;
use rookery_messages::address::Address;
use rookery_messages::settings::{
    AgentSettings, McpServerSettings, OAuthGrant, RiskProfile, Secret, Settings,
};
use rookery_messages::time::World;
use rookery_supervisors::root::Cells;

/// Servers by name.
pub(super) type Links = BTreeMap<String, Arc<Link>>;

/// The servers that are connected to.
pub(super) fn enabled(settings: &Settings) -> impl Iterator<Item = (&str, &McpServerSettings)> {
    let servers = settings.mcp.servers.iter().filter(|(_, server)| server.enabled);
    servers.map(|(name, server)| (name.as_str(), server))
}

pub(super) fn links(settings: &Settings, cells: &Cells) -> Links {
    enabled(settings)
        .filter_map(|(name, _)| {
            let cell = cells.mcp.get(name)?;
            Some((name.to_owned(), Link::new(name, Address::new(Arc::clone(cell)))))
        })
        .collect()
}

/// What an agent is granted by its bundles. A server that is not enabled has no tools.
pub(super) fn grant(settings: &Settings, agent: &AgentSettings, links: &Links) -> McpGrant {
    let bundles = agent.mcp_bundles.iter().filter_map(|name| settings.mcp_bundles.get(name));
    let servers = bundles.flat_map(|bundle| {
        bundle.servers.iter().filter_map(|name| {
            let (link, server) = (links.get(name)?, settings.mcp.servers.get(name)?);
            Some(ServerGrant::new(
                Arc::clone(link),
                bundle.tools.as_deref(),
                server.deferred,
                Duration::from_secs(server.connect_timeout_secs),
            ))
        })
    });
    McpGrant::new(servers.collect(), Filter::new(&agent.tool_filter_groups))
}

/// Whether a tool's server is granted to an agent, as far as the configuration tells.
pub(crate) fn granted(settings: &Settings, agent: &AgentSettings, tool: &str) -> bool {
    let bundles = agent.mcp_bundles.iter().filter_map(|name| settings.mcp_bundles.get(name));
    let mut servers = bundles.flat_map(|bundle| &bundle.servers);
    servers.any(|server| tool.strip_prefix(server).is_some_and(|rest| rest.starts_with("__")))
}

/// A profile whose lists name MCP tools as they are judged; an operator may use the servers' spelling.
pub(super) fn named(settings: &Settings, mut profile: RiskProfile) -> RiskProfile {
    let servers = || settings.mcp.servers.keys().map(String::as_str);
    let lists = [&mut profile.excluded_tools, &mut profile.auto_approve, &mut profile.always_ask];
    for name in lists.into_iter().chain(&mut profile.allowed_tools).flatten() {
        *name = policy_name(name, servers());
    }
    profile
}

pub(super) fn plan(
    settings: &Settings,
    links: &Links,
    store: &StoreClient,
    world: &World,
    redactor: &Arc<Redactor>,
    metrics: &Arc<Metrics>,
) -> Vec<McpArgs> {
    enabled(settings)
        .filter_map(|(name, server)| {
            let metrics = Arc::clone(metrics);
            Some(McpArgs {
                link: Arc::clone(links.get(name)?),
                connector: SdkConnector::new(target(settings, name, server, store, world)),
                trusted: server.trust_annotations,
                connect_limit: Duration::from_secs(server.connect_timeout_secs),
                call_limit: Duration::from_secs(server.call_timeout_secs),
                redactor: Arc::clone(redactor),
                known: Arc::new(move |tools| metrics.know_tools(tools)),
            })
        })
        .collect()
}

fn pairs(map: &BTreeMap<String, Secret>) -> Vec<(String, Secret)> {
    map.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// How a server behind `url` is reached.
pub(crate) fn http_target(
    settings: &Settings,
    name: &str,
    server: &McpServerSettings,
    url: &str,
) -> HttpTarget {
    let oauth = server.oauth.as_ref().map(|oauth| OAuth {
        client_id: oauth.client_id.clone(),
        client_secret: oauth.client_secret.clone(),
        metadata_url: oauth.client_metadata_url.clone(),
        scopes: oauth.scopes.clone(),
        for_itself: oauth.grant == OAuthGrant::ClientCredentials,
        tokens: Some(settings.data_dir.join("mcp").join(format!("{name}.json"))),
        consent: None,
    });
    HttpTarget {
        url: url.to_owned(),
        headers: pairs(&server.headers),
        oauth,
        answer_with_defaults: server.answer_with_defaults,
    }
}

fn target(
    settings: &Settings,
    name: &str,
    server: &McpServerSettings,
    store: &StoreClient,
    world: &World,
) -> Target {
    match (&server.command, &server.url) {
        (None, Some(url)) => Target::Http(http_target(settings, name, server, url)),
        (command, _) => Target::Stdio(StdioTarget {
            command: command.clone().unwrap_or_default(),
            args: server.args.clone(),
            env: pairs(&server.env),
            cwd: server.cwd.clone(),
            ledger: Arc::new(StoredProcesses(store.clone())),
            ids: Arc::clone(&world.ids),
            answer_with_defaults: server.answer_with_defaults,
        }),
    }
}
