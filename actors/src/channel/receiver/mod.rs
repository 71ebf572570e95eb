//! The receiver of one channel: takes from the platform what comes, judges who may speak, makes it durable,
//! and only then acknowledges it.
//!
//! Supervised below its channel, beside [`super::Intake`], which accepts, and [`super::Sender`]. It owns a
//! task that listens, one event after the other; nothing slow happens there: attachments are fetched by
//! workers, one a conversation, from the spool in the store. A passing fault is waited out with jitter and
//! is on show; a lasting one (a revoked token) ends it for good, so that its channel is parked with the
//! cause. It ends at once when told to: what was not acknowledged comes again, and is known.

mod admit;
mod files;
mod guard;
mod listen;
mod press;
mod spool;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rookery_messages::address::{Address, Message};
use rookery_messages::channel::{ChannelAdapter, ReceiveFault, SenderMsg};
use rookery_messages::exit::{ActorError, ExitReason};
use rookery_messages::ids::ChannelId;
use rookery_messages::session::RouterMsg;
use serde_json::{Value, json};

use super::draft::Prompts;
use super::intake::IntakeHandle;
use crate::observe::ObserverHandle;
use crate::policy::redact::Redactor;
use crate::runtime::{Ctx, Supervised};
use crate::store::StoreClient;

pub use admit::{Admission, Admit, AllowList, Commands};
pub(crate) use files::keep;
pub use files::safe_name;
pub use guard::BotRules;
use spool::Spool;

/// What a receiver is built from.
#[derive(Clone)]
pub struct ReceiverArgs {
    /// The platform.
    pub adapter: Arc<dyn ChannelAdapter>,
    /// Who may speak.
    pub admit: Arc<dyn Admit>,
    /// What becomes of texts that begin with `/`. None: they are messages like others.
    pub commands: Option<Arc<dyn Commands>>,
    /// What becomes of messages that programs write.
    pub bots: BotRules,
    /// Where messages become durable.
    pub intake: IntakeHandle,
    /// The agent's workspace: attachments are put into its folder `attachments`.
    pub workspace: PathBuf,
    /// How long an *always* holds.
    pub grant_for: Duration,
    /// Prompts that stand in chats.
    pub prompts: Arc<Prompts>,
    /// The channel's sender, if it has one: what is posted here waits for it.
    pub sender: Option<Address<SenderMsg>>,
    /// The store.
    pub store: StoreClient,
    /// Sessions are told of decisions.
    pub router: Address<RouterMsg>,
    /// Keeps secrets out of what people write as an answer.
    pub redactor: Arc<Redactor>,
    /// Who is told.
    pub observer: ObserverHandle,
    /// How it goes, for readiness.
    pub status: Arc<ReceiverStatus>,
}

impl ReceiverArgs {
    fn channel(&self) -> &ChannelId {
        self.adapter.id()
    }
}

/// How receiving goes, apart from how sending goes (A057).
#[derive(Debug, Default)]
pub struct ReceiverStatus {
    trouble: Mutex<Option<String>>,
}

impl ReceiverStatus {
    /// What is wrong, if something is.
    pub fn trouble(&self) -> Option<String> {
        self.trouble.lock().clone()
    }

    fn set(&self, trouble: Option<String>) {
        *self.trouble.lock() = trouble;
    }
}

/// What it takes.
#[derive(Debug)]
pub enum ReceiverMsg {
    /// Receiving goes well again, or this is wrong.
    State(Option<String>),
    /// Nothing will ever come.
    Faulted(ReceiveFault),
    /// Messages of a conversation wait in the spool, and nobody works on them.
    Work {
        /// The conversation.
        conversation: String,
    },
    /// Events were taken.
    Took {
        /// How many were for us.
        taken: u64,
        /// How many were dropped.
        dropped: u64,
    },
    /// A worker has nothing left to do.
    Worked,
}

impl Message for ReceiverMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::State(_) => "State",
            Self::Faulted(_) => "Faulted",
            Self::Work { .. } => "Work",
            Self::Took { .. } => "Took",
            Self::Worked => "Worked",
        }
    }
}

/// See the module's documentation.
pub struct Receiver;

/// What it knows.
pub struct ReceiverState {
    args: Arc<ReceiverArgs>,
    spool: Arc<Spool>,
    taken: u64,
    dropped: u64,
}

impl Supervised for Receiver {
    const KIND: &'static str = "receiver";
    type Msg = ReceiverMsg;
    type Args = ReceiverArgs;
    type State = ReceiverState;

    fn start(ctx: &mut Ctx<Self>, args: ReceiverArgs) -> Result<ReceiverState, ActorError> {
        let args = Arc::new(args);
        let spool = Arc::new(Spool::default());
        let ear = listen::Ear {
            args: Arc::clone(&args),
            spool: Arc::clone(&spool),
            world: ctx.world().clone(),
            actor: ctx.address(),
        };
        ctx.set_waiting_on(Some("the platform".to_owned()));
        ctx.task(async move { Some(ReceiverMsg::Faulted(ear.listen().await)) });
        Ok(ReceiverState { args, spool, taken: 0, dropped: 0 })
    }

    async fn handle(
        ctx: &mut Ctx<Self>,
        state: &mut ReceiverState,
        message: ReceiverMsg,
    ) -> Result<(), ActorError> {
        match message {
            ReceiverMsg::State(trouble) => {
                match &trouble {
                    Some(why) => {
                        tracing::warn!(channel = %state.args.channel(), %why, "nothing can be received")
                    }
                    None => tracing::info!(channel = %state.args.channel(), "receiving again"),
                }
                let shown = trouble.clone().unwrap_or_else(|| "the platform".to_owned());
                ctx.set_waiting_on(Some(shown));
                state.args.status.set(trouble);
            }
            ReceiverMsg::Faulted(fault) => {
                let cause = fault.to_string();
                state.args.status.set(Some(cause.clone()));
                return Err(ActorError::permanent(cause));
            }
            ReceiverMsg::Work { conversation } => {
                let (args, spool) = (Arc::clone(&state.args), Arc::clone(&state.spool));
                let world = ctx.world().clone();
                ctx.task(async move {
                    spool.work(&args, &world, &conversation).await;
                    Some(ReceiverMsg::Worked)
                });
            }
            ReceiverMsg::Took { taken, dropped } => {
                state.taken += taken;
                state.dropped += dropped;
            }
            ReceiverMsg::Worked => {}
        }
        Ok(())
    }

    async fn ended(_: &mut Ctx<Self>, state: &mut ReceiverState, reason: &ExitReason) {
        if !reason.is_abnormal() {
            state.args.status.set(None);
        }
    }

    fn observe(state: &ReceiverState) -> Value {
        json!({
            "channel": state.args.channel(),
            "taken": state.taken,
            "dropped": state.dropped,
            "spooled": state.spool.len(),
            "trouble": state.args.status.trouble(),
        })
    }
}

#[cfg(test)]
mod tests;
