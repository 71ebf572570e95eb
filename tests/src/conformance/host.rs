//! What stands around the channel under test: a store that can be broken, a router that runs nothing, and
//! somebody who is told.

use std::sync::Arc;

use parking_lot::Mutex;
use rookery_actors::runtime::{Ctx, Supervised};
use rookery_actors::store::StoreThreads;
use rookery_actors::store::sqlite::{SqliteOptions, open, open_reader};
use rookery_messages::exit::{ActorError, ExitReason};
use rookery_messages::observe::{Observation, ObserverMsg};
use rookery_messages::session::RouterMsg;
use rookery_messages::settings::Durability;
use rookery_messages::store::{StoreError, StoreMsg, StoreReader};

/// While set, the store refuses everything with this; and how often it did.
pub(super) type Fault = Arc<Mutex<(Option<StoreError>, usize)>>;

pub(super) struct BenchStore;

impl Supervised for BenchStore {
    const KIND: &'static str = "store";
    type Msg = StoreMsg;
    type Args = (std::path::PathBuf, Fault);
    type State = (Option<StoreThreads>, Fault);

    fn start(_: &mut Ctx<Self>, (path, fault): Self::Args) -> Result<Self::State, ActorError> {
        let options = SqliteOptions { path: path.clone(), durability: Durability::Process };
        let writer = open(&options).unwrap();
        let readers: Vec<Box<dyn StoreReader>> = vec![Box::new(open_reader(&path).unwrap())];
        let threads = StoreThreads::start(Box::new(writer), readers, Box::new(|_| {})).unwrap();
        Ok((Some(threads), fault))
    }

    async fn handle(
        _: &mut Ctx<Self>,
        (threads, fault): &mut Self::State,
        message: StoreMsg,
    ) -> Result<(), ActorError> {
        let refused = {
            let mut fault = fault.lock();
            fault.1 += usize::from(fault.0.is_some());
            fault.0.clone()
        };
        let threads = threads.as_ref().unwrap();
        match (message, refused) {
            (StoreMsg::Write { reply, .. }, Some(error)) => drop(reply.send(Err(error))),
            (StoreMsg::Read { reply, .. }, Some(error)) => drop(reply.send(Err(error))),
            (StoreMsg::Write { write, reply }, None) => drop(threads.submit_write(write, reply)),
            (StoreMsg::Read { read, reply }, None) => drop(threads.submit_read(read, reply)),
            (StoreMsg::WriterEnded { cause }, _) => return Err(ActorError::transient(cause)),
        }
        Ok(())
    }

    async fn ended(_: &mut Ctx<Self>, (threads, _): &mut Self::State, _: &ExitReason) {
        threads.take().unwrap().shutdown();
    }
}

/// Nobody runs turns: the checks do.
pub(super) struct BenchRouter;

impl Supervised for BenchRouter {
    const KIND: &'static str = "router";
    type Msg = RouterMsg;
    type Args = ();
    type State = ();

    fn start(_: &mut Ctx<Self>, (): ()) -> Result<(), ActorError> {
        Ok(())
    }

    async fn handle(_: &mut Ctx<Self>, (): &mut (), _: RouterMsg) -> Result<(), ActorError> {
        Ok(())
    }
}

/// What was observed.
pub(super) type Observed = Arc<Mutex<Vec<Observation>>>;

/// Keeps what is observed.
pub(super) struct Watcher;

impl Supervised for Watcher {
    const KIND: &'static str = "observer";
    type Msg = ObserverMsg;
    type Args = Observed;
    type State = Observed;

    fn start(_: &mut Ctx<Self>, observed: Observed) -> Result<Observed, ActorError> {
        Ok(observed)
    }

    async fn handle(
        _: &mut Ctx<Self>,
        observed: &mut Observed,
        message: ObserverMsg,
    ) -> Result<(), ActorError> {
        let ObserverMsg::Observed(observation) = message;
        observed.lock().push(*observation);
        Ok(())
    }
}
