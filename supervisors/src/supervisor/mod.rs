//! The one generic supervisor actor.
//!
//! It owns its children's addresses and restarts; decides by [`crate::strategy`]. Its path tells what it
//! is: `root`, `root/service` … It sends nothing; it ends when told to, when a significant child has done
//! its work, or as failed when a child that may not be given up fails too often. In every case it stops
//! its children first, the last started first, each within its grace, so that whoever depends on another
//! goes before it.

mod report;
mod spec;
mod state;

use std::fmt;

use rookery_actors::runtime::{ChildExit, Ctx, Supervised};
use rookery_messages::address::Message;
use rookery_messages::exit::{ActorError, ExitReason, StopReason};
use serde_json::Value;
use tokio::sync::oneshot;

pub use report::{ChildEnd, ChildReport, ChildStanding, ExitLine, StopLog, SupervisorReport};
pub use spec::SupervisorSpec;
use state::After;
pub use state::SupervisorState;

/// The kind of every supervisor.
pub const KIND: &str = "supervisor";

/// A supervisor. See the module's documentation.
pub struct SupervisorActor;

/// What a supervisor takes.
pub enum SupervisorMsg {
    /// Start the children. Sent to itself.
    Begin,
    /// A restart's delay is over. Sent to itself.
    Due {
        /// The restart's number; one that was cancelled is void.
        number: u64,
    },
    /// Start a child again at once: parked, waiting for its restart, or running.
    Restart {
        /// Its path segments below the supervisor.
        segment: String,
        /// Who asks.
        by: String,
        /// Told what came of it.
        reply: Option<oneshot::Sender<Result<(), OrderRefused>>>,
    },
    /// Stop a child, or don't start it again.
    Stop {
        /// Its path segments below the supervisor.
        segment: String,
        /// Who asks.
        by: String,
        /// Told what came of it.
        reply: Option<oneshot::Sender<Result<(), OrderRefused>>>,
    },
    /// How the children stand.
    Report(oneshot::Sender<SupervisorReport>),
}

impl fmt::Debug for SupervisorMsg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())
    }
}

impl Message for SupervisorMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Begin => "Begin",
            Self::Due { .. } => "Due",
            Self::Restart { .. } => "Restart",
            Self::Stop { .. } => "Stop",
            Self::Report(_) => "Report",
        }
    }
}

/// Why an operator's order was not carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OrderRefused {
    /// There is no such child.
    #[error("the supervisor has no such child; look at the tree for its path")]
    Unknown,
    /// The supervisor itself is about to end.
    #[error("the supervisor is stopping; nothing is started any more")]
    Stopping,
    /// The child is being stopped at the moment.
    #[error("the child is being stopped now; try again in a moment")]
    Busy,
}

impl Supervised for SupervisorActor {
    const KIND: &'static str = KIND;
    type Msg = SupervisorMsg;
    type Args = SupervisorSpec;
    type State = SupervisorState;

    fn start(ctx: &mut Ctx<Self>, spec: SupervisorSpec) -> Result<SupervisorState, ActorError> {
        let state = SupervisorState::new(spec)?;
        ctx.address()
            .try_send(SupervisorMsg::Begin)
            .map_err(|error| ActorError::transient(format!("could not begin: {error}")))?;
        Ok(state)
    }

    async fn handle(
        ctx: &mut Ctx<Self>,
        state: &mut SupervisorState,
        message: SupervisorMsg,
    ) -> Result<(), ActorError> {
        match message {
            SupervisorMsg::Begin => state.begin(),
            SupervisorMsg::Due { number } => state.due(number),
            SupervisorMsg::Restart { segment, by, reply } => {
                answer(reply, state.restart_child(ctx, &segment, by));
            }
            SupervisorMsg::Stop { segment, by, reply } => {
                answer(reply, state.stop_child(ctx, &segment, by));
            }
            SupervisorMsg::Report(reply) => {
                let _nobody_waits = reply.send(state.report());
            }
        }
        state.settle(ctx).await
    }

    async fn child_exited(
        ctx: &mut Ctx<Self>,
        state: &mut SupervisorState,
        exit: ChildExit,
    ) -> Result<(), ActorError> {
        state.child_ended(ctx, &exit);
        state.settle(ctx).await
    }

    async fn stop_requested(
        ctx: &mut Ctx<Self>,
        state: &mut SupervisorState,
        reason: &StopReason,
    ) -> Result<(), ActorError> {
        state.close(ctx, reason.clone(), After::End);
        state.settle(ctx).await
    }

    async fn ended(ctx: &mut Ctx<Self>, state: &mut SupervisorState, _: &ExitReason) {
        state.note_end(ctx);
    }

    fn observe(state: &SupervisorState) -> Value {
        serde_json::to_value(state.report()).unwrap_or(Value::Null)
    }
}

fn answer(
    reply: Option<oneshot::Sender<Result<(), OrderRefused>>>,
    result: Result<(), OrderRefused>,
) {
    if let Some(reply) = reply {
        let _nobody_waits = reply.send(result);
    }
}

#[cfg(test)]
mod tests;
