//! Who may speak, and what is a command: asked before anything is fetched or stored (R4, A076).

use rookery_messages::BoxFuture;
use rookery_messages::channel::Incoming;
use rookery_messages::envelope::Inbound;
use rookery_messages::store::StoreError;

use crate::channel::commands::Desk;
use crate::channel::intake::is_allowed;
use crate::channel::pairing::{self, Door};

/// Whether a sender may speak.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Admission {
    /// They may.
    Allowed,
    /// They may not: the event is dropped and counted.
    Refused {
        /// Stable word for the metric.
        reason: &'static str,
        /// What they are told, if anything.
        say: Option<String>,
    },
}

/// Decides who may speak.
pub trait Admit: Send + Sync + 'static {
    /// Whether this message's sender may.
    fn admit<'a>(&'a self, incoming: &'a Incoming) -> BoxFuture<'a, Admission>;
}

/// The configured list. `*` is everybody; an empty list is nobody; strangers hear nothing.
#[derive(Clone, Debug)]
pub struct AllowList(pub Vec<String>);

impl Admit for AllowList {
    fn admit<'a>(&'a self, incoming: &'a Incoming) -> BoxFuture<'a, Admission> {
        let allowed = is_allowed(&self.0, &incoming.sender.id);
        Box::pin(async move {
            if allowed {
                Admission::Allowed
            } else {
                Admission::Refused { reason: "not_allowed", say: None }
            }
        })
    }
}

impl Admit for Door {
    fn admit<'a>(&'a self, incoming: &'a Incoming) -> BoxFuture<'a, Admission> {
        Box::pin(async move {
            let sender = &incoming.sender;
            // In a group nobody is answered, and no code is looked at: others read it.
            let text = incoming.private.then_some(incoming.text.as_str());
            let found = Door::admit(self, &sender.id, sender.display.as_deref(), text).await;
            let refused = |reason, say: Option<String>| Admission::Refused {
                reason,
                say: say.filter(|_| incoming.private),
            };
            match found {
                Ok(pairing::Admission::Allowed) => Admission::Allowed,
                Ok(pairing::Admission::Paired(said)) => refused("paired", Some(said)),
                Ok(pairing::Admission::Refused(said)) => refused("not_allowed", said),
                Err(_) => refused("store", None),
            }
        })
    }
}

impl Commands for Desk {
    fn offer<'a>(&'a self, inbound: &'a Inbound) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(async {
            match self.take(inbound).await {
                // The answer goes the outbox's way.
                Some(answer) => answer.map(|_| true),
                None => Ok(false),
            }
        })
    }
}

/// Takes commands, on a path of their own: they wait behind no turn.
pub trait Commands: Send + Sync + 'static {
    /// Offers a message of somebody who may speak, whose text begins with `/`. Says whether it was a
    /// command, which then is done, and answered if it has an answer. An error: offer it again.
    fn offer<'a>(&'a self, inbound: &'a Inbound) -> BoxFuture<'a, Result<bool, StoreError>>;
}
