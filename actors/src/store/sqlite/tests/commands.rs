//! Commands as the store keeps them.

use super::*;

fn command(db: &mut Db, external: &str, act: CommandAct) -> NewCommand {
    let accept = db.message("c1", external);
    NewCommand { accept, act, reply: format!("done {external}"), post: true }
}

fn take(db: &mut Db, command: NewCommand) -> AcceptOutcome {
    match db.write(Write::Command(Box::new(command))).unwrap() {
        Written::Accepted(outcome) => *outcome,
        other => panic!("{other:?}"),
    }
}

fn desk(db: &mut Db, external: &str) -> Desk {
    let read = Read::Desk {
        channel: channel(),
        conversation: "c1".to_owned(),
        agent: AgentName::new("home"),
        external_id: external.to_owned(),
    };
    match db.read(read) {
        Found::Desk(desk) => *desk,
        other => panic!("{other:?}"),
    }
}

fn texts(claim: &TurnClaim) -> Vec<&str> {
    claim.history.iter().map(|stored| stored.message.text()).collect()
}

// R3, I1, I2: a command is an envelope like any other
#[test]
fn a_command_has_one_row_one_end_and_one_answer_however_often_it_comes() {
    let mut db = Db::new();
    let first = command(&mut db, "7", CommandAct::UseModel(Some("other".to_owned())));
    let turn = take(&mut db, first.clone()).envelope.turn;
    let again = NewCommand {
        accept: db.message("c1", "7"),
        act: CommandAct::UseModel(Some("third".to_owned())),
        ..first
    };
    let known = take(&mut db, again);
    assert!(known.duplicate && known.envelope.turn == turn);
    let record = db.turn(turn);
    assert_eq!(
        (record.outcome, record.reply.as_deref()),
        (Some(Outcome::Answered), Some("done 7"))
    );
    let ledger = db.ledger();
    assert_eq!((ledger.accepted, ledger.answered, ledger.open), (1, 1, 0));
    let at = db.now();
    assert_eq!(db.claim_outbox(at).len(), 1);
    assert_eq!(db.audit(), [("conversation.model".to_owned(), "ann".to_owned())]);
    let facts = desk(&mut db, "7");
    assert!(facts.known && facts.running.is_none() && facts.waiting.is_empty());
    assert_eq!(facts.model.as_deref(), Some("other"));
    // And nothing of it is a message of the conversation.
    assert_eq!(db.history("c1"), []);
}

// T3: the choice outlives the process
#[test]
fn the_chosen_model_goes_with_every_claim_until_it_is_taken_back() {
    let mut db = Db::new();
    let choose = command(&mut db, "7", CommandAct::UseModel(Some("other".to_owned())));
    let conversation = take(&mut db, choose).envelope.conversation_id;
    db = db.restart();
    db.take("c1", "1");
    assert_eq!(db.answer(conversation).model.as_deref(), Some("other"));
    let reset = command(&mut db, "8", CommandAct::UseModel(None));
    take(&mut db, reset);
    db.take("c1", "2");
    assert_eq!(db.answer(conversation).model, None);
}

#[test]
fn a_new_history_begins_behind_the_command_whatever_runs_meanwhile() {
    let mut db = Db::new();
    let (_, conversation) = db.take("c1", "1");
    db.answer(conversation);
    db.take("c1", "2");
    let running = db.claim(conversation);
    assert_eq!(texts(&running), ["text of 1", "done", "text of 2"]);
    db.take("c1", "3");
    let anew = command(&mut db, "7", CommandAct::BeginAnew);
    take(&mut db, anew);
    db.take("c1", "4");
    // What runs writes its own after the command, and what waited belongs to the old history too.
    let ending = db.ending(&running, 1);
    db.commit(ending).unwrap();
    let waited = db.answer(conversation);
    assert_eq!(texts(&waited), ["text of 3"]);
    let fresh = db.answer(conversation);
    assert_eq!(texts(&fresh), ["text of 4"]);
    db.take("c1", "5");
    assert_eq!(texts(&db.claim(conversation)), ["text of 4", "done", "text of 5"]);
    // Nothing is thrown away.
    assert_eq!(db.history("c1").len(), 9);
}

#[test]
fn the_desk_says_what_runs_and_what_waits() {
    let mut db = Db::new();
    assert_eq!(desk(&mut db, "1"), Desk::default());
    let (first, conversation) = db.take("c1", "1");
    let (second, _) = db.take("c1", "2");
    assert_eq!(desk(&mut db, "x").waiting, [first, second]);
    db.answer(conversation);
    db.claim(conversation);
    let facts = desk(&mut db, "x");
    assert_eq!(facts.running.map(|turn| turn.id), Some(second));
    assert!(facts.waiting.is_empty() && !facts.known);
    assert_eq!(facts.usage, Usage { input: 7, output: 2 });
}
