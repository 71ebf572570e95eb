//! Writes what belongs to no turn: crashes, and what operators did to actors.
//!
//! `recorder` below `service`. Whoever tells it never waits: exits and admin requests hand a row over and
//! go on. Rows that find no room, or that the store refuses, are in the log.

use rookery_messages::address::{Address, Message};
use rookery_messages::exit::ActorError;
use rookery_messages::store::{AuditRow, CrashRow};

use crate::runtime::{Ctx, Supervised};
use crate::store::StoreClient;

/// What the recorder takes.
#[derive(Debug)]
pub enum RecorderMsg {
    /// An actor crashed.
    Crash(Box<CrashRow>),
    /// An operator did something.
    Audit(Box<AuditRow>),
}

impl Message for RecorderMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Crash(_) => "Crash",
            Self::Audit(_) => "Audit",
        }
    }
}

/// The actor.
pub struct Recorder;

impl Supervised for Recorder {
    const KIND: &'static str = "recorder";
    type Msg = RecorderMsg;
    type Args = StoreClient;
    type State = StoreClient;

    fn start(_: &mut Ctx<Self>, store: StoreClient) -> Result<StoreClient, ActorError> {
        Ok(store)
    }

    async fn handle(
        ctx: &mut Ctx<Self>,
        store: &mut StoreClient,
        message: RecorderMsg,
    ) -> Result<(), ActorError> {
        let store = store.clone();
        ctx.task(async move {
            let written = match &message {
                RecorderMsg::Crash(row) => store.crash((**row).clone()).await,
                RecorderMsg::Audit(row) => store.audit((**row).clone()).await,
            };
            if let Err(error) = written {
                unwritten(&message, &error.to_string());
            }
            None
        });
        Ok(())
    }
}

/// Hands rows to the recorder; what it can't take is in the log.
#[derive(Clone, Debug)]
pub struct RecorderHandle(pub Address<RecorderMsg>);

impl RecorderHandle {
    /// An actor crashed.
    pub fn crash(&self, row: CrashRow) {
        self.tell(RecorderMsg::Crash(Box::new(row)));
    }

    /// An operator did something.
    pub fn audit(&self, row: AuditRow) {
        self.tell(RecorderMsg::Audit(Box::new(row)));
    }

    fn tell(&self, message: RecorderMsg) {
        if let Err(refused) = self.0.try_send(message) {
            let why = refused.as_str();
            unwritten(&refused.into_message(), why);
        }
    }
}

/// The log is the last place where such a row is found.
fn unwritten(message: &RecorderMsg, why: &str) {
    match message {
        RecorderMsg::Crash(row) => tracing::error!(
            why,
            kind = row.kind,
            path = row.path,
            cause = row.cause,
            location = row.location,
            in_hand = row.message_in_hand,
            "a crash could not be recorded in the store"
        ),
        RecorderMsg::Audit(row) => tracing::error!(
            why,
            who = row.who,
            via = row.via,
            action = row.action,
            target_of = row.target,
            detail = %row.detail,
            "an act could not be recorded in the store"
        ),
    }
}
