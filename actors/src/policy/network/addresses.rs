//! What kind of address an IP address is (IANA special-purpose registries, RFC 6890 and its successors).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an address is, if it is not a public one. Addresses that carry an IPv4 address inside are judged
/// by that one.
pub fn kind_of(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(v4) => kind_of_v4(v4),
        IpAddr::V6(v6) => kind_of_v6(v6),
    }
}

/// The address without an IPv6 wrapping around IPv4.
pub(super) fn plain(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

fn kind_of_v4(v4: Ipv4Addr) -> Option<&'static str> {
    match v4.octets() {
        [0, ..] => Some("unspecified"),
        [127, ..] => Some("loopback"),
        [10, ..] | [192, 168, ..] => Some("private"),
        [172, second, ..] if second & 0xf0 == 16 => Some("private"),
        [169, 254, ..] => Some("link-local"),
        // RFC 6598: carrier-grade NAT; some clouds keep their metadata there.
        [100, second, ..] if second & 0xc0 == 64 => Some("shared (carrier-grade NAT)"),
        [192, 0, 0, _] | [192, 88, 99, _] => Some("protocol-assignment"),
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Some("documentation"),
        [198, 18 | 19, ..] => Some("benchmarking"),
        [224..=239, ..] => Some("multicast"),
        [240..=255, ..] => Some("reserved"),
        _ => None,
    }
}

fn kind_of_v6(v6: Ipv6Addr) -> Option<&'static str> {
    let s = v6.segments();
    let inner = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    match s {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some("unspecified"),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some("loopback"),
        // ::ffff:0:0/96 mapped, ::ffff:0:0:0/96 translated, ::/96 compatible (RFC 4291, 2765).
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => {
            kind_of_v4(inner(high, low))
        }
        [0, 0, 0, 0, 0, 0, high, low] => {
            Some(kind_of_v4(inner(high, low)).unwrap_or("IPv4-compatible"))
        }
        // 64:ff9b::/96 NAT64 (RFC 6052); 64:ff9b:1::/48 is for local use (RFC 8215).
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => kind_of_v4(inner(high, low)),
        // 2002::/16 is 6to4 (RFC 3056).
        [0x2002, high, low, ..] => kind_of_v4(inner(high, low)),
        // 2001::/23, with Teredo's tunnels (RFC 4380).
        [0x2001, second, ..] if second < 0x200 => Some("protocol-assignment"),
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Some("documentation"),
        [first, ..] if first & 0xfe00 == 0xfc00 => Some("private (unique local)"),
        [first, ..] if first & 0xffc0 == 0xfe80 => Some("link-local"),
        [first, ..] if first & 0xffc0 == 0xfec0 => Some("private (site-local)"),
        [first, ..] if first & 0xff00 == 0xff00 => Some("multicast"),
        // Only 2000::/3 is given out as global unicast.
        [first, ..] if first & 0xe000 == 0x2000 => None,
        _ => Some("reserved"),
    }
}
