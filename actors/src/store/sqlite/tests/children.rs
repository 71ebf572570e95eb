//! Turns that another turn handed on.

use rookery_messages::delegation::{ChildGrant, ChildMode, ChildOf, NewChild, TaskState};
use rookery_messages::settings::AutonomyLevel;
use rookery_messages::turn::TurnError;

use super::*;

fn child(db: &mut Db, parent: &TurnClaim, external: &str, mode: ChildMode) -> Accept {
    let mut accept = db.message(&format!("c/{external}"), external);
    accept.inbound.origin = TurnOrigin::SubTurn;
    accept.child = Some(Box::new(NewChild {
        of: ChildOf {
            turn: parent.record.id,
            call: CallId(db.id()),
            root: parent.record.conversation_id,
            people_of: AgentName::new("home"),
            depth: 1,
            mode,
            grant: ChildGrant {
                tools: ["read".to_owned()].into(),
                level: AutonomyLevel::Supervised,
                allowed_commands: None,
                forbidden_paths: Vec::new(),
                max_iterations: 3,
                allowance: Default::default(),
                tainted: None,
                payers: Default::default(),
            },
            reply_to: parent.reply_address.clone(),
        },
        max_children: 3,
        max_tasks: 1,
    }));
    accept
}

fn open_conversations(db: &mut Db) -> Vec<ConversationId> {
    match db.read(Read::OpenConversations) {
        Found::OpenConversations(open) => open,
        other => panic!("{other:?}"),
    }
}

fn cancelled(db: &mut Db, claim: &TurnClaim) -> CommitAck {
    let mut ending = db.ending(claim, 1);
    let finish = TurnFinish {
        outcome: Outcome::Cancelled,
        reply: None,
        error: Some(TurnError::new("cancelled", "cancelled by user")),
        usage: Usage::default(),
    };
    ending.entries = vec![entry(claim, 1, JournalKind::Ended { finish: finish.clone() })];
    ending.finish = Some(finish);
    ending.outbox.clear();
    db.commit(ending).unwrap()
}

// I3
#[test]
fn a_delegate_is_no_sessions_to_run_and_a_task_is() {
    let mut db = Db::new();
    let (_, conversation) = db.take("c", "m1");
    let parent = db.claim(conversation);
    let delegate = child(&mut db, &parent, "d", ChildMode::Delegate);
    let delegate = db.accept(delegate).envelope;
    let task = child(&mut db, &parent, "t", ChildMode::Task);
    let task = db.accept(task).envelope;
    assert_eq!(open_conversations(&mut db), [conversation, task.conversation_id]);
    let record = db.turn(delegate.turn);
    assert!(record.is_delegate() && record.task.is_none());
    let of = record.parent.unwrap();
    assert_eq!((of.turn, of.root, of.depth), (parent.record.id, conversation, 1));
    assert_eq!(db.turn(task.turn).task, Some(TaskState::Running));
    match db.read(Read::Tasks { root: conversation, limit: 10 }) {
        Found::Turns(tasks) => {
            assert_eq!(tasks.iter().map(|task| task.id).collect::<Vec<_>>(), [task.turn]);
        }
        other => panic!("{other:?}"),
    }
}

// I1, I4
#[test]
fn a_parents_end_ends_its_delegates_and_its_cancel_marks_its_tasks() {
    let mut db = Db::new();
    let (_, conversation) = db.take("c", "m1");
    let parent = db.claim(conversation);
    let [delegate, task] =
        [("d", ChildMode::Delegate), ("t", ChildMode::Task)].map(|(id, mode)| {
            let accept = child(&mut db, &parent, id, mode);
            db.accept(accept).envelope
        });
    let below = db.claim(delegate.conversation_id);
    let inner = child(&mut db, &below, "inner", ChildMode::Delegate);
    let inner = db.accept(inner).envelope;
    db.claim(task.conversation_id);
    let ack = cancelled(&mut db, &parent);
    assert_eq!(ack.stops, [(task.conversation_id, task.turn)]);
    for turn in [delegate.turn, inner.turn] {
        let record = db.turn(turn);
        assert_eq!(record.outcome, Some(Outcome::Cancelled));
        assert_eq!(record.error.unwrap().code, "parent_ended");
    }
    assert_eq!(db.turn(task.turn).outcome, None);
    assert!(db.claim(task.conversation_id).cancel_requested);
    // Nothing can be written of what has ended.
    let late = db.ending(&below, 1);
    assert_eq!(db.commit(late), Err(StoreError::Stale));
}

#[test]
fn an_answered_turn_leaves_its_tasks_to_go_on_and_hands_nothing_on_any_more() {
    let mut db = Db::new();
    let (_, conversation) = db.take("c", "m1");
    let parent = db.claim(conversation);
    let task = child(&mut db, &parent, "t", ChildMode::Task);
    let task = db.accept(task).envelope;
    let ending = db.ending(&parent, 1);
    assert_eq!(db.commit(ending).unwrap().stops, []);
    assert_eq!(db.turn(task.turn).task, Some(TaskState::Running));
    let late = child(&mut db, &parent, "late", ChildMode::Task);
    assert!(matches!(db.write(Write::Accept(Box::new(late))), Err(StoreError::Conflict(_))));
    db.answer(task.conversation_id);
    assert_eq!(db.turn(task.turn).task, Some(TaskState::Done));
}

// I10
#[test]
fn children_of_a_turn_and_open_tasks_of_a_conversation_are_bounded_and_one_key_is_one_child() {
    let mut db = Db::new();
    let (_, conversation) = db.take("c", "m1");
    let parent = db.claim(conversation);
    let first = child(&mut db, &parent, "t", ChildMode::Task);
    let again = Accept { turn: TurnId(db.id()), ..first.clone() };
    let turn = db.accept(first).envelope.turn;
    let found = db.accept(again);
    assert_eq!((found.duplicate, found.envelope.turn), (true, turn));
    let refusal = |db: &mut Db, id: &str, mode| {
        let accept = child(db, &parent, id, mode);
        match db.write(Write::Accept(Box::new(accept))) {
            Err(StoreError::Conflict(why)) => why,
            other => panic!("{other:?}"),
        }
    };
    assert!(refusal(&mut db, "t2", ChildMode::Task).contains("`max_tasks`"));
    for id in ["d1", "d2"] {
        let accept = child(&mut db, &parent, id, ChildMode::Delegate);
        db.accept(accept);
    }
    assert!(refusal(&mut db, "d3", ChildMode::Delegate).contains("`max_children`"));
}

// T24
#[test]
fn a_task_whose_attempts_are_used_up_is_lost_and_a_delegate_is_no_dead_letter() {
    let mut db = Db::new();
    let (_, conversation) = db.take("c", "m1");
    let parent = db.claim(conversation);
    for (id, mode, lost, letters) in
        [("d", ChildMode::Delegate, None, 0), ("t", ChildMode::Task, Some(TaskState::Lost), 1)]
    {
        let accept = child(&mut db, &parent, id, mode);
        let envelope = db.accept(accept).envelope;
        for _ in 0..3 {
            db.claim(envelope.conversation_id);
        }
        let request = db.claim_request(envelope.conversation_id);
        match db.claim_with(request) {
            ClaimOutcome::Exhausted(record) => assert_eq!(record.task, lost),
            other => panic!("{other:?}"),
        }
        assert_eq!(db.turn(envelope.turn).task, lost);
        match db.read(Read::DeadLetters) {
            Found::DeadLetters(found) => assert_eq!(found.len(), letters),
            other => panic!("{other:?}"),
        }
    }
}
