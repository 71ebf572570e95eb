//! The machine against a driver that plays store, model, gate, people and tools.

mod rejected;
mod steering;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use proptest::prelude::*;
use rookery_messages::approval::{Approval, ApprovalState, Decider, Decision, GrantOffer, Risk};
use rookery_messages::chat::{Arguments, ToolCall, UserKind};
use rookery_messages::ids::{ApprovalId, CallId};
use rookery_messages::invariant::{Invariant, Tolerate};
use rookery_messages::model::{ModelError, ModelErrorClass};
use rookery_messages::settings::CapBehaviour;
use rookery_messages::time::{Clock, Ids, Rng};
use rookery_messages::tool::{Authority, Effects, Verdict, text};
use rookery_messages::turn::{CallState, Outcome, TurnError};
use uuid::Uuid;

use self::steering::steer;
use super::steer::MAX_STEERING;
use super::*;
use crate::turn::loops::Level;
use crate::turn::recover::Resume;

struct Fixed(AtomicU64);

impl Clock for Fixed {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }
}

impl Ids for Fixed {
    fn next(&self) -> Uuid {
        Uuid::from_u128(u128::from(self.0.fetch_add(1, Ordering::Relaxed)) + 1_000)
    }
}

impl Rng for Fixed {
    fn fraction(&self) -> f64 {
        0.5
    }
}

fn world() -> World {
    let fixed = Arc::new(Fixed(AtomicU64::new(0)));
    World { clock: fixed.clone(), ids: fixed.clone(), rng: fixed }
}

fn facts(runtime: RuntimeProfile) -> Facts {
    Facts {
        turn: TurnId(Uuid::from_u128(1)),
        conversation_id: ConversationId(Uuid::from_u128(2)),
        fence: Fence { epoch: 1, attempt: 1 },
        reply_address: ReplyAddress {
            channel: ChannelId::new("webhook.ci"),
            conversation: "c".into(),
            thread: None,
            reply_to: None,
        },
        posts_replies: true,
        runtime,
        show_receipts: false,
        purse: Arc::default(),
        prices: Prices::default(),
        cost_micros: 0,
    }
}

fn machine(runtime: RuntimeProfile) -> Machine {
    let history = vec![ChatMessage::user("hello")];
    Machine::new(facts(runtime), Resume { history, ..Resume::default() })
}

fn calls(n: usize, iteration: u32) -> Vec<ToolCall> {
    (0..n)
        .map(|k| ToolCall {
            id: CallId(Uuid::from_u128(u128::from(iteration) * 100 + k as u128)),
            provider_id: None,
            name: "tool".into(),
            arguments: Arguments::Object(serde_json::Map::new()),
        })
        .collect()
}

fn says(iteration: u32, text: &str, n: usize) -> Input {
    let finish = if n > 0 { FinishReason::ToolCalls } else { FinishReason::Stop };
    Input::Model(ModelReport {
        iteration,
        spent: Usage::default(),
        end: ModelEnd::Completed(ModelResponse {
            text: text.into(),
            raw: None,
            calls: calls(n, iteration),
            opaque: Vec::new(),
            finish,
            usage: Usage { input: 1, output: 1 },
            served_by: "main".into(),
        }),
    })
}

fn request(call: &ToolCall) -> Approval {
    Approval {
        id: ApprovalId(call.id.0),
        turn: TurnId(Uuid::from_u128(1)),
        conversation_id: ConversationId(Uuid::from_u128(2)),
        channel: ChannelId::new("ws"),
        call: call.id,
        tool: "tool".into(),
        arguments: serde_json::json!({}),
        arguments_hash: String::new(),
        risk: Risk::Medium,
        reason: "asks".into(),
        asked_at: Timestamp::UNIX_EPOCH,
        expires_at: Timestamp::UNIX_EPOCH,
        approvers: vec![],
        asked_for: None,
        summary: "path=a.txt".to_owned(),
        offer: Some(GrantOffer {
            pattern: "file_write {}".to_owned(),
            key: "key".to_owned(),
            narrow: false,
        }),
        batch: None,
        route: None,
        state: ApprovalState::Pending,
        decision: None,
        decided_by: None,
        decided_at: None,
    }
}

/// What the driver does at each turning.
#[derive(Clone, Debug)]
struct Script {
    rounds: Vec<usize>,
    verdicts: Vec<u8>,
    decisions: Vec<u8>,
    outcomes: Vec<u8>,
    stop_at: Option<(usize, StopReason)>,
    fail_at: Option<u32>,
    /// This model call says nothing.
    empty_at: Option<u32>,
    flaky_commits: Vec<bool>,
}

#[derive(Default, Debug)]
struct Told {
    commits: Vec<TurnCommit>,
    announced: Vec<TurnFinish>,
    left: usize,
    circles: Vec<Level>,
    steps: usize,
}

/// Performs effects one at a time, in order, and feeds the answers back.
fn drive(machine: &mut Machine, script: &Script) -> Told {
    let world = world();
    let mut told = Told::default();
    let mut queue = std::collections::VecDeque::from([Input::Begin]);
    let mut flaky = script.flaky_commits.iter().copied().cycle();
    let mut running: Option<BatchPlan> = None;
    let mut calling = None;
    let mut picks = (0, 0, 0);
    while let Some(input) = queue.pop_front() {
        told.steps += 1;
        assert!(told.steps < 2_000, "the machine does not end");
        let mut effects = Vec::new();
        if let Some((at, reason)) = &script.stop_at
            && told.steps == at + 1
        {
            effects.extend(machine.step(Input::Stop(reason.clone()), &world));
        }
        effects.extend(machine.step(input, &world));
        for effect in effects {
            match effect {
                Effect::CallModel { iteration, tools } => {
                    let round = usize::try_from(iteration - 1).unwrap();
                    let n = script.rounds.get(round).copied().unwrap_or(0);
                    calling = Some(iteration);
                    queue.push_back(if script.fail_at == Some(iteration) {
                        Input::Model(ModelReport {
                            iteration,
                            spent: Usage::default(),
                            end: ModelEnd::Failed {
                                error: ModelError::new(ModelErrorClass::Network, "no route"),
                                partial: "half".into(),
                            },
                        })
                    } else {
                        let text = if script.empty_at == Some(iteration) { " " } else { "text" };
                        says(iteration, text, if tools { n } else { 0 })
                    });
                }
                Effect::StopModel(reason) => {
                    // The stop reaches the model first, or its report was on its way.
                    if told.steps % 2 == 0 {
                        queue.retain(|input| !matches!(input, Input::Model(_)));
                        queue.push_back(Input::Model(ModelReport {
                            iteration: calling.unwrap(),
                            spent: Usage::default(),
                            end: ModelEnd::Stopped { reason, partial: String::new() },
                        }));
                    }
                }
                Effect::Judge { calls, .. } => {
                    let judged = calls
                        .into_iter()
                        .map(|OpenCall { call, .. }| {
                            let pick =
                                script.verdicts.get(picks.0 % script.verdicts.len()).copied();
                            picks.0 += 1;
                            let verdict = match pick.unwrap_or(0) {
                                0 => Verdict::Ask(Box::new(request(&call))),
                                1 => Verdict::Filled(SlotOutcome::unrun(CallState::Blocked, "no")),
                                _ => Verdict::Run(Authority::Policy),
                            };
                            let effects = Effects::Once;
                            let (tool, arguments) = ("tool".into(), None);
                            let brings_in = false;
                            JudgedCall { call, tool, arguments, effects, brings_in, verdict }
                        })
                        .collect();
                    queue.push_back(Input::Judged(judged));
                }
                Effect::Commit { seq, commit, again } => {
                    if !again && flaky.next().unwrap_or(false) {
                        let result = Err(StoreError::Timeout);
                        queue.push_back(Input::Committed { seq, result });
                    } else {
                        told.commits.push(*commit);
                        let result = Ok(CommitAck::default());
                        queue.push_back(Input::Committed { seq, result });
                    }
                }
                Effect::Ask(requests) => {
                    for mut request in requests {
                        let pick = script.decisions[picks.1 % script.decisions.len()];
                        picks.1 += 1;
                        let decision = match pick {
                            0 => Decision::Approve,
                            1 => Decision::Deny { reason: None },
                            2 => Decision::Replace { replacement: "edit".into() },
                            _ => Decision::NoAnswer,
                        };
                        request.state = decision.state();
                        request.decision = Some(decision);
                        request.decided_by = Some(Decider { who: "u".into(), via: "ws".into() });
                        queue.push_back(Input::Decided(Box::new(request)));
                    }
                }
                Effect::Run(plan) => {
                    running = Some(plan.clone());
                    queue.push_back(Input::Batch(outcomes(&plan, script, &mut picks.2, false)));
                }
                Effect::StopBatch(_) => {
                    if let Some(plan) = running.take()
                        && told.steps % 2 == 0
                    {
                        queue.retain(|input| !matches!(input, Input::Batch(_)));
                        queue.push_back(Input::Batch(outcomes(&plan, script, &mut picks.2, true)));
                    }
                }
                Effect::Announce(finish) => told.announced.push(*finish),
                Effect::Leave => told.left += 1,
                Effect::Circling(found) => told.circles.push(found.level),
                Effect::StopApprovals(_)
                | Effect::Tell(_)
                | Effect::HintSenders(_)
                | Effect::OverBudget
                | Effect::Merged(_) => {}
                Effect::Broken(error) => panic!("broken: {error}"),
            }
        }
    }
    told
}

fn outcomes(plan: &BatchPlan, script: &Script, pick: &mut usize, cut: bool) -> Vec<SlotOutcome> {
    plan.calls
        .iter()
        .map(|call| {
            *pick += 1;
            if let Some(outcome) = &call.outcome {
                return outcome.clone();
            }
            let state = match script.outcomes[*pick % script.outcomes.len()] {
                _ if cut => CallState::Interrupted,
                0 => CallState::Failed,
                _ => CallState::Succeeded,
            };
            SlotOutcome::unrun(state, "output")
        })
        .collect()
}

fn plain() -> Script {
    Script {
        rounds: vec![],
        verdicts: vec![2],
        decisions: vec![0],
        outcomes: vec![1],
        stop_at: None,
        fail_at: None,
        empty_at: None,
        flaky_commits: vec![false],
    }
}

fn end(told: &Told) -> (Outcome, Option<&str>) {
    assert_eq!(told.announced.len(), 1);
    let finish = &told.announced[0];
    (finish.outcome, finish.error.as_ref().map(|e| e.code.as_str()))
}

// V-A3
#[test]
fn a_text_only_answer_gives_one_assistant_message_and_one_commit() {
    let mut machine = machine(RuntimeProfile::default());
    let told = drive(&mut machine, &plain());
    assert_eq!(end(&told), (Outcome::Answered, None));
    assert_eq!(machine.history(), [ChatMessage::user("hello"), ChatMessage::assistant("text")]);
    assert_eq!(told.commits.len(), 1);
    assert_eq!(told.commits[0].outbox.len(), 1);
}

// V-K1, V-C15
#[test]
fn at_the_cap_the_turn_fails_naming_it_and_the_rounds_stay() {
    let mut machine = machine(RuntimeProfile { max_tool_iterations: 2, ..Default::default() });
    let told = drive(&mut machine, &Script { rounds: vec![1; 9], ..plain() });
    assert_eq!(end(&told), (Outcome::Failed, Some("iteration_cap")));
    let message = &told.announced[0].error.as_ref().unwrap().message;
    assert!(message.contains("2 tool rounds"), "{message}");
    assert_eq!(machine.history().len(), 1 + 2 * 2);
}

// V-K2
#[test]
fn in_summary_mode_one_call_without_tools_answers_with_a_visible_notice() {
    let runtime = RuntimeProfile {
        max_tool_iterations: 2,
        at_cap: CapBehaviour::Summary,
        ..RuntimeProfile::default()
    };
    let mut machine = machine(runtime);
    let told = drive(&mut machine, &Script { rounds: vec![1; 9], ..plain() });
    assert_eq!(end(&told), (Outcome::Answered, None));
    let reply = told.announced[0].reply.as_deref().unwrap();
    assert_eq!(reply, "text\n\n[Stopped after 2 tool rounds, the limit of this agent.]");
    // V-K7: the question and the answer stand in the history together.
    let last: Vec<_> =
        told.commits.last().unwrap().messages.iter().map(|m| m.message.text()).collect();
    assert!(
        matches!(last[..], [question, "text"] if question.contains("Without calling any tool"))
    );
}

// V-K6
#[test]
fn a_summary_that_fails_or_is_empty_leaves_no_question_behind() {
    for (fail_at, code) in [(Some(3), "provider_network"), (None, "provider_empty")] {
        let runtime = RuntimeProfile {
            max_tool_iterations: 2,
            at_cap: CapBehaviour::Summary,
            ..RuntimeProfile::default()
        };
        let mut machine = machine(runtime);
        let script = Script {
            rounds: vec![1; 9],
            fail_at,
            empty_at: (fail_at.is_none()).then_some(3),
            ..plain()
        };
        let told = drive(&mut machine, &script);
        assert_eq!(end(&told), (Outcome::Failed, Some(code)));
        let written = told.commits.iter().flat_map(|commit| &commit.messages);
        assert!(written.clone().count() > 0);
        assert!(
            written.into_iter().all(|m| !m.message.text().contains("Without calling any tool"))
        );
    }
}

// V-E14, V-C15
#[test]
fn a_failure_after_visible_text_keeps_that_text_with_the_marker() {
    let mut machine = machine(RuntimeProfile::default());
    let told = drive(&mut machine, &Script { rounds: vec![1], fail_at: Some(2), ..plain() });
    assert_eq!(end(&told), (Outcome::Failed, Some("provider_network")));
    let last = machine.history().last().unwrap();
    assert_eq!(last.text(), format!("half\n{}", text::INTERRUPTED_MARKER));
    assert_eq!(machine.history().len(), 4);
}

// V-E16
#[test]
fn a_cancel_before_any_output_leaves_the_bare_marker() {
    let world = world();
    let mut machine = machine(RuntimeProfile::default());
    machine.step(Input::Begin, &world);
    let effects = machine.step(Input::Stop(StopReason::User), &world);
    assert!(matches!(effects[..], [Effect::StopModel(StopReason::User)]), "{effects:?}");
    let end = ModelEnd::Stopped { reason: StopReason::User, partial: String::new() };
    let report = ModelReport { iteration: 1, spent: Usage::default(), end };
    let effects = machine.step(Input::Model(report), &world);
    let [Effect::Commit { commit, .. }] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(commit.finish.as_ref().unwrap().outcome, Outcome::Cancelled);
    assert_eq!(commit.messages[0].message.text(), text::INTERRUPTED_MARKER);
}

// V-H9, V-H11, V-H10
#[test]
fn decisions_become_results_the_model_can_tell_apart() {
    let mut machine = machine(RuntimeProfile::default());
    let script =
        Script { rounds: vec![4], verdicts: vec![0], decisions: vec![0, 1, 2, 3], ..plain() };
    let told = drive(&mut machine, &script);
    assert_eq!(end(&told), (Outcome::Answered, None));
    let results: Vec<_> = machine
        .history()
        .iter()
        .filter(|m| matches!(m, ChatMessage::Tool { .. }))
        .map(|m| m.text().to_owned())
        .collect();
    assert_eq!(
        results,
        [
            "output".to_owned(),
            text::DENIED_BY_USER.to_owned(),
            format!("{}edit", text::REPLACED_PREFIX),
            text::DENIED_NO_ANSWER.to_owned(),
        ]
    );
}

// V-I22
#[test]
fn an_answer_that_is_being_written_stands_although_a_stop_comes() {
    let world = world();
    let mut machine = machine(RuntimeProfile::default());
    machine.step(Input::Begin, &world);
    let effects = machine.step(says(1, "the answer", 0), &world);
    let [Effect::Commit { seq, commit, .. }] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(commit.finish.as_ref().map(|finish| finish.outcome), Some(Outcome::Answered));
    let seq = *seq;
    machine.step(Input::Stop(StopReason::User), &world);
    let effects = machine.step(Input::Committed { seq, result: Ok(CommitAck::default()) }, &world);
    let told = effects.iter().find_map(|effect| match effect {
        Effect::Announce(finish) => finish.reply.clone(),
        _ => None,
    });
    assert_eq!(told.as_deref(), Some("the answer"));
}

// I4, V-J24, T22
#[test]
fn a_batch_that_reports_too_few_outcomes_is_counted_and_its_calls_stay_paired() {
    let world = world();
    let mut machine = machine(RuntimeProfile::default());
    machine.step(Input::Begin, &world);
    machine.step(says(1, "text", 2), &world);
    let judged = calls(2, 1).into_iter().map(|call| JudgedCall {
        call,
        tool: "tool".into(),
        arguments: None,
        effects: Effects::Once,
        brings_in: false,
        verdict: Verdict::Run(Authority::Policy),
    });
    let effects = machine.step(Input::Judged(judged.collect()), &world);
    let [Effect::Commit { seq, .. }] = effects[..] else { panic!("{effects:?}") };
    machine.step(Input::Committed { seq, result: Ok(CommitAck::default()) }, &world);
    let tolerated = Tolerate::on_this_thread();
    let report = vec![SlotOutcome::unrun(CallState::Succeeded, "output")];
    let effects = machine.step(Input::Batch(report), &world);
    assert_eq!(tolerated.seen(Invariant::I4), 1);
    assert!(matches!(effects[..], [Effect::Commit { .. }]), "{effects:?}");
    let results: Vec<_> = machine.history()[2..].iter().map(ChatMessage::text).collect();
    assert_eq!(results, ["output", text::INTERRUPTED_NOT_STARTED]);
    let asked: Vec<String> = calls(2, 1).iter().map(ToolCall::wire_id).collect();
    let answered = machine.history()[2..].iter().map(|message| match message {
        ChatMessage::Tool { wire_id, .. } => wire_id.clone(),
        other => panic!("{other:?}"),
    });
    assert_eq!(answered.collect::<Vec<_>>(), asked);
}

// V-J20, V-J21, V-J22
#[test]
fn a_turn_in_circles_is_told_held_up_and_ended_with_all_rounds_in_its_history() {
    let mut machine = machine(RuntimeProfile::default());
    let told = drive(&mut machine, &Script { rounds: vec![1; 9], ..plain() });
    assert_eq!(told.circles, [Level::Warn, Level::Block, Level::Break]);
    assert_eq!(end(&told), (Outcome::Failed, Some("loop_detected")));
    let results = machine.history().iter().filter_map(|message| match message {
        ChatMessage::Tool { output, .. } => Some(output.starts_with(text::LOOP_REFUSED_PREFIX)),
        _ => None,
    });
    assert_eq!(results.collect::<Vec<_>>(), [false, false, false, false, true]);
    let notes = machine
        .history()
        .iter()
        .filter(|message| matches!(message, ChatMessage::User { kind: UserKind::Feedback, .. }));
    assert_eq!(notes.count(), 2, "a note, and a warning that the next call is refused");
}

// V-J22, V-N1
#[test]
fn a_later_life_knows_how_far_round_the_former_one_was() {
    let script = Script { rounds: vec![1; 9], ..plain() };
    let mut whole = machine(RuntimeProfile::default());
    let commits = drive(&mut whole, &script).commits;
    for cut in 0..commits.len() - 1 {
        let kept = &commits[..cut];
        let journal: Vec<JournalEntry> = kept.iter().flat_map(|c| c.entries.clone()).collect();
        let user = StoredMessage {
            id: MessageId(Uuid::nil()),
            turn: TurnId(Uuid::from_u128(1)),
            at: Timestamp::UNIX_EPOCH,
            message: ChatMessage::user("hello"),
        };
        let history: Vec<StoredMessage> =
            std::iter::once(user).chain(kept.iter().flat_map(|c| c.messages.clone())).collect();
        let from = crate::turn::recover::resume(&journal, &history, Usage::default());
        let mut second = Machine::new(facts(RuntimeProfile::default()), from);
        let told = drive(&mut second, &script);
        assert_eq!(end(&told), (Outcome::Failed, Some("loop_detected")), "cut {cut}");
        assert_eq!(second.history(), whole.history(), "cut {cut}");
    }
}

// V-G14
#[test]
fn a_call_that_ends_the_turn_lets_nothing_else_of_its_response_run() {
    let world = world();
    let mut machine = machine(RuntimeProfile::default());
    machine.step(Input::Begin, &world);
    machine.step(says(1, "text", 3), &world);
    let verdicts = [
        Verdict::Run(Authority::Policy),
        Verdict::EndsTurn {
            outcome: SlotOutcome::unrun(CallState::Denied, text::REPEATED_UNAPPROVED),
            error: TurnError::new("repeated_request", "asked again"),
        },
        Verdict::Ask(Box::new(request(&calls(3, 1)[2]))),
    ];
    let judged = calls(3, 1).into_iter().zip(verdicts).map(|(call, verdict)| JudgedCall {
        call,
        tool: "tool".into(),
        arguments: None,
        effects: Effects::Once,
        brings_in: false,
        verdict,
    });
    let effects = machine.step(Input::Judged(judged.collect()), &world);
    let [Effect::Commit { commit, .. }] = &effects[..] else { panic!("{effects:?}") };
    let finish = commit.finish.as_ref().unwrap();
    assert_eq!(finish.error.as_ref().unwrap().code, "repeated_request");
    assert!(commit.approvals.is_empty());
    let states: Vec<CallState> = commit.calls.iter().map(|call| call.state).collect();
    assert_eq!(states, [CallState::Interrupted, CallState::Denied, CallState::Interrupted]);
}

#[test]
fn a_stale_fence_makes_the_turn_leave_without_a_word() {
    // I3
    let world = world();
    let mut machine = machine(RuntimeProfile::default());
    machine.step(Input::Begin, &world);
    let effects = machine.step(says(1, "text", 0), &world);
    let [Effect::Commit { seq, .. }] = effects[..] else { panic!("{effects:?}") };
    let effects = machine.step(Input::Committed { seq, result: Err(StoreError::Stale) }, &world);
    assert!(matches!(effects[..], [Effect::Leave]), "{effects:?}");
}

// V-K9, V-K11
#[test]
fn steering_is_in_the_next_request_and_asks_for_a_new_round_after_a_final_text() {
    let world = world();
    let mut machine = machine(RuntimeProfile::default());
    machine.step(Input::Begin, &world);
    machine.step(steer(1, "and in French"), &world);
    let effects = machine.step(says(1, "text", 0), &world);
    let [Effect::Commit { seq, .. }] = effects[..] else { panic!("{effects:?}") };
    let effects = machine.step(Input::Committed { seq, result: Ok(CommitAck::default()) }, &world);
    let [Effect::Merged(_), Effect::CallModel { iteration: 2, tools: true }] = effects[..] else {
        panic!("{effects:?}")
    };
    let texts: Vec<_> = machine.history().iter().map(ChatMessage::text).collect();
    assert_eq!(texts, ["hello", "text", "and in French"]);
}

fn reasons() -> impl Strategy<Value = StopReason> {
    prop_oneof![
        Just(StopReason::User),
        Just(StopReason::Replaced),
        Just(StopReason::Deadline),
        Just(StopReason::Shutdown),
        Just(StopReason::StoreLost),
    ]
}

fn scripts() -> impl Strategy<Value = Script> {
    (
        prop::collection::vec(0usize..5, 0..6),
        prop::collection::vec(0u8..3, 1..8),
        prop::collection::vec(0u8..4, 1..8),
        prop::collection::vec(0u8..2, 1..8),
        prop::option::of((0usize..40, reasons())),
        prop::option::of(1u32..6),
        prop::collection::vec(any::<bool>(), 1..6),
    )
        .prop_map(
            |(rounds, verdicts, decisions, outcomes, stop_at, fail_at, flaky_commits)| Script {
                rounds,
                verdicts,
                decisions,
                outcomes,
                stop_at,
                fail_at,
                empty_at: None,
                flaky_commits,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    // I4, V-N7, V-I5: whatever happens, and whenever it is stopped, the turn ends once, every call has
    // exactly one result, in order, and what was announced was durable before.
    #[test]
    fn every_schedule_ends_once_with_each_call_paired(script in scripts()) {
        let mut machine = machine(RuntimeProfile { max_tool_iterations: 4, ..Default::default() });
        let told = drive(&mut machine, &script);
        prop_assert_eq!(told.announced.len() + told.left, 1, "{:?}", told);
        let finishes = told.commits.iter().filter(|c| c.finish.is_some()).count();
        match &script.stop_at {
            // The end may have become durable while nobody was left to hear of it.
            Some((_, reason)) if !reason.may_write() => {
                prop_assert!(finishes >= told.announced.len());
            }
            _ => prop_assert_eq!(finishes, told.announced.len()),
        }
        let mut open: Vec<CallId> = Vec::new();
        for message in machine.history() {
            match message {
                ChatMessage::Assistant { calls, .. } => {
                    prop_assert!(open.is_empty());
                    open.extend(calls.iter().map(|call| call.id));
                }
                ChatMessage::Tool { call, output, .. } => {
                    prop_assert!(!output.is_empty());
                    prop_assert_eq!(open.remove(0), *call);
                }
                _ => prop_assert!(open.is_empty()),
            }
        }
        prop_assert!(open.is_empty());
        // Journal numbers rise strictly, so a repeated commit is recognised.
        let seqs: Vec<u64> =
            told.commits.iter().flat_map(|c| c.entries.iter().map(|e| e.seq)).collect();
        prop_assert!(seqs.windows(2).all(|w| w[0] < w[1]), "{:?}", seqs);
    }

    // V-N1: killed after any number of commits, the journal brings the turn to an end all the same.
    #[test]
    fn a_turn_cut_after_any_commit_is_resumed_to_a_paired_history(
        script in scripts(), cut in 0usize..12,
    ) {
        let script = Script { stop_at: None, fail_at: None, ..script };
        let mut first = machine(RuntimeProfile { max_tool_iterations: 4, ..Default::default() });
        let told = drive(&mut first, &script);
        let kept = &told.commits[..cut.min(told.commits.len())];
        if kept.iter().any(|commit| commit.finish.is_some()) {
            return Ok(());
        }
        let journal: Vec<JournalEntry> = kept.iter().flat_map(|c| c.entries.clone()).collect();
        let user = StoredMessage {
            id: MessageId(Uuid::nil()),
            turn: TurnId(Uuid::from_u128(1)),
            at: Timestamp::UNIX_EPOCH,
            message: ChatMessage::user("hello"),
        };
        let history: Vec<StoredMessage> =
            std::iter::once(user).chain(kept.iter().flat_map(|c| c.messages.clone())).collect();
        let resumed = crate::turn::recover::resume(&journal, &history, Usage::default());
        let mut second =
            Machine::new(facts(RuntimeProfile { max_tool_iterations: 4, ..Default::default() }), resumed);
        let told = drive(&mut second, &script);
        prop_assert_eq!(told.announced.len(), 1);
        let mut open: Vec<CallId> = Vec::new();
        for message in second.history() {
            match message {
                ChatMessage::Assistant { calls, .. } => {
                    open.extend(calls.iter().map(|call| call.id));
                }
                ChatMessage::Tool { call, .. } => prop_assert_eq!(open.remove(0), *call),
                _ => prop_assert!(open.is_empty()),
            }
        }
    }
}

#[test]
fn a_stop_for_a_lost_store_does_not_wait_for_a_commit_that_nobody_answers() {
    let world = world();
    for (reason, waits) in [
        (StopReason::StoreLost, false),
        (StopReason::LeaseLost, false),
        (StopReason::Shutdown, true),
        (StopReason::User, true),
    ] {
        let mut machine = machine(RuntimeProfile::default());
        machine.step(Input::Begin, &world);
        let effects = machine.step(says(1, "text", 0), &world);
        let [Effect::Commit { seq, .. }] = effects[..] else { panic!("{effects:?}") };
        let effects = machine.step(Input::Stop(reason.clone()), &world);
        if waits {
            assert!(effects.is_empty(), "{reason}: {effects:?}");
        } else {
            assert!(matches!(effects[..], [Effect::Leave]), "{reason}: {effects:?}");
            // An answer that comes all the same changes nothing.
            let late = Input::Committed { seq, result: Ok(CommitAck::default()) };
            assert!(machine.step(late, &world).is_empty(), "{reason}");
        }
    }
}

// I10
#[test]
fn words_for_a_running_turn_are_bounded_and_whoever_says_too_many_is_told() {
    let world = world();
    for (text, taken) in [("more", MAX_STEERING), (&*"x".repeat(100_000), 2)] {
        let mut machine = machine(RuntimeProfile::default());
        machine.step(Input::Begin, &world);
        let quiet = |machine: &mut Machine, n| machine.step(steer(n, text), &world);
        assert!((0..taken).all(|n| quiet(&mut machine, n as u128).is_empty()));
        let effects = quiet(&mut machine, 99);
        assert!(matches!(effects[..], [Effect::Tell(TurnEventKind::Notice { .. })]), "{effects:?}");
        let effects = machine.step(says(1, "text", 0), &world);
        let [Effect::Commit { seq, commit, .. }] = &effects[..] else { panic!("{effects:?}") };
        let told = commit.messages.iter().filter(|m| m.message.text() == text).count();
        assert_eq!(told, taken, "what was taken is passed on");
        // And the next round has room again.
        machine.step(Input::Committed { seq: *seq, result: Ok(CommitAck::default()) }, &world);
        assert!(quiet(&mut machine, 100).is_empty());
    }
}

// A096: what a former attempt brought in is known to the next one, and a call that did not run brought nothing
#[test]
fn content_from_outside_is_known_again_from_the_journal() {
    for (state, known) in [(CallState::Succeeded, true), (CallState::Interrupted, false)] {
        let world = world();
        let call = calls(1, 1).remove(0);
        let id = call.id;
        let entry = |seq, kind| rookery_messages::journal::JournalEntry { attempt: 1, seq, kind };
        let journal = [
            entry(
                1,
                JournalKind::ModelResponse {
                    iteration: 1,
                    text: String::new(),
                    calls: vec![call],
                    usage: Usage::default(),
                    opaque: Vec::new(),
                },
            ),
            entry(
                2,
                JournalKind::CallPrepared {
                    call: id,
                    tool: "fetch".into(),
                    state: CallState::Planned,
                    arguments: None,
                    effects: Effects::ReadOnly,
                    output: None,
                    same_as: None,
                    brings_in: true,
                },
            ),
            entry(3, JournalKind::CallStarted { call: id }),
            entry(
                4,
                JournalKind::CallFinished {
                    call: id,
                    state,
                    output: "a page".into(),
                    receipt: None,
                },
            ),
        ];
        let from = super::super::recover::resume(&journal, &[], Usage::default());
        let mut machine = Machine::new(facts(RuntimeProfile::default()), from);
        machine.step(Input::Begin, &world);
        let mut effects = machine.step(Input::Judged(Vec::new()), &world);
        while let Some(Effect::Commit { seq, .. }) = effects.pop() {
            effects =
                machine.step(Input::Committed { seq, result: Ok(CommitAck::default()) }, &world);
        }
        assert_eq!(machine.tainted(), known.then_some("fetch"), "{state:?}");
    }
}
