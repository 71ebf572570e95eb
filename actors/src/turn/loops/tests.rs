//! Rounds as a model and its tools would make them.

use rookery_messages::ids::CallId;
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;

fn seen(tool: &str, arguments: Value, output: &str) -> Seen {
    let arguments = Arguments::Object(arguments.as_object().cloned().unwrap_or_default());
    Seen {
        call: ToolCall { id: CallId(Uuid::nil()), provider_id: None, name: tool.into(), arguments },
        tool: tool.into(),
        read_only: false,
        outcome: SlotOutcome::unrun(CallState::Succeeded, output),
    }
}

fn reads(arguments: Value, output: &str) -> Seen {
    Seen { read_only: true, ..seen("read", arguments, output) }
}

fn loops() -> Loops {
    Loops::new(LoopDetection::default())
}

/// The verdicts of a turn, as (round from 1, pattern, level).
fn verdicts(
    loops: &mut Loops,
    rounds: impl IntoIterator<Item = Vec<Seen>>,
) -> Vec<(usize, &'static str, Level)> {
    let judged = rounds.into_iter().enumerate().filter_map(|(at, round)| {
        let found = loops.round(&round)?;
        Some((at + 1, found.pattern.as_str(), found.level))
    });
    judged.collect()
}

/// Rounds of one call each, gone through so many times.
fn turns(times: usize, calls: &[Seen]) -> Vec<Vec<Seen>> {
    (0..times).flat_map(|_| calls.iter().map(|call| vec![call.clone()])).collect()
}

// V-J14, V-J17, V-J20, A117
#[test]
fn the_same_call_with_the_same_result_is_noted_then_held_up_then_ended() {
    let one = seen("poll", json!({ "a": 1, "b": 2 }), "pending");
    let two = seen("poll", json!({ "b": 2, "a": 1 }), "pending");
    let rounds = turns(3, &[one, two]);
    let expected =
        [(3, "repeat", Level::Warn), (4, "repeat", Level::Block), (5, "repeat", Level::Break)];
    assert_eq!(verdicts(&mut loops(), rounds)[..3], expected);
    let text = seen("poll", json!({ "a": "1", "b": 2 }), "pending");
    let number = seen("poll", json!({ "a": 1, "b": 2 }), "pending");
    assert_eq!(verdicts(&mut loops(), turns(2, &[text, number])), [], "`1` is not `\"1\"`");
}

// A116
#[test]
fn a_poll_whose_result_changes_is_no_loop_alone_or_between_waits() {
    let grows = |n: usize| vec![seen("poll", json!({ "h": 1 }), &"line\n".repeat(n))];
    assert_eq!(verdicts(&mut loops(), (0..20).map(grows)), []);
    let wait = || vec![seen("wait", json!({ "secs": 1 }), "waited")];
    assert_eq!(verdicts(&mut loops(), (0..20).flat_map(|n| [wait(), grows(n)])), []);
    let constant = seen("poll", json!({ "h": 1 }), "pending");
    let rounds = turns(9, &[wait().remove(0), constant]);
    assert_eq!(verdicts(&mut loops(), rounds)[0], (8, "cycle", Level::Warn));
}

// V-J15
#[test]
fn two_calls_in_turn_are_noted_held_up_and_ended_after_four_five_and_six_cycles() {
    let pair = [seen("a", json!({}), "x"), seen("b", json!({}), "y")];
    let expected =
        [(8, "cycle", Level::Warn), (10, "cycle", Level::Block), (12, "cycle", Level::Break)];
    assert_eq!(verdicts(&mut loops(), turns(6, &pair)), expected);
}

// A116
#[test]
fn a_cycle_of_three_steps_is_seen_and_ended_the_fourth_time() {
    let steps = [
        reads(json!({ "path": "a" }), "text"),
        seen("edit", json!({ "path": "a" }), "error: no match"),
        seen("shell", json!({ "command": "test" }), "exit code 1"),
    ];
    let expected =
        [(6, "cycle", Level::Warn), (9, "cycle", Level::Block), (12, "cycle", Level::Break)];
    assert_eq!(verdicts(&mut loops(), turns(4, &steps)), expected);
    let long: Vec<Seen> = (0..LONGEST_CYCLE).map(|n| seen("a", json!({ "n": n }), "x")).collect();
    let rounds = turns(4, &long);
    let last = verdicts(&mut loops(), rounds).pop();
    assert_eq!(last, Some((4 * LONGEST_CYCLE, "cycle", Level::Break)));
    let mut changing = turns(4, &steps);
    changing[5] = vec![seen("shell", json!({ "command": "test" }), "exit code 0")];
    assert!(verdicts(&mut loops(), changing).iter().all(|(_, _, level)| *level < Level::Break));
}

// V-J16
#[test]
fn a_reading_tool_that_answers_the_same_whatever_it_is_asked_makes_no_progress() {
    let step = |n: usize| vec![reads(json!({ "n": n }), "nothing found"); 1];
    let expected = [
        (5, "no_progress", Level::Warn),
        (6, "no_progress", Level::Block),
        (7, "no_progress", Level::Break),
    ];
    assert_eq!(verdicts(&mut loops(), (0..7).map(step)), expected);
    let batch =
        |n: usize| (0..9).map(|k| reads(json!({ "n": n * 9 + k }), "nothing found")).collect();
    assert_eq!(verdicts(&mut loops(), (0..4).map(batch)), [], "a batch counts once");
    let writes = |n: usize| vec![seen("write", json!({ "n": n }), "done")];
    assert_eq!(verdicts(&mut loops(), (0..20).map(writes)), [], "a tool that acts says `done`");
    let found = |n: usize| vec![reads(json!({ "n": n }), &format!("found {}", n / 4))];
    assert_eq!(verdicts(&mut loops(), (0..20).map(found)), []);
}

// V-J16, V-J14
#[test]
fn what_is_repeated_inside_one_batch_counts_once_in_whatever_order() {
    let (a, b) = (seen("a", json!({}), "x"), seen("b", json!({}), "y"));
    let twin = seen("a", json!({}), "the same call stands twice");
    assert_eq!(verdicts(&mut loops(), vec![vec![a.clone(), twin, a.clone()]; 2]), []);
    let rounds = vec![vec![a.clone(), b.clone()], vec![b.clone(), a.clone()], vec![a, b]];
    assert_eq!(verdicts(&mut loops(), rounds), [(3, "repeat", Level::Warn)]);
}

// V-J18
#[test]
fn nothing_is_found_when_off_or_past_the_window_and_ignored_tools_do_not_count() {
    let rounds = || turns(9, &[seen("poll", json!({}), "pending")]);
    let with = |settings: LoopDetection| verdicts(&mut Loops::new(settings), rounds());
    assert_eq!(with(LoopDetection { enabled: false, ..LoopDetection::default() }), []);
    assert_eq!(with(LoopDetection { window: 2, ..LoopDetection::default() }), []);
    assert_eq!(with(LoopDetection { ignore: vec!["poll".into()], ..LoopDetection::default() }), []);
    let mut between =
        Loops::new(LoopDetection { ignore: vec!["wait".into()], ..LoopDetection::default() });
    let pair = [seen("poll", json!({}), "pending"), seen("wait", json!({}), "waited")];
    assert_eq!(verdicts(&mut between, turns(3, &pair)), [(5, "repeat", Level::Warn)]);
}

// V-J19
#[test]
fn failures_of_tools_are_results_like_others() {
    let mut fails = seen("shell", json!({ "command": "x" }), "exit code 1");
    fails.outcome.state = CallState::Failed;
    assert_eq!(verdicts(&mut loops(), turns(3, &[fails])), [(3, "repeat", Level::Warn)]);
}

// V-J22
#[test]
fn from_the_second_verdict_on_the_call_that_would_go_on_is_refused_and_no_other() {
    let poll = seen("poll", json!({ "h": 1 }), "pending");
    let mut watched = loops();
    let refuses = |loops: &Loops, seen: &Seen| loops.refusal(&seen.call).is_some();
    for n in 1..=4 {
        assert!(!refuses(&watched, &poll), "{n}");
        watched.round(std::slice::from_ref(&poll));
    }
    let other = seen("poll", json!({ "h": 2 }), "");
    assert!(refuses(&watched, &poll) && !refuses(&watched, &other));
    let shouted = ToolCall { name: "POLL".into(), ..poll.call.clone() };
    let text = watched.refusal(&shouted).unwrap();
    // The refused call goes on with the circle: nothing else came between.
    let outcome = SlotOutcome::unrun(CallState::Blocked, text);
    let found = watched.round(&[Seen { outcome, ..poll.clone() }]).unwrap();
    assert_eq!((found.level, found.times), (Level::Break, 5));
    let mut turned = loops();
    for _ in 0..4 {
        turned.round(std::slice::from_ref(&poll));
    }
    turned.round(&[other]);
    assert!(!refuses(&turned, &poll), "it did something else");
}

// V-J22
#[test]
fn in_a_cycle_the_next_step_is_refused_and_without_progress_the_tool() {
    let (a, b) = (seen("a", json!({}), "x"), seen("b", json!({}), "y"));
    let mut cycle = loops();
    verdicts(&mut cycle, turns(5, &[a.clone(), b.clone()]));
    assert!(cycle.refusal(&a.call).is_some() && cycle.refusal(&b.call).is_none());
    let mut still = loops();
    verdicts(&mut still, (0..6).map(|n| vec![reads(json!({ "n": n }), "nothing")]));
    let next = reads(json!({ "n": 99 }), "");
    assert!(still.refusal(&next.call).is_some() && still.refusal(&a.call).is_none());
}

#[test]
fn a_receipt_does_not_make_a_result_another_one() {
    let with = |n: usize| vec![seen("a", json!({}), &format!("x\n[receipt: rk-receipt-{n}-abc]"))];
    assert_eq!(verdicts(&mut loops(), (0..3).map(with)), [(3, "repeat", Level::Warn)]);
}

#[test]
fn words_of_the_person_begin_anew_and_a_later_life_knows_what_the_former_knew() {
    let round = vec![seen("poll", json!({}), "pending")];
    let past = |n: usize| vec![Past::Round(round.clone()); n];
    let settings = LoopDetection::default;
    let resumed = Loops::replay(settings(), past(4));
    assert!(resumed.refusal(&round[0].call).is_some());
    let mut steered = past(4);
    steered.push(Past::Steered);
    assert!(Loops::replay(settings(), steered).refusal(&round[0].call).is_none());
    let mut warned = Loops::replay(settings(), past(3));
    assert_eq!(warned.round(&round).map(|found| found.level), Some(Level::Block), "told once");
}
