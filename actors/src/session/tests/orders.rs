//! Cancels, pauses and stops that come at bad moments.

use rookery_messages::turn::{TurnClaim, TurnState};

use super::*;

#[tokio::test]
async fn a_cancel_between_the_claim_and_its_answer_stops_the_turn_all_the_same() {
    // V-N7, R19
    let rig = Rig::plain().await;
    *rig.provider.hang_after.lock() = Some(0);
    rig.hold.set(true);
    let (turn, mut events) = rig.accept("m1", "webhook.ci").await;
    // The row is claimed, and its session does not know yet: the mark comes too late for the claim, and
    // there is no actor to stop.
    while rig.record(turn).await.attempts == 0 {
        tokio::task::yield_now().await;
    }
    let conversation = rig.conversation;
    rig.router.send(RouterMsg::Cancel { conversation, turn }).await.unwrap();
    let session = rig.only("session");
    let seen = session.observe(Duration::from_secs(10)).await;
    assert_eq!(seen["turn"], Value::Null, "the turn has not begun");
    // The router passes it on before it shows itself.
    rig.only("router").observe(Duration::from_secs(10)).await;
    rig.hold.set(false);
    assert_eq!(events.end().await.0, Outcome::Cancelled);
    rig.quiet().await;
}

#[tokio::test]
async fn a_request_whose_actor_an_operator_stops_is_asked_again_and_its_answer_counts() {
    // V-N2, I7
    let rig = Rig::plain().await;
    rig.script([asks(&[("once", json!({ "do": "write" }))]), says("done")]);
    let (turn, mut events) = rig.accept("m1", "ws").await;
    let is_question = |kind: &TurnEventKind| matches!(kind, TurnEventKind::Approval { .. });
    let first = events.until(is_question).await;
    rig.only("approval").stop(StopReason::Operator("ann".into()));
    let again = events.until(is_question).await;
    let TurnEventKind::Approval { approval } = &again else { unreachable!() };
    assert_eq!(first, again, "the same request");
    let request = DecideApproval {
        approval: approval.id,
        decision: Decision::Approve,
        decider: Decider { who: "ann".into(), via: "ws".into() },
        privileged: false,
        at: rig.spawner.world().now(),
        grant: None,
    };
    rig.store.decide(request).await.unwrap();
    let conversation = approval.conversation_id;
    let hint = RouterMsg::ApprovalHint { conversation, turn, approval: approval.id };
    rig.router.send(hint).await.unwrap();
    assert_eq!(events.end().await.0, Outcome::Answered);
    assert_eq!(*rig.runs.lock(), ["write"]);
    rig.quiet().await;
}

#[tokio::test]
async fn however_often_the_router_is_resumed_it_sweeps_once_at_a_time() {
    // I13
    let rig = Rig::plain().await;
    let router = rig.only("router");
    for _ in 0..10 {
        router.set_paused(true);
        router.set_paused(false);
        router.observe(Duration::from_secs(10)).await;
    }
    // The tenth sweep's answer sets the one timer; each of ten chains would have its own.
    while router.task_count() != 1 {
        tokio::task::yield_now().await;
    }
    rig.store.ledger().await.unwrap();
    router.observe(Duration::from_secs(10)).await;
    assert_eq!(router.task_count(), 1);
    rig.quiet().await;
}

#[tokio::test]
async fn rows_behind_a_session_that_an_operator_stops_do_not_wait_for_the_sweep() {
    // I1
    let mut rig = Rig::plain().await;
    rig.script([asks(&[("read", json!({ "do": "wait" }))]), says("two")]);
    let (_, mut first) = rig.accept("m1", "webhook.ci").await;
    rig.began.recv().await.unwrap();
    let (_, mut second) = rig.accept("m2", "webhook.ci").await;
    rig.only("session").stop(StopReason::Operator("ann".into()));
    assert_eq!(first.end().await.0, Outcome::Cancelled);
    // The sweep would come after ten.
    let end = tokio::time::timeout(Duration::from_secs(5), second.end()).await;
    assert_eq!(end.unwrap().0, Outcome::Answered);
    rig.quiet().await;
}

#[tokio::test]
async fn a_paused_session_does_not_go_to_rest_and_forget_its_pause() {
    let rig = Rig::plain().await;
    let (_, mut events) = rig.accept("m1", "webhook.ci").await;
    events.end().await;
    let session = rig.only("session");
    session.set_paused(true);
    tokio::time::pause();
    // Far past the idle time.
    tokio::time::advance(Duration::from_secs(1)).await;
    tokio::time::resume();
    session.observe(Duration::from_secs(10)).await;
    rig.store.has_open(rig.conversation).await.unwrap();
    rig.only("router").observe(Duration::from_secs(10)).await;
    let (turn, mut events) = rig.accept("m2", "webhook.ci").await;
    rig.only("router").observe(Duration::from_secs(10)).await;
    session.observe(Duration::from_secs(10)).await;
    assert_eq!(rig.only("session").id, session.id);
    assert_eq!(rig.record(turn).await.attempts, 0);
    session.set_paused(false);
    assert_eq!(events.end().await.0, Outcome::Answered);
    rig.quiet().await;
}

impl Rig {
    /// A message that is claimed as it is accepted; its claim comes with the hint, or is kept back.
    async fn take_claimed(&self, id: &str) -> (Box<TurnClaim>, Following) {
        let accept = Accept {
            claim: Some(self.deps.terms.clone()),
            ..self.message("home", id, "webhook.ci")
        };
        let events = self.hub.subscribe(self.conversation, None);
        let outcome = self.store.accept(accept).await.unwrap();
        let turn = outcome.envelope.turn;
        (outcome.claim.unwrap(), Following { turn, events, seen: Vec::new() })
    }

    async fn hand_over(&self, claim: Box<TurnClaim>) {
        let (conversation, arrival) = (self.conversation, Arrival::Claimed(claim));
        self.router.send(RouterMsg::Hint { conversation, arrival }).await.unwrap();
    }
}

// I3: the claim of the hint begins, without another one
#[tokio::test]
async fn a_message_that_was_claimed_as_it_was_accepted_is_answered_in_its_first_attempt() {
    let rig = Rig::plain().await;
    for id in ["m1", "m2"] {
        let (claim, mut events) = rig.take_claimed(id).await;
        let turn = claim.record.id;
        rig.hand_over(claim).await;
        assert_eq!(events.end().await.0, Outcome::Answered);
        assert_eq!(rig.record(turn).await.attempts, 1);
    }
    assert_eq!(rig.provider.requests.lock().len(), 2);
    rig.quiet().await;
}

// I1
#[tokio::test]
async fn a_claimed_message_waits_behind_a_pause_as_any_other() {
    let rig = Rig::plain().await;
    let (_, mut events) = rig.accept("m1", "webhook.ci").await;
    events.end().await;
    let session = rig.only("session");
    session.set_paused(true);
    let (claim, mut events) = rig.take_claimed("m2").await;
    let turn = claim.record.id;
    rig.hand_over(claim).await;
    while rig.record(turn).await.state != TurnState::Queued {
        tokio::task::yield_now().await;
    }
    assert_eq!(rig.record(turn).await.attempts, 0);
    session.set_paused(false);
    assert_eq!(events.end().await.0, Outcome::Answered);
    assert_eq!(rig.record(turn).await.attempts, 1);
    rig.quiet().await;
}

// I3: the sweep claims what a hint is still on its way for; only one of the two claims runs
#[tokio::test]
async fn a_claim_that_was_overtaken_by_another_does_not_run() {
    let rig = Rig::plain().await;
    let (late, mut events) = rig.take_claimed("m1").await;
    let turn = late.record.id;
    rig.router.send(RouterMsg::hint(rig.conversation)).await.unwrap();
    while rig.record(turn).await.attempts < 2 {
        tokio::task::yield_now().await;
    }
    rig.hand_over(late).await;
    assert_eq!(events.end().await.0, Outcome::Answered);
    // Its answer is there once, and so is the message.
    let history =
        rig.store.messages(ChannelId::new("webhook.ci"), "c1".into(), 10).await.unwrap().unwrap();
    assert_eq!(history.len(), 2, "{history:?}");
    rig.quiet().await;
}

#[tokio::test]
async fn turns_under_a_router_that_an_operator_stops_leave_in_good_order() {
    // I1, I8
    let mut rig = Rig::plain().await;
    rig.script([asks(&[("read", json!({ "do": "hang" }))])]);
    let (turn, _events) = rig.accept("m1", "webhook.ci").await;
    rig.began.recv().await.unwrap();
    rig.only("router").stop(StopReason::Operator("ann".into()));
    rig.until(|directory| directory.of_kind("router").is_empty()).await;
    let record = rig.record(turn).await;
    assert_eq!((record.outcome, record.attempts), (None, 1), "a later life goes on");
    rig.quiet().await;
}

#[tokio::test]
async fn a_row_whose_agent_is_gone_waits_however_often_it_is_hinted_at() {
    // I1
    let rig = Rig::plain().await;
    let (turn, _events) = rig.accept_for("nobody", "m1", "webhook.ci").await;
    while rig.record(turn).await.attempts == 0 {
        tokio::task::yield_now().await;
    }
    let conversation = rig.conversation;
    let seen = rig.only("session");
    for _ in 0..5 {
        rig.router.send(RouterMsg::hint(conversation)).await.unwrap();
        rig.only("router").observe(Duration::from_secs(10)).await;
        seen.observe(Duration::from_secs(10)).await;
        rig.store.ledger().await.unwrap();
    }
    let record = rig.record(turn).await;
    assert_eq!((record.outcome, record.attempts), (None, 1));
    assert_eq!(rig.only("session").id, seen.id);
    rig.quiet().await;
}
