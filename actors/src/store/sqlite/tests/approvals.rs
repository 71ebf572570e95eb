//! Decisions.

use rookery_messages::approval::{Decision, Grant};
use rookery_messages::ids::GrantId;

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

// V-H5
#[test]
fn always_writes_a_grant_for_exactly_what_was_asked_until_it_expires() {
    let (mut db, _, approval) = asked();
    let mut always = request(&mut db, &approval, "ann", Decision::Always);
    let grant = Grant {
        id: GrantId(db.id()),
        conversation_id: approval.conversation_id,
        tool: approval.tool.clone(),
        arguments_hash: approval.arguments_hash.clone(),
        granted_by: decider("ann"),
        granted_at: always.at,
        expires_at: at(5_000),
    };
    let wider = Grant { arguments_hash: "other".to_owned(), ..grant.clone() };
    always.grant = Some(wider);
    let refused = db.write(Write::DecideApproval(always.clone()));
    assert!(matches!(refused, Err(StoreError::Conflict(_))));
    assert_eq!(stored(&mut db, approval.id), approval);

    always.grant = Some(grant.clone());
    assert!(matches!(decide(&mut db, &always), DecideOutcome::Decided(_)));
    let mut covered = |hash: &str, seconds| {
        let found = db.read(Read::Grant {
            conversation_id: approval.conversation_id,
            tool: approval.tool.clone(),
            arguments_hash: hash.to_owned(),
            at: at(seconds),
        });
        match found {
            Found::Grant(grant) => grant,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(covered("hash", 100), Some(grant));
    assert_eq!(covered("other", 100), None);
    assert_eq!(covered("hash", 5_000), None);
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
