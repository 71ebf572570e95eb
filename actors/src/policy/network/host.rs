//! The host of an address.

use std::fmt;
use std::net::IpAddr;

use reqwest::Url;

/// A name to resolve, or an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Host {
    /// A name, in lower case, without a final dot.
    Name(String),
    /// An address. Every spelling the URL standard knows (decimal, hexadecimal, octal, short) is one.
    Address(IpAddr),
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}

impl Host {
    /// The host of `url`.
    pub(super) fn of(url: &Url) -> Option<Self> {
        // The parser has normalised every spelling of an IPv4 address; IPv6 stands in brackets.
        let text = url.host_str()?;
        if let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            return inner.parse().ok().map(Self::Address);
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        match name.parse() {
            Ok(address) => Some(Self::Address(address)),
            Err(_) if name.is_empty() => None,
            Err(_) => Some(Self::Name(name)),
        }
    }

    /// RFC 6761, section 6.3: this name is loopback, whatever a resolver says.
    pub(super) fn is_localhost(&self) -> bool {
        matches!(self, Self::Name(name) if name == "localhost" || name.ends_with(".localhost"))
    }
}
