//! Random sequences of writes against a model of what must hold after each (I1, I2, I3).

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use rookery_messages::turn::TurnState;

use super::*;

#[derive(Clone, Debug)]
enum Op {
    Accept { conversation: u8, external: u8, claims: bool },
    Return { claim: usize },
    Claim { conversation: u8 },
    Step { claim: usize },
    Finish { claim: usize },
    Again,
    Cancel { turn: usize },
    Send,
    Restart,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..3_u8, 0..24_u8, any::<bool>()).prop_map(|(conversation, external, claims)| {
            Op::Accept { conversation, external, claims }
        }),
        2 => any::<prop::sample::Index>().prop_map(|i| Op::Return { claim: i.index(64) }),
        6 => (0..3_u8).prop_map(|conversation| Op::Claim { conversation }),
        3 => any::<prop::sample::Index>().prop_map(|i| Op::Step { claim: i.index(64) }),
        6 => any::<prop::sample::Index>().prop_map(|i| Op::Finish { claim: i.index(64) }),
        2 => Just(Op::Again),
        1 => any::<prop::sample::Index>().prop_map(|i| Op::Cancel { turn: i.index(64) }),
        1 => Just(Op::Send),
        1 => Just(Op::Restart),
    ]
}

/// What the writes so far must have led to.
#[derive(Default)]
struct Model {
    /// Platform id → its turn.
    turns: BTreeMap<(u8, u8), TurnId>,
    /// Turns in arrival order, with their conversation and outcome.
    order: Vec<(TurnId, u8, Option<Outcome>)>,
    conversations: BTreeMap<u8, ConversationId>,
    /// Every claim ever given out, the stale ones too.
    claims: Vec<TurnClaim>,
    /// The one claim of a conversation that may write.
    valid: BTreeMap<u8, TurnClaim>,
    /// Turns with more in their journal than that they started.
    stepped: BTreeSet<TurnId>,
    last: Option<(TurnCommit, CommitAck)>,
    next_seq: u64,
}

impl Model {
    fn end(&mut self, turn: TurnId, outcome: Outcome) {
        for (id, _, end) in &mut self.order {
            if *id == turn {
                assert_eq!(*end, None, "a second end of {turn}");
                *end = Some(outcome);
            }
        }
    }

    fn oldest_open(&self, conversation: u8) -> Option<TurnId> {
        let mut open = self.order.iter().filter(|(_, c, end)| *c == conversation && end.is_none());
        open.next().map(|(id, _, _)| *id)
    }

    fn is_valid(&self, claim: &TurnClaim) -> bool {
        self.valid
            .values()
            .any(|valid| valid.record.id == claim.record.id && valid.fence == claim.fence)
    }
}

const LIMIT: u32 = 3;
const REJECTED: Option<Outcome> = Some(Outcome::Rejected);

fn apply(db: Db, model: &mut Model, op: Op) -> Db {
    let mut db = db;
    match op {
        Op::Accept { conversation, external, claims } => {
            accept(&mut db, model, (conversation, external), claims);
        }
        Op::Return { claim } if !model.claims.is_empty() => {
            let claim = model.claims[claim % model.claims.len()].clone();
            give_back(&mut db, model, &claim);
        }
        Op::Return { .. } => {}
        Op::Claim { conversation } => claim(&mut db, model, conversation),
        Op::Step { claim } | Op::Finish { claim } if !model.claims.is_empty() => {
            let claim = model.claims[claim % model.claims.len()].clone();
            commit(&mut db, model, &claim, matches!(op, Op::Finish { .. }));
        }
        Op::Step { .. } | Op::Finish { .. } => {}
        Op::Again => {
            // Only while nothing else has taken the turn over is it the same commit sent again.
            if let Some((step, ack)) = model.last.clone() {
                let again = db.commit(step).unwrap();
                // What waits is told as it is now; more may have come since.
                assert_eq!(again, CommitAck { nothing_waits: again.nothing_waits, ..ack });
            }
        }
        Op::Cancel { turn } if !model.order.is_empty() => {
            let (turn, _, end) = model.order[turn % model.order.len()];
            let at = db.now();
            let written = db.write(Write::CancelTurn { turn, at, by: decider("ann") }).unwrap();
            let Written::Cancelled(outcome) = written else { panic!("{written:?}") };
            assert_eq!(outcome == CancelOutcome::AlreadyEnded, end.is_some());
            if outcome == CancelOutcome::Ended {
                model.end(turn, Outcome::Cancelled);
            }
        }
        Op::Cancel { .. } => {}
        Op::Send => {
            let at = db.now();
            for row in db.claim_outbox(at) {
                let result = SendResult::Sent { external_id: None };
                db.write(Write::MarkOutbox { id: row.message.id, at, result }).unwrap();
            }
        }
        Op::Restart => {
            model.valid.clear();
            model.last = None;
            db = db.restart();
        }
    }
    db
}

fn accept(db: &mut Db, model: &mut Model, (conversation, external): (u8, u8), claims: bool) {
    let mut message = db.message(&conversation.to_string(), &format!("{conversation}-{external}"));
    message.queue_limit = LIMIT;
    message.claim = claims.then(terms);
    let quiet = model.oldest_open(conversation).is_none();
    let outcome = db.accept(message);
    let turn = outcome.envelope.turn;
    // I2: one key, one turn.
    let known = model.turns.insert((conversation, external), turn);
    if outcome.duplicate {
        assert_eq!((known, outcome.claim), (Some(turn), None));
        return;
    }
    // Only what was turned away is taken anew.
    let turned_away = |turn| model.order.contains(&(turn, conversation, REJECTED));
    assert!(known.is_none_or(turned_away), "{known:?} has two turns");
    let id = outcome.envelope.conversation_id;
    assert_eq!(*model.conversations.entry(conversation).or_insert(id), id);
    model.order.push((turn, conversation, None));
    // I3: claimed as it comes, if it is alone.
    assert_eq!(outcome.claim.is_some(), claims && quiet);
    if let Some(claim) = outcome.claim {
        assert_eq!((claim.record.id, claim.fence.attempt), (turn, 1));
        model.claims.push((*claim).clone());
        model.valid.insert(conversation, *claim);
        model.last = None;
    }
    if outcome.rejected {
        model.end(turn, Outcome::Rejected);
    }
}

/// What began, or is another's by now, can't be returned.
fn give_back(db: &mut Db, model: &mut Model, claim: &TurnClaim) {
    let TurnClaim { record, fence, .. } = claim;
    let (turn, conversation_id) = (record.id, record.conversation_id);
    let unbegun = fence.attempt == 1 && !model.stepped.contains(&turn);
    let result = db.write(Write::ReturnClaim { turn, conversation_id, fence: *fence });
    if model.is_valid(claim) && unbegun {
        assert!(result.is_ok(), "{result:?}");
        model.valid.retain(|_, valid| valid.record.id != turn);
        model.last = None;
        let record = db.turn(turn);
        assert_eq!((record.state, record.attempts), (TurnState::Queued, 0));
    } else {
        assert_eq!(result.unwrap_err(), StoreError::Stale);
    }
}

fn claim(db: &mut Db, model: &mut Model, conversation: u8) {
    let Some(id) = model.conversations.get(&conversation).copied() else { return };
    let request = db.claim_request(id);
    match db.claim_with(request) {
        ClaimOutcome::Nothing => assert_eq!(model.oldest_open(conversation), None),
        ClaimOutcome::Exhausted(record) => {
            assert_eq!(model.oldest_open(conversation), Some(record.id));
            model.end(record.id, Outcome::Failed);
            model.valid.remove(&conversation);
            model.last = None;
        }
        ClaimOutcome::Turn(claim) => {
            // I3: arrival order, and one at a time.
            assert_eq!(model.oldest_open(conversation), Some(claim.record.id));
            model.claims.push((*claim).clone());
            model.valid.insert(conversation, *claim);
            model.last = None;
        }
    }
}

fn commit(db: &mut Db, model: &mut Model, claim: &TurnClaim, finish: bool) {
    model.next_seq += 1;
    let mut step = db.ending(claim, model.next_seq);
    if !finish {
        step.finish = None;
        step.outbox.clear();
        step.entries[0].kind = notice("step");
    }
    let result = db.commit(step.clone());
    // I3: whoever is not the present owner and attempt, or comes after the end, writes nothing.
    if !model.is_valid(claim) {
        assert_eq!(result, Err(StoreError::Stale));
        return;
    }
    model.stepped.insert(claim.record.id);
    model.last = Some((step, result.unwrap()));
    if finish {
        model.end(claim.record.id, Outcome::Answered);
        model.valid.retain(|_, valid| valid.record.id != claim.record.id);
    }
}

fn check(db: &mut Db, model: &Model) {
    let ledger = db.ledger();
    assert!(ledger.adds_up(), "{ledger:?}");
    let count = |outcome| model.order.iter().filter(|(_, _, end)| *end == outcome).count() as u64;
    let expected = Ledger {
        accepted: model.order.len() as u64,
        open: count(None),
        answered: count(Some(Outcome::Answered)),
        rejected: count(Some(Outcome::Rejected)),
        cancelled: count(Some(Outcome::Cancelled)),
        failed: count(Some(Outcome::Failed)),
        ..Ledger::default()
    };
    assert_eq!(ledger, expected);
    for conversation in model.conversations.keys() {
        let read = Read::Turns {
            conversation: Some(conversation.to_string()),
            channel: Some(channel()),
            state: Some(TurnState::Running),
            limit: 10,
        };
        let Found::Turns(running) = db.read(read) else { panic!("not turns") };
        assert!(running.len() <= 1, "{running:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    // I1, I2, I3
    #[test]
    fn whatever_is_written_in_whatever_order_each_envelope_has_one_turn_and_at_most_one_end(
        ops in prop::collection::vec(op(), 1..60)
    ) {
        let mut db = Db::new();
        let mut model = Model::default();
        for op in ops {
            db = apply(db, &mut model, op);
            check(&mut db, &model);
        }
    }
}
