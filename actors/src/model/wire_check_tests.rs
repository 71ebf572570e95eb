use proptest::prelude::*;
use rookery_messages::chat::Arguments;
use rookery_messages::invariant::{self, Invariant};
use uuid::Uuid;

use super::*;

fn system(text: &str) -> ChatMessage {
    ChatMessage::System { text: text.to_owned() }
}

fn user(text: &str) -> ChatMessage {
    ChatMessage::user(text)
}

fn call(id: u128, provider_id: Option<&str>) -> ToolCall {
    ToolCall {
        id: CallId(Uuid::from_u128(id)),
        provider_id: provider_id.map(str::to_owned),
        name: "time".to_owned(),
        arguments: Arguments::parse(""),
    }
}

fn asks(calls: &[ToolCall]) -> ChatMessage {
    ChatMessage::Assistant {
        text: String::new(),
        calls: calls.to_vec(),
        interrupted: false,
        opaque: Vec::new(),
    }
}

fn result(call: &ToolCall, output: &str) -> ChatMessage {
    ChatMessage::Tool {
        call: call.id,
        wire_id: call.wire_id(),
        name: call.name.clone(),
        output: output.to_owned(),
        outside: false,
    }
}

fn a() -> ToolCall {
    call(1, Some("a"))
}

fn b() -> ToolCall {
    call(2, Some("b"))
}

// I4
#[test]
fn a_well_formed_history_is_left_alone() {
    let history = vec![
        system("be kind"),
        user("hi"),
        asks(&[a(), b()]),
        result(&a(), "1"),
        result(&b(), "2"),
        ChatMessage::assistant("done"),
        user("more"),
    ];
    assert_eq!(check(&history), Ok(()));
    assert_eq!(prepared(history.clone()), Ok((history, 0)));
}

// V-C12
#[test]
fn later_system_messages_are_merged_into_one_that_leads() {
    let got = repair(vec![system("one"), user("hi"), system("two"), system(" ")]);
    assert_eq!(got, (vec![system("one\n\ntwo"), user("hi")], 2));
    let got = repair(vec![user("hi"), system("late")]);
    assert_eq!(got, (vec![system("late"), user("hi")], 1));
}

// V-A15, I4
#[test]
fn no_user_message_is_refused_and_only_a_malformed_request_breaks_the_invariant() {
    let tolerated = invariant::Tolerate::on_this_thread();
    let breadcrumb = ChatMessage::of_kind(UserKind::Breadcrumb, text::BREADCRUMB);
    for history in [
        vec![],
        vec![system("only")],
        vec![system("x"), ChatMessage::assistant("hello")],
        vec![user("  ")],
        vec![breadcrumb.clone(), ChatMessage::assistant("hello")],
    ] {
        assert_eq!(prepared(history), Err(WireFault::NoUser));
    }
    assert!(prepared(vec![breadcrumb, user("hi")]).is_ok());
    assert_eq!(tolerated.seen(Invariant::I4), 0);
    // A repair that left a call without its result would be seen.
    let broken = [user("hi"), asks(&[a()])];
    let fault = WireFault::Unresolved { at: 2, wire_id: "a".to_owned() };
    assert_eq!(verify(&broken), Err(fault));
    assert_eq!(tolerated.seen(Invariant::I4), 1);
}

// V-A16
#[test]
fn leading_assistant_and_tool_messages_are_not_sent() {
    let history =
        vec![system("s"), ChatMessage::assistant("x"), asks(&[a()]), result(&a(), "1"), user("hi")];
    assert_eq!(check(&history), Err(WireFault::BeforeUser { at: 1 }));
    assert_eq!(repair(history), (vec![system("s"), user("hi")], 3));
}

// V-C10, V-C16
#[test]
fn tool_messages_without_their_call_are_removed_and_counted() {
    let history = vec![user("hi"), result(&a(), "stray"), asks(&[b()]), result(&b(), "2")];
    assert_eq!(check(&history), Err(WireFault::Orphan { at: 1 }));
    assert_eq!(repair(history), (vec![user("hi"), asks(&[b()]), result(&b(), "2")], 1));
    let ends_so = vec![user("hi"), ChatMessage::assistant("done"), result(&a(), "stray")];
    assert_eq!(repair(ends_so), (vec![user("hi"), ChatMessage::assistant("done")], 1));
}

// V-C11
#[test]
fn of_two_dispatches_back_to_back_the_later_goes_with_its_results() {
    let history =
        vec![user("hi"), asks(&[a()]), asks(&[b()]), result(&b(), "2"), result(&a(), "1")];
    assert_eq!(check(&history), Err(WireFault::Unresolved { at: 2, wire_id: "a".to_owned() }));
    assert_eq!(repair(history), (vec![user("hi"), asks(&[a()]), result(&a(), "1")], 2));
    let never = vec![user("hi"), asks(&[a()]), asks(&[b()]), result(&b(), "2")];
    assert_eq!(
        repair(never).0,
        vec![user("hi"), asks(&[a()]), result(&a(), text::INTERRUPTED_RUNNING)]
    );
}

// I4
#[test]
fn a_call_without_result_gets_one_that_says_it_was_interrupted() {
    let history = vec![user("hi"), asks(&[a(), b()]), result(&b(), "2"), user("and?")];
    assert_eq!(check(&history), Err(WireFault::Orphan { at: 2 }));
    let want = vec![
        user("hi"),
        asks(&[a(), b()]),
        result(&a(), text::INTERRUPTED_RUNNING),
        result(&b(), "2"),
        user("and?"),
    ];
    assert_eq!(repair(history), (want, 1));
}

// I4
#[test]
fn results_are_put_behind_their_call_once_and_in_its_order() {
    let history = vec![
        user("hi"),
        asks(&[a(), b()]),
        result(&b(), "2"),
        user("between"),
        result(&a(), "1"),
        result(&a(), "again"),
    ];
    let want =
        vec![user("hi"), asks(&[a(), b()]), result(&a(), "1"), result(&b(), "2"), user("between")];
    assert_eq!(repair(history), (want, 2));
}

// A047
#[test]
fn ids_used_twice_or_unusable_are_replaced_in_both_halves() {
    let long = "x".repeat(120);
    let (first, second) = (call(1, Some("call_0")), call(2, Some("call_0")));
    let (third, fourth) = (call(3, Some(&long)), call(4, Some("a b")));
    let mut history = vec![user("hi")];
    for call in [&first, &second, &third, &fourth] {
        history.extend([asks(std::slice::from_ref(call)), result(call, "x"), user("next")]);
    }
    assert_eq!(check(&history), Err(WireFault::WireId { at: 4, wire_id: "call_0".to_owned() }));
    let (repaired, changes) = repair(history);
    assert_eq!((check(&repaired), changes), (Ok(()), 3));
    let ids: Vec<&str> = repaired
        .iter()
        .filter_map(|message| match message {
            ChatMessage::Tool { wire_id, .. } => Some(wire_id.as_str()),
            _ => None,
        })
        .collect();
    let own = |id: u128| format!("call_{}", Uuid::from_u128(id).simple());
    assert_eq!(ids, ["call_0", &own(2), &own(3), &own(4)]);
}

// A047
#[test]
fn an_id_that_imitates_one_of_ours_does_not_collide_with_it() {
    let ours = format!("call_{}", Uuid::from_u128(2).simple());
    let history = vec![
        user("hi"),
        asks(&[call(1, Some(&ours)), call(2, None)]),
        result(&call(1, Some(&ours)), "1"),
        result(&call(2, None), "2"),
    ];
    let (repaired, changes) = repair(history);
    assert_eq!((check(&repaired), changes), (Ok(()), 1));
}

// A048
#[test]
fn blank_answers_go_and_blank_results_say_so() {
    let history =
        vec![user("hi"), ChatMessage::assistant("\n"), asks(&[a()]), result(&a(), " "), user("")];
    assert_eq!(check(&history), Err(WireFault::Blank { at: 1 }));
    let want = vec![user("hi"), asks(&[a()]), result(&a(), text::NO_OUTPUT)];
    assert_eq!(repair(history), (want, 3));
}

fn any_message() -> impl Strategy<Value = ChatMessage> {
    let blankish = || prop_oneof![Just(""), Just(" \n"), Just("text")];
    let ids = || {
        prop_oneof![
            Just(None),
            Just(Some("call_0".to_owned())),
            Just(Some(String::new())),
            Just(Some("é".to_owned())),
            (1_u128..6).prop_map(|id| Some(format!("call_{}", Uuid::from_u128(id).simple()))),
        ]
    };
    let any_call = move || (1_u128..6, ids()).prop_map(|(id, wire)| call(id, wire.as_deref()));
    let kind = prop_oneof![
        Just(UserKind::Message),
        Just(UserKind::Breadcrumb),
        Just(UserKind::Steering),
        Just(UserKind::Feedback),
    ];
    prop_oneof![
        1 => blankish().prop_map(system),
        2 => (blankish(), kind)
            .prop_map(|(text, kind)| ChatMessage::of_kind(kind, text)),
        1 => blankish().prop_map(ChatMessage::assistant),
        3 => (blankish(), prop::collection::vec(any_call(), 0..4), any::<bool>()).prop_map(
            |(text, calls, interrupted)| ChatMessage::Assistant {
                text: text.to_owned(), calls, interrupted, opaque: Vec::new(),
            }
        ),
        5 => (any_call(), blankish()).prop_map(|(call, output)| result(&call, output)),
    ]
}

proptest! {
    // I4, V-A15, V-A16, V-C10, V-C11, V-C12
    #[test]
    fn whatever_the_history_its_repair_passes_the_check_and_needs_no_second(
        history in prop::collection::vec(any_message(), 0..24),
    ) {
        let well_formed = check(&history);
        let (repaired, changes) = repair(history.clone());
        let asked = repaired.iter().any(|message| matches!(
            message,
            ChatMessage::User { kind, .. } if *kind != UserKind::Breadcrumb
        ));
        prop_assert_eq!(check(&repaired), if asked { Ok(()) } else { Err(WireFault::NoUser) });
        prop_assert_eq!(repair(repaired.clone()), (repaired.clone(), 0), "repair is stable");
        match well_formed {
            Ok(()) => prop_assert_eq!((&repaired, changes), (&history, 0)),
            Err(WireFault::NoUser) => {}
            Err(_) => prop_assert!(changes > 0, "a fault was repaired without being counted"),
        }
        if changes == 0 {
            prop_assert_eq!(&repaired, &history, "what is changed is counted");
        }
    }
}
