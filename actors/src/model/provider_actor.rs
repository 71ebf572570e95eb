//! One provider profile's actor: `providers/<profile>`.
//!
//! It owns what all calls of a profile share: the places, what is known of the provider's health
//! ([`super::health`]), and what went wrong last. It answers a request for a place at once if there is
//! none to be had, and otherwise when one is free. Local refusals never count as evidence about the
//! provider (A045).

use std::sync::Arc;
use std::time::Duration;

use rookery_messages::exit::ActorError;
use rookery_messages::model::{Admission, ModelError, ModelProvider, ProviderMsg, Slot};
use rookery_messages::time::rfc3339_millis;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::Instant;

use super::ceiling::Ceiling;
use super::health::{Health, Wait};
use crate::runtime::{Ctx, Supervised};

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
    /// Most calls begun in a minute.
    pub requests_per_minute: Option<u32>,
    /// The longest wait that it may ask for.
    pub max_retry_after: Duration,
    /// What its model was found not to take; it outlives the actor.
    pub ceiling: Arc<Ceiling>,
}

/// What it knows.
pub struct Profile {
    args: ProviderArgs,
    places: Arc<Semaphore>,
    health: Health,
    last_error: Option<ModelError>,
}

impl Supervised for ProviderActor {
    const KIND: &'static str = "provider";
    type Msg = ProviderMsg;
    type Args = ProviderArgs;
    type State = Profile;

    fn start(_: &mut Ctx<Self>, args: ProviderArgs) -> Result<Profile, ActorError> {
        let places = Arc::new(Semaphore::new(args.max_concurrency));
        let health = Health::new(args.requests_per_minute, args.max_retry_after);
        Ok(Profile { args, places, health, last_error: None })
    }

    async fn handle(
        ctx: &mut Ctx<Self>,
        state: &mut Profile,
        message: ProviderMsg,
    ) -> Result<(), ActorError> {
        match message {
            ProviderMsg::Acquire { reply } => match state.not_now(ctx) {
                Some(later) => answer(reply, later),
                None => state.give_place(ctx, reply),
            },
            ProviderMsg::SlotFree { reply, permit } => match state.not_now(ctx) {
                Some(later) => answer(reply, later),
                None => state.grant(reply, permit),
            },
            ProviderMsg::Outcome { error: None } => {
                state.last_error = None;
                state.health.went_well();
            }
            ProviderMsg::Outcome { error: Some(error) } => state.note(ctx, error),
        }
        Ok(())
    }

    fn observe(state: &Profile) -> Value {
        let later = state.health.look(Instant::now()).err();
        json!({
            "profile": state.args.name,
            "kind": state.args.provider.kind(),
            "model": state.args.provider.model(),
            "free": state.places.available_permits(),
            "cooling_ms": later.map(|later| {
                u64::try_from(later.wait.as_millis()).unwrap_or(u64::MAX)
            }),
            "circuit": state.health.circuit(),
            "context_ceiling": state.args.ceiling.tokens(),
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
    fn not_now(&self, ctx: &Ctx<ProviderActor>) -> Option<Admission> {
        let later = self.health.look(Instant::now()).err()?;
        // Those that wait come back spread over a tenth of the time, not all at once (A046).
        let wait = later.wait + ctx.world().jitter(later.wait / 10);
        let until = ctx.world().now() + wait;
        let Wait { cause, capped, .. } = later;
        Some(Admission::CoolingDown { until, wait, cause, capped })
    }

    fn give_place(&mut self, ctx: &mut Ctx<ProviderActor>, mut reply: oneshot::Sender<Admission>) {
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

    fn grant(&mut self, reply: oneshot::Sender<Admission>, permit: OwnedSemaphorePermit) {
        if reply.is_closed() {
            // The call was stopped while it waited: nothing begins.
            return;
        }
        self.health.begin(Instant::now());
        let provider = Arc::clone(&self.args.provider);
        answer(reply, Admission::Granted(Slot { provider, permit }));
    }

    fn note(&mut self, ctx: &Ctx<ProviderActor>, error: ModelError) {
        if let Some(later) = self.health.failed(Instant::now(), &error) {
            tracing::warn!(
                profile = self.args.name,
                until = rfc3339_millis(ctx.world().now() + later.wait),
                cause = later.cause.code(),
                capped = later.capped,
                "provider is left alone for a while"
            );
        }
        self.last_error = Some(error);
    }
}

#[cfg(test)]
mod tests;
