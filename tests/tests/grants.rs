//! What *always* covers, on which surfaces a question is answered, and what is kept of it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails at the place of the fault"
)]

use reqwest::Method;
use rookery_tests::api::{fresh_id, message};
use rookery_tests::receiver::{Receiver, sign, unix_now};
use rookery_tests::{Call, Config, Reply, World, program};
use serde_json::{Value, json};

const SECRET: &str = "a-secret-for-the-webhook";

fn supervised() -> Config {
    Config::new().level("supervised").agent("approval_route = \"admin\"")
}

fn script(world: &World, key: &str, calls: Vec<Call>) {
    world.model.script(key, [Reply::calls(calls), Reply::text("done")]);
}

/// Asks for a command in the conversation; gives the turn and what it asks, if it asks.
async fn shell(world: &World, key: &str, command: &str) -> (String, Option<Value>) {
    script(world, key, vec![Call::shell(command)]);
    let id = world.api.tell("c", key).await;
    let what = "it asks or has ended";
    let turn = world
        .api
        .turn_when(&id, what, |turn| turn.state == "waiting_approval" || turn.state == "ended")
        .await;
    let asks = turn.state == "waiting_approval";
    (id.clone(), if asks { Some(world.api.approval_of(&id).await) } else { None })
}

async fn decide(world: &World, turn: &str, approval: &Value, decision: &str) {
    let answer = world.api.decide(approval, &json!({ "decision": decision })).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    world.api.ended(turn).await;
}

// A085
#[tokio::test]
async fn always_for_a_shell_or_a_script_covers_the_command_and_the_content_that_were_shown() {
    let world = World::start(program!(), supervised()).await;
    world.put("a.sh", "echo a >> log\n");
    world.put("b.sh", "echo b >> log\n");
    world.put("note.txt", "text\n");
    let (turn, approval) = shell(&world, "one", "bash -lc 'touch note.txt'").await;
    let approval = approval.unwrap();
    let pattern = approval["offer"]["pattern"].as_str().unwrap();
    assert!(pattern.ends_with("/touch note.txt") && !pattern.contains("bash"), "{pattern}");
    decide(&world, &turn, &approval, "always").await;
    for (n, covered) in
        ["bash -lc 'touch note.txt'", "touch note.txt", "sh -c 'touch note.txt'"].iter().enumerate()
    {
        let (_, asks) = shell(&world, &format!("covered {n}"), covered).await;
        assert_eq!(asks, None, "{covered}");
    }
    for (n, wider) in ["bash -lc 'curl x'", "bash -lc 'touch note.txt; id'", "touch note.txt a.sh"]
        .iter()
        .enumerate()
    {
        let (turn, asks) = shell(&world, &format!("wider {n}"), wider).await;
        decide(&world, &turn, &asks.expect(wider), "deny").await;
    }
    let (turn, approval) = shell(&world, "script", "bash ./a.sh").await;
    decide(&world, &turn, &approval.unwrap(), "always").await;
    assert_eq!(shell(&world, "again", "bash ./a.sh").await.1, None);
    assert_eq!(world.read("log"), "a\na\n");
    let (turn, other) = shell(&world, "other", "bash ./b.sh").await;
    decide(&world, &turn, &other.expect("b.sh asks"), "deny").await;
    world.put("a.sh", "echo changed >> log\n");
    let (turn, changed) = shell(&world, "changed", "bash ./a.sh").await;
    decide(&world, &turn, &changed.expect("the changed a.sh asks"), "deny").await;
    assert_eq!(world.read("log"), "a\na\n");
    world.finish().await;
}

// A085: a call of the same response can't change the script that was granted
#[tokio::test]
async fn a_granted_script_asks_again_beside_a_call_that_could_change_it() {
    let config = supervised().risk("auto_approve = [\"file_write\"]");
    let world = World::start(program!(), config).await;
    world.put("a.sh", "echo a >> log\n");
    let (turn, approval) = shell(&world, "script", "bash ./a.sh").await;
    decide(&world, &turn, &approval.unwrap(), "always").await;
    let evil = Call::new("file_write", json!({"path": "a.sh", "content": "echo evil >> log\n"}));
    script(&world, "both", vec![evil, Call::shell("bash ./a.sh")]);
    let id = world.api.tell("c", "both").await;
    let approval = world.api.approval_of(&id).await;
    assert_eq!(approval["tool"], "shell");
    decide(&world, &id, &approval, "deny").await;
    assert_eq!(world.read("log"), "a\n");
    world.finish().await;
}

// I7: what was approved once is the content that was there when it was asked
#[tokio::test]
async fn a_script_that_changed_while_somebody_thought_about_it_does_not_run() {
    let world = World::start(program!(), supervised()).await;
    world.put("a.sh", "echo a >> log\n");
    let (turn, approval) = shell(&world, "script", "sh ./a.sh").await;
    world.put("a.sh", "echo evil >> log\n");
    decide(&world, &turn, &approval.unwrap(), "approve").await;
    assert!(world.read("log").is_empty());
    let (turn, approval) = shell(&world, "again", "sh ./a.sh").await;
    decide(&world, &turn, &approval.unwrap(), "approve").await;
    assert_eq!(world.read("log"), "evil\n");
    // What a command only reads or writes may change meanwhile.
    let (turn, approval) = shell(&world, "data", "cat a.sh >> log").await;
    world.put("a.sh", "text\n");
    world.put("log", "");
    decide(&world, &turn, &approval.unwrap(), "approve").await;
    assert_eq!(world.read("log"), "text\n");
    world.finish().await;
}

// A086
#[tokio::test]
async fn an_open_question_is_shown_again_after_a_lost_connection_and_a_restart_and_then_answered() {
    let mut world = World::start(program!(), Config::new().level("supervised")).await;
    script(&world, "go", vec![Call::shell("echo ran >> log")]);
    let mut ws = world.api.ws("c").await;
    ws.say("1", "go").await;
    let asked = ws.until("approval").await.pop().unwrap();
    ws.close().await;
    let mut back = world.api.ws("c").await;
    assert_eq!(back.until("approval").await.pop().unwrap()["id"], asked["id"]);
    back.close().await;
    world.crash().await;
    let mut later = world.api.ws("c").await;
    let again = later.until("approval").await.pop().unwrap();
    assert_eq!((&again["id"], &again["state"]), (&asked["id"], &json!("pending")));
    assert!(world.read("log").is_empty());
    later.send(&json!({ "type": "approval", "id": asked["id"], "decision": "approve" })).await;
    let ended = later.until("ended").await.pop().unwrap();
    assert_eq!(ended["outcome"], "answered");
    assert_eq!(world.read("log"), "ran\n");
    later.close().await;
    world.finish().await;
}

// V-H13, A084, V-H15
#[tokio::test]
async fn a_question_answered_on_the_command_line_is_settled_for_the_socket_and_in_the_audit() {
    let world = World::start(program!(), Config::new().level("supervised")).await;
    script(&world, "go", vec![Call::shell("echo ran >> log")]);
    let mut ws = world.api.ws("c").await;
    ws.say("1", "go").await;
    let asked = ws.until("approval").await.pop().unwrap();
    let id = asked["id"].as_str().unwrap().to_owned();
    let denied = world.cli(&["approvals", "deny", &id, "--reason", "no"]).await;
    assert!(denied.code == Some(0) && denied.out.contains("denied"), "{denied:?}");
    let told = ws.until("approval").await.pop().unwrap();
    assert_eq!((&told["id"], &told["state"]), (&asked["id"], &json!("denied")));
    assert_eq!(told["decided_by"], json!({ "who": "admin", "via": "admin" }));
    ws.until("ended").await;
    ws.send(&json!({ "type": "approval", "id": id, "decision": "approve" })).await;
    let late = ws.until("error").await.pop().unwrap();
    assert_eq!(late["code"], "already_decided");
    let text = late["message"].as_str().unwrap();
    assert!(text.contains("already decided by admin via admin: denied"), "{text}");
    assert!(world.read("log").is_empty());
    let rows = world.cli(&["audit", "--since", "1h", "--limit", "10", "--json"]).await.json();
    let row = rows.as_array().unwrap().iter().find(|row| row["target"] == *id).unwrap().clone();
    assert_eq!(
        (&row["action"], &row["who"], &row["via"]),
        (&json!("approval.deny"), &json!("admin"), &json!("admin"))
    );
    assert_eq!(row["detail"]["tool"], "shell");
    assert!(row["detail"]["summary"].as_str().unwrap().contains("echo ran"), "{row}");
    assert_eq!(
        world.cli(&["audit", "--since", "2999-01-01T00:00:00Z", "--json"]).await.json(),
        json!([])
    );
    ws.close().await;
    world.finish().await;
}

#[tokio::test]
async fn a_turns_questions_are_decided_at_once_and_grants_are_listed_and_taken_back() {
    let world = World::start(program!(), supervised()).await;
    let write = |path: &str| Call::new("file_write", json!({"path": path, "content": "x"}));
    script(&world, "go", vec![write("a"), write("b")]);
    let id = world.api.tell("c", "go").await;
    let approval = world.api.approval_of(&id).await;
    assert_eq!(approval["batch"]["of"], 2);
    let list = world.cli(&["approvals", "list"]).await.out;
    assert!(
        list.contains("asked together: 2 of 2") && list.contains("always would cover"),
        "{list}"
    );
    let always = world.cli(&["approvals", "always", "--turn", &id, "--scope", "agent"]).await;
    assert_eq!((always.code, always.out.lines().count()), (Some(0), 2), "{always:?}");
    assert_eq!(world.api.ended(&id).await.call_states(), ["succeeded"; 2]);
    // For the agent: another conversation needs no word.
    script(&world, "there", vec![write("a")]);
    assert_eq!(world.api.say("elsewhere", "there").await.call_states(), ["succeeded"]);
    let grants = world.cli(&["approvals", "grants", "--json"]).await.json();
    let grant = grants.as_array().unwrap().iter();
    let grant = grant
        .map(|grant| (&grant["pattern"], grant["id"].as_str().unwrap()))
        .find(|(pattern, _)| pattern.as_str().unwrap().contains("\"path\":\"a\""));
    let id = grant.unwrap().1;
    let revoked = world.cli(&["approvals", "revoke", id]).await;
    assert!(revoked.code == Some(0) && revoked.out.contains("revoked by admin"), "{revoked:?}");
    let left = world.cli(&["approvals", "grants"]).await.out;
    assert!(!left.contains(id) && left.contains("agent home"), "{left}");
    script(&world, "then", vec![write("a")]);
    let turn = world.api.tell("elsewhere", "then").await;
    let approval = world.api.approval_of(&turn).await;
    decide(&world, &turn, &approval, "deny").await;
    let none = world.cli(&["approvals", "approve", "--turn", &turn]).await;
    assert_eq!(none.code, Some(1), "{none:?}");
    world.finish().await;
}

async fn answer(world: &World, sender: &str, text: &str) -> rookery_tests::api::Answer {
    let mut body = message(&fresh_id(), "approvals", text);
    body["sender"] = json!(sender);
    let body = body.to_string().into_bytes();
    let signature = sign(SECRET, unix_now(), &body);
    let api = world.api.with_token(None);
    let request = api
        .request(Method::POST, "/v1/channels/webhook/ops")
        .header("content-type", "application/json")
        .header("x-rookery-signature", signature)
        .body(body);
    api.send(request).await
}

// V-H14, V-H6
#[tokio::test]
async fn a_routed_question_is_posted_to_its_channel_and_answered_there_by_its_people() {
    let receiver = Receiver::start([]).await;
    let ops = format!(
        "[channels.webhook.ops]\nsecret = \"{SECRET}\"\nreply_url = \"{}\"\napprovers = [\"eve\"]\n",
        receiver.url()
    );
    let config = Config::new()
        .level("supervised")
        .agent("approval_route = \"webhook.ops\"")
        .agent("channels = [\"webhook.ci\", \"webhook.ops\", \"cli\", \"ws\"]")
        .extra(&ops);
    let world = World::start(program!(), config).await;
    script(&world, "go", vec![Call::shell("echo ran >> log")]);
    let id = world.api.tell("c", "go").await;
    let approval = world.api.approval_of(&id).await;
    let posted = receiver.got(1).await.pop().unwrap();
    let text = posted.body["notice"].as_str().unwrap();
    let approve = format!("/approve {}", approval["id"].as_str().unwrap());
    assert!(text.contains(&approve) && text.contains("echo ran"), "{posted:?}");
    assert_eq!(answer(&world, "mallory", &approve).await.code(), "not_an_approver");
    assert!(world.read("log").is_empty());
    let decided = answer(&world, "eve", &approve).await;
    assert_eq!((decided.status, &decided.body["approval"]["state"]), (200, &json!("approved")));
    assert_eq!(world.api.ended(&id).await.text(), "done");
    assert_eq!(world.read("log"), "ran\n");
    let late = answer(&world, "eve", &approve).await;
    assert_eq!(late.code(), "already_decided");
    assert!(late.body["error"]["message"].as_str().unwrap().contains("by eve via webhook.ops"));
    world.finish().await;
}

// V-H13, A086: another conversation's question, shown to who is connected where it is asked
#[tokio::test]
async fn a_question_routed_to_sockets_is_shown_there_now_and_later_and_answered_there() {
    let config = Config::new()
        .level("supervised")
        .agent("approval_route = \"ws\"")
        .extra("[channels.ws]\napprovers = [\"admin\"]");
    let world = World::start(program!(), config).await;
    let mut here = world.api.ws("ops").await;
    script(&world, "go", vec![Call::shell("echo ran >> log")]);
    let id = world.api.tell("c", "go").await;
    let asked = here.until("approval").await.pop().unwrap();
    assert_eq!((&asked["turn"], &asked["state"]), (&json!(id), &json!("pending")));
    let mut later = world.api.ws("other").await;
    assert_eq!(later.until("approval").await.pop().unwrap()["id"], asked["id"]);
    later.send(&json!({ "type": "approval", "id": asked["id"], "decision": "approve" })).await;
    let told = here.until("approval").await.pop().unwrap();
    assert_eq!((&told["id"], &told["state"]), (&asked["id"], &json!("approved")));
    assert_eq!(told["decided_by"]["via"], "ws");
    assert_eq!(world.api.ended(&id).await.text(), "done");
    assert_eq!(world.read("log"), "ran\n");
    here.close().await;
    later.close().await;
    world.finish().await;
}

// A085: what a build includes can't be bound, so that its grant is its conversation's, and says so
#[tokio::test]
async fn always_for_a_build_holds_in_its_conversation_while_its_first_file_stays_as_it_is() {
    let world = World::start(program!(), supervised()).await;
    world.put("Makefile", "all:\n\techo one >> log\n");
    let (turn, approval) = shell(&world, "build", "make -s all").await;
    let approval = approval.unwrap();
    let pattern = approval["offer"]["pattern"].as_str().unwrap();
    assert!(
        pattern.contains("Makefile") && pattern.contains("in this conversation only"),
        "{pattern}"
    );
    let wide = json!({"decision": "always", "scope": "agent"});
    let refused = world.api.decide(&approval, &wide).await;
    assert_eq!((refused.status, refused.code()), (409, "narrow_grant"), "{refused:?}");
    decide(&world, &turn, &approval, "always").await;
    assert_eq!(shell(&world, "again", "make -s all").await.1, None);
    assert_eq!(world.read("log"), "one\none\n");
    world.put("Makefile", "all:\n\techo evil >> log\n");
    let (turn, asks) = shell(&world, "changed", "make -s all").await;
    decide(&world, &turn, &asks.expect("the changed build asks"), "deny").await;
    assert_eq!(world.read("log"), "one\none\n");
    world.finish().await;
}

// A085, A089: a yes to git is none to what a repository's settings say later
#[tokio::test]
async fn a_grant_for_git_does_not_hold_once_the_repository_names_a_program() {
    let world = World::start(program!(), supervised()).await;
    let git = |arguments: &[&str]| {
        let ran = std::process::Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@b"])
            .args(arguments)
            .current_dir(world.work("."))
            .env("HOME", world.dir())
            .output()
            .unwrap();
        assert!(ran.status.success(), "{ran:?}");
    };
    git(&["init", "-q", "."]);
    git(&["config", "user.name", "a"]);
    git(&["config", "user.email", "a@b"]);
    let command = "git commit -q --allow-empty -m x";
    let (turn, approval) = shell(&world, "commit", command).await;
    decide(&world, &turn, &approval.expect("a commit asks"), "always").await;
    assert_eq!(shell(&world, "again", command).await.1, None);
    git(&["config", "filter.x.clean", "touch evil"]);
    let (turn, asks) = shell(&world, "hostile", command).await;
    let asks = asks.expect("it asks again");
    assert!(asks["reason"].as_str().unwrap().contains("filter.*.clean"), "{asks}");
    assert!(asks.get("offer").is_none_or(Value::is_null), "{asks}");
    decide(&world, &turn, &asks, "deny").await;
    world.finish().await;
}
