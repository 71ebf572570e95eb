//! What happened: the event streams clients follow, and the observations metrics and logs are made of.

mod handle;
mod hub;

pub use handle::{ObserverHandle, TurnVoice};
pub use hub::{EventHub, HubItem, Subscription};
