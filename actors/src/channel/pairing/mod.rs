//! Who may use a channel: its list, and those who paired with it (R4).
//!
//! An adapter asks its [`Door`] before it downloads or stores anything. Whoever is on the list, or was seen
//! to be paired a moment ago, is let in without asking anybody. A stranger's message is dropped; where the
//! channel pairs, they are told once a day how to get access, and a message that is a code and nothing
//! else is held against those that are out.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rookery_messages::approval::Decider;
use rookery_messages::ids::ChannelId;
use rookery_messages::pairing::{Knock, KnockBounds, Knocked, PairCode, PairingWrite};
use rookery_messages::store::StoreError;
use rookery_messages::time::{World, rfc3339_millis};
use tokio::time::Instant;

use crate::store::StoreClient;

use super::is_allowed;

mod code;
#[cfg(test)]
mod tests;

pub use code::CODE_LENGTH;

/// How much guessing is borne: 40 random bits, and twenty tries an hour.
pub const BOUNDS: KnockBounds = KnockBounds {
    tries: 5,
    channel_tries: 20,
    lock: Duration::from_secs(3_600),
    tell_every: Duration::from_secs(86_400),
};
/// Who was seen to be paired is asked about again after this: a pairing may be taken back.
const TRUST: Duration = Duration::from_secs(10);
/// Most senders of a channel that are remembered as paired.
const REMEMBERED: usize = 10_000;

/// What a door says of a sender.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Admission {
    /// They may use the channel.
    Allowed,
    /// They may from now on; the message was the code. They read this.
    Paired(String),
    /// They may not: the message is dropped. They read this, if there is anything to say.
    Refused(Option<String>),
}

/// A channel's door.
pub struct Door {
    channel: ChannelId,
    allowed: Vec<String>,
    pairs: bool,
    store: StoreClient,
    world: World,
    paired: Mutex<HashMap<String, Instant>>,
}

impl Door {
    /// Of a channel with this list. Without `pairs` nobody comes in by a code, and strangers hear nothing.
    pub fn new(
        channel: ChannelId,
        allowed: Vec<String>,
        pairs: bool,
        store: StoreClient,
        world: World,
    ) -> Arc<Self> {
        Arc::new(Self { channel, allowed, pairs, store, world, paired: Mutex::default() })
    }

    /// Whether a sender may use the channel. `text` is what they said, if it is text.
    pub async fn admit(
        &self,
        sender: &str,
        display: Option<&str>,
        text: Option<&str>,
    ) -> Result<Admission, StoreError> {
        if is_allowed(&self.allowed, sender) {
            return Ok(Admission::Allowed);
        }
        if !self.pairs {
            return Ok(Admission::Refused(None));
        }
        if self.remembers(sender) {
            return Ok(Admission::Allowed);
        }
        let code = text.and_then(code::read);
        let knock = Knock {
            channel: self.channel.clone(),
            sender: sender.to_owned(),
            display: display.map(str::to_owned),
            hash: code.map(|code| code::hash(&self.channel, &code)),
            at: self.world.now(),
            bounds: BOUNDS,
        };
        Ok(match self.store.knock(knock).await? {
            Knocked::Known => {
                self.remember(sender);
                Admission::Allowed
            }
            Knocked::Paired => {
                self.remember(sender);
                Admission::Paired(
                    "you may use this channel now; /help says what there is".to_owned(),
                )
            }
            Knocked::Wrong { left: 0 } => Admission::Refused(Some(
                "this code is not right, or has been used; no more is looked at for an hour"
                    .to_owned(),
            )),
            Knocked::Wrong { left } => Admission::Refused(Some(format!(
                "this code is not right, or has been used; {left} more tries are left"
            ))),
            Knocked::Locked { until } => Admission::Refused(Some(format!(
                "too many codes were wrong; the next is looked at after {}",
                rfc3339_millis(until)
            ))),
            Knocked::Stranger { tell: true } => Admission::Refused(Some(
                "you may not use this channel yet: ask its operator for a code and send it here"
                    .to_owned(),
            )),
            Knocked::Stranger { tell: false } => Admission::Refused(None),
        })
    }

    /// Strangers may pair.
    pub fn pairs(&self) -> bool {
        self.pairs
    }

    /// A pairing was taken back.
    pub fn forget(&self, sender: &str) {
        self.paired.lock().remove(sender);
    }

    fn remembers(&self, sender: &str) -> bool {
        self.paired.lock().get(sender).is_some_and(|seen| seen.elapsed() < TRUST)
    }

    fn remember(&self, sender: &str) {
        let mut paired = self.paired.lock();
        if paired.len() >= REMEMBERED {
            paired.retain(|_, seen| seen.elapsed() < TRUST);
        }
        if paired.len() < REMEMBERED {
            paired.insert(sender.to_owned(), Instant::now());
        }
    }
}

/// Has a code made that lets one sender in. It is shown here and nowhere else; the store has its hash.
pub async fn new_code(
    store: &StoreClient,
    world: &World,
    channel: ChannelId,
    good_for: Duration,
    by: Decider,
) -> Result<PairCode, StoreError> {
    let code = code::fresh().map_err(|error| StoreError::Failed(error.to_string()))?;
    let at = world.now();
    let expires_at = at + good_for;
    let hash = code::hash(&channel, &code);
    let write = PairingWrite::NewCode { channel: channel.clone(), hash, by, at, expires_at };
    store.pairing(write).await?;
    Ok(PairCode { channel, code, expires_at })
}
