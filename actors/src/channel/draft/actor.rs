//! One turn's draft: `draft/<turn>` below its channel's sender.
//!
//! It follows the turn's events and shows them (see [`super::run`]); it owns nothing but its task. It ends
//! with its turn, whose answer goes the outbox's way; told to stop, it ends at once, and what people have
//! seen stands in the store for whoever goes on.

use std::sync::Arc;

use rookery_messages::address::Message;
use rookery_messages::channel::{Capabilities, ChannelAdapter, LiveTurn};
use rookery_messages::exit::ActorError;
use serde_json::{Value, json};

use super::{Prompts, Slot, run};
use crate::channel::budget::Budgets;
use crate::observe::EventHub;
use crate::runtime::{Ctx, Supervised};
use crate::store::StoreClient;

/// See the module's documentation.
pub struct DraftActor;

/// What it is built from.
#[derive(Clone)]
pub struct DraftArgs {
    /// The turn.
    pub live: LiveTurn,
    /// The platform.
    pub adapter: Arc<dyn ChannelAdapter>,
    /// What it can do.
    pub capabilities: Arc<Capabilities>,
    /// The budgets of its chats.
    pub budgets: Arc<Budgets>,
    /// Where prompts are found again.
    pub prompts: Arc<Prompts>,
    /// The turn's place.
    pub slot: Slot,
    /// The events.
    pub hub: Arc<EventHub>,
    /// The store.
    pub store: StoreClient,
}

/// What it takes.
#[derive(Debug)]
pub enum DraftMsg {
    /// The turn has ended, or nothing more may be shown.
    Over,
}

impl Message for DraftMsg {
    fn kind(&self) -> &'static str {
        "Over"
    }
}

impl Supervised for DraftActor {
    const KIND: &'static str = "draft";
    type Msg = DraftMsg;
    type Args = DraftArgs;
    type State = LiveTurn;

    fn start(ctx: &mut Ctx<Self>, args: DraftArgs) -> Result<LiveTurn, ActorError> {
        let live = args.live.clone();
        ctx.task(async move {
            run::run(args).await;
            Some(DraftMsg::Over)
        });
        Ok(live)
    }

    async fn handle(
        ctx: &mut Ctx<Self>,
        _: &mut LiveTurn,
        message: DraftMsg,
    ) -> Result<(), ActorError> {
        match message {
            DraftMsg::Over => ctx.end(),
        }
        Ok(())
    }

    fn observe(live: &LiveTurn) -> Value {
        json!({ "turn": live.turn, "conversation": live.address.conversation })
    }
}
