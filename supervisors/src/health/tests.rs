use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rookery_actors::runtime::{ChildStarter, SpawnSpec};
use rookery_messages::address::{Address, AddressCell};
use rookery_messages::child::{ChildPolicy, Strategy};

use super::*;
use crate::supervisor::SupervisorSpec;
use crate::testing::*;

fn lines(readiness: &Readiness) -> Vec<String> {
    let line = |c: &Component| match &c.reason {
        None => format!("{} ok", c.name),
        Some(reason) => format!("{}: {reason}", c.name),
    };
    readiness.components.iter().map(line).collect()
}

#[tokio::test(start_paused = true)]
async fn readiness_names_each_component_and_why_it_is_not_ready() {
    let rig = Rig::new();
    let cells: [_; 3] = std::array::from_fn(|_| AddressCell::new());
    let (main, spare, log) = (Arc::clone(&cells[1]), Arc::clone(&cells[2]), Arc::clone(&rig.log));
    let spec = SupervisorSpec::new(Strategy::RestForOne)
        .child(ChildPolicy::default(), rig.starter("store", Habits::default(), &cells[0]))
        .supervisor(ChildPolicy::default(), SpawnSpec::new("providers"), move || {
            SupervisorSpec::new(Strategy::OneForOne)
                .child(ChildPolicy::default(), starter("main", Habits::default(), &main, &log))
                .child(ChildPolicy::default(), starter("spare", Habits::default(), &spare, &log))
        });
    let bound = Arc::new(AtomicBool::new(false));
    let listening = Arc::clone(&bound);
    let health = Health::new(Inspector::new(Arc::clone(rig.directory())))
        .actor("store", "root/store")
        .group("providers", "root/providers", Needs::Any)
        .check(
            "gateway",
            Arc::new(move || {
                let bound = listening.load(Ordering::Relaxed);
                if bound { Ok(()) } else { Err("does not listen yet".to_owned()) }
            }),
        );
    assert!(!health.readiness().ready && !health.liveness().alive);

    let root = rig.root(spec).await;
    let [store, main, spare] = cells.map(Address::new);
    for address in [&store, &main, &spare] {
        ping(address).await;
    }
    let seen = health.readiness();
    assert!(!seen.ready);
    assert_eq!(
        lines(&seen),
        ["store ok", "providers/main ok", "providers/spare ok", "gateway: does not listen yet"]
    );
    bound.store(true, Ordering::Relaxed);
    assert!(health.readiness().ready);

    // One of the providers is enough, and the other is shown.
    main.try_send(WorkMsg::FailForGood).unwrap();
    rig.until_status("root/providers/main", ActorStatus::Parked).await;
    let seen = health.readiness();
    assert!(seen.ready);
    assert_eq!(lines(&seen)[1], "providers/main: parked (failed: token revoked)");
    spare.try_send(WorkMsg::FailForGood).unwrap();
    rig.until_status("root/providers/spare", ActorStatus::Parked).await;
    assert!(!health.readiness().ready);

    store.try_send(WorkMsg::Fail).unwrap();
    rig.until_status("root/store", ActorStatus::Restarting).await;
    assert_eq!(lines(&health.readiness())[0], "store: restarting (failed: broken)");
    rig.finish(&root).await;
}

#[tokio::test(start_paused = true)]
async fn a_group_that_needs_all_is_not_ready_while_one_of_a_channels_parts_is_down() {
    let rig = Rig::new();
    let (cell, log) = (AddressCell::new(), Arc::clone(&rig.log));
    let intake = Arc::clone(&cell);
    let spec = SupervisorSpec::new(Strategy::OneForOne).supervisor(
        ChildPolicy::default(),
        SpawnSpec::new("webhook.ci"),
        move || {
            SupervisorSpec::new(Strategy::OneForOne)
                .child(ChildPolicy::default(), starter("intake", Habits::default(), &intake, &log))
        },
    );
    let health = Health::new(Inspector::new(Arc::clone(rig.directory()))).group(
        "channels",
        "root",
        Needs::All,
    );
    let root = rig.root(spec).await;
    let intake = Address::new(cell);
    ping(&intake).await;
    assert!(health.readiness().ready);
    intake.try_send(WorkMsg::FailForGood).unwrap();
    rig.until_status("root/webhook.ci/intake", ActorStatus::Parked).await;
    let seen = health.readiness();
    assert!(!seen.ready);
    assert_eq!(
        lines(&seen),
        ["channels/webhook.ci: root/webhook.ci/intake: parked (failed: token revoked)"]
    );
    rig.finish(&root).await;
}

#[tokio::test(start_paused = true)]
async fn the_service_is_not_ready_before_all_supervisors_have_made_their_first_starts() {
    let rig = Rig::new();
    let inspector = Inspector::new(Arc::clone(rig.directory()));
    let health = Arc::new(Health::new(inspector).group("channels", "root", Needs::Any));
    // Whether the service was ready while a channel's part was about to be built.
    let early: Arc<Mutex<Vec<bool>>> = Arc::default();
    let channel = |name: &'static str| {
        let (health, early, log) = (Arc::clone(&health), Arc::clone(&early), Arc::clone(&rig.log));
        move || {
            let (health, early, log) = (Arc::clone(&health), Arc::clone(&early), Arc::clone(&log));
            let part = ChildStarter::<Worker>::new(SpawnSpec::new(name), move || {
                early.lock().push(health.readiness().ready);
                WorkArgs { name, log: Arc::clone(&log), habits: Habits::default() }
            });
            SupervisorSpec::new(Strategy::OneForOne).child(ChildPolicy::default(), part)
        }
    };
    let spec = SupervisorSpec::new(Strategy::OneForOne)
        .supervisor(ChildPolicy::default(), SpawnSpec::new("a"), channel("first"))
        .supervisor(ChildPolicy::default(), SpawnSpec::new("b"), channel("second"));
    let root = rig.root(spec).await;
    while !health.readiness().ready {
        tokio::task::yield_now().await;
    }
    assert_eq!(*early.lock(), [false, false]);
    rig.finish(&root).await;
}

#[tokio::test(start_paused = true)]
async fn the_tree_is_not_alive_while_a_permanent_actor_is_stuck() {
    let rig = Rig::new();
    let (root, [a]) = rig.workers(Strategy::OneForOne, ChildPolicy::default(), ["a"]).await;
    let health = Health::new(Inspector::new(Arc::clone(rig.directory())));
    assert!(health.liveness().alive);
    a.try_send(WorkMsg::Hang).unwrap();
    tokio::time::sleep(STUCK_AFTER - Duration::from_secs(1)).await;
    assert!(health.liveness().alive);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let seen = health.liveness();
    assert_eq!(seen.reason.as_deref(), Some("root/a has Hang in hand for 61 s"));
    assert!(!seen.alive);
    rig.finish(&root).await;
}
