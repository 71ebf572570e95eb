//! Work that turns hand on: delegates that are waited for, tasks that go on by themselves.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails at the place of the fault"
)]

use rookery_tests::model::result_texts;
use rookery_tests::quiet::live_of_kind;
use rookery_tests::wait::until;
use rookery_tests::{Call, Config, Gate, Reply, World, program};
use serde_json::{Value, json};

fn delegate(task: &str) -> Call {
    Call::new("delegate", json!({ "task": task }))
}

fn spawn(task: &str) -> Call {
    Call::new("spawn_subagent", json!({ "task": task }))
}

fn write(path: &str) -> Call {
    Call::new("file_write", json!({"path": path, "content": "written\n"}))
}

/// The turns that `parent` handed on, as the API lists them, newest first.
async fn children(world: &World, parent: &str) -> Vec<Value> {
    let all = world.api.get("/v1/turns?limit=100").await;
    let all = all.as_array().unwrap().clone();
    all.into_iter().filter(|turn| turn["parent"]["turn"] == parent).collect()
}

/// Waits for the one child of a turn.
async fn child_of(world: &World, parent: &str) -> Value {
    until("the turn has a child", || async {
        children(world, parent).await.into_iter().next().ok_or_else(|| "no child".to_owned())
    })
    .await
}

/// The results the model read in the last request about `key`.
fn results(world: &World, key: &str) -> Vec<String> {
    result_texts(world.model.requests_for(key).last().unwrap())
}

async fn task_when(world: &World, id: &str, state: &str) -> Value {
    let path = format!("/v1/turns/{id}");
    until(&format!("task {id} is {state}"), || async {
        let turn = world.api.get(&path).await;
        if turn["task"] == state { Ok(turn) } else { Err(turn.to_string()) }
    })
    .await
}

// R15, T2
#[tokio::test]
async fn a_delegate_runs_below_its_call_with_what_was_granted_and_its_answer_is_the_result() {
    let world = World::start(program!(), Config::new()).await;
    world.put("note.txt", "forty-two\n");
    let call = Call::new("delegate", json!({"task": "look it up", "tools": ["file_read"]}));
    world.model.script("ask another", [Reply::calls([call]), Reply::text("it says so")]);
    let gate = Gate::new();
    let read = Call::new("file_read", json!({"path": "note.txt"}));
    world.model.script(
        "look it up",
        [
            Reply::calls([read, write("new.txt")]),
            Reply::stream().gate(&gate).delta("42").complete("stop"),
        ],
    );
    let id = world.api.tell("c", "ask another").await;
    world.model.counted(3).await;
    let turns = live_of_kind(&world.api.tree().await, "turn");
    let inner = turns.iter().find(|path| path.contains("/tool/")).unwrap();
    assert!(inner.contains(&format!("turn/{id}/batch/1/tool/")), "{turns:?}");
    gate.open();
    let turn = world.api.ended(&id).await;
    assert_eq!((turn.text(), turn.call_states()), ("it says so", vec!["succeeded"]));
    assert_eq!(results(&world, "ask another"), ["42"]);
    let child = child_of(&world, &id).await;
    assert_eq!((&child["origin"], &child["outcome"]), (&json!("sub_turn"), &json!("answered")));
    assert_eq!(child["parent"]["mode"], "delegate");
    assert_ne!(child["conversation_id"], json!(turn.conversation));
    let states: Vec<&Value> =
        child["calls"].as_array().unwrap().iter().map(|call| &call["state"]).collect();
    // V-D4: what was not handed over does not run, and was not shown.
    assert_eq!(states, [&json!("succeeded"), &json!("blocked")]);
    let shown = world.model.requests_for("look it up")[0]["tools"].clone();
    let shown: Vec<&str> =
        shown.as_array().unwrap().iter().map(|t| t["function"]["name"].as_str().unwrap()).collect();
    assert_eq!(shown, ["file_read"]);
    assert!(!world.work("new.txt").exists());
    world.finish().await;
}

// V-G11
#[tokio::test]
async fn delegates_of_one_response_run_at_once_and_of_two_that_are_the_same_both_run() {
    let world = World::start(program!(), Config::new()).await;
    let calls = [delegate("part one"), delegate("part two"), delegate("part one")];
    world.model.script("split it", [Reply::calls(calls), Reply::text("joined")]);
    let gate = Gate::new();
    let held = |text: &str| Reply::stream().gate(&gate).delta(text).complete("stop");
    world.model.script("part one", [held("1"), held("1")]);
    world.model.script("part two", [held("2")]);
    let id = world.api.tell("c", "split it").await;
    // All three wait for the model together.
    world.model.counted(4).await;
    gate.open();
    let turn = world.api.ended(&id).await;
    assert_eq!(turn.call_states(), ["succeeded"; 3]);
    assert_eq!(results(&world, "split it"), ["1", "2", "1"]);
    assert_eq!(children(&world, &id).await.len(), 3);
    world.finish().await;
}

#[tokio::test]
async fn how_deep_and_how_often_work_is_handed_on_is_bounded() {
    let config = Config::new()
        .extra("[runtime_profiles.default.delegation]\nmax_depth = 2\nmax_children = 2\n");
    let world = World::start(program!(), config).await;
    world.model.script("floor zero", [Reply::calls([delegate("floor one")]), Reply::text("up")]);
    world.model.script("floor one", [Reply::calls([delegate("floor two")]), Reply::text("up")]);
    world.model.script("floor two", [Reply::calls([delegate("floor three")]), Reply::text("up")]);
    let turn = world.api.say("c", "floor zero").await;
    assert_eq!(turn.call_states(), ["succeeded"]);
    let refused = results(&world, "floor two").pop().unwrap();
    assert!(refused.contains("`max_depth` is 2"), "{refused}");
    assert!(world.model.requests_for("floor three").is_empty());
    let calls = [delegate("one of many"), delegate("two of many"), delegate("three of many")];
    world.model.script("too many", [Reply::calls(calls), Reply::text("enough")]);
    let turn = world.api.say("c", "too many").await;
    assert_eq!(turn.call_states().iter().filter(|state| **state == "failed").count(), 1);
    let texts = results(&world, "too many");
    assert!(texts.iter().any(|text| text.contains("`max_children`")), "{texts:?}");
    world.finish().await;
}

// V-M29, R10
#[tokio::test]
async fn a_child_that_would_have_more_than_its_parent_is_refused_by_the_name_of_the_field() {
    let config = Config::new()
        .level("supervised")
        .risk("allowed_commands = [\"ls\"]")
        .risk("excluded_tools = [\"file_edit\"]")
        .extra(
            "[agents.free]\nprovider = \"main\"\nrisk_profile = \"free\"\nworkspace = \"{dir}/work\"\n\
             channels = []\n[risk_profiles.free]\nlevel = \"full\"\n",
        );
    let world = World::start(program!(), config).await;
    let broader = [
        (json!({"task": "more", "level": "full"}), "`level`"),
        (json!({"task": "more", "tools": ["file_edit"]}), "`tools`"),
        (json!({"task": "more", "allowed_commands": ["ls", "rm"]}), "`allowed_commands`"),
        (json!({"task": "more", "max_iterations": 999}), "`max_iterations`"),
        (json!({"task": "more", "agent": "free"}), "`level`"),
        (json!({"task": "more", "agent": "nobody"}), "`agent`"),
    ];
    let calls = broader.iter().map(|(arguments, _)| Call::new("delegate", arguments.clone()));
    world.model.script("try for more", [Reply::calls(calls), Reply::text("no")]);
    let turn = world.api.say("c", "try for more").await;
    assert_eq!(turn.call_states(), ["failed"; 6]);
    for (text, (_, field)) in results(&world, "try for more").iter().zip(&broader) {
        assert!(text.contains(field), "{field}: {text}");
    }
    assert!(children(&world, &turn.id).await.is_empty());
    let narrower = json!({"task": "look only", "level": "readonly", "max_iterations": 1});
    let calls = [Call::new("delegate", narrower)];
    world.model.script("try for less", [Reply::calls(calls), Reply::text("yes")]);
    world.model.script("look only", [Reply::calls([write("a.txt")]), Reply::text("seen")]);
    let turn = world.api.say("c", "try for less").await;
    let child = child_of(&world, &turn.id).await;
    assert_eq!(child["calls"][0]["state"], "blocked");
    assert_eq!(child["error"]["code"], "iteration_cap");
    assert!(!world.work("a.txt").exists());
    world.finish().await;
}

// V-H18, V-H21
#[tokio::test]
async fn a_childs_question_is_put_to_its_parents_people_and_its_grants_start_empty() {
    let world = World::start(program!(), Config::new().level("supervised")).await;
    let mut ws = world.api.ws("c").await;
    world.model.script("write myself", [Reply::calls([write("a.txt")]), Reply::text("done")]);
    ws.say("m1", "write myself").await;
    let asked = ws.until("approval").await.pop().unwrap();
    ws.send(&json!({"type": "approval", "id": asked["id"], "decision": "always"})).await;
    ws.until("ended").await;
    world.model.script("let it write", [Reply::calls([delegate("just write")]), Reply::text("ok")]);
    world.model.script("just write", [Reply::calls([write("a.txt")]), Reply::text("wrote")]);
    ws.say("m2", "let it write").await;
    // The same call was always approved to the parent: the child asks all the same.
    let asked = ws.until("approval").await.pop().unwrap();
    assert_eq!(asked["tool"], "file_write");
    let parent = asked["asked_for"]["turn"].as_str().unwrap().to_owned();
    let child = child_of(&world, &parent).await;
    assert_eq!((&asked["turn"], &asked["asked_for"]["depth"]), (&child["id"], &json!(1)));
    assert_eq!(child["state"], "waiting_approval");
    ws.send(&json!({"type": "approval", "id": asked["id"], "decision": "approve"})).await;
    let ended = ws.until("ended").await.pop().unwrap();
    assert_eq!((&ended["turn"], &ended["reply"]), (&json!(parent), &json!("ok")));
    assert_eq!(results(&world, "let it write"), ["wrote"]);
    world.finish().await;
}

// V-H21
#[tokio::test]
async fn where_nobody_can_be_asked_for_the_parent_nobody_is_asked_for_the_child() {
    let world = World::start(program!(), Config::new().level("supervised")).await;
    world.model.script("let it write", [Reply::calls([delegate("just write")]), Reply::text("ok")]);
    world.model.script("just write", [Reply::calls([write("a.txt")]), Reply::text("could not")]);
    let turn = world.api.say("c", "let it write").await;
    let child = child_of(&world, &turn.id).await;
    assert_eq!(child["calls"][0]["state"], "denied");
    assert!(!world.work("a.txt").exists());
    world.finish().await;
}

// I14, V-H21
#[tokio::test]
async fn a_shutdown_parks_a_parent_with_the_child_that_waits_for_a_person_and_both_go_on() {
    let config = Config::new().level("supervised").agent("approval_route = \"admin\"");
    let mut world = World::start(program!(), config.shutdown("drain_secs = 60")).await;
    world.model.script("let it write", [Reply::calls([delegate("just write")]), Reply::text("ok")]);
    world.model.script("just write", [Reply::calls([write("a.txt")]), Reply::text("wrote")]);
    let id = world.api.tell("c", "let it write").await;
    let child = child_of(&world, &id).await["id"].as_str().unwrap().to_owned();
    let asked = world.api.approval_of(&child).await;
    let ended = world.stop().await;
    assert!(ended.took.as_secs() < 30, "it waited for the person: {:?}", ended.took);
    world.service.restart().await;
    let again = world.api.approval_of(&child).await;
    assert_eq!(again["id"], asked["id"]);
    assert_eq!(world.api.decide(&again, &json!({"decision": "approve"})).await.status, 200);
    assert_eq!(world.api.ended(&id).await.text(), "ok");
    assert_eq!(results(&world, "let it write"), ["wrote"]);
    assert_eq!(world.read("a.txt"), "written\n");
    world.finish().await;
}

// I6
#[tokio::test]
async fn a_stop_of_the_parent_ends_all_that_is_below_it_and_each_turn_has_its_end() {
    let world = World::start(program!(), Config::new()).await;
    let calls = [delegate("first floor"), delegate("hang about")];
    world.model.script("deep", [Reply::calls(calls)]);
    world.model.script("first floor", [Reply::calls([delegate("second floor")])]);
    world.model.script("second floor", [Reply::calls([Call::hold("inner")])]);
    world.model.script("hang about", [Reply::stream().delta("thinking").hang()]);
    let id = world.api.tell("c", "deep").await;
    world.file("inner.started").await;
    world.model.counted(4).await;
    assert_eq!(live_of_kind(&world.api.tree().await, "turn").len(), 4);
    world.api.cancel(&id).await;
    let turn = world.api.ended(&id).await;
    assert_eq!((turn.result(), turn.call_states()), ("cancelled", vec!["interrupted"; 2]));
    // Before the parent's end was told, nothing below it lived any more.
    let below = children(&world, &id).await;
    let all = world.api.get("/v1/turns?limit=10").await;
    let outcomes: Vec<&Value> =
        all.as_array().unwrap().iter().map(|turn| &turn["outcome"]).collect();
    assert_eq!((below.len(), outcomes), (2, vec![&json!("cancelled"); 4]));
    world.finish().await;
}

// R15, I5
#[tokio::test]
async fn after_a_crash_parent_and_delegate_go_on_together_and_the_task_is_handed_on_once() {
    let mut world = World::start(program!(), Config::new()).await;
    world.model.script("resume it", [Reply::calls([delegate("long work")]), Reply::text("whole")]);
    let log = Call::shell("echo once >> log.txt");
    world
        .model
        .script("long work", [Reply::calls([log]), Reply::stream().hang(), Reply::text("kept")]);
    let id = world.api.tell("c", "resume it").await;
    world.model.counted(3).await;
    world.crash().await;
    let turn = world.api.ended(&id).await;
    assert_eq!((turn.text(), turn.call_states()), ("whole", vec!["succeeded"]));
    assert_eq!(results(&world, "resume it"), ["kept"]);
    assert_eq!(world.read("log.txt"), "once\n");
    let below = children(&world, &id).await;
    assert_eq!((below.len(), &below[0]["attempts"]), (1, &json!(2)));
    world.finish().await;
}

// T24
#[tokio::test]
async fn a_background_task_outlives_its_turn_and_its_state_says_what_became_of_it() {
    let world = World::start(program!(), Config::new()).await;
    let mut ws = world.api.ws("c").await;
    let gate = Gate::new();
    world.model.script("begin it", [Reply::calls([spawn("slow work")]), Reply::text("begun")]);
    let slow = Reply::stream().gate(&gate).delta("found").complete("stop");
    world.model.script("slow work", [slow]);
    ws.say("m1", "begin it").await;
    let ended = ws.until("ended").await.pop().unwrap();
    assert_eq!(ended["reply"], "begun");
    let parent = ended["turn"].as_str().unwrap().to_owned();
    let task = child_of(&world, &parent).await["id"].as_str().unwrap().to_owned();
    assert!(results(&world, "begin it")[0].contains(&task));
    task_when(&world, &task, "running").await;
    let tasks = |arguments: Value| Reply::calls([Call::new("tasks", arguments)]);
    world.model.script("what now", [tasks(json!({"action": "list"})), Reply::text("so")]);
    ws.say("m2", "what now").await;
    ws.until("ended").await;
    assert_eq!(results(&world, "what now"), [format!("{task} running")]);
    gate.open();
    let notice = ws.until("notice").await.pop().unwrap();
    let text = notice["text"].as_str().unwrap();
    assert!(text.contains(&task) && text.contains("done") && text.contains("found"), "{text}");
    task_when(&world, &task, "done").await;
    let wanted = json!({"action": "result", "task": task});
    world.model.script("give it", [tasks(wanted.clone()), Reply::text("so")]);
    ws.say("m3", "give it").await;
    ws.until("ended").await;
    assert_eq!(results(&world, "give it"), ["found"]);
    // Another conversation knows nothing of it.
    world.model.script("not yours", [tasks(wanted), Reply::text("so")]);
    let other = world.api.say("elsewhere", "not yours").await;
    assert_eq!(other.call_states(), ["failed"]);
    let listed = world.cli(&["turns", "list"]).await;
    assert!(listed.out.contains(&format!("task of {parent}")), "{}", listed.out);
    world.finish().await;
}

// T24
#[tokio::test]
async fn a_background_task_goes_on_after_a_crash_and_can_be_cancelled_by_the_model() {
    let mut world = World::start(program!(), Config::new()).await;
    world.model.script(
        "begin two",
        [Reply::calls([spawn("work on"), spawn("drop this")]), Reply::text("begun")],
    );
    world.model.script("work on", [Reply::stream().hang(), Reply::text("after the crash")]);
    world.model.script("drop this", [Reply::stream().hang(), Reply::stream().hang()]);
    let turn = world.api.say("c", "begin two").await;
    world.model.counted(4).await;
    world.crash().await;
    let below = children(&world, &turn.id).await;
    let id = |n: usize| below[n]["id"].as_str().unwrap().to_owned();
    let (dropped, kept) = (id(0), id(1));
    let done = task_when(&world, &kept, "done").await;
    assert_eq!((&done["reply"], &done["attempts"]), (&json!("after the crash"), &json!(2)));
    world.model.counted(6).await;
    let cancel = Call::new("tasks", json!({"action": "cancel", "task": dropped}));
    world.model.script("enough", [Reply::calls([cancel]), Reply::text("ok")]);
    world.api.say("c", "enough").await;
    let cancelled = task_when(&world, &dropped, "cancelled").await;
    assert_eq!(cancelled["outcome"], "cancelled");
    world.finish().await;
}

// T24
#[tokio::test]
async fn a_task_that_can_not_go_on_is_lost_and_says_why() {
    let free = "[agents.helper]\nprovider = \"main\"\nrisk_profile = \"default\"\n\
                workspace = \"{dir}/work\"\nchannels = []\n";
    let mut world = World::start(program!(), Config::new().extra(free)).await;
    let call = Call::new("spawn_subagent", json!({"task": "for the helper", "agent": "helper"}));
    world.model.script("begin it", [Reply::calls([call]), Reply::text("begun")]);
    world.model.script("for the helper", [Reply::stream().hang()]);
    let turn = world.api.say("c", "begin it").await;
    world.model.counted(3).await;
    let task = child_of(&world, &turn.id).await["id"].as_str().unwrap().to_owned();
    world.service.kill_9().await;
    world.reconfigure(Config::new());
    world.service.restart().await;
    let lost = task_when(&world, &task, "lost").await;
    assert!(lost["error"]["message"].as_str().unwrap().contains("helper"), "{lost}");
    world.finish().await;
}

// T24
#[tokio::test]
async fn a_cancel_of_the_turn_that_began_a_task_takes_the_task_along() {
    let world = World::start(program!(), Config::new()).await;
    let calls = [spawn("slow work")];
    world.model.script("begin and stay", [Reply::calls(calls), Reply::stream().hang()]);
    world.model.script("slow work", [Reply::stream().hang()]);
    let id = world.api.tell("c", "begin and stay").await;
    world.model.counted(3).await;
    let task = child_of(&world, &id).await["id"].as_str().unwrap().to_owned();
    world.api.cancel(&id).await;
    assert_eq!(world.api.ended(&id).await.result(), "cancelled");
    task_when(&world, &task, "cancelled").await;
    world.finish().await;
}

// B11: a task that another agent does is paid for by the agent that began it, too
#[tokio::test]
async fn a_background_task_is_charged_to_the_day_of_the_agent_that_began_it() {
    let config = Config::new().extra(
        "[runtime_profiles.default.budget.agent]\nmax_tokens = 40\n[runtime_profiles.free]\n\
         [agents.helper]\nprovider = \"main\"\nruntime_profile = \"free\"\nworkspace = \"{dir}/work\"\n\
         channels = []\n",
    );
    let world = World::start(program!(), config).await;
    let call = Call::new("spawn_subagent", json!({"task": "slow work", "agent": "helper"}));
    world.model.script("begin it", [Reply::calls([call]), Reply::text("begun")]);
    world.model.script("slow work", [Reply::text("found")]);
    // Fifteen tokens a reply: two of its own …
    let turn = world.api.say("c", "begin it").await;
    assert_eq!((turn.text(), turn.usage.input + turn.usage.output), ("begun", 30));
    let task = child_of(&world, &turn.id).await["id"].as_str().unwrap().to_owned();
    task_when(&world, &task, "done").await;
    // … and one of the task's: nothing is left.
    let refused = world.api.say("c", "and now").await;
    assert_eq!((refused.result(), refused.fault()), ("failed", "budget"));
    let why = refused.error.unwrap().message;
    assert!(why.contains("today's budget of this agent") && why.contains("45 of 40"), "{why}");
    world.finish().await;
}
