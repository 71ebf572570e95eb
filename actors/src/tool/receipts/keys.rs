//! The keys of receipts: made at first use, in memory alone, zeroed when their scope ends.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::fmt::Write as _;
use std::time::Duration;

use parking_lot::Mutex;
use rookery_messages::envelope::TurnOrigin;
use rookery_messages::ids::ConversationId;
use sha2::{Digest, Sha256};
use tokio::time::Instant;
use zeroize::Zeroizing;

/// How long the key of one conversation lives at most; the next call makes a new one.
const LONGEST_LIFE: Duration = Duration::from_secs(3_600);
/// Bytes of a key.
const KEY_BYTES: usize = 32;

/// Whose key signs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum KeyScope {
    /// That of the process: turns that come by a channel, a schedule or another turn.
    Process,
    /// A conversation's own: somebody sits at a terminal, a page or the API.
    Conversation(ConversationId),
}

impl KeyScope {
    /// The scope of a turn's receipts.
    pub fn of(origin: TurnOrigin, conversation: ConversationId) -> Self {
        match origin {
            TurnOrigin::Interactive | TurnOrigin::Direct => Self::Conversation(conversation),
            TurnOrigin::Channel | TurnOrigin::Cron | TurnOrigin::Daemon | TurnOrigin::SubTurn => {
                Self::Process
            }
        }
    }
}

struct Key {
    /// A hash of the key: records name it, and it tells nothing of the key.
    id: String,
    /// In its own place on the heap: a map that grows leaves no copies behind.
    bytes: Zeroizing<Box<[u8]>>,
}

impl Key {
    fn fresh() -> Option<Self> {
        let mut bytes = Zeroizing::new(vec![0_u8; KEY_BYTES].into_boxed_slice());
        if let Err(error) = getrandom::fill(&mut bytes) {
            tracing::error!(%error, "no randomness for a receipt key; results get no receipts");
            return None;
        }
        let digest = Sha256::new().chain_update(b"id of a receipt key").chain_update(&**bytes);
        let id = digest.finalize()[..8].iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        Some(Self { id, bytes })
    }
}

/// The keys that are alive. A conversation's ends when it passivates, and after an hour at the latest;
/// that of the process ends with it.
#[derive(Default)]
pub struct ReceiptKeys {
    keys: Mutex<Keys>,
}

#[derive(Default)]
struct Keys {
    process: Option<Key>,
    of_conversations: HashMap<ConversationId, Key>,
    /// All have the same longest life: the first to end stands in front.
    ends: VecDeque<(Instant, ConversationId, String)>,
}

impl fmt::Debug for ReceiptKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceiptKeys")
            .field("conversations", &self.keys.lock().of_conversations.len())
            .finish_non_exhaustive()
    }
}

impl ReceiptKeys {
    /// Uses the key of `scope`, which is made if it isn't there; gives its id too.
    pub(super) fn with<T>(
        &self,
        scope: KeyScope,
        sign: impl FnOnce(&[u8]) -> T,
    ) -> Option<(String, T)> {
        let mut keys = self.keys.lock();
        keys.end_old();
        let key = match scope {
            KeyScope::Process => {
                if keys.process.is_none() {
                    keys.process = Some(Key::fresh()?);
                }
                keys.process.as_ref()?
            }
            KeyScope::Conversation(conversation) => {
                if !keys.of_conversations.contains_key(&conversation) {
                    let key = Key::fresh()?;
                    let end = (Instant::now() + LONGEST_LIFE, conversation, key.id.clone());
                    keys.ends.push_back(end);
                    keys.of_conversations.insert(conversation, key);
                }
                keys.of_conversations.get(&conversation)?
            }
        };
        Some((key.id.clone(), sign(&key.bytes)))
    }

    /// Uses the key with this id, if it lives.
    pub(super) fn with_id<T>(&self, id: &str, sign: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let mut keys = self.keys.lock();
        keys.end_old();
        let process = keys.process.iter();
        let key = process.chain(keys.of_conversations.values()).find(|key| key.id == id)?;
        Some(sign(&key.bytes))
    }

    /// The conversation rests: its key ends.
    pub fn rest(&self, conversation: ConversationId) {
        let mut keys = self.keys.lock();
        if keys.of_conversations.remove(&conversation).is_some() {
            keys.ends.retain(|(_, of, _)| *of != conversation);
        }
    }

    /// Ends the keys whose time is over. Asked now and then, so that none outlives it unseen.
    pub fn end_old(&self) {
        self.keys.lock().end_old();
    }
}

impl Keys {
    fn end_old(&mut self) {
        let now = Instant::now();
        while let Some((_, conversation, id)) = self.ends.pop_front_if(|(end, _, _)| *end <= now) {
            if self.of_conversations.get(&conversation).is_some_and(|key| key.id == id) {
                self.of_conversations.remove(&conversation);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn conversation(n: u128) -> KeyScope {
        KeyScope::Conversation(ConversationId(Uuid::from_u128(n)))
    }

    fn id(keys: &ReceiptKeys, scope: KeyScope) -> String {
        keys.with(scope, |_| ()).unwrap().0
    }

    fn lives(keys: &ReceiptKeys, id: &str) -> bool {
        keys.with_id(id, |_| ()).is_some()
    }

    // T17: who sits there has a key of its conversation, everybody else that of the process.
    #[test]
    fn direct_turns_have_their_conversations_key_and_channels_share_the_processs() {
        let of = ConversationId(Uuid::from_u128(1));
        for direct in [TurnOrigin::Interactive, TurnOrigin::Direct] {
            assert_eq!(KeyScope::of(direct, of), KeyScope::Conversation(of));
        }
        for other in [TurnOrigin::Channel, TurnOrigin::Cron, TurnOrigin::SubTurn] {
            assert_eq!(KeyScope::of(other, of), KeyScope::Process);
        }
    }

    // T17
    #[tokio::test(start_paused = true)]
    async fn a_conversations_key_ends_when_it_rests_and_after_an_hour_at_the_latest() {
        let keys = ReceiptKeys::default();
        let (first, second) = (id(&keys, conversation(1)), id(&keys, conversation(2)));
        let process = id(&keys, KeyScope::Process);
        assert!(first != second && first != process && first == id(&keys, conversation(1)));
        let KeyScope::Conversation(resting) = conversation(1) else { panic!() };
        keys.rest(resting);
        assert!(!lives(&keys, &first) && lives(&keys, &second));
        tokio::time::advance(LONGEST_LIFE - Duration::from_secs(1)).await;
        let third = id(&keys, conversation(1));
        assert!(lives(&keys, &second) && third != first);
        tokio::time::advance(Duration::from_secs(1)).await;
        keys.end_old();
        assert!(!lives(&keys, &second) && lives(&keys, &third) && lives(&keys, &process));
        assert_ne!(id(&keys, conversation(2)), second);
        assert_eq!(keys.keys.lock().ends.len(), 2);
    }

    // T17: zeroed on drop, and shown by nothing.
    #[test]
    fn a_key_is_zeroed_when_it_is_dropped_and_its_id_is_not_part_of_it() {
        fn zeroed<T: zeroize::ZeroizeOnDrop>(_: &T) {}
        let key = Key::fresh().unwrap();
        zeroed(&key.bytes);
        assert!(key.bytes.iter().any(|byte| *byte != 0) && key.bytes.len() == KEY_BYTES);
        let hex: String = key.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(!hex.contains(&key.id) && key.id.len() == 16);
        assert_ne!(Key::fresh().unwrap().id, key.id);
    }
}
