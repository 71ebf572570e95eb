//! The observer actor: hands each observation to every sink.
//!
//! It owns the sinks; `service` supervises it; it sends nothing and ends when told to. Best effort: a
//! full mailbox costs observations, which their senders count; a sink that panics costs itself only
//! (V-N5). A sink that needs to wait for something subscribes to an [`super::ObservationFeed`] instead.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rookery_messages::exit::ActorError;
use rookery_messages::observe::{Observation, Observer, ObserverMsg};
use serde_json::{Value, json};

use crate::runtime::{Ctx, Supervised};

/// See the module's documentation.
pub struct ObserverActor;

/// What it is built from.
#[derive(Clone)]
pub struct ObserverArgs {
    /// Who is told, in order.
    pub sinks: Vec<Arc<dyn Observer>>,
    /// Panics of sinks, counted over all incarnations.
    pub panics: Arc<AtomicU64>,
}

/// The sinks, and how often each has panicked in this incarnation.
pub struct ObserverState {
    sinks: Vec<(Arc<dyn Observer>, u64)>,
    panics: Arc<AtomicU64>,
}

impl ObserverState {
    fn fan_out(&mut self, observation: &Observation) {
        for (index, (sink, panics)) in self.sinks.iter_mut().enumerate() {
            if catch_unwind(AssertUnwindSafe(|| sink.observe(observation))).is_ok() {
                continue;
            }
            *panics += 1;
            self.panics.fetch_add(1, Ordering::Relaxed);
            // The first says it all; the number of the others is a metric.
            if *panics == 1 {
                tracing::error!(sink = index, "an observer panicked; it goes on being told");
            }
        }
    }
}

impl Supervised for ObserverActor {
    const KIND: &'static str = "observer";
    type Msg = ObserverMsg;
    type Args = ObserverArgs;
    type State = ObserverState;

    fn start(_: &mut Ctx<Self>, args: ObserverArgs) -> Result<ObserverState, ActorError> {
        let sinks = args.sinks.into_iter().map(|sink| (sink, 0)).collect();
        Ok(ObserverState { sinks, panics: args.panics })
    }

    async fn handle(
        _: &mut Ctx<Self>,
        state: &mut ObserverState,
        message: ObserverMsg,
    ) -> Result<(), ActorError> {
        let ObserverMsg::Observed(observation) = message;
        state.fan_out(&observation);
        Ok(())
    }

    fn observe(state: &ObserverState) -> Value {
        let panics: Vec<u64> = state.sinks.iter().map(|(_, panics)| *panics).collect();
        json!({ "sinks": panics.len(), "panics": panics })
    }
}
