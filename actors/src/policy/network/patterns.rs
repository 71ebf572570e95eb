//! The patterns in a risk profile's network rules.

use std::net::IpAddr;

use ipnet::IpNet;

use super::Host;
use super::addresses::plain;

/// A host, as `allow_hosts` and `deny_hosts` name it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum HostPattern {
    /// `*`: every host.
    Any,
    /// `example.org`: this name alone.
    Name(String),
    /// `*.example.org`: every name below it.
    Below(String),
    /// `192.0.2.0/24`, `192.0.2.1`: these addresses, as written or as a name's answer.
    Net(IpNet),
}

impl HostPattern {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::Any);
        }
        if let Some(net) = net(text) {
            return Ok(Self::Net(net));
        }
        let (below, name) = match text.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let name = name.to_ascii_lowercase();
        if !is_name(&name) {
            return Err(format!(
                "`{text}` is no host: write `example.org`, `*.example.org`, an address or a network such as \
                 `192.0.2.0/24`, without scheme, port or path"
            ));
        }
        Ok(if below { Self::Below(name) } else { Self::Name(name) })
    }

    /// Whether it means this host as written.
    pub(super) fn is(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Any, _) => true,
            (Self::Name(name), Host::Name(host)) => name == host,
            (Self::Below(name), Host::Name(host)) => {
                host.strip_suffix(name.as_str()).is_some_and(|rest| rest.ends_with('.'))
            }
            (Self::Net(_), Host::Address(address)) => self.holds(*address),
            _ => false,
        }
    }

    /// Whether it means this address.
    pub(super) fn holds(&self, address: IpAddr) -> bool {
        matches!(self, Self::Net(net) if net.contains(&plain(address)))
    }
}

/// A private destination that is open, as `allow_private` names it: with a port, or at every port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct PrivatePattern {
    host: HostPattern,
    port: Option<u16>,
}

impl PrivatePattern {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is no private destination: write `10.1.0.0/16`, `127.0.0.1:8080`, `[::1]:8080` or \
                 `wiki.example:443`"
            )
        };
        // An IPv6 address with a port stands in brackets; without, its colons are its own.
        let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, rest)) => (host, Some(rest.strip_prefix(':').ok_or_else(wrong)?)),
            None if net(text).is_some() => (text, None),
            None => match text.rsplit_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        let port = match port {
            Some(port) => Some(port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?),
            None => None,
        };
        let host = HostPattern::parse(host).map_err(|_| wrong())?;
        if host == HostPattern::Any {
            return Err(wrong());
        }
        Ok(Self { host, port })
    }

    pub(super) fn has_port(&self, port: u16) -> bool {
        self.port.is_none_or(|own| own == port)
    }

    /// Whether it names this very host: then it may be anywhere.
    pub(super) fn names(&self, host: &Host, port: u16) -> bool {
        self.has_port(port) && self.host.is(host)
    }

    /// Whether it opens this address.
    pub(super) fn holds(&self, address: IpAddr, port: u16) -> bool {
        self.has_port(port) && self.host.holds(address)
    }
}

fn net(text: &str) -> Option<IpNet> {
    let net: IpNet = match text.parse::<IpAddr>() {
        Ok(address) => address.into(),
        Err(_) => text.parse().ok()?,
    };
    Some(net.trunc())
}

fn is_name(name: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    };
    name.len() <= 253 && name.split('.').all(label)
}

/// What is wrong with an entry of `allow_hosts` or `deny_hosts`, if anything.
pub fn check_host_pattern(text: &str) -> Result<(), String> {
    HostPattern::parse(text).map(|_| ())
}

/// What is wrong with an entry of `allow_private`, if anything.
pub fn check_private_pattern(text: &str) -> Result<(), String> {
    PrivatePattern::parse(text).map(|_| ())
}
