use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rookery_actors::runtime::{Child, PlaceOrder, SpawnSpec};
use rookery_messages::address::{Address, AddressCell, SendError};
use rookery_messages::child::{ChildPolicy, Exhausted, Restart, Strategy};
use rookery_messages::tree::ActorStatus;
use tokio::time::Instant;

use super::*;
use crate::inspect::{Inspector, Operation};
use crate::testing::*;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn escalating() -> ChildPolicy {
    ChildPolicy { exhausted: Exhausted::Escalate, ..ChildPolicy::default() }
}

/// Fails it and waits until the supervisor has seen it.
async fn fail(rig: &Rig, address: &Address<WorkMsg>, path: &str) {
    ping(address).await;
    let before = rig.directory().find(path).unwrap().id;
    address.try_send(WorkMsg::Fail).unwrap();
    until(|| rig.directory().find(path).is_none_or(|entry| entry.id != before)).await;
}

#[tokio::test(start_paused = true)]
async fn an_address_survives_a_restart_and_says_restarting_in_between() {
    let rig = Rig::new();
    let (root, [address]) = rig.workers(Strategy::OneForOne, ChildPolicy::default(), ["a"]).await;
    assert_eq!(address.generation(), 1);
    let began = Instant::now();
    address.try_send(WorkMsg::Panic).unwrap();
    until(|| rig.directory().is_empty() || rig.directory().find("root/a").is_none()).await;
    // Never `Closed`, whether the supervisor knows already or not.
    while let Err(error) = address.try_send(WorkMsg::Finish) {
        assert!(matches!(error, SendError::Restarting(_)), "{error}");
        if address.actor().is_none() {
            assert_eq!(rig.status("root/a"), Some(ActorStatus::Restarting));
        }
        tokio::time::sleep(ms(1)).await;
    }
    assert!(began.elapsed() >= ms(100), "{:?}", began.elapsed());
    assert_eq!(address.generation(), 2);
    let node = rig.directory().snapshot().unwrap().root.children.remove(0);
    assert_eq!((node.generation, node.restarts), (2, 1));
    let last = node.last_exit.unwrap();
    assert!(last.text.starts_with("panicked: boom at "), "{}", last.text);
    assert_eq!(last.in_hand.as_deref(), Some("Panic"));
    rig.finish(&root).await;
    assert!(matches!(address.try_send(WorkMsg::Fail), Err(SendError::Closed(_))));
}

#[tokio::test(start_paused = true)]
async fn a_child_that_fails_too_often_is_parked_and_its_siblings_go_on() {
    // I8
    let rig = Rig::new();
    let (root, [bad, good]) =
        rig.workers(Strategy::OneForOne, ChildPolicy::default(), ["bad", "good"]).await;
    for _ in 0..6 {
        fail(&rig, &bad, "root/bad").await;
    }
    rig.until_status("root/bad", ActorStatus::Parked).await;
    assert!(matches!(bad.try_send(WorkMsg::Fail), Err(SendError::Closed(_))));
    assert_eq!((bad.generation(), good.generation()), (6, 1));
    ping(&good).await;
    let seen = report(&root.address).await;
    let then: Vec<_> = seen.exits.iter().map(|line| line.then.as_str()).collect();
    assert_eq!(
        then,
        [
            "restart in 100 ms",
            "restart in 200 ms",
            "restart in 400 ms",
            "restart in 800 ms",
            "restart in 1600 ms",
            "parked"
        ]
    );
    // An operator brings it back, with a clean slate.
    let place = rig.directory().placeholder("root/bad").unwrap();
    assert_eq!(place.last_exit.unwrap().text, "failed: broken");
    assert!((place.control)(PlaceOrder::Restart { by: "ann".into() }));
    ping(&bad).await;
    assert_eq!(report(&root.address).await.children[0].recent_restarts, 0);
    assert_eq!(rig.log().iter().filter(|line| line.starts_with("good")).count(), 0);
    rig.finish(&root).await;
}

#[tokio::test(start_paused = true)]
async fn a_cause_that_a_restart_cannot_mend_parks_at_once() {
    let rig = Rig::new();
    let (root, [bad, good]) =
        rig.workers(Strategy::OneForOne, ChildPolicy::default(), ["bad", "good"]).await;
    bad.try_send(WorkMsg::FailForGood).unwrap();
    rig.until_status("root/bad", ActorStatus::Parked).await;
    assert_eq!(rig.log(), ["bad failed: token revoked"]);
    ping(&good).await;
    rig.finish(&root).await;
}

#[tokio::test(start_paused = true)]
async fn escalation_stops_the_children_in_reverse_and_ends_the_supervisor_as_failed() {
    let rig = Rig::new();
    let (root, [_a, store, _c]) =
        rig.workers(Strategy::OneForOne, escalating(), ["a", "store", "c"]).await;
    for _ in 0..6 {
        fail(&rig, &store, "root/store").await;
    }
    let error = "store could not be kept running: failed: broken".to_owned();
    assert_eq!(root.handle.ended().await, ExitReason::Failed { error, permanent: false });
    rig.directory().wait_empty().await;
    let log = rig.log();
    assert_eq!(log[log.len() - 2..], ["c stopped: store_lost", "a stopped: store_lost"]);
    // Nothing of it stays on show.
    assert!(rig.directory().placeholder("root/store").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_permanent_cause_of_a_child_that_may_not_be_given_up_escalates_at_once() {
    let rig = Rig::new();
    let (root, [store]) = rig.workers(Strategy::RestForOne, escalating(), ["store"]).await;
    store.try_send(WorkMsg::FailForGood).unwrap();
    let exit = root.handle.ended().await;
    assert!(exit.is_permanent(), "{exit}");
    rig.directory().wait_empty().await;
}

#[tokio::test(start_paused = true)]
async fn rest_for_one_restarts_the_child_and_those_after_it_in_order() {
    let rig = Rig::new();
    let (root, [_, b, c, d]) =
        rig.workers(Strategy::RestForOne, ChildPolicy::default(), ["a", "b", "c", "d"]).await;
    fail(&rig, &b, "root/b").await;
    ping(&d).await;
    assert_eq!(
        rig.log(),
        [
            "b failed: broken",
            "d stopped: store_lost",
            "c stopped: store_lost",
            "b start",
            "c start",
            "d start"
        ]
    );
    // Only the one that failed has used up a restart.
    let used = report(&root.address).await;
    let used: Vec<_> = used.children.iter().map(|child| child.recent_restarts).collect();
    assert_eq!(used, [0, 1, 0, 0]);
    assert_eq!(c.generation(), 2);
    rig.finish(&root).await;
}

#[tokio::test(start_paused = true)]
async fn one_for_all_restarts_everybody_in_order() {
    let rig = Rig::new();
    let (root, [_, b, c]) =
        rig.workers(Strategy::OneForAll, ChildPolicy::default(), ["a", "b", "c"]).await;
    fail(&rig, &b, "root/b").await;
    ping(&c).await;
    assert_eq!(
        rig.log(),
        [
            "b failed: broken",
            "c stopped: store_lost",
            "a stopped: store_lost",
            "a start",
            "b start",
            "c start"
        ]
    );
    rig.finish(&root).await;
}

#[tokio::test(start_paused = true)]
async fn a_second_failure_joins_the_restart_that_waits() {
    let rig = Rig::new();
    let (root, [a, _, c]) =
        rig.workers(Strategy::RestForOne, ChildPolicy::default(), ["a", "b", "c"]).await;
    fail(&rig, &c, "root/c").await;
    rig.until_status("root/c", ActorStatus::Restarting).await;
    fail(&rig, &a, "root/a").await;
    ping(&c).await;
    // Longer than any delay: nobody is started twice.
    tokio::time::sleep(ms(1_000)).await;
    assert_eq!(
        rig.log(),
        [
            "c failed: broken",
            "a failed: broken",
            "b stopped: store_lost",
            "a start",
            "b start",
            "c start"
        ]
    );
    rig.finish(&root).await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_that_is_pending_when_the_stop_comes_is_cancelled() {
    let rig = Rig::new();
    let (root, [a, _b]) =
        rig.workers(Strategy::OneForOne, ChildPolicy::default(), ["a", "b"]).await;
    fail(&rig, &a, "root/a").await;
    rig.until_status("root/a", ActorStatus::Restarting).await;
    let exit = rig.finish(&root).await;
    assert_eq!(exit, ExitReason::Stopped { reason: StopReason::Shutdown });
    tokio::time::sleep(ms(60_000)).await;
    assert_eq!(rig.log(), ["a failed: broken", "b stopped: shutdown"]);
    assert!(rig.directory().placeholder("root/a").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_stale_timer_does_nothing() {
    let rig = Rig::new();
    let (root, [a]) = rig.workers(Strategy::OneForOne, ChildPolicy::default(), ["a"]).await;
    fail(&rig, &a, "root/a").await;
    ping(&a).await;
    // 1 was the first start, 2 the restart that is done.
    for number in 0..3 {
        root.address.send(SupervisorMsg::Due { number }).await.unwrap();
    }
    report(&root.address).await;
    assert_eq!(rig.log(), ["a failed: broken", "a start"]);
    rig.finish(&root).await;
}

#[tokio::test(start_paused = true)]
async fn an_ordered_stop_goes_backwards_within_each_grace_and_is_reported() {
    // I14
    let rig = Rig::new();
    let stops = Arc::new(StopLog::default());
    let cells: [_; 3] = std::array::from_fn(|_| AddressCell::new());
    let policy = ChildPolicy { grace: ms(2_000), ..ChildPolicy::default() };
    let slow = Habits { stop_takes: ms(700), ..Habits::default() };
    let spec = SupervisorSpec::new(Strategy::OneForOne)
        .log_stops(Arc::clone(&stops))
        .child(policy.clone(), rig.starter("store", slow, &cells[0]))
        .child(policy.clone(), rig.starter("hangs", Habits::default(), &cells[1]))
        .child(policy, rig.starter("gateway", Habits::default(), &cells[2]));
    assert_eq!(spec.grace(), ms(3 * 2_500 + 500));
    let root = rig.root(spec).await;
    let [store, hangs, gateway] = cells.map(Address::new);
    for address in [&store, &hangs, &gateway] {
        ping(address).await;
    }
    hangs.try_send(WorkMsg::Hang).unwrap();
    rig.until_status("root/hangs", ActorStatus::Busy).await;
    let began = Instant::now();
    rig.finish(&root).await;
    assert!(began.elapsed() <= ms(3_500), "{:?}", began.elapsed());
    let ends = stops.ends();
    let paths: Vec<_> = ends.iter().map(|end| end.path.as_str()).collect();
    assert_eq!(paths, ["root/gateway", "root/hangs", "root/store"]);
    let shutdown = ExitReason::Stopped { reason: StopReason::Shutdown };
    let reasons: Vec<_> = ends.iter().map(|end| end.reason.clone()).collect();
    assert_eq!(reasons, [shutdown.clone(), ExitReason::Killed, shutdown]);
    assert!((2_000..=2_510).contains(&ends[1].took_ms), "{}", ends[1]);
    assert!((700..=710).contains(&ends[2].took_ms), "{}", ends[2]);
    assert_eq!(stops.killed(), [ends[1].clone()]);
}

#[tokio::test(start_paused = true)]
async fn a_supervisor_with_too_little_time_shares_it_out_and_keeps_its_own_deadline() {
    // I14
    let rig = Rig::new();
    let stops = Arc::new(StopLog::default());
    let cells: [_; 2] = std::array::from_fn(|_| AddressCell::new());
    let policy = ChildPolicy { grace: ms(10_000), ..ChildPolicy::default() };
    let quick = Habits { stop_takes: ms(800), ..Habits::default() };
    let spec = SupervisorSpec::new(Strategy::OneForOne)
        .log_stops(Arc::clone(&stops))
        .child(policy.clone(), rig.starter("store", quick, &cells[0]))
        .child(policy, rig.starter("hangs", Habits::default(), &cells[1]));
    let root = rig.root(spec).await;
    let [store, hangs] = cells.map(Address::new);
    ping(&store).await;
    ping(&hangs).await;
    hangs.try_send(WorkMsg::Hang).unwrap();
    let began = Instant::now();
    root.address.stop_by(StopReason::Shutdown, Some(began + ms(4_000)));
    let exit = root.handle.ended().await;
    assert_eq!(exit, ExitReason::Stopped { reason: StopReason::Shutdown });
    assert!(began.elapsed() <= ms(4_000), "{:?}", began.elapsed());
    let ends = stops.ends();
    assert_eq!(ends[0].reason, ExitReason::Killed);
    // The last one still had its time.
    assert_eq!(ends[1].reason, ExitReason::Stopped { reason: StopReason::Shutdown });
    rig.directory().wait_empty().await;
}

#[tokio::test(start_paused = true)]
async fn a_killed_child_is_started_again() {
    let rig = Rig::new();
    let (root, [a]) = rig.workers(Strategy::OneForOne, ChildPolicy::default(), ["a"]).await;
    rig.directory().find("root/a").unwrap().kill();
    until(|| a.generation() == 2).await;
    ping(&a).await;
    let seen = report(&root.address).await;
    assert_eq!(seen.exits[0].reason, "killed");
    rig.finish(&root).await;
}

#[tokio::test(start_paused = true)]
async fn a_pause_outlives_the_incarnation_until_it_is_resumed() {
    let rig = Rig::new();
    let (root, [a]) = rig.workers(Strategy::OneForOne, ChildPolicy::default(), ["a"]).await;
    rig.directory().find("root/a").unwrap().set_paused(true);
    fail(&rig, &a, "root/a").await;
    ping(&a).await;
    rig.until_status("root/a", ActorStatus::Paused).await;
    rig.directory().find("root/a").unwrap().set_paused(false);
    fail(&rig, &a, "root/a").await;
    ping(&a).await;
    rig.until_status("root/a", ActorStatus::Idle).await;
    rig.finish(&root).await;
}

#[tokio::test(start_paused = true)]
async fn an_operators_pause_outlives_what_is_above_it_too() {
    let rig = Rig::new();
    let (root, [_]) = rig.workers(Strategy::OneForOne, ChildPolicy::default(), ["a"]).await;
    let inspector = Inspector::new(Arc::clone(rig.directory()));
    inspector.operate(Operation::Pause, "root/a", "ann").unwrap();
    rig.finish(&root).await;
    let (root, [a]) = rig.workers(Strategy::OneForOne, ChildPolicy::default(), ["a"]).await;
    rig.until_status("root/a", ActorStatus::Paused).await;
    inspector.operate(Operation::Resume, "root/a", "ann").unwrap();
    ping(&a).await;
    rig.until_status("root/a", ActorStatus::Idle).await;
    rig.finish(&root).await;
}

#[tokio::test(start_paused = true)]
async fn an_operators_restart_is_at_once_and_counts_for_nothing() {
    let rig = Rig::new();
    let (root, [a]) = rig.workers(Strategy::OneForOne, ChildPolicy::default(), ["a"]).await;
    let began = Instant::now();
    for n in 1..=10 {
        rig.directory().find("root/a").unwrap().restart(StopReason::Operator("ann".into()));
        until(|| a.generation() == n + 1).await;
    }
    assert!(began.elapsed() < ms(100), "{:?}", began.elapsed());
    assert_eq!(report(&root.address).await.children[0].recent_restarts, 0);
    rig.finish(&root).await;
}

#[tokio::test(start_paused = true)]
async fn what_an_operator_stopped_stays_stopped_even_if_it_had_to_be_killed() {
    let rig = Rig::new();
    let (root, [a, b]) = rig.workers(Strategy::OneForOne, ChildPolicy::default(), ["a", "b"]).await;
    b.try_send(WorkMsg::Hang).unwrap();
    rig.until_status("root/b", ActorStatus::Busy).await;
    for path in ["root/a", "root/b"] {
        rig.directory().find(path).unwrap().stop(StopReason::Operator("ann".into()));
        rig.until_status(path, ActorStatus::Parked).await;
    }
    tokio::time::sleep(ms(60_000)).await;
    assert_eq!((a.generation(), b.generation()), (1, 1));
    let last = rig.directory().placeholder("root/b").unwrap().last_exit.unwrap();
    assert_eq!((last.reason, last.in_hand.as_deref()), (ExitReason::Killed, Some("Hang")));
    rig.finish(&root).await;
}

#[tokio::test(start_paused = true)]
async fn an_operator_may_cut_a_backoff_short_or_end_it() {
    let rig = Rig::new();
    let policy = ChildPolicy {
        backoff: rookery_messages::child::Backoff { initial: ms(20_000), ..Default::default() },
        ..ChildPolicy::default()
    };
    let (root, [a]) = rig.workers(Strategy::OneForOne, policy, ["a"]).await;
    let began = Instant::now();
    fail(&rig, &a, "root/a").await;
    rig.until_status("root/a", ActorStatus::Restarting).await;
    let order = |by: &str| PlaceOrder::Restart { by: by.to_owned() };
    assert!((rig.directory().placeholder("root/a").unwrap().control)(order("ann")));
    ping(&a).await;
    assert!(began.elapsed() < ms(1_000), "{:?}", began.elapsed());
    fail(&rig, &a, "root/a").await;
    rig.until_status("root/a", ActorStatus::Restarting).await;
    let stop = PlaceOrder::Stop { by: "ann".into() };
    assert!((rig.directory().placeholder("root/a").unwrap().control)(stop));
    rig.until_status("root/a", ActorStatus::Parked).await;
    tokio::time::sleep(ms(60_000)).await;
    assert_eq!(a.generation(), 2);
    rig.finish(&root).await;
}

#[tokio::test(start_paused = true)]
async fn a_start_that_fails_is_tried_again_like_an_exit_while_the_others_run() {
    let rig = Rig::new();
    let cells: [_; 2] = std::array::from_fn(|_| AddressCell::new());
    let shy = Habits { bad_starts: Arc::new(AtomicU32::new(2)), ..Habits::default() };
    let spec = SupervisorSpec::new(Strategy::OneForOne)
        .child(ChildPolicy::default(), rig.starter("shy", shy, &cells[0]))
        .child(ChildPolicy::default(), rig.starter("other", Habits::default(), &cells[1]));
    let root = rig.root(spec).await;
    let [shy, other] = cells.map(Address::new);
    ping(&other).await;
    assert_eq!(rig.status("root/shy"), Some(ActorStatus::Restarting));
    assert!(matches!(shy.try_send(WorkMsg::Fail), Err(SendError::Restarting(_))));
    ping(&shy).await;
    assert_eq!(rig.log(), ["shy bad start", "other start", "shy bad start", "shy start"]);
    let seen = report(&root.address).await;
    assert_eq!(seen.exits[0].reason, "start failed: no start today");
    rig.finish(&root).await;
}

#[tokio::test(start_paused = true)]
async fn under_rest_for_one_those_after_a_failed_start_wait_for_it() {
    let rig = Rig::new();
    let cells: [_; 3] = std::array::from_fn(|_| AddressCell::new());
    let shy = Habits { bad_starts: Arc::new(AtomicU32::new(1)), ..Habits::default() };
    let temporary = ChildPolicy { restart: Restart::Temporary, ..ChildPolicy::default() };
    let spec = SupervisorSpec::new(Strategy::RestForOne)
        .child(ChildPolicy::default(), rig.starter("store", shy, &cells[0]))
        .child(temporary, rig.starter("once", Habits::default(), &cells[1]))
        .child(ChildPolicy::default(), rig.starter("service", Habits::default(), &cells[2]));
    let root = rig.root(spec).await;
    let service = Address::new(Arc::clone(&cells[2]));
    rig.until_status("root/service", ActorStatus::Restarting).await;
    ping(&service).await;
    assert_eq!(rig.log(), ["store bad start", "store start", "once start", "service start"]);
    rig.finish(&root).await;
}

#[tokio::test(start_paused = true)]
async fn arguments_that_panic_are_a_failed_start_of_that_child_alone() {
    // I8
    let rig = Rig::new();
    let cell = AddressCell::new();
    let broken =
        rookery_actors::runtime::ChildStarter::<Worker>::new(SpawnSpec::new("broken"), || {
            panic!("no arguments")
        });
    let spec = SupervisorSpec::new(Strategy::OneForOne)
        .child(ChildPolicy::default(), broken)
        .child(ChildPolicy::default(), rig.starter("good", Habits::default(), &cell));
    let root = rig.root(spec).await;
    ping(&Address::new(cell)).await;
    rig.until_status("root/broken", ActorStatus::Parked).await;
    let last = rig.directory().placeholder("root/broken").unwrap().last_exit.unwrap();
    assert!(last.text.contains("its arguments panicked: no arguments at "), "{}", last.text);
    rig.finish(&root).await;
}

#[tokio::test(start_paused = true)]
async fn temporary_children_are_forgotten_and_a_significant_one_ends_the_supervisor() {
    let rig = Rig::new();
    let cells: [_; 3] = std::array::from_fn(|_| AddressCell::new());
    let temporary = ChildPolicy { restart: Restart::Temporary, ..ChildPolicy::default() };
    let main =
        ChildPolicy { restart: Restart::Transient, significant: true, ..ChildPolicy::default() };
    let spec = SupervisorSpec::new(Strategy::OneForOne)
        .child(ChildPolicy::default(), rig.starter("helper", Habits::default(), &cells[0]))
        .child(temporary, rig.starter("once", Habits::default(), &cells[1]))
        .child(main, rig.starter("main", Habits::default(), &cells[2]));
    let root = rig.root(spec).await;
    let [_, once, main] = cells.map(Address::new);
    fail(&rig, &once, "root/once").await;
    until(|| once.is_closed()).await;
    assert_eq!(rig.status("root/once"), None);
    // An abnormal end of the significant one is not a planned end.
    fail(&rig, &main, "root/main").await;
    ping(&main).await;
    main.try_send(WorkMsg::Finish).unwrap();
    assert_eq!(root.handle.ended().await, ExitReason::Finished);
    rig.directory().wait_empty().await;
    assert_eq!(rig.log().last().unwrap(), "helper stopped: parent_ended");
}

/// `root` over `store` and a supervisor `service` over `worker`.
async fn two_levels(
    rig: &Rig,
    service: ChildPolicy,
) -> (Child<SupervisorMsg>, Address<WorkMsg>, Address<WorkMsg>) {
    let (store, worker) = (AddressCell::new(), AddressCell::new());
    let (cell, log) = (Arc::clone(&worker), Arc::clone(&rig.log));
    let spec = SupervisorSpec::new(Strategy::RestForOne)
        .siblings_stop_for(StopReason::StoreLost)
        .child(escalating(), rig.starter("store", Habits::default(), &store))
        .supervisor(service, SpawnSpec::new("service"), move || {
            SupervisorSpec::new(Strategy::OneForOne)
                .child(escalating(), starter("worker", Habits::default(), &cell, &log))
        });
    let root = rig.root(spec).await;
    let (store, worker) = (Address::new(store), Address::new(worker));
    ping(&store).await;
    ping(&worker).await;
    rig.log.lock().clear();
    (root, store, worker)
}

#[tokio::test(start_paused = true)]
async fn the_loss_of_the_store_stops_the_service_for_that_reason_and_restarts_both() {
    let rig = Rig::new();
    let (root, store, worker) = two_levels(&rig, ChildPolicy::default()).await;
    fail(&rig, &store, "root/store").await;
    ping(&worker).await;
    assert_eq!(
        rig.log(),
        ["store failed: broken", "worker stopped: store_lost", "store start", "worker start"]
    );
    // The workers' address outlived its supervisor.
    assert_eq!(worker.generation(), 2);
    let node = rig.directory().find("root/service/worker").unwrap();
    assert_eq!((node.generation, rig.directory().orphans().len()), (2, 0)); // I9
    rig.finish(&root).await;
}

#[tokio::test(start_paused = true)]
async fn a_killed_supervisor_takes_its_children_along_and_comes_back_with_them() {
    // I8, I9
    let rig = Rig::new();
    let (root, store, worker) = two_levels(&rig, ChildPolicy::default()).await;
    rig.directory().find("root/service").unwrap().kill();
    until(|| rig.directory().find("root/service/worker").is_none()).await;
    assert!(matches!(worker.try_send(WorkMsg::Fail), Err(SendError::Restarting(_))));
    ping(&worker).await;
    assert_eq!((store.generation(), worker.generation()), (1, 2));
    assert!(rig.directory().orphans().is_empty());
    rig.finish(&root).await;
}

#[tokio::test(start_paused = true)]
async fn a_supervisor_that_is_given_up_closes_the_addresses_below_it() {
    let rig = Rig::new();
    let (root, store, worker) = two_levels(&rig, ChildPolicy::default()).await;
    // The worker escalates, so its supervisor fails; for good, so it is parked.
    worker.try_send(WorkMsg::FailForGood).unwrap();
    rig.until_status("root/service", ActorStatus::Parked).await;
    assert!(matches!(worker.try_send(WorkMsg::Fail), Err(SendError::Closed(_))));
    ping(&store).await;
    let place = rig.directory().placeholder("root/service").unwrap();
    assert!((place.control)(PlaceOrder::Restart { by: "ann".into() }));
    ping(&worker).await;
    rig.finish(&root).await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_passes_its_reason_down_and_ends_the_deepest_first() {
    let rig = Rig::new();
    let (root, ..) = two_levels(&rig, ChildPolicy::default()).await;
    rig.finish(&root).await;
    assert_eq!(rig.log(), ["worker stopped: shutdown", "store stopped: shutdown"]);
}

#[tokio::test(start_paused = true)]
async fn two_children_of_one_name_are_refused_for_good() {
    let rig = Rig::new();
    let cell = AddressCell::new();
    let spec = SupervisorSpec::new(Strategy::OneForOne)
        .child(ChildPolicy::default(), rig.starter("a", Habits::default(), &cell))
        .child(ChildPolicy::default(), rig.starter("a", Habits::default(), &cell));
    let spawned = rig.spawner.spawn::<SupervisorActor>(SpawnSpec::new("root"), spec).await;
    let error = spawned.unwrap_err();
    assert!(error.permanent && error.error == "two children are named a", "{error}");
}

#[tokio::test(start_paused = true)]
async fn orders_that_cannot_be_carried_out_are_refused_with_a_reason() {
    let rig = Rig::new();
    let (root, [_a]) = rig.workers(Strategy::OneForOne, ChildPolicy::default(), ["a"]).await;
    let (reply, answer) = oneshot::channel();
    let (segment, by) = ("b".to_owned(), "ann".to_owned());
    let message = SupervisorMsg::Restart { segment, by, reply: Some(reply) };
    root.address.send(message).await.unwrap();
    assert_eq!(answer.await.unwrap(), Err(OrderRefused::Unknown));
    let (reply, answer) = oneshot::channel();
    let (segment, by) = ("a".to_owned(), "ann".to_owned());
    root.address.send(SupervisorMsg::Stop { segment, by, reply: Some(reply) }).await.unwrap();
    assert_eq!(answer.await.unwrap(), Ok(()));
    rig.until_status("root/a", ActorStatus::Parked).await;
    rig.finish(&root).await;
}

#[tokio::test(start_paused = true)]
async fn a_child_that_never_starts_uses_up_its_intensity_and_no_more() {
    // I8
    let rig = Rig::new();
    let cell = AddressCell::new();
    let left = Arc::new(AtomicU32::new(1_000));
    let never = Habits { bad_starts: Arc::clone(&left), ..Habits::default() };
    let spec = SupervisorSpec::new(Strategy::OneForOne)
        .child(ChildPolicy::default(), rig.starter("never", never, &cell));
    let root = rig.root(spec).await;
    rig.until_status("root/never", ActorStatus::Parked).await;
    tokio::time::sleep(ms(600_000)).await;
    assert_eq!(left.load(Ordering::Relaxed), 994);
    rig.finish(&root).await;
}
