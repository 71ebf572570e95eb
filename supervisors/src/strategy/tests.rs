use proptest::prelude::*;
use proptest::strategy::Strategy as _;
use rookery_messages::child::{Intensity, Strategy};

use super::*;

fn failed() -> ExitReason {
    ExitReason::Failed { error: "broken".into(), permanent: false }
}

fn exits() -> impl proptest::strategy::Strategy<Value = ExitReason> {
    let stops = prop_oneof![
        Just(StopReason::User),
        Just(StopReason::Shutdown),
        Just(StopReason::StoreLost),
        Just(StopReason::Idle),
        Just(StopReason::Operator("ann".into())),
    ];
    prop_oneof![
        Just(ExitReason::Finished),
        Just(ExitReason::Killed),
        stops.prop_map(|reason| ExitReason::Stopped { reason }),
        any::<bool>().prop_map(|permanent| ExitReason::Failed { error: "e".into(), permanent }),
        any::<bool>()
            .prop_map(|permanent| ExitReason::StartFailed { error: "e".into(), permanent }),
        Just(ExitReason::Panicked { message: "m".into(), location: "l".into() }),
    ]
}

fn policies() -> impl proptest::strategy::Strategy<Value = ChildPolicy> {
    (
        prop_oneof![Just(Restart::Permanent), Just(Restart::Transient), Just(Restart::Temporary)],
        any::<bool>(),
        0_u32..6,
        prop_oneof![Just(Exhausted::Park), Just(Exhausted::Escalate)],
    )
        .prop_map(|(restart, significant, restarts, exhausted)| ChildPolicy {
            restart,
            significant,
            exhausted,
            intensity: Intensity { restarts, window: Duration::from_secs(60) },
            ..ChildPolicy::default()
        })
}

fn strategies() -> impl proptest::strategy::Strategy<Value = Strategy> {
    prop_oneof![Just(Strategy::OneForOne), Just(Strategy::OneForAll), Just(Strategy::RestForOne),]
}

fn intents() -> impl proptest::strategy::Strategy<Value = Intent> {
    prop_oneof![3 => Just(Intent::None), 1 => Just(Intent::Restart)]
}

proptest! {
    // I8: whatever happens, a decision touches nobody it should not, and is what the policy says.
    #[test]
    fn every_decision_follows_the_policy(
        strategy in strategies(),
        children in prop::collection::vec((policies(), any::<bool>()), 1..7),
        child in any::<prop::sample::Index>(),
        reason in exits(),
        intent in intents(),
        fraction in 0.0..1.0_f64,
    ) {
        let child = child.index(children.len());
        let members: Vec<_> =
            children.iter().map(|(policy, wanted)| Member { policy, wanted: *wanted }).collect();
        let exit = Exit { child, reason: &reason, intent, lived: Duration::ZERO };
        let now = Instant::now();
        let verdict = decide(strategy, &members, &History::default(), &exit, now, fraction);
        let policy = &children[child].0;
        match verdict.decision {
            Decision::Restart(plan) => {
                if intent == Intent::None {
                    prop_assert!(policy.restart != Restart::Temporary);
                    prop_assert!(!reason.is_permanent() && policy.intensity.restarts > 0);
                    prop_assert!(policy.restart == Restart::Permanent || reason.is_abnormal());
                    prop_assert_eq!(verdict.history.recent(), 1);
                    prop_assert!(plan.delay <= policy.backoff.initial);
                } else {
                    prop_assert_eq!(verdict.history.recent(), 0);
                    prop_assert_eq!(plan.delay, Duration::ZERO);
                }
                prop_assert!(plan.start.contains(&child) && !plan.stop.contains(&child));
                prop_assert!(plan.start.is_sorted() && plan.stop.is_sorted_by(|a, b| a > b));
                for &index in plan.stop.iter().chain(&plan.start).filter(|&&i| i != child) {
                    prop_assert!(members[index].wanted);
                    prop_assert!(strategy != Strategy::OneForOne);
                    prop_assert!(strategy != Strategy::RestForOne || index > child);
                }
                for &index in plan.start.iter().filter(|&&i| i != child) {
                    prop_assert!(children[index].0.restart != Restart::Temporary);
                    prop_assert!(plan.stop.contains(&index));
                }
                let due = (0..members.len()).filter(|&index| index != child
                    && members[index].wanted
                    && (strategy == Strategy::OneForAll
                        || strategy == Strategy::RestForOne && index > child));
                prop_assert_eq!(due.count(), plan.stop.len());
            }
            Decision::Park | Decision::Escalate => {
                let parks = verdict.decision == Decision::Park;
                prop_assert_eq!(parks, policy.exhausted == Exhausted::Park);
                prop_assert!(reason.is_permanent() || policy.intensity.restarts == 0);
            }
            Decision::Shelve => prop_assert!(is_on_purpose(&reason)),
            Decision::Forget => prop_assert!(policy.restart != Restart::Permanent),
            Decision::Finish => prop_assert!(policy.significant && !reason.is_abnormal()),
        }
    }

    // I8: restarts are bounded, whatever the pace of the failures.
    #[test]
    fn no_window_ever_holds_more_restarts_than_the_intensity(
        gaps in prop::collection::vec(0_u64..40, 1..60),
        restarts in 0_u32..5,
    ) {
        let policy = ChildPolicy {
            intensity: Intensity { restarts, window: Duration::from_secs(60) },
            ..ChildPolicy::default()
        };
        let members = [Member { policy: &policy, wanted: true }];
        let mut history = History::default();
        let mut now = Instant::now();
        let mut made: Vec<Instant> = Vec::new();
        let reason = failed();
        for gap in gaps {
            now += Duration::from_secs(gap);
            let exit = Exit {
                child: 0,
                reason: &reason,
                intent: Intent::None,
                lived: Duration::from_secs(gap),
            };
            let verdict = decide(Strategy::OneForOne, &members, &history, &exit, now, 0.5);
            history = verdict.history;
            if matches!(verdict.decision, Decision::Restart(_)) {
                made.push(now);
            }
            let recent = made.iter().filter(|at| now - **at < policy.intensity.window).count();
            prop_assert!(recent <= restarts as usize, "{recent} restarts in a window");
        }
    }

    // I14: whoever uses up its share leaves the others theirs.
    #[test]
    fn shares_of_a_stop_never_exceed_what_is_left(
        left in 0_u64..60_000,
        graces in prop::collection::vec(0_u64..20_000, 1..8),
    ) {
        let total = Duration::from_millis(left);
        let graces: Vec<_> = graces.into_iter().map(Duration::from_millis).collect();
        let mut remaining = total;
        for (index, grace) in graces.iter().enumerate() {
            let others = graces[index + 1..].iter().sum();
            let share = stop_share(remaining, *grace, others);
            prop_assert!(share <= *grace && share <= remaining);
            if graces.iter().sum::<Duration>() <= total {
                prop_assert_eq!(share, *grace);
            } else if !grace.is_zero() && left > 1_000 {
                prop_assert!(!share.is_zero());
            }
            remaining -= share;
        }
    }
}

#[test]
fn the_delay_doubles_up_to_its_maximum_and_starts_over_once_healthy() {
    let policy = ChildPolicy {
        intensity: Intensity { restarts: 100, window: Duration::from_secs(60) },
        ..ChildPolicy::default()
    };
    let members = [Member { policy: &policy, wanted: true }];
    let reason = failed();
    let mut history = History::default();
    let now = Instant::now();
    let mut delays = Vec::new();
    let mut fail = |lived: Duration, fraction: f64| {
        let exit = Exit { child: 0, reason: &reason, intent: Intent::None, lived };
        let verdict = decide(Strategy::OneForOne, &members, &history, &exit, now, fraction);
        history = verdict.history;
        if let Decision::Restart(plan) = verdict.decision {
            delays.push(plan.delay.as_millis());
        }
    };
    for _ in 0..11 {
        fail(Duration::ZERO, 1.0);
    }
    fail(policy.backoff.healthy_after, 1.0);
    fail(Duration::ZERO, 0.25);
    assert_eq!(delays, [100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000, 100, 50]);
}

#[test]
fn a_ceiling_never_overflows() {
    let backoff = Backoff { initial: Duration::MAX, max: Duration::MAX, ..Backoff::default() };
    assert_eq!(ceiling(&backoff, 31), Duration::MAX);
    assert_eq!(ceiling(&Backoff::default(), u32::MAX), Backoff::default().max);
}
