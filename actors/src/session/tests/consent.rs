//! Who is asked, where, and what an answer is good for.

use rookery_messages::approval::{ApprovalState, GrantScope};
use rookery_messages::ids::GrantId;
use rookery_messages::store::{NewGrant, OutboxPayload};

use super::*;

/// The next request of a turn.
async fn asked(events: &mut Following) -> Approval {
    let pending = |kind: &TurnEventKind| matches!(kind, TurnEventKind::Approval { approval } if approval.state == ApprovalState::Pending);
    match events.until(pending).await {
        TurnEventKind::Approval { approval } => *approval,
        _ => unreachable!(),
    }
}

/// How a request was decided, as everybody is told.
async fn settled(events: &mut Following) -> Approval {
    let decided = |kind: &TurnEventKind| matches!(kind, TurnEventKind::Approval { approval } if approval.state != ApprovalState::Pending);
    match events.until(decided).await {
        TurnEventKind::Approval { approval } => *approval,
        _ => unreachable!(),
    }
}

fn request(rig: &Rig, approval: &Approval, who: &str, via: &str) -> DecideApproval {
    DecideApproval {
        approval: approval.id,
        decision: Decision::Approve,
        decider: Decider { who: who.into(), via: via.into() },
        privileged: false,
        at: rig.spawner.world().now(),
        grant: None,
    }
}

async fn hint(rig: &Rig, approval: &Approval) {
    let (conversation, turn) = (approval.conversation_id, approval.turn);
    let hint = RouterMsg::ApprovalHint { conversation, turn, approval: approval.id };
    rig.router.send(hint).await.unwrap();
}

async fn always(rig: &Rig, approval: &Approval) -> GrantId {
    let now = rig.spawner.world().now();
    let id = GrantId(rig.spawner.world().ids.next());
    let expires_at = now + Duration::from_secs(60);
    let mut always = request(rig, approval, "ann", "ws");
    always.decision = Decision::Always;
    always.grant = Some(NewGrant { id, scope: GrantScope::Conversation, expires_at });
    let decided = rig.store.decide(always).await.unwrap();
    assert!(matches!(decided, DecideOutcome::Decided(_)), "{decided:?}");
    hint(rig, approval).await;
    id
}

// V-G7, V-H5
#[tokio::test]
async fn a_grant_lets_the_call_run_without_a_question_names_itself_and_ends_when_it_is_taken_back()
{
    let rig = Rig::plain().await;
    let call = || asks(&[("once", json!({ "do": "authority" }))]);
    rig.script([call(), says("done"), call(), says("done"), call(), says("done")]);
    let (_, mut events) = rig.accept("m1", "ws").await;
    let approval = asked(&mut events).await;
    assert_eq!(approval.offer.as_ref().unwrap().pattern, r#"once {"do":"authority"}"#);
    let grant = always(&rig, &approval).await;
    events.end().await;
    assert!(rig.last_results()[0].contains("Approved"), "{:?}", rig.last_results());

    let (_, mut events) = rig.accept("m2", "ws").await;
    events.end().await;
    assert!(!events.kinds().contains(&"approval"), "{:?}", events.kinds());
    let named = format!("{:?}", rookery_messages::tool::Authority::Granted { grant });
    assert_eq!(rig.last_results().last(), Some(&named));

    let by = Decider { who: "op".into(), via: "admin".into() };
    rig.store.revoke_grant(grant, rig.spawner.world().now(), by).await.unwrap().unwrap();
    let (_, mut events) = rig.accept("m3", "ws").await;
    let again = asked(&mut events).await;
    rig.decide(&again, Decision::Deny { reason: None }).await;
    events.end().await;
    rig.quiet().await;
}

// A096: the taint half
#[tokio::test]
async fn after_a_result_from_outside_what_carries_data_out_asks_though_it_is_approved_by_a_list() {
    let profile = RiskProfile {
        auto_approve: vec!["share".into(), "again".into()],
        ..RiskProfile::default()
    };
    let rig = Rig::new(profile, RuntimeProfile::default()).await;
    rig.script([
        asks(&[("share", json!({ "do": "before" }))]),
        asks(&[("fetch", json!({}))]),
        asks(&[("again", json!({ "do": "inside" })), ("share", json!({ "do": "leak" }))]),
        says("done"),
        // The page still stands in what the model reads.
        asks(&[("share", json!({ "do": "later" }))]),
        says("done"),
    ]);
    let (turn, mut events) = rig.accept("m1", "ws").await;
    let approval = asked(&mut events).await;
    assert_eq!((approval.tool.as_str(), &approval.arguments), ("share", &json!({ "do": "leak" })));
    assert!(approval.reason.contains("outside") && approval.reason.contains("`fetch`"));
    // A new attempt knows it from the journal and the history.
    rig.only("approval").stop(StopReason::Operator("ann".into()));
    let approval = asked(&mut events).await;
    rig.decide(&approval, Decision::Deny { reason: None }).await;
    events.end().await;
    assert_eq!(*rig.runs.lock(), ["before", "say", "inside"]);
    assert_eq!(states(&rig.record(turn).await).last(), Some(&CallState::Denied));
    let (_, mut events) = rig.accept("m2", "ws").await;
    let later = asked(&mut events).await;
    assert_eq!(later.arguments, json!({ "do": "later" }));
    rig.decide(&later, Decision::Approve).await;
    events.end().await;
    assert_eq!(rig.runs.lock().last().unwrap(), "later");
    rig.quiet().await;
}

// V-H13, I7
#[tokio::test]
async fn of_many_who_answer_at_once_one_decides_and_everybody_is_told_which() {
    let rig = Rig::plain().await;
    rig.script([asks(&[("once", json!({ "do": "write" }))]), says("done")]);
    let (_, mut events) = rig.accept("m1", "ws").await;
    let approval = asked(&mut events).await;
    let answers = (0..16).map(|n| {
        let mut answer = match n {
            0 => request(&rig, &approval, "ann", "ws"),
            n => request(&rig, &approval, &format!("op{n}"), "admin"),
        };
        answer.privileged = n > 0;
        if n % 2 == 1 {
            answer.decision = Decision::Deny { reason: None };
        }
        rig.store.decide(answer)
    });
    let outcomes = futures_util::future::join_all(answers).await;
    let mut won = Vec::new();
    for outcome in outcomes {
        match outcome.unwrap() {
            DecideOutcome::Decided(approval) => won.push(*approval),
            DecideOutcome::AlreadyDecided(_) => {}
            other => panic!("{other:?}"),
        }
    }
    let [won] = &won[..] else { panic!("{won:?}") };
    hint(&rig, &approval).await;
    let told = settled(&mut events).await;
    assert_eq!((&told.decided_by, &told.decision), (&won.decided_by, &won.decision));
    let by = told.decided_by.clone().unwrap();
    assert!(told.stands().contains(&format!("by {} via {}", by.who, by.via)), "{}", told.stands());
    events.end().await;
    let ran = won.decision == Some(Decision::Approve);
    assert_eq!(rig.runs.lock().len(), usize::from(ran));
    rig.quiet().await;
}

// V-H13: a deadline nobody met is the runtime's
#[tokio::test]
async fn a_synthesized_no_answer_keeps_the_runtime_as_its_author() {
    // V-H20, A082
    let rig = Rig::with(|setup| setup.approval_timeout = Duration::from_millis(50)).await;
    rig.script([asks(&[("once", json!({ "do": "write" }))]), says("done")]);
    let (turn, mut events) = rig.accept("m1", "ws").await;
    let approval = asked(&mut events).await;
    let expired = settled(&mut events).await;
    let runtime = Decider { who: "runtime".into(), via: "runtime".into() };
    assert_eq!(
        (expired.state, expired.decided_by.as_ref()),
        (ApprovalState::Expired, Some(&runtime))
    );
    events.end().await;
    assert_eq!(rig.last_results(), [text::DENIED_NO_ANSWER]);
    assert_eq!(states(&rig.record(turn).await), [CallState::Denied]);
    let late = rig.store.decide(request(&rig, &approval, "ann", "ws")).await.unwrap();
    let DecideOutcome::AlreadyDecided(stands) = late else { panic!("{late:?}") };
    assert_eq!(stands.stands(), "already decided by runtime via runtime: expired");
    assert!(rig.runs.lock().is_empty());
    rig.quiet().await;
}

#[tokio::test]
async fn requests_of_one_response_say_which_of_how_many_they_are() {
    let rig = Rig::plain().await;
    let once = |what: &str| ("once", json!({ "do": what }));
    rig.script([asks(&[once("one"), ("read", json!({})), once("two")]), says("done")]);
    let (_, mut events) = rig.accept("m1", "ws").await;
    let (one, two) = (asked(&mut events).await, asked(&mut events).await);
    let place = |approval: &Approval| approval.batch.map(|b| (b.id, b.position, b.of));
    assert_eq!((place(&one), place(&two)), (Some((one.id, 1, 2)), Some((one.id, 2, 2))));
    rig.decide(&two, Decision::Approve).await;
    rig.decide(&one, Decision::Deny { reason: None }).await;
    events.end().await;
    assert_eq!(*rig.runs.lock(), ["say", "two"]);
    rig.quiet().await;
}

fn routed(setup: &mut Setup, approvers: Option<&[&str]>) {
    setup.bundle.approval_route = Some(AskedAt::Channel(ChannelId::new("webhook.ops")));
    if let Some(approvers) = approvers {
        let facts = ChannelFacts {
            posts_replies: true,
            can_ask: false,
            approvers: Some(approvers.iter().map(|who| (*who).to_owned()).collect()),
            sender: None,
        };
        setup.channels.insert(ChannelId::new("webhook.ops"), facts);
    }
}

// V-H14: unregistered, or without people
#[tokio::test]
async fn a_route_that_reaches_nobody_denies_unless_the_turns_own_people_inherit() {
    for (people, inherits, channel) in [
        (None, false, "ws"),
        (Some(&[][..]), false, "ws"),
        (None, true, "webhook.ci"),
        (None, true, "ws"),
    ] {
        let rig = Rig::with(|setup| {
            routed(setup, people);
            setup.bundle.approval_inherits = inherits;
        })
        .await;
        rig.script([asks(&[("once", json!({ "do": "write" }))]), says("done")]);
        let (turn, mut events) = rig.accept("m1", channel).await;
        if inherits && channel == "ws" {
            let approval = asked(&mut events).await;
            assert_eq!(approval.route, None);
            rig.decide(&approval, Decision::Approve).await;
            events.end().await;
            assert_eq!(*rig.runs.lock(), ["write"]);
        } else {
            events.end().await;
            assert_eq!(rig.last_results(), [text::DENIED_NO_ROUTE]);
            assert_eq!(states(&rig.record(turn).await), [CallState::Denied]);
            assert!(rig.store.approvals(false, 10).await.unwrap().is_empty());
        }
        rig.quiet().await;
    }
}

// V-H14: silent, and slow
#[tokio::test]
async fn a_route_that_stays_silent_is_no_answer_and_one_that_is_slow_learns_what_stands() {
    let rig = Rig::with(|setup| {
        routed(setup, Some(&["eve"]));
        setup.approval_timeout = Duration::from_millis(50);
    })
    .await;
    rig.script([asks(&[("once", json!({ "do": "write" }))]), says("done")]);
    let (_, mut events) = rig.accept("m1", "webhook.ci").await;
    let approval = asked(&mut events).await;
    events.end().await;
    assert_eq!(rig.last_results(), [text::DENIED_NO_ANSWER]);
    let late = rig.store.decide(request(&rig, &approval, "eve", "webhook.ops")).await.unwrap();
    assert!(matches!(late, DecideOutcome::AlreadyDecided(_)), "{late:?}");
    assert!(rig.runs.lock().is_empty());
    rig.quiet().await;
}

// V-H6, V-H14
#[tokio::test]
async fn a_routed_request_is_posted_there_and_decided_by_its_people_there_and_by_nobody_else() {
    let rig = Rig::with(|setup| routed(setup, Some(&["eve"]))).await;
    rig.script([asks(&[("once", json!({ "do": "write\u{1b}[2K" }))]), says("done")]);
    let (_, mut events) = rig.accept("m1", "webhook.ci").await;
    let approval = asked(&mut events).await;
    let ops = ChannelId::new("webhook.ops");
    let now = rig.spawner.world().now();
    let rows = rig.store.claim_outbox(ops, now, 10).await.unwrap();
    let [row] = &rows[..] else { panic!("{rows:?}") };
    let OutboxPayload::Notice { turn, text } = &row.message.payload else { panic!("{row:?}") };
    assert_eq!(*turn, Some(approval.turn));
    for part in ["once (medium risk)", "/approve", "/deny", "/replace", "write\\u001b[2K"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.contains(&approval.id.to_string()) && !text.contains('\u{1b}'), "{text}");
    for (who, via) in [("eve", "webhook.ci"), ("mallory", "webhook.ops")] {
        let refused = rig.store.decide(request(&rig, &approval, who, via)).await.unwrap();
        assert_eq!(refused, DecideOutcome::NotAllowed, "{who} {via}");
    }
    let decided = rig.store.decide(request(&rig, &approval, "eve", "webhook.ops")).await.unwrap();
    assert!(matches!(decided, DecideOutcome::Decided(_)), "{decided:?}");
    hint(&rig, &approval).await;
    assert_eq!(settled(&mut events).await.decided_by.unwrap().via, "webhook.ops");
    events.end().await;
    assert_eq!(rig.runs.lock().len(), 1);
    rig.quiet().await;
}

// V-H19
#[tokio::test]
async fn a_cancelled_turns_routed_request_is_withdrawn_where_it_was_posted() {
    let rig = Rig::with(|setup| routed(setup, Some(&["eve"]))).await;
    rig.script([asks(&[("once", json!({ "do": "write" }))]), says("done")]);
    let (turn, mut events) = rig.accept("m1", "webhook.ci").await;
    let approval = asked(&mut events).await;
    rig.stop(turn, StopReason::User);
    assert_eq!(events.end().await.0, Outcome::Cancelled);
    let ops = ChannelId::new("webhook.ops");
    let mut texts = Vec::new();
    let now = rig.spawner.world().now();
    // The second waits behind the first.
    while texts.len() < 2 {
        for row in rig.store.claim_outbox(ops.clone(), now, 10).await.unwrap() {
            let OutboxPayload::Notice { text, .. } = row.message.payload else { panic!() };
            texts.push(text);
            let sent = rookery_messages::store::SendResult::Sent { external_id: None };
            rig.store.mark_outbox(row.message.id, now, sent).await.unwrap();
        }
    }
    assert_eq!(
        texts[1],
        format!("Approval {} of once is withdrawn: the turn has ended", approval.id)
    );
    let late = rig.store.decide(request(&rig, &approval, "eve", "webhook.ops")).await.unwrap();
    assert!(matches!(late, DecideOutcome::AlreadyDecided(_)), "{late:?}");
    rig.quiet().await;
}
