//! Names that every model provider takes, for tools that may be named anything (A103).
//!
//! `<server>__<tool>` if that is a valid name; otherwise what can be kept of it and a hash of the
//! original. A name depends on nothing but the two originals (and, for two tools that would get the same
//! one, on a number), so that it is the same in every life of the service.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// Stands between server and tool. No server's name contains it.
pub(crate) const SEPARATOR: &str = "__";
/// Longest name that model providers accept.
const MAX: usize = 64;
/// Hexadecimal digits of the hash.
const HASH: usize = 8;

/// The name a model sees for a server's tool.
pub fn wire_name(server: &str, tool: &str) -> String {
    let plain = format!("{server}{SEPARATOR}{tool}");
    if is_valid(&plain) && !tool.is_empty() { plain } else { hashed(server, tool, 0) }
}

/// A name in one of the policy's lists, as tools are named when they are judged: an operator writes
/// `<server>__<tool>` with the server's own spelling of the tool.
pub fn policy_name<'a>(written: &str, servers: impl IntoIterator<Item = &'a str>) -> String {
    match written.split_once(SEPARATOR) {
        Some((server, tool)) if servers.into_iter().any(|known| known == server) => {
            wire_name(server, tool)
        }
        _ => written.to_owned(),
    }
}

/// Names for all tools of a server, by their originals. Tools whose own name is valid come first: no odd
/// neighbour takes it from them.
pub(super) fn wire_names(server: &str, tools: &BTreeSet<&str>) -> BTreeMap<String, String> {
    let mut taken = BTreeSet::new();
    let mut names = BTreeMap::new();
    let plain = |tool: &str| wire_name(server, tool) == format!("{server}{SEPARATOR}{tool}");
    let (first, then): (Vec<&str>, Vec<&str>) = tools.iter().partition(|tool| plain(tool));
    for tool in first.into_iter().chain(then) {
        let mut name = wire_name(server, tool);
        let mut number = 0;
        while !taken.insert(name.clone()) {
            number += 1;
            name = hashed(server, tool, number);
        }
        names.insert(tool.to_owned(), name);
    }
    names
}

fn is_valid(name: &str) -> bool {
    (1..=MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

fn hashed(server: &str, tool: &str, number: u32) -> String {
    let mut hash = Sha256::new();
    hash.update(server);
    hash.update([0]);
    hash.update(tool);
    hash.update(number.to_be_bytes());
    let digest = hash.finalize();
    let kept = |c: char| if c.is_ascii_alphanumeric() || "_-".contains(c) { c } else { '_' };
    let mut name: String =
        format!("{server}{SEPARATOR}{tool}").chars().map(kept).take(MAX - HASH - 1).collect();
    name.push('_');
    for byte in digest.iter().take(HASH / 2) {
        // Writing to a text can't fail.
        let _ = write!(name, "{byte:02x}");
    }
    name
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // A103
    #[test]
    fn long_and_odd_names_become_valid_ones_that_stay_the_same() {
        assert_eq!(wire_name("files", "read_file"), "files__read_file");
        assert_eq!(wire_name("files", "r"), "files__r");
        let long = wire_name(
            "enterprise-database-management",
            "synchronize-all-customer-data-across-multiple-systems",
        );
        assert_eq!(long.len(), 64);
        assert!(long.starts_with("enterprise-database-management__synchronize-all"), "{long}");
        let dotted = wire_name("s", "admin.tools/list");
        assert!(dotted.starts_with("s__admin_tools_list_"), "{dotted}");
        for odd in ["", "a b", "naïve", "🦀", "a\nb", "a.b", "a/b"] {
            assert!(is_valid(&wire_name("s", odd)), "{odd}");
            assert_eq!(wire_name("s", odd), wire_name("s", odd));
        }
        assert_ne!(wire_name("s", "a.b"), wire_name("s", "a/b"));
    }

    // A103
    #[test]
    fn a_tool_named_like_anothers_substitute_keeps_its_name() {
        let substitute = wire_name("s", "a.b");
        let twin = substitute.strip_prefix("s__").unwrap().to_owned();
        let names = wire_names("s", &BTreeSet::from(["a.b", twin.as_str()]));
        assert_eq!(names[&twin], substitute);
        assert_ne!(names["a.b"], substitute);
        assert!(is_valid(&names["a.b"]));
    }

    // A103, V-D17
    #[test]
    fn policy_may_use_the_servers_own_spelling() {
        let servers = ["s", "files"];
        assert_eq!(policy_name("shell", servers), "shell");
        assert_eq!(policy_name("files__read", servers), "files__read");
        assert_eq!(policy_name("s__admin.tools/list", servers), wire_name("s", "admin.tools/list"));
        assert_eq!(policy_name("other__a.b", servers), "other__a.b");
    }

    proptest! {
        // A103
        #[test]
        fn every_set_of_names_maps_to_valid_names_and_back(
            tools in proptest::collection::btree_set(".{0,80}", 0..20)
        ) {
            let originals: BTreeSet<&str> = tools.iter().map(String::as_str).collect();
            let names = wire_names("srv", &originals);
            prop_assert_eq!(names.len(), tools.len());
            let distinct: BTreeSet<&String> = names.values().collect();
            prop_assert_eq!(distinct.len(), tools.len());
            for name in names.values() {
                prop_assert!(is_valid(name) && name.starts_with("srv__"));
            }
        }
    }
}
