//! A button was pressed: who pressed it, where, and what that decides (I7, A081, A088).

use std::time::Duration;

use rookery_messages::approval::{Approval, ApprovalState, Decider, Decision, GrantScope};
use rookery_messages::channel::{Outgoing, Press};
use rookery_messages::envelope::Sender;
use rookery_messages::ids::GrantId;
use rookery_messages::session::RouterMsg;
use rookery_messages::store::{DecideApproval, DecideOutcome, NewGrant};
use rookery_messages::time::World;

use super::ReceiverArgs;
use crate::channel::prompt;
use crate::channel::render::literal;

/// How long a session may take to hear of a decision; it looks by itself too.
const HINT_LIMIT: Duration = Duration::from_secs(5);

/// Decides what a press says, if it may; answers whoever pressed, and nobody else.
pub(super) async fn press(args: &ReceiverArgs, world: &World, press: &Press) {
    let said = judge(args, world, press).await;
    args.adapter.answer(press, &said).await;
}

async fn judge(args: &ReceiverArgs, world: &World, press: &Press) -> String {
    let Some((id, choice)) = prompt::read(&press.data) else {
        return "this button means nothing here".to_owned();
    };
    let Some(sender) = &press.sender else {
        return "it is not known who pressed; nothing was decided".to_owned();
    };
    let approval = match args.store.approval(id).await {
        Ok(Some(approval)) => approval,
        Ok(None) => return "there is no such request".to_owned(),
        Err(_) => return "the request can't be read now; press again in a moment".to_owned(),
    };
    match belongs(args, &approval, &press.address.conversation).await {
        Ok(true) => {}
        Ok(false) => return "this request belongs to another chat; it stays open".to_owned(),
        Err(why) => return why,
    }
    let Some(decision) = prompt::decision(&approval, choice) else {
        return "this can't be chosen for this request".to_owned();
    };
    match decide(args, world, &approval, decision, sender).await {
        Ok(stands) => {
            show(args, press, &stands).await;
            stands.verdict().to_owned()
        }
        Err(why) => {
            if approval.state != ApprovalState::Pending
                && approval.may_decide(&decider(args, sender))
            {
                show(args, press, &approval).await;
            }
            why
        }
    }
}

/// Whether the request is one of this chat's.
async fn belongs(
    args: &ReceiverArgs,
    approval: &Approval,
    conversation: &str,
) -> Result<bool, String> {
    if approval.route.as_ref().is_some_and(|route| route.is_in(args.channel(), conversation)) {
        return Ok(true);
    }
    if approval.channel != *args.channel() {
        return Ok(false);
    }
    let (channel, conversation) = (Some(args.channel().clone()), Some(conversation.to_owned()));
    match args.store.turns(conversation, channel, None, 1).await {
        Ok(turns) => Ok(turns.first().is_some_and(|turn| approval.concerns(turn.conversation_id))),
        Err(_) => Err("the request can't be read now; press again in a moment".to_owned()),
    }
}

fn decider(args: &ReceiverArgs, sender: &Sender) -> Decider {
    Decider { who: sender.id.clone(), via: args.channel().to_string() }
}

/// One compare-and-set in the store, then the hint. An error is for whoever decided to read.
pub(super) async fn decide(
    args: &ReceiverArgs,
    world: &World,
    approval: &Approval,
    decision: Decision,
    sender: &Sender,
) -> Result<Approval, String> {
    let now = world.now();
    let grant = (decision == Decision::Always).then(|| NewGrant {
        id: GrantId(world.ids.next()),
        scope: GrantScope::Conversation,
        expires_at: now + args.grant_for,
    });
    let request = DecideApproval {
        approval: approval.id,
        decision,
        decider: decider(args, sender),
        privileged: false,
        at: now,
        grant,
    };
    match args.store.decide(request).await {
        Ok(DecideOutcome::Decided(decided)) => {
            let hint = RouterMsg::ApprovalHint {
                conversation: decided.conversation_id,
                turn: decided.turn,
                approval: decided.id,
            };
            let told = tokio::time::timeout(HINT_LIMIT, args.router.send(hint)).await;
            if !matches!(told, Ok(Ok(()))) {
                tracing::warn!(approval = %decided.id, "the session could not be told of a decision");
            }
            Ok(*decided)
        }
        Ok(DecideOutcome::AlreadyDecided(stands)) => Err(stands.stands()),
        Ok(DecideOutcome::NotAllowed) => {
            Err("you are not among those who may decide this; it stays open".to_owned())
        }
        Ok(DecideOutcome::NotFound) => Err("there is no such request".to_owned()),
        Err(error) => {
            tracing::warn!(approval = %approval.id, %error, "a decision could not be written");
            Err("the decision could not be written; try again in a moment".to_owned())
        }
    }
}

/// What stands takes the place of the prompt, and its buttons go.
async fn show(args: &ReceiverArgs, press: &Press, approval: &Approval) {
    args.prompts.remove(&press.address.conversation, &press.message);
    let piece = literal(&prompt::settled_text(approval), &args.adapter.capabilities());
    let outgoing = Outgoing {
        address: &press.address,
        text: &piece.text,
        plain: &piece.plain,
        edit: Some(&press.message),
        buttons: &[],
        row: None,
    };
    // The turn's own draft does the same: one of them is enough.
    let attempt = args.adapter.send(&outgoing).await;
    tracing::debug!(?attempt, "a prompt was settled");
}
