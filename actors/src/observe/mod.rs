//! What happened: the event streams clients follow, and the observations metrics and logs are made of.

mod actor;
mod exits;
mod feed;
mod handle;
mod hub;
mod log;
mod metrics;
mod recorder;

#[cfg(test)]
mod tests;

pub use actor::{ObserverActor, ObserverArgs, ObserverState};
pub use exits::exit_hook;
pub use feed::ObservationFeed;
pub use handle::{ObserverHandle, TurnVoice};
pub use hub::{EventHub, HubItem, Subscription};
pub use log::LogObserver;
pub use metrics::{Known, Metrics, Sources, Standing};
pub use recorder::{Recorder, RecorderHandle, RecorderMsg};
