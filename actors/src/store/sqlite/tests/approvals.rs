//! Decisions.

use rookery_messages::approval::{ApprovalRoute, Decision, Grant, GrantScope};
use rookery_messages::ids::{AgentName, ChannelId, GrantId};
use rookery_messages::store::{DecideApproval as DecideRequest, NewGrant};

use jiff::Timestamp;
use proptest::prelude::*;

use super::*;

fn asked() -> (Db, TurnClaim, Approval) {
    let mut db = Db::new();
    let (_, conversation) = db.take("c", "m1");
    let claim = db.claim(conversation);
    let approval = db.approval(&claim);
    let mut step = db.step(&claim);
    step.approvals.push(approval.clone());
    db.commit(step).unwrap();
    (db, claim, approval)
}

fn request(db: &mut Db, approval: &Approval, who: &str, decision: Decision) -> DecideApproval {
    DecideApproval {
        approval: approval.id,
        decision,
        decider: decider(who),
        privileged: false,
        at: db.now(),
        grant: None,
    }
}

fn decide(db: &mut Db, request: &DecideApproval) -> DecideOutcome {
    match db.write(Write::DecideApproval(request.clone())).unwrap() {
        Written::Decided(outcome) => outcome,
        other => panic!("{other:?}"),
    }
}

fn stored(db: &mut Db, id: ApprovalId) -> Approval {
    match db.read(Read::Approval(id)) {
        Found::Approval(Some(approval)) => *approval,
        other => panic!("{other:?}"),
    }
}

// I7, B3
#[test]
fn the_first_decision_wins_and_survives_a_restart() {
    let (mut db, _, approval) = asked();
    assert_eq!(stored(&mut db, approval.id), approval);
    let deny = Decision::Deny { reason: Some("no".to_owned()) };
    let first = request(&mut db, &approval, "bob", deny.clone());
    let decided = Approval {
        state: ApprovalState::Denied,
        decision: Some(deny),
        decided_by: Some(decider("bob")),
        decided_at: Some(first.at),
        ..approval.clone()
    };
    assert_eq!(decide(&mut db, &first), DecideOutcome::Decided(Box::new(decided.clone())));

    let mut db = db.restart();
    let second = request(&mut db, &approval, "ann", Decision::Approve);
    let stands = DecideOutcome::AlreadyDecided(Box::new(decided.clone()));
    assert_eq!(decide(&mut db, &second), stands);
    assert_eq!(stored(&mut db, approval.id), decided);
    assert_eq!(db.audit(), [("approval.deny".to_owned(), "bob".to_owned())]);
    match db.read(Read::Approvals { pending: true, limit: 10 }) {
        Found::Approvals(pending) => assert_eq!(pending, []),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_same_decision_sent_again_is_still_the_one_that_stands() {
    let (mut db, _, approval) = asked();
    let request = request(&mut db, &approval, "ann", Decision::Approve);
    let first = decide(&mut db, &request);
    assert!(matches!(first, DecideOutcome::Decided(_)));
    assert_eq!(decide(&mut db, &request), first);
    assert_eq!(db.audit().len(), 1);
}

// I7
#[test]
fn somebody_who_may_not_decide_is_named_in_the_audit_and_the_request_stays_open() {
    let (mut db, _, approval) = asked();
    let mut outsider = request(&mut db, &approval, "eve", Decision::Approve);
    assert_eq!(decide(&mut db, &outsider), DecideOutcome::NotAllowed);
    assert_eq!(stored(&mut db, approval.id), approval);
    assert_eq!(db.audit(), [("approval.not_allowed".to_owned(), "eve".to_owned())]);
    outsider.privileged = true;
    assert!(matches!(decide(&mut db, &outsider), DecideOutcome::Decided(_)));
    let unknown = DecideApproval { approval: ApprovalId(db.id()), ..outsider };
    assert_eq!(decide(&mut db, &unknown), DecideOutcome::NotFound);
}

// T11, A082
#[test]
fn a_decision_past_the_deadline_finds_no_answer_instead() {
    let (mut db, _, approval) = asked();
    let mut late = request(&mut db, &approval, "ann", Decision::Approve);
    late.at = approval.expires_at;
    let DecideOutcome::AlreadyDecided(expired) = decide(&mut db, &late) else {
        panic!("decided too late")
    };
    assert_eq!(expired.state, ApprovalState::Expired);
    assert_eq!(expired.decision, Some(Decision::NoAnswer));
    assert_eq!(stored(&mut db, approval.id), *expired);
    assert_eq!(db.audit(), [("approval.no_answer".to_owned(), "runtime".to_owned())]);
}

#[test]
fn the_runtime_expires_a_request_at_its_deadline() {
    let (mut db, _, approval) = asked();
    let mut expiry = request(&mut db, &approval, "runtime", Decision::NoAnswer);
    expiry.privileged = true;
    expiry.at = approval.expires_at;
    let DecideOutcome::Decided(expired) = decide(&mut db, &expiry) else { panic!("not expired") };
    assert_eq!(expired.state, ApprovalState::Expired);
}

fn always(db: &mut Db, approval: &Approval, scope: GrantScope) -> (GrantId, DecideRequest) {
    let mut request = request(db, approval, "ann", Decision::Always);
    let id = GrantId(db.id());
    request.grant = Some(NewGrant { id, scope, expires_at: at(5_000) });
    (id, request)
}

fn covering(db: &mut Db, conversation: ConversationId, key: &str, seconds: i64) -> Option<Grant> {
    let found = db.read(Read::Grant {
        conversation_id: conversation,
        agent: AgentName::new("home"),
        tool: "file_write".to_owned(),
        key: key.to_owned(),
        at: at(seconds),
    });
    match found {
        Found::Grant(grant) => grant.map(|grant| *grant),
        other => panic!("{other:?}"),
    }
}

// V-H5
#[test]
fn always_writes_a_grant_for_exactly_what_was_offered_until_it_expires() {
    let (mut db, _, approval) = asked();
    let (id, mut always) = always(&mut db, &approval, GrantScope::Conversation);
    always.decision = Decision::Approve;
    let refused = db.write(Write::DecideApproval(always.clone()));
    assert!(matches!(refused, Err(StoreError::Conflict(_))));
    assert_eq!(stored(&mut db, approval.id), approval);

    always.decision = Decision::Always;
    assert!(matches!(decide(&mut db, &always), DecideOutcome::Decided(_)));
    let offer = approval.offer.clone().unwrap();
    let grant = Grant {
        id,
        scope: GrantScope::Conversation,
        conversation_id: approval.conversation_id,
        agent: AgentName::new("home"),
        tool: approval.tool.clone(),
        pattern: offer.pattern,
        key: offer.key,
        granted_by: decider("ann"),
        granted_at: always.at,
        expires_at: at(5_000),
        revoked_by: None,
        revoked_at: None,
    };
    let here = approval.conversation_id;
    assert_eq!(covering(&mut db, here, "key", 100), Some(grant));
    assert_eq!(covering(&mut db, here, "other", 100), None);
    assert_eq!(covering(&mut db, here, "key", 5_000), None);
    let elsewhere = ConversationId(db.id());
    assert_eq!(covering(&mut db, elsewhere, "key", 100), None);
    let given = [
        ("approval.always".to_owned(), "ann".to_owned()),
        ("grant.give".to_owned(), "ann".to_owned()),
    ];
    assert_eq!(db.audit(), given);
}

#[test]
fn a_grant_for_the_agent_holds_everywhere_until_it_is_taken_back() {
    let (mut db, _, approval) = asked();
    let (id, always) = always(&mut db, &approval, GrantScope::Agent);
    decide(&mut db, &always);
    let elsewhere = ConversationId(db.id());
    assert!(covering(&mut db, elsewhere, "key", 100).is_some());
    let mut revoke = |who: &str, seconds| match db
        .write(Write::RevokeGrant { id, at: at(seconds), by: decider(who) })
        .unwrap()
    {
        Written::Revoked(grant) => grant.map(|grant| (grant.revoked_by, grant.revoked_at)),
        other => panic!("{other:?}"),
    };
    let first = Some((Some(decider("bob")), Some(at(200))));
    assert_eq!(revoke("bob", 200), first);
    assert_eq!(revoke("ann", 300), first, "the first stands");
    assert_eq!(covering(&mut db, elsewhere, "key", 100), None);
    let list = |db: &mut Db, all| match db.read(Read::Grants { all, at: at(100), limit: 10 }) {
        Found::Grants(grants) => grants.len(),
        other => panic!("{other:?}"),
    };
    assert_eq!((list(&mut db, false), list(&mut db, true)), (0, 1));
    assert_eq!(db.audit().last(), Some(&("grant.revoke".to_owned(), "bob".to_owned())));
    let unknown = Write::RevokeGrant { id: GrantId(db.id()), at: at(1), by: decider("bob") };
    assert!(matches!(db.write(unknown), Ok(Written::Revoked(None))));
}

// A085: what was shown was "in this conversation"
#[test]
fn a_grant_for_the_conversation_ends_where_a_new_one_begins_under_its_name() {
    for (scope, holds) in [(GrantScope::Conversation, false), (GrantScope::Agent, true)] {
        let (mut db, claim, approval) = asked();
        let (_, always) = always(&mut db, &approval, scope);
        decide(&mut db, &always);
        let accept = db.message(&claim.record.conversation, "/new");
        let anew =
            NewCommand { accept, act: CommandAct::BeginAnew, reply: "done".into(), post: false };
        db.write(Write::Command(Box::new(anew))).unwrap();
        let found = covering(&mut db, approval.conversation_id, "key", 100);
        assert_eq!(found.is_some(), holds, "{scope:?}");
    }
}

#[test]
fn what_offers_no_grant_cannot_be_granted() {
    let (mut db, claim, _) = asked();
    let mut bare = db.approval(&claim);
    bare.offer = None;
    let mut step = db.step(&claim);
    step.approvals.push(bare.clone());
    db.commit(step).unwrap();
    let (_, always) = always(&mut db, &bare, GrantScope::Conversation);
    let refused = db.write(Write::DecideApproval(always));
    assert!(matches!(refused, Err(StoreError::Conflict(_))));
    assert_eq!(stored(&mut db, bare.id), bare);
}

// I7: a person is one of a channel
#[test]
fn the_same_name_in_another_channel_is_somebody_else_unless_it_is_asked_there() {
    let (mut db, claim, approval) = asked();
    let mut elsewhere = request(&mut db, &approval, "ann", Decision::Approve);
    elsewhere.decider.via = "webhook.ops".to_owned();
    assert_eq!(decide(&mut db, &elsewhere), DecideOutcome::NotAllowed);
    let mut routed = db.approval(&claim);
    let channel = ChannelId::new("webhook.ops");
    routed.route = Some(ApprovalRoute {
        channel,
        approvers: vec!["eve".to_owned()],
        posted: true,
        address: None,
    });
    let mut step = db.step(&claim);
    step.approvals.push(routed.clone());
    db.commit(step).unwrap();
    elsewhere.approval = routed.id;
    assert_eq!(decide(&mut db, &elsewhere), DecideOutcome::NotAllowed);
    elsewhere.decider.who = "eve".to_owned();
    let DecideOutcome::Decided(decided) = decide(&mut db, &elsewhere) else { panic!("refused") };
    assert_eq!(decided.decided_by, Some(elsewhere.decider));
}

// V-H15
#[test]
fn the_audit_of_a_decision_says_when_who_where_what_about_and_cannot_be_changed() {
    let (mut db, _, approval) = asked();
    let request = request(&mut db, &approval, "bob", Decision::Deny { reason: None });
    decide(&mut db, &request);
    let Found::Audit(rows) = db.read(Read::Audit { since: None, limit: 10 }) else { panic!() };
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((row.at, row.who.as_str(), row.via.as_str()), (request.at, "bob", "test"));
    assert_eq!((&row.action[..], &row.target), ("approval.deny", &approval.id.to_string()));
    let detail = |name: &str| row.detail[name].as_str().unwrap().to_owned();
    assert_eq!(
        (detail("tool"), detail("summary"), detail("decision")),
        ("file_write".to_owned(), "path=a.txt".to_owned(), "deny".to_owned())
    );
    let later = Read::Audit { since: Some(at(1_000_000)), limit: 10 };
    assert!(matches!(db.read(later), Found::Audit(rows) if rows.is_empty()));
    for change in ["UPDATE audit SET who = 'eve'", "DELETE FROM audit"] {
        let refused = db.execute(change).unwrap_err().to_string();
        assert!(refused.contains("append-only"), "{change}: {refused}");
    }
}

// V-H19
#[test]
fn the_end_of_a_turn_withdraws_what_it_still_asks() {
    let (mut db, claim, approval) = asked();
    let ending = db.ending(&claim, 1);
    db.commit(ending.clone()).unwrap();
    let withdrawn = stored(&mut db, approval.id);
    assert_eq!(withdrawn.state, ApprovalState::Cancelled);
    assert_eq!(withdrawn.decision, Some(Decision::Cancelled));
    assert_eq!(withdrawn.decided_at, Some(ending.at));
    let late = request(&mut db, &approval, "ann", Decision::Approve);
    assert!(matches!(decide(&mut db, &late), DecideOutcome::AlreadyDecided(_)));
    assert_eq!(db.audit(), [("approval.cancelled".to_owned(), "runtime".to_owned())]);
}

/// Something that happens to a request.
#[derive(Clone, Copy, Debug)]
enum Happens {
    /// Somebody answers; yes or no, allowed to or not.
    Answer { yes: bool, allowed: bool },
    /// An answer is sent again, since its own answer was lost.
    Again,
    /// The deadline passes: time goes on, and the runtime says so.
    Deadline,
    /// The turn is cancelled.
    Cancel,
    /// The process ends and begins anew.
    Crash,
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        4 => (any::<bool>(), any::<bool>()).prop_map(|(yes, allowed)| Happens::Answer { yes, allowed }),
        1 => Just(Happens::Again),
        1 => Just(Happens::Deadline),
        1 => Just(Happens::Cancel),
        2 => Just(Happens::Crash),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    // I7, B3: over schedules of answers, deadline, cancel and crash
    #[test]
    fn a_request_is_decided_at_most_once_and_what_stands_stands(schedule in proptest::collection::vec(happens(), 1..10)) {
        let (mut db, claim, approval) = asked();
        let mut late = false;
        let mut stands: Option<Approval> = None;
        let mut last: Option<DecideApproval> = None;
        for step in schedule {
            let at_end = |at: Timestamp| if late { approval.expires_at } else { at };
            let mut request = match step {
                Happens::Answer { yes, allowed } => {
                    let decision = if yes { Decision::Approve } else { Decision::Deny { reason: None } };
                    let who = if allowed { "ann" } else { "eve" };
                    let mut request = request(&mut db, &approval, who, decision);
                    request.at = at_end(request.at);
                    request
                }
                Happens::Again => match last.clone() {
                    Some(request) => request,
                    None => continue,
                },
                Happens::Deadline => {
                    late = true;
                    let mut request = request(&mut db, &approval, "runtime", Decision::NoAnswer);
                    request.privileged = true;
                    request.at = approval.expires_at;
                    request
                }
                Happens::Cancel => {
                    let mut ending = db.step(&claim);
                    ending.withdraw_approvals = true;
                    // After a crash the turn is a later attempt's: its fence is another one.
                    let _stale_or_done = db.commit(ending);
                    let now = stored(&mut db, approval.id);
                    match &stands {
                        Some(stands) => prop_assert_eq!(&now, stands),
                        None if now.state != ApprovalState::Pending => stands = Some(now),
                        None => {}
                    }
                    continue;
                }
                Happens::Crash => {
                    db = db.restart();
                    continue;
                }
            };
            request.approval = approval.id;
            let may = request.privileged || request.decider.who == "ann";
            let outcome = decide(&mut db, &request);
            let now = stored(&mut db, approval.id);
            match (&stands, outcome) {
                (_, DecideOutcome::NotAllowed) => prop_assert!(!may),
                (None, DecideOutcome::Decided(decided)) => {
                    prop_assert!(may && (!late || decided.decision == Some(Decision::NoAnswer)));
                    prop_assert_eq!(&*decided, &now);
                    stands = Some(*decided);
                }
                // Too late: what stands from now on is that nobody answered.
                (None, DecideOutcome::AlreadyDecided(expired)) => {
                    prop_assert!(late && expired.state == ApprovalState::Expired);
                    stands = Some(*expired);
                }
                (Some(before), DecideOutcome::Decided(same) | DecideOutcome::AlreadyDecided(same)) => {
                    prop_assert_eq!(before, &*same);
                }
                (_, other) => prop_assert!(false, "{:?}", other),
            }
            if let Some(stands) = &stands {
                prop_assert_eq!(&now, stands);
            }
            last = Some(request);
        }
        let decisions = db.audit().into_iter().filter(|(action, _)| action != "approval.not_allowed");
        prop_assert_eq!(decisions.count(), usize::from(stands.is_some()));
    }
}
