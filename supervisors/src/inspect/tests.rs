use rookery_messages::child::{ChildPolicy, Strategy};
use rookery_messages::exit::ExitReason;

use super::*;
use crate::testing::*;

#[tokio::test(start_paused = true)]
async fn a_node_is_found_by_its_path_with_its_own_view() {
    let rig = Rig::new();
    let (root, _) = rig.workers(Strategy::OneForOne, ChildPolicy::default(), ["a/b", "a"]).await;
    let inspector = Inspector::new(Arc::clone(rig.directory()));
    let node = inspector.node("root/a/b").await.unwrap();
    assert_eq!((node.path.as_str(), node.kind.as_str()), ("root/a/b", "worker"));
    assert_eq!(node.detail, serde_json::json!({ "name": "a/b" }));
    let top = inspector.node("root").await.unwrap();
    assert_eq!(top.children.len(), 2);
    assert_eq!(top.detail["children"][1]["standing"], "up");
    let missing = inspector.node("root/a/c").await.unwrap_err();
    assert_eq!(missing, InspectError::NotFound("root/a/c".into()));
    rig.finish(&root).await;
    assert!(inspector.node("root").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn operations_act_by_path_and_refuse_what_they_cannot_do() {
    let rig = Rig::new();
    let (root, [a, b]) = rig.workers(Strategy::OneForOne, ChildPolicy::default(), ["a", "b"]).await;
    let inspector = Inspector::new(Arc::clone(rig.directory()));
    let act = |operation, path| inspector.operate(operation, path, "ann");

    act(Operation::Pause, "root/a").unwrap();
    assert_eq!(rig.status("root/a"), Some(ActorStatus::Paused));
    act(Operation::Resume, "root/a").unwrap();
    assert_eq!(act(Operation::Pause, "root"), Err(InspectError::NotPausable("supervisor")));
    for operation in [Operation::Stop, Operation::Kill, Operation::Restart] {
        assert_eq!(act(operation, "root"), Err(InspectError::Root(operation.as_str())));
    }
    assert!(matches!(act(Operation::Stop, "root/x"), Err(InspectError::NotFound(_))));

    act(Operation::Kill, "root/a").unwrap();
    until(|| a.generation() == 2).await;
    act(Operation::Restart, "root/a").unwrap();
    until(|| a.generation() == 3).await;
    let by_ann = ExitReason::Stopped { reason: StopReason::Operator("ann".into()) };
    let last = inspector.node("root/a").await.unwrap().last_exit.unwrap();
    assert_eq!(last.reason, by_ann);

    act(Operation::Stop, "root/b").unwrap();
    rig.until_status("root/b", ActorStatus::Parked).await;
    let down = InspectError::Down { path: "root/b".into(), status: "parked" };
    assert_eq!(act(Operation::Kill, "root/b"), Err(down));
    act(Operation::Stop, "root/b").unwrap();
    act(Operation::Restart, "root/b").unwrap();
    until(|| b.generation() == 2).await;
    rig.finish(&root).await;
}

#[tokio::test(start_paused = true)]
async fn what_brings_the_orders_is_restarted_but_never_stopped_by_one() {
    let rig = Rig::new();
    let (root, [gate, other]) =
        rig.workers(Strategy::OneForOne, ChildPolicy::default(), ["in/gate", "gates"]).await;
    let inspector = Inspector::new(Arc::clone(rig.directory())).lifeline("root/in/gate");
    let act = |operation, path| inspector.operate(operation, path, "ann");
    let refused = Err(InspectError::Lifeline("root/in/gate".into()));
    assert_eq!(act(Operation::Stop, "root/in/gate"), refused);
    act(Operation::Restart, "root/in/gate").unwrap();
    until(|| gate.generation() == 2).await;
    act(Operation::Kill, "root/in/gate").unwrap();
    until(|| gate.generation() == 3).await;
    act(Operation::Stop, "root/gates").unwrap();
    rig.until_status("root/gates", ActorStatus::Parked).await;
    assert_eq!(other.generation(), 1);
    rig.finish(&root).await;
}

#[tokio::test(start_paused = true)]
async fn only_a_supervisors_child_can_be_restarted() {
    let rig = Rig::new();
    let args = WorkArgs { name: "lone", log: Arc::clone(&rig.log), habits: Habits::default() };
    let spec = rookery_actors::runtime::SpawnSpec::new("lone");
    let lone = rig.spawner.spawn::<Parent>(spec, args).await.unwrap();
    until(|| rig.directory().find("lone/child").is_some()).await;
    let inspector = Inspector::new(Arc::clone(rig.directory()));
    let refused = inspector.operate(Operation::Restart, "lone/child", "ann");
    assert_eq!(refused, Err(InspectError::NotRestartable("lone/child".into())));
    inspector.operate(Operation::Stop, "lone/child", "ann").unwrap();
    until(|| rig.directory().find("lone/child").is_none()).await;
    lone.address.stop(StopReason::User);
    rig.directory().wait_empty().await;
}

#[tokio::test(start_paused = true)]
async fn actors_stuck_in_a_message_are_found_the_longest_first() {
    let rig = Rig::new();
    let (root, [a, b, _c]) =
        rig.workers(Strategy::OneForOne, ChildPolicy::default(), ["a", "b", "c"]).await;
    let inspector = Inspector::new(Arc::clone(rig.directory()));
    a.try_send(WorkMsg::Hang).unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    b.try_send(WorkMsg::Hang).unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let seen = |limit| -> Vec<String> {
        let stuck = inspector.stuck(Duration::from_secs(limit));
        stuck.into_iter().map(|stuck| format!("{} {}", stuck.path, stuck.in_hand.message)).collect()
    };
    assert_eq!(seen(4), ["root/a Hang", "root/b Hang"]);
    assert_eq!(seen(8), ["root/a Hang"]);
    assert_eq!(seen(11), [""; 0]);
    rig.finish(&root).await;
}
