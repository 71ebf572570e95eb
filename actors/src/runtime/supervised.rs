//! What an actor implements.

use std::future::Future;

use rookery_messages::address::Message;
use rookery_messages::exit::{ActorError, ExitReason, StopReason};
use rookery_messages::ids::ActorId;
use serde_json::Value;

use super::ctx::Ctx;

/// An actor. Its state lives in [`Supervised::State`]; a type that implements this is only a label.
///
/// Handlers await nothing slow: slow work is a task ([`Ctx::task`]) that reports by message. A domain
/// failure is a value in a message; `Err` means "I am broken" and ends the actor.
pub trait Supervised: Send + Sync + Sized + 'static {
    /// Bounded label: `turn`, `tool`, `store` … One word, used in metrics.
    const KIND: &'static str;

    /// Whether an operator may pause it; see [`Ctx::is_paused`].
    const PAUSABLE: bool = false;

    /// What it takes.
    type Msg: Message;
    /// What it is built from.
    type Args: Send + 'static;
    /// What it knows.
    type State: Send + 'static;

    /// Builds the state. No I/O and no children here: send yourself a message for that.
    fn start(ctx: &mut Ctx<Self>, args: Self::Args) -> Result<Self::State, ActorError>;

    /// Handles one message.
    fn handle(
        ctx: &mut Ctx<Self>,
        state: &mut Self::State,
        message: Self::Msg,
    ) -> impl Future<Output = Result<(), ActorError>> + Send;

    /// A child ended. Whatever it had reported before has been handled already.
    fn child_exited(
        ctx: &mut Ctx<Self>,
        state: &mut Self::State,
        exit: ChildExit,
    ) -> impl Future<Output = Result<(), ActorError>> + Send {
        let _ = (ctx, state, exit);
        async { Ok(()) }
    }

    /// Somebody asked it to stop. The default ends at once; an actor with bookkeeping to finish goes on
    /// taking its children's facts and calls [`Ctx::end`] itself, before [`Ctx::deadline`].
    fn stop_requested(
        ctx: &mut Ctx<Self>,
        state: &mut Self::State,
        reason: &StopReason,
    ) -> impl Future<Output = Result<(), ActorError>> + Send {
        let _ = (state, reason);
        ctx.end();
        async { Ok(()) }
    }

    /// An operator resumed it after a pause.
    fn resumed(
        ctx: &mut Ctx<Self>,
        state: &mut Self::State,
    ) -> impl Future<Output = Result<(), ActorError>> + Send {
        let _ = (ctx, state);
        async { Ok(()) }
    }

    /// It ends, by whatever way but a kill. Children and tasks are gone already.
    fn ended(
        ctx: &mut Ctx<Self>,
        state: &mut Self::State,
        reason: &ExitReason,
    ) -> impl Future<Output = ()> + Send {
        let _ = (ctx, state, reason);
        async {}
    }

    /// A redacted view of the state for operators.
    fn observe(state: &Self::State) -> Value {
        let _ = state;
        Value::Null
    }
}

/// A child's end, as its parent learns of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChildExit {
    /// Which incarnation.
    pub id: ActorId,
    /// Its kind.
    pub kind: &'static str,
    /// Its last path segments, as given at its spawn.
    pub segment: String,
    /// How it ended.
    pub reason: ExitReason,
}
