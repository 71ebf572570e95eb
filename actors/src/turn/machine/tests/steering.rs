//! What is said while the turn runs.

use rookery_messages::attachment::Attachment;
use rookery_messages::envelope::{Inbound, Sender, TurnOrigin};
use rookery_messages::ids::AgentName;
use rookery_messages::store::OutboxPayload;

use super::*;

/// Row `n` says something.
pub(super) fn steer(n: u128, text: &str) -> Input {
    Input::Steer(Steering {
        turn: row(n),
        inbound: Inbound {
            channel: ChannelId::new("webhook.ci"),
            external_id: n.to_string(),
            sender: Sender::person("ann"),
            conversation: "c".into(),
            thread: None,
            text: text.into(),
            attachments: Vec::new(),
            origin: TurnOrigin::Channel,
            agent: AgentName::new("home"),
        },
    })
}

fn row(n: u128) -> TurnId {
    TurnId(Uuid::from_u128(9_000 + n))
}

fn texts(machine: &Machine) -> Vec<&str> {
    machine.history().iter().map(ChatMessage::text).collect()
}

fn committed(effects: &[Effect]) -> (u64, &TurnCommit) {
    match effects {
        [Effect::Commit { seq, commit, .. }] => (*seq, commit),
        other => panic!("{other:?}"),
    }
}

fn durable(machine: &mut Machine, seq: u64, unmerged: Vec<TurnId>) -> Vec<Effect> {
    let ack = CommitAck { unmerged, ..CommitAck::default() };
    machine.step(Input::Committed { seq, result: Ok(ack) }, &world())
}

// V-K11: what comes while the round is being written is in the next provider call all the same
#[test]
fn words_that_come_while_a_step_is_written_are_in_the_next_request() {
    let world = world();
    let mut machine = machine(RuntimeProfile::default());
    machine.step(Input::Begin, &world);
    machine.step(steer(1, "first"), &world);
    let effects = machine.step(says(1, "text", 0), &world);
    let (seq, _) = committed(&effects);
    assert!(machine.step(steer(2, "second"), &world).is_empty());
    let effects = durable(&mut machine, seq, vec![]);
    let [Effect::Merged(taken), Effect::Commit { seq, commit, .. }] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!((taken, &commit.merge), (&vec![row(1)], &vec![row(2)]));
    let effects = durable(&mut machine, *seq, vec![]);
    assert!(matches!(effects[..], [Effect::Merged(_), Effect::CallModel { iteration: 2, .. }]));
    assert_eq!(texts(&machine), ["hello", "text", "first", "second"]);
}

#[test]
fn what_is_said_into_a_turn_keeps_its_files_in_the_record_and_in_the_next_request() {
    let world = world();
    let mut machine = machine(RuntimeProfile::default());
    machine.step(Input::Begin, &world);
    let photo = Attachment {
        name: "photo".into(),
        path: "attachments/1.jpg".into(),
        media_type: "image/jpeg".into(),
        size: 7,
    };
    let Input::Steer(mut steering) = steer(1, "this one") else { unreachable!() };
    steering.inbound.attachments = vec![photo.clone()];
    machine.step(Input::Steer(steering), &world);
    let effects = machine.step(says(1, "text", 0), &world);
    let (_, commit) = committed(&effects);
    let (text, attachments) = ("this one".to_owned(), vec![photo]);
    assert_eq!(commit.messages.last().unwrap().message.attachments(), attachments);
    assert_eq!(machine.history().last().unwrap().attachments(), attachments);
    let steered = JournalKind::Steered { text, attachments, row: Some(row(1)) };
    assert!(commit.entries.iter().any(|entry| entry.kind == steered));
}

// I1, A114: the row ends with the step that takes it in, and its message has the row's id
#[test]
fn a_row_is_merged_in_the_step_that_takes_its_words_in() {
    let world = world();
    let mut machine = machine(RuntimeProfile::default());
    machine.step(Input::Begin, &world);
    machine.step(steer(1, "and in French"), &world);
    let effects = machine.step(says(1, "text", 0), &world);
    let (_, commit) = committed(&effects);
    assert_eq!(commit.merge, [row(1)]);
    let last = commit.messages.last().unwrap();
    assert_eq!(last.id.0, row(1).0);
    let said = ChatMessage::of_kind(UserKind::Steering, "and in French");
    assert_eq!(last.message, said);
    let (text, attachments) = ("and in French".to_owned(), Vec::new());
    let steered = JournalKind::Steered { text, attachments, row: Some(row(1)) };
    assert!(commit.entries.iter().any(|entry| entry.kind == steered));
    // A channel that posts has the answer before the next one.
    let posted =
        OutboxPayload::Notice { turn: Some(facts(Default::default()).turn), text: "text".into() };
    assert!(matches!(&commit.outbox[..], [row] if row.payload == posted));
}

#[test]
fn a_row_that_was_cancelled_before_it_was_taken_in_was_not_said() {
    let world = world();
    let mut machine = machine(RuntimeProfile::default());
    machine.step(Input::Begin, &world);
    machine.step(steer(1, "stays"), &world);
    machine.step(steer(2, "goes"), &world);
    let effects = machine.step(says(1, "text", 0), &world);
    let (seq, _) = committed(&effects);
    let effects = durable(&mut machine, seq, vec![row(2)]);
    assert!(
        matches!(&effects[..], [Effect::Merged(taken), Effect::CallModel { .. }] if *taken == [row(1)])
    );
    assert_eq!(texts(&machine), ["hello", "text", "stays"]);
}

#[test]
fn if_nothing_was_said_after_all_the_last_words_are_the_answer() {
    let world = world();
    let mut machine = machine(RuntimeProfile::default());
    machine.step(Input::Begin, &world);
    machine.step(steer(1, "goes"), &world);
    let effects = machine.step(says(1, "text", 0), &world);
    let (seq, _) = committed(&effects);
    let effects = durable(&mut machine, seq, vec![row(1)]);
    let (seq, commit) = committed(&effects);
    assert_eq!(commit.finish.as_ref().unwrap().reply.as_deref(), Some("text"));
    assert!(matches!(&durable(&mut machine, seq, vec![])[..], [Effect::Announce(_)]));
}

#[test]
fn words_for_a_turn_that_is_stopped_stay_a_row_of_their_own() {
    let world = world();
    let mut machine = machine(RuntimeProfile::default());
    machine.step(Input::Begin, &world);
    machine.step(steer(1, "too late"), &world);
    machine.step(Input::Stop(StopReason::User), &world);
    let end = ModelEnd::Stopped { reason: StopReason::User, partial: String::new() };
    let report = ModelReport { iteration: 1, spent: Usage::default(), end };
    let effects = machine.step(Input::Model(report), &world);
    let (_, commit) = committed(&effects);
    assert!(commit.merge.is_empty() && commit.finish.is_some());
}

// V-K10: what was said before stands, and so does what it was said to
#[test]
fn if_the_continuation_fails_the_earlier_answer_and_the_steering_are_kept() {
    let world = world();
    let mut machine = machine(RuntimeProfile::default());
    machine.step(Input::Begin, &world);
    machine.step(steer(1, "and in French"), &world);
    let effects = machine.step(says(1, "text", 0), &world);
    let (seq, _) = committed(&effects);
    durable(&mut machine, seq, vec![]);
    let error = ModelError::new(ModelErrorClass::Network, "no route");
    let end = ModelEnd::Failed { error, partial: String::new() };
    let report = ModelReport { iteration: 2, spent: Usage::default(), end };
    let effects = machine.step(Input::Model(report), &world);
    let (_, commit) = committed(&effects);
    assert_eq!(commit.finish.as_ref().unwrap().outcome, Outcome::Failed);
    assert_eq!(texts(&machine), ["hello", "text", "and in French"]);
}
