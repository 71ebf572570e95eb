//! Conversations that belong to one token.
//!
//! A token of role `chat` owns what it created, and nothing else. So that this holds for the history a
//! model reads as well as for what the API shows, such a token's conversations are stored under names
//! of their own, `~<token>/<conversation>`, and so are the ids of its messages. Nobody can choose a
//! name that begins with `~`.

const MARK: char = '~';

/// Whether a stored name belongs to a token.
pub fn is_scoped(name: &str) -> bool {
    name.starts_with(MARK)
}

fn prefix(owner: &str) -> String {
    // The first `/` ends the owner's part, so none may stand in it.
    format!("{MARK}{}/", owner.replace('%', "%25").replace('/', "%2F"))
}

/// The name a conversation or message of `owner` is stored under.
pub fn inside(owner: &str, name: &str) -> String {
    format!("{}{name}", prefix(owner))
}

/// The name as its owner knows it; none if it isn't the owner's.
pub fn of_owner<'a>(owner: &str, stored: &'a str) -> Option<&'a str> {
    stored.strip_prefix(&prefix(owner))
}

/// The name without its owner: what the other side of a channel knows.
pub fn bare(stored: &str) -> &str {
    match stored.strip_prefix(MARK) {
        Some(rest) => rest.split_once('/').map_or(stored, |(_, name)| name),
        None => stored,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_name_comes_back_to_its_owner_and_to_nobody_else(
            owner in "[a-z/%~]{1,6}", other in "[a-z/%~]{1,6}", name in "[a-z/%~]{1,8}",
        ) {
            let stored = inside(&owner, &name);
            prop_assert!(is_scoped(&stored));
            prop_assert_eq!(of_owner(&owner, &stored), Some(name.as_str()));
            prop_assert_eq!(bare(&stored), name.as_str());
            if owner != other {
                prop_assert_eq!(of_owner(&other, &stored), None);
            }
        }
    }
}
