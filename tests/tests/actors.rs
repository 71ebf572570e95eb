//! The live tree: what operators see, and what stopping, killing and restarting parts of it does.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails at the place of the fault"
)]

use rookery_messages::tree::TreeNode;
use rookery_tests::apart::check_apart;
use rookery_tests::quiet::{live_of_kind, nodes};
use rookery_tests::wait::until;
use rookery_tests::{Call, Config, Gate, Reply, World, program};

async fn world() -> World {
    World::start(program!(), Config::new()).await
}

async fn node(world: &World, path: &str) -> TreeNode {
    let answer = world.api.get(&format!("/admin/v1/actors/{path}")).await;
    serde_json::from_value(answer).unwrap()
}

// I9
#[tokio::test]
async fn the_tree_shows_a_running_turn_with_its_model_call_and_its_tools_below_their_session() {
    let world = world().await;
    let gate = Gate::new();
    let ask = Reply::calls([Call::hold("a"), Call::hold("b")]);
    world.model.script("go", [Reply::stream().gate(&gate).then(ask), Reply::text("done")]);
    let id = world.api.tell("c", "go").await;
    gate.reached().await;
    let tree = world.api.tree().await;
    rookery_tests::quiet::check_shape(&tree).unwrap();
    let model = live_of_kind(&tree, "model");
    assert_eq!(model.len(), 1);
    assert!(model[0].contains(&format!("turn/{id}/model/")), "{model:?}");
    gate.open();
    world.file("a.started").await;
    world.file("b.started").await;
    let tree = world.api.tree().await;
    rookery_tests::quiet::check_shape(&tree).unwrap();
    let tools = live_of_kind(&tree, "tool");
    assert_eq!(tools.len(), 2);
    assert!(tools.iter().all(|path| path.contains("/batch/") && path.contains(&id)), "{tools:?}");
    for kind in ["store", "observer", "session", "turn", "batch"] {
        assert!(!live_of_kind(&tree, kind).is_empty(), "no {kind} in the tree");
    }
    let seen = nodes(&tree);
    assert!(seen.iter().all(|node| node.mailbox.capacity > 0), "every mailbox has a cap");
    world.put("a.go", "");
    world.put("b.go", "");
    assert_eq!(world.api.ended(&id).await.text(), "done");
    world.finish().await;
}

// I8
#[tokio::test]
async fn a_killed_observer_comes_back_and_running_turns_do_not_notice() {
    let world = world().await;
    let gate = Gate::new();
    world.model.script("go", [Reply::stream().delta("a").gate(&gate).delta("b").complete("stop")]);
    let id = world.api.tell("c", "go").await;
    gate.reached().await;
    let (observer, tree) = ("root/service/observer", world.api.tree().await);
    let before = node(&world, observer).await;
    assert!((200..300).contains(&world.api.act(observer, "kill").await.status));
    until("the observer is back", || async {
        let now = node(&world, observer).await;
        if now.generation > before.generation { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .await;
    check_apart(&tree, &world.api.tree().await, observer, 1).unwrap();
    gate.open();
    let turn = world.api.ended(&id).await;
    assert_eq!((turn.text(), turn.attempts), ("ab", 1));
    world.finish().await;
}

// I8
#[tokio::test]
async fn a_turn_whose_actor_is_killed_is_begun_again_and_other_conversations_go_on() {
    let world = world().await;
    let gate = Gate::new();
    let held = Reply::stream().gate(&gate).delta("first try").complete("stop");
    world.model.script("victim", [held, Reply::text("second try")]);
    let id = world.api.tell("c", "victim").await;
    gate.reached().await;
    let before = world.api.tree().await;
    let turns = live_of_kind(&before, "turn");
    assert_eq!(turns.len(), 1);
    assert!((200..300).contains(&world.api.act(&turns[0], "kill").await.status));
    assert_eq!(world.api.say("d", "neighbour").await.result(), "answered");
    let turn = world.api.ended(&id).await;
    check_apart(&before, &world.api.tree().await, &turns[0], 0).unwrap();
    assert_eq!((turn.text(), turn.attempts), ("second try", 2));
    world.model.dropped(0).await;
    assert_eq!(world.api.transcript("c").await, ["user: victim", "assistant: second try"]);
    world.finish().await;
}

#[tokio::test]
async fn a_turn_stopped_by_an_operator_is_cancelled() {
    let world = world().await;
    world.model.script("go", [Reply::stream().delta("so far").hang()]);
    let id = world.api.tell("c", "go").await;
    world.model.counted(1).await;
    let turns = live_of_kind(&world.api.tree().await, "turn");
    assert!((200..300).contains(&world.api.act(&turns[0], "stop").await.status));
    assert_eq!(world.api.ended(&id).await.result(), "cancelled");
    world.model.dropped(0).await;
    world.finish().await;
}

// I8
#[tokio::test]
async fn sessions_are_made_again_after_their_router_was_restarted() {
    let world = world().await;
    world.api.say("c", "one").await;
    let (router, before) = ("root/service/sessions", world.api.tree().await);
    assert!((200..300).contains(&world.api.act(router, "restart").await.status));
    assert_eq!(world.api.say("c", "two").await.text(), "you said: two");
    check_apart(&before, &world.api.tree().await, router, 1).unwrap();
    assert_eq!(world.api.transcript("c").await.len(), 4);
    world.finish().await;
}

#[tokio::test]
async fn a_parallel_life_of_many_conversations_survives_kills_of_its_turns() {
    // I1, I8
    let world = world().await;
    world
        .model
        .rule("", |body| Reply::text(format!("re: {}", rookery_tests::model::last_user(body))));
    let before = world.api.tree().await;
    let mut turns = Vec::new();
    for n in 0..20 {
        turns.push(world.api.tell(&format!("c{}", n % 5), &format!("message {n}")).await);
        if n % 4 == 0 {
            for path in live_of_kind(&world.api.tree().await, "turn") {
                // It may have ended by now, which is as good.
                world.api.act(&path, "kill").await;
            }
        }
    }
    for (n, id) in turns.iter().enumerate() {
        let turn = world.api.ended(id).await;
        assert_eq!((turn.result(), turn.text()), ("answered", format!("re: message {n}").as_str()));
    }
    check_apart(&before, &world.api.tree().await, "root/service/sessions", 0).unwrap();
    for c in 0..5 {
        let transcript = world.api.transcript(&format!("c{c}")).await;
        let expected: Vec<String> = (0..20)
            .filter(|n| n % 5 == c)
            .flat_map(|n| [format!("user: message {n}"), format!("assistant: re: message {n}")])
            .collect();
        assert_eq!(transcript, expected);
    }
    world.finish().await;
}

// I1, I8
#[tokio::test]
async fn a_store_that_is_killed_or_restarted_comes_back_at_once_and_open_turns_go_on() {
    let world = world().await;
    for (n, verb) in ["kill", "restart"].into_iter().enumerate() {
        let gate = Gate::new();
        let held = Reply::stream().delta("half").gate(&gate).complete("stop");
        world.model.script(verb, [held, Reply::text("whole")]);
        let calling = world.api.tell(&format!("calling{n}"), verb).await;
        gate.reached().await;
        let up = format!("running{n}");
        let ask = Reply::calls([Call::shell(&format!("echo ran >> {up}.log"))]);
        world.model.script(&up, [ask, Reply::text("done")]);
        let running = world.api.tell(&up, &up).await;
        let before = node(&world, "root/store").await.generation;
        let began = tokio::time::Instant::now();
        assert!((200..300).contains(&world.api.act("root/store", verb).await.status));
        until("the store and the service are back", || async {
            let request = world.api.request(reqwest::Method::GET, "/admin/v1/actors/root/store");
            let answer = request.send().await.map_err(|error| error.to_string())?;
            let now: TreeNode = answer.json().await.map_err(|error| error.to_string())?;
            if now.generation > before { Ok(()) } else { Err(format!("{now:?}")) }
        })
        .await;
        // Nobody waits for answers that a lost store can't give.
        assert!(began.elapsed() < std::time::Duration::from_secs(12), "{:?}", began.elapsed());
        let turn = world.api.ended(&calling).await;
        assert_eq!((turn.text(), turn.attempts), ("whole", 2), "{verb}");
        assert_eq!(world.api.ended(&running).await.text(), "done", "{verb}");
        // I5: not at all, if the store was lost between its start and its run; never twice.
        assert!(["", "ran\n"].contains(&world.read(&format!("{up}.log")).as_str()));
        gate.open();
    }
    world.finish().await;
}

// I8
#[tokio::test]
async fn turns_go_on_after_an_operator_restarts_what_is_above_them() {
    let world = world().await;
    for (n, path) in ["root/service/sessions", "root/service"].into_iter().enumerate() {
        let key = format!("turn {n}");
        let gate = Gate::new();
        let held = Reply::stream().delta("half").gate(&gate).complete("stop");
        world.model.script(&key, [held, Reply::text("whole")]);
        let id = world.api.tell(&format!("c{n}"), &key).await;
        gate.reached().await;
        assert!((200..300).contains(&world.api.act(path, "restart").await.status));
        world.model.counted(2 * (n + 1)).await;
        let turn = world.api.ended(&id).await;
        assert_eq!((turn.result(), turn.text()), ("answered", "whole"), "{path}");
        gate.open();
    }
    world.finish().await;
}

// I8
#[tokio::test]
async fn a_provider_actor_that_restarts_costs_no_turn() {
    let world = World::start(program!(), Config::new().provider("max_concurrency = 1")).await;
    let gate = Gate::new();
    world.model.script("first", [Reply::stream().gate(&gate).delta("one").complete("stop")]);
    let first = world.api.tell("a", "first").await;
    gate.reached().await;
    // This one waits for the only slot, and its wish dies with the actor.
    let second = world.api.tell("b", "second").await;
    world.api.turn_when(&second, "it runs", |turn| turn.state == "running").await;
    let path = "root/service/providers/main";
    assert!((200..300).contains(&world.api.act(path, "kill").await.status));
    assert_eq!(world.api.ended(&second).await.text(), "you said: second");
    gate.open();
    assert_eq!(world.api.ended(&first).await.text(), "one");
    world.finish().await;
}

#[tokio::test]
async fn nobody_can_stop_the_way_by_which_orders_come() {
    let world = world().await;
    for path in ["root/service/gateway", "root/service", "root"] {
        let answer = world.api.act(path, "stop").await;
        assert_eq!(answer.status, 409, "{path}: {answer:?}");
        assert!(answer.code().ends_with("_protected"), "{path}: {answer:?}");
    }
    assert_eq!(world.api.say("c", "hello").await.result(), "answered");
    world.finish().await;
}

#[tokio::test]
async fn the_gravest_acts_are_on_record_though_they_end_what_would_write_it() {
    let mut world = world().await;
    let killed = world.cli(&["actor", "kill", "root/service", "--reason", "a test"]).await;
    // The gateway goes with it: the answer may be lost.
    assert!(matches!(killed.code, Some(0 | 4)), "{killed:?}");
    world.service.ready().await;
    let rows = world.api.get("/admin/v1/audit").await.to_string();
    assert!(rows.contains("actor.kill") && rows.contains("root/service"), "{rows}");
    // By the end of its path, too; what follows is said.
    let stopped = world.cli(&["actor", "stop", "store"]).await;
    assert!(stopped.code == Some(0) && stopped.out.contains("actor restart"), "{stopped:?}");
    let restarted = world.cli(&["actor", "restart", "root/store"]).await;
    assert_eq!(restarted.code, Some(0), "{restarted:?}");
    world.service.ready().await;
    let rows = world.api.get("/admin/v1/audit").await;
    let stop = rows.as_array().unwrap().iter().find(|row| row["action"] == "actor.stop");
    assert!(stop.is_some_and(|row| row["target"] == "root/store"), "{rows}");
    assert!(!world.service.log().contains("AuditRow {"), "no row is dumped");
    assert_eq!(world.api.say("c", "hello").await.result(), "answered");
    world.finish().await;
}
