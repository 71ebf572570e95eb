//! The typed client of memory's actor: a [`Memory`] itself, so that whoever asks needs not know.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::RwLock;
use rookery_messages::BoxFuture;
use rookery_messages::address::{Address, SendError};
use rookery_messages::ids::MemoryId;
use rookery_messages::memory::{
    Coverage, Forget, ListQuery, Memory, MemoryEntry, MemoryError, MemoryMsg, MemoryReply,
    NewMemory, RecallQuery, Recalled, Stored,
};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// How long an answer is waited for. Turns have a shorter deadline of their own.
const DEADLINE: Duration = Duration::from_secs(10);

/// The backend of the incarnation that lives, for questions that need no message.
#[derive(Default)]
pub struct MemoryLink(RwLock<Option<Weak<dyn Memory>>>);

impl MemoryLink {
    /// From now on this one.
    pub(super) fn set(&self, backend: &Arc<dyn Memory>) {
        *self.0.write() = Some(Arc::downgrade(backend));
    }

    fn is_empty(&self) -> bool {
        let backend = self.0.read().as_ref().and_then(Weak::upgrade);
        backend.is_some_and(|backend| backend.is_empty())
    }
}

/// Memory, as every other actor's tasks see it. Cheap to clone.
#[derive(Clone)]
pub struct MemoryClient {
    address: Address<MemoryMsg>,
    link: Arc<MemoryLink>,
}

impl MemoryClient {
    /// A client of the actor at `address`, which has this link too.
    pub fn new(address: Address<MemoryMsg>, link: Arc<MemoryLink>) -> Self {
        Self { address, link }
    }

    fn ask<T: Send + 'static>(
        &self,
        message: impl FnOnce(MemoryReply<T>) -> MemoryMsg,
    ) -> BoxFuture<'_, Result<T, MemoryError>> {
        let (reply, answer) = oneshot::channel();
        let sent = self.address.try_send(message(reply));
        Box::pin(async move {
            match sent {
                Ok(()) => {}
                Err(SendError::Full(_)) => return Err(MemoryError::Busy),
                Err(SendError::Restarting(_)) => {
                    return Err(MemoryError::Unavailable("it is being started".to_owned()));
                }
                Err(SendError::Closed(_) | SendError::InHandler(_)) => {
                    return Err(MemoryError::Closed);
                }
            }
            match timeout(DEADLINE, answer).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(_dropped)) => {
                    Err(MemoryError::Unavailable("it stopped with the request in hand".to_owned()))
                }
                Err(_elapsed) => Err(MemoryError::Timeout),
            }
        })
    }
}

impl Memory for MemoryClient {
    fn store(&self, new: NewMemory) -> BoxFuture<'_, Result<Stored, MemoryError>> {
        self.ask(|reply| MemoryMsg::Store(Box::new(new), reply))
    }

    fn recall(&self, query: RecallQuery) -> BoxFuture<'_, Result<Vec<Recalled>, MemoryError>> {
        self.ask(|reply| MemoryMsg::Recall(query, reply))
    }

    fn list(&self, query: ListQuery) -> BoxFuture<'_, Result<Vec<MemoryEntry>, MemoryError>> {
        self.ask(|reply| MemoryMsg::List(query, reply))
    }

    fn get(&self, id: MemoryId) -> BoxFuture<'_, Result<Option<MemoryEntry>, MemoryError>> {
        self.ask(|reply| MemoryMsg::Get(id, reply))
    }

    fn forget(&self, what: Forget) -> BoxFuture<'_, Result<u64, MemoryError>> {
        self.ask(|reply| MemoryMsg::Forget(what, reply))
    }

    fn coverage(&self) -> BoxFuture<'_, Result<Option<Coverage>, MemoryError>> {
        self.ask(MemoryMsg::Coverage)
    }

    fn is_empty(&self) -> bool {
        self.link.is_empty()
    }
}
