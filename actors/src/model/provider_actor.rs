//! One provider profile's actor: `providers/<profile>`.
//!
//! It owns what all calls of a profile share: the places, the cooldown a provider asked for, and what
//! went wrong last. It answers a request for a place at once if there is none to be had, and otherwise
//! when one is free. Local refusals never count as evidence about the provider (A045).

use std::sync::Arc;
use std::time::Duration;

use rookery_messages::exit::ActorError;
use rookery_messages::model::{
    Admission, ModelError, ModelErrorClass, ModelProvider, ProviderMsg, Slot,
};
use rookery_messages::time::rfc3339_millis;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::Instant;

use crate::runtime::{Ctx, Supervised};

/// Cooldown after an overload that came without a time.
const OVERLOAD_COOLDOWN: Duration = Duration::from_secs(2);
/// The longest cooldown that is believed.
const LONGEST_COOLDOWN: Duration = Duration::from_secs(3_600);

/// See the module's documentation.
pub struct ProviderActor;

/// What it is built from.
#[derive(Clone)]
pub struct ProviderArgs {
    /// The profile's name.
    pub name: String,
    /// The client.
    pub provider: Arc<dyn ModelProvider>,
    /// Most calls at once.
    pub max_concurrency: usize,
}

/// What it knows.
pub struct Profile {
    args: ProviderArgs,
    places: Arc<Semaphore>,
    cooling: Option<Cooling>,
    last_error: Option<ModelError>,
}

#[derive(Clone, Copy)]
struct Cooling {
    until: Instant,
    cause: ModelErrorClass,
}

impl Supervised for ProviderActor {
    const KIND: &'static str = "provider";
    type Msg = ProviderMsg;
    type Args = ProviderArgs;
    type State = Profile;

    fn start(_: &mut Ctx<Self>, args: ProviderArgs) -> Result<Profile, ActorError> {
        let places = Arc::new(Semaphore::new(args.max_concurrency));
        Ok(Profile { args, places, cooling: None, last_error: None })
    }

    async fn handle(
        ctx: &mut Ctx<Self>,
        state: &mut Profile,
        message: ProviderMsg,
    ) -> Result<(), ActorError> {
        match message {
            ProviderMsg::Acquire { reply } => match state.cooling_now(ctx) {
                Some(cooling) => answer(reply, cooling),
                None => state.give_place(ctx, reply),
            },
            ProviderMsg::SlotFree { reply, permit } => match state.cooling_now(ctx) {
                Some(cooling) => answer(reply, cooling),
                None => state.grant(reply, permit),
            },
            ProviderMsg::Outcome { error: None } => state.last_error = None,
            ProviderMsg::Outcome { error: Some(error) } => state.note(ctx, error),
        }
        Ok(())
    }

    fn observe(state: &Profile) -> Value {
        let cooling = state.cooling.filter(|c| c.until > Instant::now());
        json!({
            "profile": state.args.name,
            "kind": state.args.provider.kind(),
            "model": state.args.provider.model(),
            "free": state.places.available_permits(),
            "cooling_ms": cooling.map(|c| {
                u64::try_from(c.until.duration_since(Instant::now()).as_millis()).unwrap_or(u64::MAX)
            }),
            "quarantined": state.args.provider.quarantined(),
            "last_error": state.last_error.as_ref().map(|e| e.class.code()),
        })
    }
}

/// An error means that the call was stopped meanwhile; a place in the answer frees itself.
fn answer(reply: oneshot::Sender<Admission>, admission: Admission) {
    let _ = reply.send(admission);
}

impl Profile {
    fn cooling_now(&mut self, ctx: &Ctx<ProviderActor>) -> Option<Admission> {
        let Cooling { until, cause } = self.cooling?;
        let wait = until.saturating_duration_since(Instant::now());
        if wait.is_zero() {
            self.cooling = None;
            return None;
        }
        // Those that wait come back spread over a tenth of the time, not all at once (A046).
        let wait = wait + ctx.world().jitter(wait / 10);
        Some(Admission::CoolingDown { until: ctx.world().now() + wait, wait, cause })
    }

    fn give_place(&self, ctx: &mut Ctx<ProviderActor>, mut reply: oneshot::Sender<Admission>) {
        if let Ok(permit) = Arc::clone(&self.places).try_acquire_owned() {
            self.grant(reply, permit);
            return;
        }
        let places = Arc::clone(&self.places);
        ctx.task(async move {
            tokio::select! {
                permit = places.acquire_owned() => {
                    permit.ok().map(|permit| ProviderMsg::SlotFree { reply, permit })
                }
                () = reply.closed() => None,
            }
        });
    }

    fn grant(&self, reply: oneshot::Sender<Admission>, permit: OwnedSemaphorePermit) {
        let provider = Arc::clone(&self.args.provider);
        answer(reply, Admission::Granted(Slot { provider, permit }));
    }

    fn note(&mut self, ctx: &Ctx<ProviderActor>, error: ModelError) {
        let cooldown = match (error.class, error.retry_after) {
            (
                ModelErrorClass::RateLimited
                | ModelErrorClass::Overloaded
                | ModelErrorClass::Server,
                Some(after),
            ) => Some(after.min(LONGEST_COOLDOWN)),
            (ModelErrorClass::RateLimited | ModelErrorClass::Overloaded, None) => {
                Some(OVERLOAD_COOLDOWN)
            }
            _ => None,
        };
        if let Some(cooldown) = cooldown {
            let until = Instant::now() + cooldown;
            // One 429 among many in flight does not lengthen what another has set.
            if self.cooling.is_none_or(|cooling| cooling.until < until) {
                self.cooling = Some(Cooling { until, cause: error.class });
                tracing::warn!(
                    profile = self.args.name,
                    until = rfc3339_millis(ctx.world().now() + cooldown),
                    "provider cools down"
                );
            }
        }
        self.last_error = Some(error);
    }
}
