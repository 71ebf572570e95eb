//! A stop in every state of a batch and of an approval: generated schedules on a paused clock.

use jiff::Timestamp;
use proptest::prelude::*;
use rookery_messages::approval::ApprovalState;
use rookery_messages::time::Clock;
use tokio::time::{Instant, sleep};

use super::*;

/// What a stop may take: the tools' grace, what the batch and the turn get beyond it, and a little.
const STOP_LIMIT: Duration = Duration::from_secs(8);

/// One call: a tool, and what it does.
#[derive(Clone, Debug)]
struct Planned {
    tool: &'static str,
    does: &'static str,
}

/// What a person says to a request, and when.
#[derive(Clone, Debug)]
struct Answer {
    after_ms: u64,
    decision: Option<Decision>,
}

#[derive(Clone, Debug)]
struct Schedule {
    calls: Vec<Planned>,
    parallel: bool,
    answers: Vec<Answer>,
    stop_at_ms: u64,
    reason: StopReason,
}

fn schedules() -> impl Strategy<Value = Schedule> {
    let call = (
        // `read` runs unasked, the others ask.
        prop_oneof![3 => Just("read"), 1 => Just("again"), 1 => Just("once")],
        prop_oneof![
            3 => Just("say"), 3 => Just("slow"), 2 => Just("hang"),
            1 => Just("deaf"), 1 => Just("fail"), 1 => Just("panic"), 1 => Just("empty"),
        ],
    );
    let calls = prop::collection::vec(call.prop_map(|(tool, does)| Planned { tool, does }), 1..6);
    let decision = prop_oneof![
        4 => Just(Some(Decision::Approve)),
        1 => Just(Some(Decision::Deny { reason: None })),
        1 => Just(Some(Decision::Replace { replacement: "said by ann".into() })),
        1 => Just(None),
    ];
    let answer =
        (0_u64..40, decision).prop_map(|(after_ms, decision)| Answer { after_ms, decision });
    let reason = prop_oneof![
        Just(StopReason::User),
        Just(StopReason::Replaced),
        Just(StopReason::Deadline),
        Just(StopReason::Operator("ann".into())),
    ];
    (calls, any::<bool>(), prop::collection::vec(answer, 6), 0_u64..120, reason).prop_map(
        |(calls, parallel, answers, stop_at_ms, reason)| Schedule {
            calls,
            parallel,
            answers,
            stop_at_ms,
            reason,
        },
    )
}

/// Wall time that follows the runtime's clock.
struct PausedClock(Timestamp, Instant);

impl Clock for PausedClock {
    fn now(&self) -> Timestamp {
        self.0 + self.1.elapsed()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    // I4, I6, I7
    #[test]
    fn a_stop_at_any_moment_leaves_one_outcome_a_call_and_nobody_alive(schedule in schedules()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(run(schedule));
    }
}

async fn run(schedule: Schedule) {
    let world = system_world();
    let clock = Arc::new(PausedClock(world.clock.now(), Instant::now()));
    let world = World { clock, ..world };
    let runtime = RuntimeProfile { parallel_tools: schedule.parallel, ..RuntimeProfile::default() };
    let rig = Rig::in_world(world, true, RiskProfile::default(), runtime, |_| {}).await;
    let calls: Vec<(&str, Value)> = schedule
        .calls
        .iter()
        .enumerate()
        .map(|(n, call)| (call.tool, json!({ "do": call.does, "n": n })))
        .collect();
    rig.script([asks(&calls), says("all done")]);
    let (turn, mut events) = rig.accept("m1", "ws").await;
    let mut asked = rig.hub.subscribe(rig.conversation, None);
    let answering = async {
        let mut answers = schedule.answers.iter().cycle();
        loop {
            let HubItem::Event(event) = asked.next().await else { continue };
            let TurnEventKind::Approval { approval } = &event.kind else { continue };
            let Some(answer) = answers.next() else { return };
            sleep(Duration::from_millis(answer.after_ms)).await;
            if let Some(decision) = answer.decision.clone() {
                // The stop may have been faster: then nothing is decided any more.
                let request = DecideApproval {
                    approval: approval.id,
                    decision,
                    decider: Decider { who: "ann".into(), via: "ws".into() },
                    privileged: false,
                    at: rig.spawner.world().now(),
                    grant: None,
                };
                rig.store.decide(request).await.unwrap();
                let (conversation, approval) = (approval.conversation_id, approval.id);
                let hint = RouterMsg::ApprovalHint { conversation, turn, approval };
                rig.router.send(hint).await.unwrap();
            }
        }
    };
    let stopping = async {
        sleep(Duration::from_millis(schedule.stop_at_ms)).await;
        let turns = rig.spawner.directory().of_kind("turn");
        let segment = format!("turn/{turn}");
        if let Some(entry) = turns.iter().find(|entry| entry.segment == segment) {
            entry.stop(schedule.reason.clone());
        }
        let asked = Instant::now();
        rig.until_slowly(|directory| {
            ["turn", "batch", "tool", "approval", "model"]
                .iter()
                .all(|kind| directory.of_kind(kind).is_empty())
        })
        .await;
        // I6: after stop and grace no descendant of the turn lives.
        assert!(asked.elapsed() < STOP_LIMIT, "{:?} after the stop", asked.elapsed());
    };
    tokio::select! {
        () = answering => unreachable!("it answers for ever"),
        () = stopping => {}
    }
    events.end().await;
    let record = rig.record(turn).await;
    // I4: each call of the response has one outcome, or the turn was stopped before it was written.
    assert!(record.calls.iter().all(|call| call.state.is_end()), "{record:#?}");
    let approvals = rig.store.approvals(false, 100).await.unwrap();
    for approval in approvals.iter().filter(|approval| approval.turn == turn) {
        assert_ne!(approval.state, ApprovalState::Pending, "{approval:#?}");
        // I7: without a yes the call does not run.
        let call = record.calls.iter().find(|call| call.id == approval.call).unwrap();
        let ran =
            matches!(call.state, CallState::Succeeded | CallState::Failed | CallState::Unknown);
        assert!(!ran || approval.state == ApprovalState::Approved, "{approval:#?} {call:#?}");
    }
    // The next request to the provider has exactly one result a call, in the model's order.
    let stopped = record.outcome != Some(Outcome::Answered);
    let responded = !record.calls.is_empty();
    rig.provider.replies.lock().clear();
    rig.script([says("fine")]);
    let (_, mut next) = rig.accept("m2", "ws").await;
    assert_eq!(next.end().await.0, Outcome::Answered);
    let results = rig.last_results();
    if responded {
        assert_eq!(results.len(), schedule.calls.len(), "{results:#?}");
    } else {
        assert!(stopped && results.is_empty(), "{results:#?}");
    }
    rig.quiet().await;
}
