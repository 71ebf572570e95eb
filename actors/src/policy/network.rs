//! The network guard: where a tool may connect to (A095).
//!
//! Every hop of every request is judged twice: its address as written, and each IP address its name
//! resolves to. The connection then goes to exactly the addresses that were judged. What is not public
//! (loopback, private, link-local, shared, mapped and tunnelled forms of these) is refused unless the
//! operator named it.

mod addresses;
pub mod client;
mod host;
mod patterns;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr, UdpSocket};

use reqwest::Url;
use rookery_messages::settings::NetworkSettings;
use rookery_messages::tool::head;

pub use addresses::kind_of;
pub use host::Host;
use patterns::{HostPattern, PrivatePattern};
pub use patterns::{check_host_pattern, check_private_pattern};

/// Longest part of an address shown in a refusal.
const SHOWN_BYTES: usize = 200;

/// Why a connection is not made. Names the rule and its key.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// It can't be read as an address.
    #[error("`{0}` is not an absolute http:// or https:// address")]
    NotAnAddress(String),
    /// Another scheme.
    #[error("scheme `{0}` is not allowed: network tools use http and https alone")]
    Scheme(String),
    /// A user name or password in the address.
    #[error("the address holds a user name or password; send a header instead")]
    Credentials,
    /// In the list of hosts that are closed.
    #[error("host `{0}` is in the risk profile's `network.deny_hosts`")]
    Denied(String),
    /// Not in the list of open hosts.
    #[error("host `{0}` is not in the risk profile's `network.allow_hosts`")]
    NotListed(String),
    /// Not in the list of open ports.
    #[error("port {0} is not in the risk profile's `network.allow_ports`")]
    Port(u16),
    /// Not a public address, and not named by the operator.
    #[error(
        "host `{host}` is at {address}, a {kind} address, and the risk profile's \
         `network.allow_private` does not list it"
    )]
    Private {
        /// The host as asked for.
        host: String,
        /// Its address.
        address: IpAddr,
        /// What kind of address that is.
        kind: &'static str,
    },
    /// The service's own gateway.
    #[error("{0} is this service's own `gateway.listen`, which no tool may call")]
    OwnGateway(SocketAddr),
    /// The rules themselves can't be read.
    #[error("the risk profile's network rules can't be used: {0}; nothing is allowed")]
    Broken(String),
}

/// The rules of one risk profile, compiled.
#[derive(Clone, Debug)]
pub struct NetworkRules {
    allow: Option<Vec<HostPattern>>,
    deny: Vec<HostPattern>,
    ports: Vec<u16>,
    private: Vec<PrivatePattern>,
    /// A rule that can't be read closes everything: a lost `deny` must not open a door.
    broken: Option<String>,
}

/// One hop: where it goes, judged as far as the address as written tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Destination {
    /// The address.
    pub url: Url,
    /// The host, in lower case, without a final dot.
    pub host: Host,
    /// The port.
    pub port: u16,
    /// The operator named this host among the private ones: it may be anywhere.
    named: bool,
}

impl NetworkRules {
    /// From the settings of a risk profile.
    pub fn new(settings: &NetworkSettings) -> Self {
        let mut broken = None;
        let mut keep = |error: String| broken = Some(error);
        let hosts = |list: &[String], keep: &mut dyn FnMut(String)| -> Vec<HostPattern> {
            let parsed = list.iter().map(|text| HostPattern::parse(text));
            parsed.filter_map(|one| one.map_err(&mut *keep).ok()).collect()
        };
        let allow = settings.allow_hosts.as_deref().map(|list| hosts(list, &mut keep));
        let deny = hosts(&settings.deny_hosts, &mut keep);
        let private = settings.allow_private.iter().map(|text| PrivatePattern::parse(text));
        let private = private.filter_map(|one| one.map_err(&mut keep).ok()).collect();
        Self { allow, deny, ports: settings.allow_ports.clone(), private, broken }
    }

    /// Judges an address as written: what it says by itself, before any name is looked up.
    pub fn judge(&self, text: &str) -> Result<Destination, Refusal> {
        let url = Url::parse(text.trim())
            .map_err(|_| Refusal::NotAnAddress(head(text, SHOWN_BYTES).to_owned()))?;
        self.judge_url(url)
    }

    /// The same for an address that is read already, such as a redirect's.
    pub fn judge_url(&self, url: Url) -> Result<Destination, Refusal> {
        if let Some(broken) = &self.broken {
            return Err(Refusal::Broken(broken.clone()));
        }
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Refusal::Scheme(url.scheme().to_owned()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refusal::Credentials);
        }
        let (host, port) = Host::of(&url)
            .zip(url.port_or_known_default())
            .ok_or_else(|| Refusal::NotAnAddress(head(url.as_str(), SHOWN_BYTES).to_owned()))?;
        if self.deny.iter().any(|pattern| pattern.is(&host)) {
            return Err(Refusal::Denied(host.to_string()));
        }
        let named = matches!(host, Host::Name(_))
            && self.private.iter().any(|pattern| pattern.names(&host, port));
        let excepted = named || matches!(host, Host::Address(ip) if self.opens(ip, port));
        if !excepted {
            if self.allow.as_ref().is_some_and(|list| !list.iter().any(|one| one.is(&host))) {
                return Err(Refusal::NotListed(host.to_string()));
            }
            // A private network that is open may be reached by a name, at any port it is open at. The
            // port of an address is judged with the address.
            let may_be_private = self.private.iter().any(|pattern| pattern.has_port(port));
            let named = matches!(host, Host::Name(_));
            if named && !self.ports.contains(&port) && !may_be_private {
                return Err(Refusal::Port(port));
            }
        }
        let destination = Destination { url, host, port, named };
        match &destination.host {
            Host::Address(address) => self.judge_address(&destination, *address)?,
            host @ Host::Name(_) if host.is_localhost() => {
                self.judge_address(&destination, IpAddr::from([127, 0, 0, 1]))?;
            }
            Host::Name(_) => {}
        }
        Ok(destination)
    }

    /// Judges an address that the destination's host has.
    pub fn judge_address(&self, to: &Destination, address: IpAddr) -> Result<(), Refusal> {
        if self.deny.iter().any(|pattern| pattern.holds(address)) {
            return Err(Refusal::Denied(address.to_string()));
        }
        if to.named || self.opens(address, to.port) {
            return Ok(());
        }
        if let Some(kind) = kind_of(address) {
            return Err(Refusal::Private { host: to.host.to_string(), address, kind });
        }
        // Only a private network could have opened this port.
        if self.ports.contains(&to.port) { Ok(()) } else { Err(Refusal::Port(to.port)) }
    }

    fn opens(&self, address: IpAddr, port: u16) -> bool {
        self.private.iter().any(|pattern| pattern.holds(address, port))
    }
}

/// Whether a connection to `to` would reach the gateway that listens on `own`.
pub fn reaches_own(own: SocketAddr, to: SocketAddr) -> bool {
    if own.port() != to.port() {
        return false;
    }
    let (own, to) = (addresses::plain(own.ip()), addresses::plain(to.ip()));
    if own == to || to.is_unspecified() {
        return true;
    }
    // On all interfaces: whatever address this machine has. Only its own can be bound.
    own.is_unspecified() && (to.is_loopback() || UdpSocket::bind((to, 0)).is_ok())
}
