//! One approval request's actor: `approval/<id>` below its turn.
//!
//! It owns the waiting: the request's deadline, and looking at the store when a hint comes. The record
//! in the store is the truth; a decision is one compare-and-set there, made by whatever surface the
//! person used (I7). It ends when a decision stands and its turn has been told, or with its turn.

use std::time::Duration;

use rookery_messages::address::Reserved;
use rookery_messages::approval::{
    Approval, ApprovalMsg, ApprovalState, Decided, Decider, Decision,
};
use rookery_messages::exit::ActorError;
use rookery_messages::store::{DecideApproval, DecideOutcome, StoreError};
use rookery_messages::turn::TurnMsg;
use serde_json::{Value, json};

use crate::runtime::{Ctx, Supervised};
use crate::store::StoreClient;

/// Hints may get lost; so often it looks all the same.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// See the module's documentation.
pub struct ApprovalActor;

/// What it is built from.
pub struct ApprovalArgs {
    /// The request, as committed.
    pub approval: Approval,
    /// The store.
    pub store: StoreClient,
    /// The place of its one report.
    pub report: Reserved<TurnMsg>,
}

/// What it knows.
pub struct ApprovalWait {
    approval: Approval,
    store: StoreClient,
    report: Option<Reserved<TurnMsg>>,
}

impl Supervised for ApprovalActor {
    const KIND: &'static str = "approval";
    type Msg = ApprovalMsg;
    type Args = ApprovalArgs;
    type State = ApprovalWait;

    fn start(ctx: &mut Ctx<Self>, args: ApprovalArgs) -> Result<ApprovalWait, ActorError> {
        let ApprovalArgs { approval, store, report } = args;
        let left = approval.expires_at.duration_since(ctx.world().now());
        ctx.after(Duration::try_from(left).unwrap_or(Duration::ZERO), ApprovalMsg::Expired);
        ctx.set_waiting_on(Some(format!("a decision on {}", approval.tool)));
        let state = ApprovalWait { approval, store, report: Some(report) };
        // It may have been decided while nobody waited: before a restart, for instance.
        look(ctx, &state);
        Ok(state)
    }

    async fn handle(
        ctx: &mut Ctx<Self>,
        state: &mut ApprovalWait,
        message: ApprovalMsg,
    ) -> Result<(), ActorError> {
        match message {
            ApprovalMsg::Hint => look(ctx, state),
            ApprovalMsg::Looked(found) => looked(ctx, state, *found),
            ApprovalMsg::Expired => expire(ctx, state),
        }
        Ok(())
    }

    fn observe(state: &ApprovalWait) -> Value {
        json!({
            "approval": state.approval.id,
            "tool": state.approval.tool,
            "risk": state.approval.risk,
            "expires_at": rookery_messages::time::rfc3339_millis(state.approval.expires_at),
        })
    }
}

fn look(ctx: &mut Ctx<ApprovalActor>, state: &ApprovalWait) {
    let (store, id) = (state.store.clone(), state.approval.id);
    ctx.task(async move {
        let found = match store.approval(id).await {
            Ok(Some(approval)) => Ok(*Box::new(approval)),
            Ok(None) => Err(StoreError::NotFound),
            Err(error) => Err(error),
        };
        Some(ApprovalMsg::Looked(Box::new(found)))
    });
}

fn looked(
    ctx: &mut Ctx<ApprovalActor>,
    state: &mut ApprovalWait,
    found: Result<Approval, StoreError>,
) {
    match found {
        Ok(approval) if approval.state != ApprovalState::Pending => {
            if let Some(report) = state.report.take() {
                let decided = TurnMsg::ApprovalDecided(Box::new(Decided { approval }));
                // An error means that the turn has ended: nobody waits for the decision.
                let _ = report.send(decided);
            }
            ctx.end();
        }
        Ok(_) | Err(_) => {
            // Past its deadline, what failed was writing that it passed: that is tried again (V-H20).
            let late = ctx.world().now() >= state.approval.expires_at;
            let next = if late { ApprovalMsg::Expired } else { ApprovalMsg::Hint };
            ctx.after(LOOK_AGAIN, next);
        }
    }
}

/// The deadline passed: *no answer*, which is not a refusal (A082). Somebody may be faster.
fn expire(ctx: &mut Ctx<ApprovalActor>, state: &ApprovalWait) {
    let request = DecideApproval {
        approval: state.approval.id,
        decision: Decision::NoAnswer,
        decider: Decider { who: "runtime".to_owned(), via: "runtime".to_owned() },
        privileged: true,
        at: ctx.world().now(),
        grant: None,
    };
    let store = state.store.clone();
    ctx.task(async move {
        let found = match store.decide(request).await {
            Ok(DecideOutcome::Decided(approval) | DecideOutcome::AlreadyDecided(approval)) => {
                Ok(*approval)
            }
            Ok(DecideOutcome::NotFound | DecideOutcome::NotAllowed) => Err(StoreError::NotFound),
            Err(error) => Err(error),
        };
        Some(ApprovalMsg::Looked(Box::new(found)))
    });
}
