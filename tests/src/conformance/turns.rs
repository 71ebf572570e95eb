//! The turn's part, which the checks play themselves.

use std::sync::Arc;
use std::time::Duration;

use rookery_actors::turn::posted_request;
use rookery_messages::approval::{Approval, ApprovalRoute, ApprovalState, Risk};
use rookery_messages::channel::{LiveTurn, SenderMsg, Streaming};
use rookery_messages::event::TurnEventKind;
use rookery_messages::ids::{ApprovalId, CallId, ConversationId, OutboxId};
use rookery_messages::store::{
    Claim, ClaimOutcome, ClaimTerms, NewOutbox, OutboxPayload, TurnCommit,
};
use rookery_messages::turn::{Outcome, TurnClaim, TurnFinish, TurnRecord, TurnState};
use serde_json::json;

use super::{Bench, Platform};
use crate::wait::until;

impl<P: Platform> Bench<P> {
    /// All turns, the oldest first.
    pub async fn turns(&self) -> Vec<TurnRecord> {
        let mut turns = self.store.turns(None, None, None, 100).await.unwrap();
        turns.reverse();
        turns
    }

    /// Waits for so many turns.
    pub async fn turns_are(&self, count: usize) -> Vec<TurnRecord> {
        until(&format!("{count} turns"), || async {
            let turns = self.turns().await;
            if turns.len() == count { Ok(turns) } else { Err(format!("{} turns", turns.len())) }
        })
        .await
    }

    /// Somebody writes, and their turn begins.
    pub async fn taken(&self, who: &str, text: &str) -> TurnClaim {
        let before = self.turns().await.len();
        self.platform.say(who, text);
        let turns = self.turns_are(before + 1).await;
        let turn = turns.last().unwrap();
        assert_eq!(turn.conversation, self.platform.chat(who));
        self.claim(turn.conversation_id).await
    }

    /// The next turn of a conversation begins.
    pub async fn claim(&self, conversation_id: ConversationId) -> TurnClaim {
        let at = self.world.now();
        let claim = Claim {
            conversation_id,
            at,
            terms: ClaimTerms { max_attempts: 3, history_chars: 10_000, together: Arc::default() },
        };
        match self.store.claim(claim).await.unwrap() {
            ClaimOutcome::Turn(claim) => *claim,
            other => panic!("nothing to claim: {other:?}"),
        }
    }

    /// The sender hears that a turn began.
    pub async fn show(&self, claim: &TurnClaim) {
        let conversation_id = claim.record.conversation_id;
        let live = LiveTurn {
            turn: claim.record.id,
            conversation_id,
            address: claim.reply_address.clone(),
            next_seq: self.hub.next_seq(conversation_id),
        };
        let sender = &self.sender.as_ref().unwrap().address;
        sender.send(SenderMsg::TurnBegan(Box::new(live))).await.unwrap();
    }

    /// Something happens in a turn.
    pub fn tell(&self, claim: &TurnClaim, event: TurnEventKind) {
        self.hub.publish(claim.record.conversation_id, claim.record.id, event);
    }

    /// The model says something.
    pub fn write(&self, claim: &TurnClaim, text: &str) {
        self.tell(claim, TurnEventKind::Delta { text: text.to_owned() });
    }

    fn step(&self, claim: &TurnClaim) -> TurnCommit {
        let record = &claim.record;
        TurnCommit::new(record.id, record.conversation_id, claim.fence, self.world.now())
    }

    /// The turn ends with an answer.
    pub async fn answer(&self, claim: &TurnClaim, text: &str) {
        let mut step = self.step(claim);
        let reply = Some(text.to_owned());
        let usage = Default::default();
        step.finish = Some(TurnFinish {
            outcome: Outcome::Answered,
            reply: reply.clone(),
            error: None,
            usage,
        });
        step.outbox.push(NewOutbox {
            id: OutboxId(self.world.ids.next()),
            channel: self.channel.clone(),
            address: claim.reply_address.clone(),
            payload: OutboxPayload::Reply {
                turn: claim.record.id,
                outcome: Outcome::Answered,
                text: text.to_owned(),
            },
        });
        self.store.commit(step).await.unwrap();
        self.tell(
            claim,
            TurnEventKind::Ended {
                outcome: Outcome::Answered,
                reply,
                usage,
                error: None,
                into: None,
            },
        );
        self.due().await;
    }

    /// The sender hears that there is something to send.
    pub async fn due(&self) {
        if let Some(sender) = &self.sender {
            sender.address.send(SenderMsg::Due).await.unwrap();
        }
    }

    /// The turn asks for an approval: of its sender, in its chat or over its sender's connection; where there
    /// is neither, of whom the agent's route names, who is posted the request.
    pub async fn ask(&self, claim: &TurnClaim) -> Approval {
        let now = self.world.now();
        let shown = self.able.buttons || self.able.streaming == Streaming::Live;
        let route = (!shown).then(|| ApprovalRoute {
            channel: self.channel.clone(),
            approvers: vec![claim.sender.clone()],
            posted: true,
            address: None,
        });
        let approval = Approval {
            id: ApprovalId(self.world.ids.next()),
            turn: claim.record.id,
            conversation_id: claim.record.conversation_id,
            channel: self.channel.clone(),
            call: CallId(self.world.ids.next()),
            tool: "file_write".to_owned(),
            arguments: json!({ "path": "a.txt" }),
            arguments_hash: "ab".repeat(32),
            risk: Risk::Medium,
            reason: "it writes".to_owned(),
            asked_at: now,
            expires_at: now + Duration::from_secs(600),
            approvers: vec![claim.sender.clone()],
            asked_for: None,
            summary: "path=a.txt".to_owned(),
            offer: None,
            batch: None,
            route,
            state: ApprovalState::Pending,
            decision: None,
            decided_by: None,
            decided_at: None,
        };
        let mut step = self.step(claim);
        step.state = Some(TurnState::WaitingApproval);
        step.approvals.push(approval.clone());
        step.outbox.extend(posted_request(&approval, OutboxId(self.world.ids.next())));
        self.store.commit(step).await.unwrap();
        self.tell(claim, TurnEventKind::Approval { approval: Box::new(approval.clone()) });
        self.due().await;
        approval
    }
}
