//! The store's actor: hands requests to the threads, ends when the writer does.
//!
//! It holds no data. A writer that ended is a lost store: the actor fails, and its supervisor stops the
//! service as `StoreLost` and starts both again (DESIGN.md, section 3).

use std::sync::Arc;

use rookery_messages::exit::{ActorError, ExitReason};
use rookery_messages::store::{Store, StoreError, StoreMsg, StoreReader};
use serde_json::{Value, json};

use super::writer::StoreThreads;
use crate::runtime::{Ctx, Supervised};

/// See the module's documentation.
pub struct StoreActor;

/// An open backend.
pub struct OpenedStore {
    /// The writing half.
    pub writer: Box<dyn Store>,
    /// Reading halves, each for a thread of its own.
    pub readers: Vec<Box<dyn StoreReader>>,
}

/// Opens the backend for one incarnation. A few milliseconds of file work, done while nothing else can
/// go on anyway: whoever needs the store waits for it.
pub type OpenStore = Arc<dyn Fn() -> Result<OpenedStore, StoreError> + Send + Sync>;

/// What it knows.
pub struct StoreState {
    threads: Option<StoreThreads>,
}

impl Supervised for StoreActor {
    const KIND: &'static str = "store";
    type Msg = StoreMsg;
    type Args = OpenStore;
    type State = StoreState;

    fn start(ctx: &mut Ctx<Self>, open: OpenStore) -> Result<StoreState, ActorError> {
        let opened = open().map_err(|error| start_error(&error))?;
        // A place in this incarnation's mailbox: the address would reach whoever comes after us, and a
        // writer that outlives a killed actor would take its successor down too.
        let place = ctx.address().reserve().ok_or_else(|| {
            ActorError::transient("no place is left in the store's mailbox for its writer's end")
        })?;
        let on_end = Box::new(move |cause: String| {
            // An error means that the actor has ended already.
            let _ = place.send(StoreMsg::WriterEnded { cause });
        });
        let threads = StoreThreads::start(opened.writer, opened.readers, on_end)
            .map_err(|error| start_error(&error))?;
        Ok(StoreState { threads: Some(threads) })
    }

    async fn handle(
        _: &mut Ctx<Self>,
        state: &mut StoreState,
        message: StoreMsg,
    ) -> Result<(), ActorError> {
        let Some(threads) = &state.threads else { return Ok(()) };
        match message {
            StoreMsg::Write { write, reply } => match threads.submit_write(write, reply) {
                Err(StoreError::Closed) => {
                    Err(ActorError::transient("the store's writer has ended"))
                }
                // The asker has its answer already.
                Ok(()) | Err(_) => Ok(()),
            },
            StoreMsg::Read { read, reply } => {
                // As above; readers that ended are seen by the askers, the writer goes on.
                let _ = threads.submit_read(read, reply);
                Ok(())
            }
            StoreMsg::WriterEnded { cause } => {
                Err(ActorError::transient(format!("the store's writer ended: {cause}")))
            }
        }
    }

    async fn ended(_: &mut Ctx<Self>, state: &mut StoreState, _: &ExitReason) {
        if let Some(threads) = state.threads.take() {
            // What is queued is answered first; joining threads blocks, so it is done beside.
            let _ = tokio::task::spawn_blocking(move || threads.shutdown()).await;
        }
    }

    fn observe(state: &StoreState) -> Value {
        json!({ "open": state.threads.is_some() })
    }
}

fn start_error(error: &StoreError) -> ActorError {
    let message = error.to_string();
    match error {
        StoreError::SchemaNewer { .. } | StoreError::Corrupt(_) => ActorError::permanent(message),
        _ => ActorError::transient(message),
    }
}
