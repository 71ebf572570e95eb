//! What is sent for no turn: one thing, however often it is asked for.

use rookery_messages::ids::{ChannelId, OutboxId};
use sha2::{Digest, Sha256};
use uuid::Builder;

/// The id of something to send by what makes it one: the same parts give the same id.
pub fn id_of(what: &str, channel: &ChannelId, parts: &[&str]) -> OutboxId {
    let mut digest = Sha256::new();
    for part in [what, channel.as_str()].iter().chain(parts) {
        // Each part's length stands before it: no two lists of parts look the same.
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part.as_bytes());
    }
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest.finalize()[..16]);
    OutboxId(Builder::from_custom_bytes(bytes).into_uuid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_parts_are_one_thing_and_others_are_another() {
        let id = |channel: &str, parts: &[&str]| id_of("send", &ChannelId::new(channel), parts);
        assert_eq!(id("telegram.main", &["7", "a"]), id("telegram.main", &["7", "a"]));
        let all = [
            id("telegram.main", &["7", "a"]),
            id("telegram.main", &["7a", ""]),
            id("telegram.main", &["7", "b"]),
            id("telegram.other", &["7", "a"]),
            id_of("bot_chain", &ChannelId::new("telegram.main"), &["7", "a"]),
        ];
        let unique: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(unique.len(), all.len());
    }
}
