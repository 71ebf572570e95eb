//! MCP servers that start late, die, hang, change their lists and name their tools oddly, end to end.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails at the place of the fault"
)]

use rookery_tests::mcp::{FakeServer, bundle, offered_of, tool};
use rookery_tests::model::result_texts;
use rookery_tests::service::{alive, gone};
use rookery_tests::wait::until;
use rookery_tests::{Call, Config, Reply, Turn, World, program};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Agent `home` with these servers, each granted.
fn config(servers: &[(&str, String)]) -> Config {
    let names: Vec<&str> = servers.iter().map(|(name, _)| *name).collect();
    let mut config = Config::new().agent(&format!("mcp_bundles = {}", json!(names)));
    for (name, section) in servers {
        config = config.extra(section).extra(&bundle(name));
    }
    config
}

/// A service with the fake server as `s`, ready.
async fn world_with(server: &FakeServer, mode: &[&str], more: &str) -> World {
    let world = World::start(program!(), config(&[("s", server.section("s", mode, more))])).await;
    world.mcp_ready("s").await;
    world
}

fn call(name: &str, arguments: Value) -> Call {
    Call::new(name, arguments)
}

/// One turn that makes these calls, and its results.
async fn turn(world: &World, key: &str, calls: Vec<Call>) -> (Turn, Vec<String>) {
    world.model.script(key, [Reply::calls(calls), Reply::text("done")]);
    let turn = world.api.say(key, key).await;
    assert_eq!(turn.text(), "done");
    (turn, result_texts(&world.model.last_request()))
}

// A102
#[tokio::test]
async fn slow_and_broken_servers_keep_nobody_waiting_and_a_late_one_joins_at_the_next_turn() {
    let (good, mute, broken) =
        (FakeServer::new(&[tool("x")]), FakeServer::new(&[tool("y")]), FakeServer::new(&[]));
    let config = config(&[
        ("good", good.section("good", &[], "")),
        ("mute", mute.section("mute", &["mute"], "")),
        ("broken", broken.section("broken", &["exit"], "")),
        ("missing", "[mcp.servers.missing]\ncommand = \"no-such-program\"\n".to_owned()),
    ]);
    // It is ready although only one of them will be.
    let world = World::start(program!(), config).await;
    world.mcp_ready("good").await;
    for name in ["broken", "missing"] {
        world.mcp_when(name, "failed", |state| state["status"] == "failed").await;
    }
    let reason = world.mcp_when("broken", "its reason", |state| state["status"] == "failed").await
        ["reason"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(reason.contains("exit code 1"), "{reason}");
    assert!(reason.contains("no configuration found"), "{reason}");
    let ready = world.api.get("/readyz").await;
    let component = |name: &str| {
        let all = ready["components"].as_array().unwrap();
        all.iter().find(|one| one["name"] == name).unwrap().clone()
    };
    assert_eq!(ready["ready"], true);
    assert_eq!(component("mcp/good")["ready"], true);
    assert_eq!(component("mcp/mute")["reason"], "connecting");
    let shown = component("mcp/broken")["reason"].as_str().unwrap().to_owned();
    assert!(shown.starts_with("failed: ") || shown == "connecting", "{shown}");
    let metrics = world.api.metrics().await;
    let states = metrics.series("rookery_mcp_server_state");
    let up = |server: &str| {
        let mut of_server = states.iter().filter(|(_, labels, value)| {
            labels.contains(&format!("server=\"{server}\"")) && *value == 1.0
        });
        of_server.next().unwrap().1
    };
    assert!(up("good").contains("ready") && up("mute").contains("connecting"));

    let first = world.api.say("a", "hello").await;
    assert_eq!(first.result(), "answered");
    assert_eq!(offered_of(&world.model.last_request(), "good"), ["good__x"]);
    assert_eq!(offered_of(&world.model.last_request(), "mute"), Vec::<String>::new());
    std::fs::write(mute.path().join("go"), "").unwrap();
    world.mcp_ready("mute").await;
    world.api.say("a", "hello again").await;
    assert_eq!(offered_of(&world.model.last_request(), "mute"), ["mute__y"]);
    world.finish().await;
}

// A101
#[tokio::test]
async fn a_server_that_dies_fails_its_pending_calls_at_once_and_comes_back_once_for_all_of_them() {
    let server = FakeServer::new(&[tool("x")]);
    let world = world_with(&server, &[], "").await;
    let calls = vec![
        call("s__x", json!({"do": "hang", "n": 1})),
        call("s__x", json!({"do": "hang", "n": 2})),
        call("s__x", json!({"do": "die", "text": "tonight"})),
    ];
    let (ended, texts) = turn(&world, "die", calls).await;
    // I5: nobody knows what became of them.
    assert_eq!(ended.call_states(), ["unknown"; 3]);
    for text in &texts {
        assert!(text.contains("MCP server s died: "), "{texts:?}");
        assert!(text.contains("ended by signal 9"), "{texts:?}");
        assert!(text.contains("out of luck: tonight"), "{texts:?}");
        assert!(text.contains("check before trying again"), "{texts:?}");
    }
    // The next calls wait for the one new connection.
    let calls = (0..3).map(|n| call("s__x", json!({"text": n.to_string()}))).collect();
    let (ended, texts) = turn(&world, "again", calls).await;
    assert_eq!((ended.call_states(), texts[2].as_str()), (vec!["succeeded"; 3], "x: 2"));
    assert_eq!((server.lives(), world.mcp("s").await["connections"].clone()), (2, json!(2)));
    world.finish().await;
}

// A101
#[tokio::test]
async fn a_server_that_hangs_costs_one_call_and_is_replaced_when_it_does_not_answer_at_all() {
    let server = FakeServer::new(&[tool("x")]);
    let world = world_with(&server, &[], "call_timeout_secs = 1").await;
    let (ended, texts) = turn(&world, "hang", vec![call("s__x", json!({"do": "hang"}))]).await;
    // I5: what may have had its effect is shown as that.
    assert_eq!(ended.call_states(), ["unknown"]);
    assert!(texts[0].contains("did not answer within 1 s"), "{texts:?}");
    assert!(texts[0].contains("check before trying again"), "{texts:?}");
    // It still answers a ping: the same process serves on.
    let (ended, _) = turn(&world, "then", vec![call("s__x", json!({}))]).await;
    assert_eq!((ended.call_states(), server.lives()), (vec!["succeeded"], 1));

    server.signal(Signal::STOP);
    let (ended, _) = turn(&world, "stopped", vec![call("s__x", json!({}))]).await;
    assert_eq!(ended.call_states(), ["unknown"]);
    world
        .mcp_when("s", "its second life", |state| {
            state["status"] == "ready" && state["connections"] == 2
        })
        .await;
    let (ended, _) = turn(&world, "back", vec![call("s__x", json!({}))]).await;
    assert_eq!((ended.call_states(), server.lives()), (vec!["succeeded"], 2));
    world.finish().await;
}

// A106
#[tokio::test]
async fn a_changed_list_is_read_with_all_its_pages_and_shown_to_the_next_model_step() {
    let server = FakeServer::new(&[tool("x"), tool("old")]);
    let world = world_with(&server, &[], "").await;
    let new: Vec<Value> = ["x", "p1", "p2", "p3", "p4"].map(tool).into();
    let change = json!({"do": "announce", "tools": {"lists": [new], "page": 2}});
    world.model.script(
        "change",
        [
            Reply::calls([call("s__x", change)]),
            // By the time of this step the list may or may not have been read: `p4` says that it was.
            Reply::calls([Call::shell("while [ ! -e listed ]; do sleep 0.02; done")]),
            Reply::calls([call("s__old", json!({})), call("s__p4", json!({"text": "new"}))]),
            Reply::text("done"),
        ],
    );
    let id = world.api.tell("c", "change").await;
    world.mcp_when("s", "the new list", |state| state["tools"] == 5).await;
    world.put("listed", "");
    let ended = world.api.ended(&id).await;
    assert_eq!(ended.text(), "done");
    assert_eq!(ended.call_states(), ["succeeded", "succeeded", "failed", "succeeded"]);
    let requests = world.model.requests_for("change");
    assert_eq!(offered_of(&requests[0], "s"), ["s__old", "s__x"]);
    assert_eq!(offered_of(&requests[2], "s"), ["s__p1", "s__p2", "s__p3", "s__p4", "s__x"]);
    let texts = result_texts(&world.model.last_request());
    assert!(texts.iter().any(|text| text == "p4: new"), "{texts:?}");
    assert!(texts.iter().any(|text| text.contains("Unknown tool: s__old")), "{texts:?}");

    // Between turns.
    server.offer(&json!({"lists": [[tool("later")]]}));
    server.signal(Signal::USR1);
    world.mcp_when("s", "the last list", |state| state["tools"] == 1).await;
    world.api.say("c", "hello").await;
    assert_eq!(offered_of(&world.model.last_request(), "s"), ["s__later"]);
    world.finish().await;
}

// A106
#[tokio::test]
async fn a_tool_that_was_removed_after_it_was_shown_is_a_clean_failure() {
    let server = FakeServer::new(&[tool("x"), tool("old")]);
    let world = World::start(
        program!(),
        config(&[("s", server.section("s", &[], ""))]).runtime("parallel_tools = false"),
    )
    .await;
    world.mcp_ready("s").await;
    let wait = Call::shell("touch waits; while [ ! -e listed ]; do sleep 0.02; done");
    let calls = [wait, call("s__old", json!({}))];
    world.model.script("go", [Reply::calls(calls), Reply::text("done")]);
    let id = world.api.tell("c", "go").await;
    world.file("waits").await;
    server.offer(&json!({"lists": [[tool("x")]]}));
    server.signal(Signal::USR1);
    world.mcp_when("s", "the new list", |state| state["tools"] == 1).await;
    world.put("listed", "");
    let ended = world.api.ended(&id).await;
    assert_eq!(ended.call_states(), ["succeeded", "failed"]);
    let texts = result_texts(&world.model.last_request());
    assert!(texts[1].contains("MCP server s no longer offers old"), "{texts:?}");
    assert_eq!(server.count("tools/call"), 0);
    world.finish().await;
}

// A107
#[tokio::test]
async fn of_a_burst_of_announcements_the_last_list_stands_and_an_empty_one_is_not_believed() {
    let server = FakeServer::new(&[tool("x"), tool("old")]);
    let world = world_with(&server, &[], "").await;
    let (old, new) = (vec![tool("x"), tool("old")], vec![tool("x"), tool("new"), tool("new2")]);
    let lists = json!({"lists": [old, Vec::<Value>::new(), new]});
    let burst = json!({"do": "announce", "times": 5, "tools": lists});
    turn(&world, "burst", vec![call("s__x", burst)]).await;
    until("the burst has been read", || async {
        if server.count("tools/list") == 2 { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
    // It saw the old list; the next reading finds none at all.
    server.signal(Signal::USR1);
    world.mcp_when("s", "the last list", |state| state["tools"] == 3).await;
    world.api.say("c", "hello").await;
    assert_eq!(offered_of(&world.model.last_request(), "s"), ["s__new", "s__new2", "s__x"]);
    let listings = server.count("tools/list");
    assert!(listings <= 5, "{listings} readings for 6 announcements and an empty list");
    world.finish().await;
}

// A103
#[tokio::test]
async fn odd_names_are_offered_under_valid_ones_and_called_under_their_own() {
    let long = "synchronize-all-customer-data-across-multiple-systems";
    let names = [long, "admin.tools/list", "with space 🦀", "r", ""];
    let mut tools: Vec<Value> = names.into_iter().map(tool).collect();
    tools.push(json!({"description": "no name at all"}));
    let server = FakeServer::new(&tools);
    let name = "enterprise-database-management";
    let excluded = format!("excluded_tools = [\"{name}__admin.tools/list\"]");
    let config = config(&[(name, server.section(name, &[], ""))]).risk(&excluded);
    let world = World::start(program!(), config).await;
    world.mcp_ready(name).await;
    world.api.say("c", "hello").await;
    let offered = offered_of(&world.model.last_request(), name);
    // Policy took one by its own name; the nameless one is no tool.
    assert_eq!(offered.len(), 4, "{offered:?}");
    let valid = |name: &String| {
        name.len() <= 64 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
    };
    assert!(offered.iter().all(valid), "{offered:?}");
    assert!(offered.contains(&format!("{name}__r")));
    let calls = offered.iter().map(|name| call(name, json!({"text": "t"}))).collect();
    let (ended, mut texts) = turn(&world, "all", calls).await;
    assert_eq!(ended.call_states(), ["succeeded"; 4]);
    texts.sort();
    assert_eq!(texts, [": t", "r: t", &format!("{long}: t"), "with space 🦀: t"]);
    world.finish().await;
}

// A108
#[tokio::test]
async fn pictures_become_files_of_the_workspace_and_a_failed_result_stays_failed() {
    let server = FakeServer::new(&[tool("x")]);
    let world = world_with(&server, &[], "").await;
    let calls = vec![
        call("s__x", json!({"do": "picture", "bytes": 2_000_000})),
        call("s__x", json!({"do": "picture", "error": true})),
    ];
    let (ended, texts) = turn(&world, "draw", calls).await;
    assert_eq!(ended.call_states(), ["succeeded", "failed"]);
    let lines: Vec<&str> = texts[0].lines().collect();
    assert_eq!(lines[0], "a");
    let path = lines[1].rsplit_once("kept as ").unwrap().1.trim_end_matches(']');
    assert_eq!(std::fs::read(world.work(path)).unwrap(), vec![7; 2_000_000]);
    assert!(lines[2].starts_with("[resource of unknown type, 1 B: kept as "), "{lines:?}");
    assert!(texts[1].ends_with("error: the tool reports that it failed"), "{texts:?}");
    world.finish().await;
}

// V-I12
#[tokio::test]
async fn a_stopped_call_is_cancelled_at_the_server_and_costs_the_connection_nothing() {
    let server = FakeServer::new(&[tool("x")]);
    let world = world_with(&server, &[], "").await;
    world.model.script("wait", [Reply::calls([call("s__x", json!({"do": "hang"}))])]);
    let id = world.api.tell("c", "wait").await;
    until("the server has the call", || async {
        if server.count("tools/call") == 1 { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
    world.api.cancel(&id).await;
    let stopped = world.api.ended(&id).await;
    assert_eq!((stopped.result(), stopped.call_states()), ("cancelled", vec!["interrupted"]));
    let told = until("the server is told", || async {
        let log = server.log();
        let told = log.iter().find(|message| message["method"] == "notifications/cancelled");
        told.cloned().ok_or_else(|| "not yet".to_owned())
    })
    .await;
    let asked = server.log().into_iter().find(|message| message["method"] == "tools/call").unwrap();
    assert_eq!(told["params"]["requestId"], asked["id"]);
    let (ended, _) = turn(&world, "next", vec![call("s__x", json!({}))]).await;
    assert_eq!((ended.call_states(), server.lives()), (vec!["succeeded"], 1));
    world.finish().await;
}

#[tokio::test]
async fn a_servers_progress_is_shown_and_its_refusal_is_a_text_for_the_model() {
    let server = FakeServer::new(&[tool("x")]);
    let world = world_with(&server, &[], "").await;
    let calls =
        vec![call("s__x", json!({"do": "progress"})), call("s__x", json!({"do": "refuse"}))];
    let (ended, texts) = turn(&world, "go", calls).await;
    assert_eq!(ended.call_states(), ["succeeded", "failed"]);
    assert!(texts[1].contains("MCP server s refused the call: not today"), "{texts:?}");
    let events = world.api.events(&ended.id).await.until("ended").await;
    let told = events.iter().any(|event| event["text"] == "half way (1 of 2)");
    assert!(told, "{events:?}");
    world.finish().await;
}

// I6, A128
#[tokio::test]
async fn a_servers_children_end_with_the_service_and_after_a_crash_with_the_next_life() {
    let mark = format!("{}.7133", std::process::id());
    let server = FakeServer::new(&[tool("x")]);
    let mut world = world_with(&server, &["parent", &mark], "").await;
    alive(&mark).await;
    world.crash().await;
    until("the second life's server", || async {
        if server.lives() == 2 { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
    alive(&mark).await;
    world.finish().await;
    gone(&mark).await;
}

// I12
#[tokio::test]
async fn a_servers_secrets_reach_the_server_and_nothing_else() {
    let secret = "hush-hush-4711";
    let server = FakeServer::new(&[tool("x")]);
    let env = format!("env = {{ FAKE_KEY = \"{secret}\" }}");
    let world = world_with(&server, &[], &env).await;
    let calls = vec![
        call("s__x", json!({"do": "env", "text": "FAKE_KEY"})),
        call("s__x", json!({"do": "env", "text": "ROOKERY_URL"})),
    ];
    let (_, texts) = turn(&world, "tell", calls).await;
    assert!(!texts[0].contains(secret) && !texts[0].is_empty(), "{texts:?}");
    let request = world.model.last_request().to_string();
    assert!(!request.contains(secret));
    let tree = serde_json::to_string(&world.mcp("s").await).unwrap();
    assert!(!tree.contains(secret) && !world.service.log().contains(secret));
    world.finish().await;
}

// V-D6
#[tokio::test]
async fn an_agent_without_a_bundle_has_no_mcp_tools() {
    let server = FakeServer::new(&[tool("x")]);
    let config = Config::new().extra(&server.section("s", &[], "")).extra(&bundle("s"));
    let world = World::start(program!(), config).await;
    world.mcp_ready("s").await;
    let (ended, texts) = turn(&world, "go", vec![call("s__x", json!({}))]).await;
    assert_eq!(ended.call_states(), ["failed"]);
    assert!(texts[0].contains("Unknown tool: s__x"), "{texts:?}");
    assert_eq!(offered_of(&world.model.last_request(), "s"), Vec::<String>::new());
    assert_eq!(server.count("tools/call"), 0);
    world.finish().await;
}

// V-D15, V-D16, V-D17
#[tokio::test]
async fn a_call_by_the_short_name_is_judged_by_the_full_one() {
    let server = FakeServer::new(&[tool("x"), tool("bad"), tool("careful")]);
    let config = config(&[("s", server.section("s", &[], ""))])
        .risk("excluded_tools = [\"s__bad\"]")
        .risk("always_ask = [\"s__careful\"]");
    let world = World::start(program!(), config).await;
    world.mcp_ready("s").await;
    let calls = vec![
        call("x", json!({"text": "short"})),
        call("bad", json!({})),
        call("careful", json!({})),
    ];
    let (ended, texts) = turn(&world, "go", calls).await;
    assert_eq!(ended.call_states(), ["succeeded", "blocked", "denied"]);
    let tools: Vec<&str> = ended.calls.iter().map(|call| call.tool.as_str()).collect();
    assert_eq!(tools, ["s__x", "s__bad", "s__careful"]);
    assert_eq!(texts[0], "x: short");
    assert!(texts[1].contains("tool `s__bad` is in the risk profile's `excluded_tools`"));
    assert_eq!(server.count("tools/call"), 1);
    world.finish().await;
}

// A104, A105
#[tokio::test]
async fn a_tool_the_provider_refuses_is_left_out_there_and_the_turn_goes_on() {
    let schema =
        json!({"$defs": {"p": {"type": "array"}}, "properties": {"p": {"$ref": "#/$defs/p"}}});
    let odd = json!({"name": "odd", "inputSchema": schema});
    let server = FakeServer::new(&[tool("bad"), odd]);
    let world = world_with(&server, &[], "").await;
    let refused = Reply::error(400, "Invalid schema for function 's__bad': no such thing");
    world.model.script("go", [refused, Reply::text("done")]);
    let turn = world.api.say("c", "go").await;
    assert_eq!(turn.text(), "done");
    let requests = world.model.requests_for("go");
    assert_eq!(requests.len(), 2);
    assert_eq!(offered_of(&requests[0], "s"), ["s__bad", "s__odd"]);
    assert_eq!(offered_of(&requests[1], "s"), ["s__odd"]);
    let tools = requests[1]["tools"].as_array().unwrap();
    let odd = tools.iter().find(|tool| tool["function"]["name"] == "s__odd").unwrap();
    assert_eq!(
        odd["function"]["parameters"],
        json!({"type": "object", "properties": {"p": {"type": "array", "items": {}}}})
    );
    // The operator is told, and it stays so.
    let shown = world.api.get("/admin/v1/actors/root/service/providers/main").await;
    assert_eq!(shown["detail"]["quarantined"], json!(["s__bad"]));
    assert!(world.service.log().contains("the provider refuses this tool"));
    world.api.say("c", "hello").await;
    assert_eq!(offered_of(&world.model.last_request(), "s"), ["s__odd"]);
    world.finish().await;
}

// V-I1, V-D22, T7
#[tokio::test]
async fn deferred_tools_are_found_activated_and_kept_over_a_crash_of_the_service() {
    let server = FakeServer::new(&[tool("alpha"), tool("beta")]);
    let config = config(&[("s", server.section("s", &[], "deferred = true"))]);
    let mut world = World::start(program!(), config).await;
    world.mcp_ready("s").await;
    let search = |query: &str| call("tool_search", json!({"query": query}));
    world.model.script(
        "go",
        [
            Reply::calls([search("select:s__alpha"), search("select:s__beta")]),
            Reply::calls([call("s__alpha", json!({"text": "one"})), Call::hold("waits")]),
        ],
    );
    let id = world.api.tell("c", "go").await;
    world.file("waits.started").await;
    let requests = world.model.requests_for("go");
    assert_eq!(offered_of(&requests[0], "s"), Vec::<String>::new());
    assert_eq!(offered_of(&requests[1], "s"), ["s__alpha", "s__beta"]);
    world
        .model
        .script("go", [Reply::calls([call("beta", json!({"text": "two"}))]), Reply::text("done")]);
    world.crash().await;
    let ended = world.api.ended(&id).await;
    assert_eq!(ended.text(), "done");
    // A batch with a search runs one after the other.
    assert!(ended.calls[0].ended_at <= ended.calls[1].started_at, "{ended:?}");
    let last = ended.calls.last().unwrap();
    assert_eq!((last.tool.as_str(), last.state.as_str()), ("s__beta", "succeeded"));
    world.finish().await;
}
