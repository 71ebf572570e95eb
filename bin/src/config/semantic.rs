//! What belongs together: references, ranges, addresses, folders. Each error says key, fault, remedy.

mod budget;
mod channels;
mod hooks;
mod mcp;
mod memory;
mod network;
mod ranges;
mod tools;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use rookery_actors::model::Sight;
use rookery_messages::settings::{ProviderKind, Settings};

use super::document::Node;
use super::error::ConfigError;
use super::paths::settled;
use super::shape::nearest;

/// Checks a complete configuration; `root` tells where things were set.
pub(super) fn check<'a>(settings: &Settings, root: &'a Node) -> Findings<'a> {
    let mut found = Findings { root, errors: Vec::new(), warnings: Vec::new() };
    check_names(settings, &mut found);
    check_gateway(settings, &mut found);
    check_providers(settings, &mut found);
    budget::check(settings, &mut found);
    check_agents(settings, &mut found);
    hooks::check(settings, &mut found);
    channels::check(settings, &mut found);
    mcp::check(settings, &mut found);
    memory::check(settings, &mut found);
    network::check(settings, &mut found);
    ranges::check(settings, &mut found);
    tools::check(settings, &mut found);
    found
}

/// Collects errors and warnings with their places.
pub(super) struct Findings<'a> {
    root: &'a Node,
    pub(super) errors: Vec<ConfigError>,
    pub(super) warnings: Vec<ConfigError>,
}

impl Findings<'_> {
    fn add(&mut self, path: &[&str], message: impl Into<String>) {
        let error = self.at(path, message);
        self.errors.push(error);
    }

    /// What holds, and may not be meant.
    fn warn(&mut self, path: &[&str], message: impl Into<String>) {
        let warning = self.at(path, message);
        self.warnings.push(warning);
    }

    fn at(&self, path: &[&str], message: impl Into<String>) -> ConfigError {
        ConfigError {
            key: Some(path.join(".")),
            origin: self.root.origin_near(path),
            message: message.into(),
        }
    }

    /// Whether somebody wrote it, in the file or the environment.
    fn is_written(&self, path: &[&str]) -> bool {
        self.root.get(path).is_some()
    }
}

/// Names stand in channel ids, actor paths and URLs: they keep to a plain alphabet.
fn check_names(settings: &Settings, found: &mut Findings<'_>) {
    let names = [
        ("providers", settings.providers.keys().collect::<Vec<_>>()),
        ("agents", settings.agents.keys().collect()),
        ("risk_profiles", settings.risk_profiles.keys().collect()),
        ("runtime_profiles", settings.runtime_profiles.keys().collect()),
        ("hooks", settings.hooks.keys().collect()),
        ("mcp_bundles", settings.mcp_bundles.keys().collect()),
    ];
    let plain = |name: &str| {
        (1..=64).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    let remedy = "names have 1 to 64 of a-z, A-Z, 0-9, `-` and `_`; rename it";
    for (table, names) in names {
        for name in names.into_iter().filter(|name| !plain(name)) {
            found.add(&[table, name], remedy);
        }
    }
    for alias in settings.channels.webhook.keys().filter(|alias| !plain(alias)) {
        found.add(&["channels", "webhook", alias], remedy);
    }
    for alias in settings.channels.telegram.keys().filter(|alias| !plain(alias)) {
        found.add(&["channels", "telegram", alias], remedy);
    }
}

fn check_gateway(settings: &Settings, found: &mut Findings<'_>) {
    let gateway = &settings.gateway;
    match gateway.listen.parse::<SocketAddr>() {
        Err(_) => found.add(
            &["gateway", "listen"],
            "is not an address and port; write it like 127.0.0.1:7717 or [::1]:7717",
        ),
        Ok(address) if !address.ip().is_loopback() && gateway.tokens.is_empty() => found.add(
            &["gateway", "listen"],
            "is off loopback, which needs tokens; add an entry to gateway.tokens, or listen on 127.0.0.1",
        ),
        Ok(_) => {}
    }
    if !gateway.hosts.is_empty() && gateway.tokens.is_empty() {
        found.add(
            &["gateway", "hosts"],
            "names a proxy's, by which everybody's requests come from this machine; add an entry to gateway.tokens",
        );
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    for host in gateway.hosts.iter().filter(|host| host.is_empty() || !host.chars().all(plain)) {
        let host = crate::render::strict(host);
        found.add(
            &["gateway", "hosts"],
            format!(
                "`{host}` is no name: write `rookery.example.com`, without scheme, port or path"
            ),
        );
    }
    let (mut names, mut texts) = (BTreeSet::new(), BTreeSet::new());
    for token in &gateway.tokens {
        let who = crate::render::strict(&token.name);
        if token.name.trim().is_empty() {
            found.add(&["gateway", "tokens"], "a token has no name; the audit needs one");
        } else if !names.insert(token.name.as_str()) {
            found.add(
                &["gateway", "tokens"],
                format!("two tokens are named `{who}`; give each its own name"),
            );
        }
        if token.token.expose().chars().count() < 16 {
            found.add(
                &["gateway", "tokens"],
                format!("the token of `{who}` has less than 16 characters; make a longer one"),
            );
        } else if !texts.insert(token.token.expose()) {
            found.add(
                &["gateway", "tokens"],
                format!("the token of `{who}` is also another's; give each its own"),
            );
        }
    }
}

fn check_providers(settings: &Settings, found: &mut Findings<'_>) {
    for (name, provider) in &settings.providers {
        if provider.kind != ProviderKind::Demo && provider.model.trim().is_empty() {
            found.add(&["providers", name, "model"], "is missing; set it to the model's name");
        }
        if let Some(url) = &provider.base_url
            && !is_http_url(url)
        {
            found.add(&["providers", name, "base_url"], NOT_A_URL);
        }
        for other in &provider.fallback {
            let path = ["providers", name.as_str(), "fallback"];
            if !settings.providers.contains_key(other) {
                found.add(&path, unknown("provider", other, settings.providers.keys()));
            }
        }
        if let Some(way) = cycle_from(name, settings) {
            found.add(
                &["providers", name, "fallback"],
                format!("leads back to itself ({way}); take one of them out"),
            );
        }
    }
}

/// The way from a profile back to itself, if its fallbacks lead there.
fn cycle_from(start: &str, settings: &Settings) -> Option<String> {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut ways: Vec<Vec<&str>> = vec![vec![start]];
    while let Some(way) = ways.pop() {
        let next = way.last().and_then(|name| settings.providers.get(*name));
        for other in next.into_iter().flat_map(|provider| &provider.fallback) {
            let mut longer = way.clone();
            longer.push(other);
            if other == start {
                return Some(longer.join(" → "));
            }
            if seen.insert(other) {
                ways.push(longer);
            }
        }
    }
    None
}

fn check_agents(settings: &Settings, found: &mut Findings<'_>) {
    let data = settled(&settings.data_dir);
    for (name, agent) in &settings.agents {
        let path = |key| ["agents", name.as_str(), key];
        for model in agent.models.iter().filter(|name| !settings.providers.contains_key(*name)) {
            found.add(&path("models"), unknown("provider", model, settings.providers.keys()));
        }
        if !settings.providers.contains_key(&agent.provider) {
            found.add(
                &path("provider"),
                unknown("provider", &agent.provider, settings.providers.keys()),
            );
        }
        if let Some(seeing) = &agent.vision_provider {
            match settings.providers.get(seeing) {
                None => found.add(
                    &path("vision_provider"),
                    unknown("provider", seeing, settings.providers.keys()),
                ),
                Some(provider) if !Sight::of(provider).sees() => found.add(
                    &path("vision_provider"),
                    format!(
                        "names `{seeing}`, whose model is not known to see images; if it does, set \
                         providers.{seeing}.vision = true"
                    ),
                ),
                Some(_) => {}
            }
        }
        if !settings.risk_profiles.contains_key(&agent.risk_profile) {
            found.add(
                &path("risk_profile"),
                unknown("risk profile", &agent.risk_profile, settings.risk_profiles.keys()),
            );
        }
        if !settings.runtime_profiles.contains_key(&agent.runtime_profile) {
            found.add(
                &path("runtime_profile"),
                unknown(
                    "runtime profile",
                    &agent.runtime_profile,
                    settings.runtime_profiles.keys(),
                ),
            );
        }
        if let Some(route) = agent.approval_route.as_deref().filter(|route| *route != "admin") {
            channels::check_route(settings, route, &path("approval_route"), found);
        }
        if let Some(workspace) = agent.workspace.as_deref().map(settled)
            && (workspace.starts_with(&data) || data.starts_with(&workspace))
        {
            found.add(
                &path("workspace"),
                "and data_dir lie within each other, so tools could reach the database and the admin token; move one of them",
            );
        }
        if let (Some(workspace), Some(store)) = (&agent.workspace, &settings.store.path)
            && settled(store).starts_with(settled(workspace))
        {
            found.add(
                &["store", "path"],
                format!("lies in the workspace of agent `{name}`, whose tools could reach it; move it to data_dir"),
            );
        }
    }
}

const NOT_A_URL: &str = "is not an http:// or https:// address";

/// Whether a text is an absolute HTTP address.
fn is_http_url(text: &str) -> bool {
    reqwest::Url::parse(text)
        .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

/// A reference to something that isn't there.
fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a String> + Clone) -> String {
    let name = crate::render::strict(name);
    match nearest(&name, known.map(String::as_str)) {
        Some(other) => format!("there is no {what} `{name}`; the nearest is `{other}`"),
        None => format!("there is no {what} `{name}`"),
    }
}

/// Names and how often each occurs.
fn counts<'a>(names: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, usize> {
    names.fold(BTreeMap::new(), |mut counts, name| {
        *counts.entry(name).or_default() += 1;
        counts
    })
}
