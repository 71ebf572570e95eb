//! Memory's actor, `root/service/memory`: owns the backend, and hands it requests in tasks.
//!
//! A backend that fails gives its error to whoever asked; one that panics or whose file is lost takes the
//! actor down, which is started anew, or parked. Nobody waits for it in a handler, and requests under way
//! and waiting together stay within its mailbox's capacity.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use rookery_messages::exit::{ActorError, ExitReason};
use rookery_messages::memory::{Memory, MemoryError, MemoryMsg, MemoryReply};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::client::MemoryLink;
use crate::runtime::{Ctx, Supervised};

/// A backend that takes longer has hung; its place is given back.
const HUNG: Duration = Duration::from_secs(30);

/// See the module's documentation.
pub struct MemoryActor;

/// Opens the backend for one incarnation. A few milliseconds of file work at most.
pub type OpenMemory = Arc<dyn Fn() -> Result<Arc<dyn Memory>, MemoryError> + Send + Sync>;

/// What it is built from.
#[derive(Clone)]
pub struct MemoryArgs {
    /// The backend.
    pub open: OpenMemory,
    /// Where its clients find the backend.
    pub link: Arc<MemoryLink>,
}

/// What it knows.
pub struct MemoryState {
    backend: Arc<dyn Memory>,
    requests: u64,
}

impl Supervised for MemoryActor {
    const KIND: &'static str = "memory";
    type Msg = MemoryMsg;
    type Args = MemoryArgs;
    type State = MemoryState;

    fn start(ctx: &mut Ctx<Self>, args: MemoryArgs) -> Result<MemoryState, ActorError> {
        let backend = (args.open)().map_err(|error| match error {
            MemoryError::Corrupt(_) | MemoryError::Newer { .. } => {
                ActorError::permanent(error.to_string())
            }
            _ => ActorError::transient(error.to_string()),
        })?;
        args.link.set(&backend);
        let tended = Arc::clone(&backend);
        ctx.task(async move {
            tended.tend().await;
            None
        });
        Ok(MemoryState { backend, requests: 0 })
    }

    async fn handle(
        ctx: &mut Ctx<Self>,
        state: &mut MemoryState,
        message: MemoryMsg,
    ) -> Result<(), ActorError> {
        state.requests += 1;
        let backend = Arc::clone(&state.backend);
        match message {
            MemoryMsg::Store(new, reply) => {
                ctx.task(answer(reply, async move { backend.store(*new).await }));
            }
            MemoryMsg::Recall(query, reply) => {
                ctx.task(answer(reply, async move { backend.recall(query).await }));
            }
            MemoryMsg::List(query, reply) => {
                ctx.task(answer(reply, async move { backend.list(query).await }));
            }
            MemoryMsg::Get(id, reply) => {
                ctx.task(answer(reply, async move { backend.get(id).await }));
            }
            MemoryMsg::Forget(what, reply) => {
                ctx.task(answer(reply, async move { backend.forget(what).await }));
            }
            MemoryMsg::Coverage(reply) => {
                ctx.task(answer(reply, async move { backend.coverage().await }));
            }
        }
        Ok(())
    }

    async fn ended(_: &mut Ctx<Self>, state: &mut MemoryState, _: &ExitReason) {
        // The next incarnation opens the same file.
        if timeout(HUNG, state.backend.close()).await.is_err() {
            tracing::warn!("the memory's backend did not close in time");
        }
    }

    fn observe(state: &MemoryState) -> Value {
        json!({ "empty": state.backend.is_empty(), "requests": state.requests })
    }
}

/// Answers, unless whoever asked is gone first: then the work is given up.
async fn answer<T: Send>(
    mut reply: MemoryReply<T>,
    work: impl Future<Output = Result<T, MemoryError>> + Send,
) -> Option<MemoryMsg> {
    let found = tokio::select! {
        found = timeout(HUNG, work) => found.unwrap_or(Err(MemoryError::Timeout)),
        () = reply.closed() => return None,
    };
    // Nobody may wait for it any more.
    let _ = reply.send(found);
    None
}

#[cfg(test)]
mod tests;
