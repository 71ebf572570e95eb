//! What people outside a conversation have to do with Telegram: approvals of other channels asked there,
//! operators who say something, and other bots.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails at the place of the fault"
)]

use rookery_tests::telegram::{BOT, FakeTelegram, Fault, Shown, group, private};
use rookery_tests::wait::until;
use rookery_tests::{Call, Config, Reply, World, program};
use serde_json::{Value, json};

const ANN: i64 = 7;
const BEN: i64 = 8;
const TEAM: i64 = -1_001;

fn config(fake: &FakeTelegram, more: &str) -> Config {
    Config::new()
        .agent("channels = [\"webhook.ci\", \"cli\", \"ws\", \"telegram.main\"]")
        .extra(&fake.section(&[ANN, BEN], more))
}

/// An agent whose approvals are asked in a chat.
async fn routed(fake: &FakeTelegram, chat: &str, more: &str) -> World {
    let route = format!("approval_route = \"telegram.main:{chat}\"");
    let world =
        World::start(program!(), config(fake, more).level("supervised").agent(&route)).await;
    let calls = vec![Call::shell("echo ran >> log")];
    world.model.script("go", [Reply::calls(calls), Reply::text("done")]);
    world
}

/// What a press was answered with, once there are so many answers.
async fn answered(fake: &FakeTelegram, count: usize) -> String {
    let answer = |fake: &FakeTelegram| fake.answers().get(count - 1).map(|(_, text)| text.clone());
    fake.until(&format!("{count} answers"), answer).await
}

/// The same prompt, as if it stood in another chat.
fn in_chat(shown: &Shown, chat: i64) -> Shown {
    Shown { chat, ..shown.clone() }
}

// V-H6, V-H13, V-H14, A081, A087, I7
#[tokio::test]
async fn a_webhooks_approval_is_asked_in_a_group_with_buttons_and_decided_there_by_its_people() {
    let fake = FakeTelegram::start().await;
    let world = routed(&fake, "-1001", "approvers = [\"8\"]").await;
    let id = world.api.tell("c", "go").await;
    let asked = fake.shown(TEAM, "Approval needed: shell").await;
    assert!(asked.text.contains("echo ran >> log"), "{asked:?}");
    let labels: Vec<&str> = asked.buttons.iter().map(|(label, _)| label.as_str()).collect();
    assert_eq!(labels, ["Approve", "Deny", "Always"]);
    // Who may speak to the bot is not who may decide, and the button is good in its chat alone.
    fake.press(ANN, &asked, "Approve");
    assert!(answered(&fake, 1).await.contains("not among those"));
    fake.press(BEN, &in_chat(&asked, BEN), "Approve");
    assert!(answered(&fake, 2).await.contains("another chat"));
    let pending = world.api.approval_of(&id).await;
    assert_eq!(pending["route"]["address"]["conversation"], json!("-1001"));
    assert_eq!(world.read("log"), "");
    fake.press(BEN, &asked, "Approve");
    assert_eq!(answered(&fake, 3).await, "approved");
    assert_eq!(world.api.ended(&id).await.text(), "done");
    assert_eq!(world.read("log"), "ran\n");
    let settled = fake.shown(TEAM, "already decided by 8 via telegram.main: approved").await;
    assert_eq!((settled.id, settled.buttons), (asked.id, vec![]));
    assert_eq!(fake.chat(TEAM).len(), 1);
    // Others read who it was.
    let by = decided_by(&world, &pending).await;
    assert_eq!((&by["who"], &by["via"]), (&json!("8"), &json!("telegram.main")));
    world.finish().await;
}

async fn decided_by(world: &World, approval: &Value) -> Value {
    let all = world.api.get("/admin/v1/approvals").await;
    let one = all.as_array().unwrap().iter().find(|one| one["id"] == approval["id"]);
    one.unwrap()["decided_by"].clone()
}

// V-H13, A081
#[tokio::test]
async fn what_is_decided_elsewhere_or_withdrawn_takes_the_buttons_from_the_chat() {
    let fake = FakeTelegram::start().await;
    // In a chat of two, whoever it is with decides.
    let world = routed(&fake, "8", "").await;
    let id = world.api.tell("c", "go").await;
    let asked = fake.shown(BEN, "Approval needed: shell").await;
    let approval = world.api.approval_of(&id).await;
    assert_eq!(approval["route"]["approvers"], json!(["8"]));
    let decided = world.api.decide(&approval, &json!({ "decision": "deny" })).await;
    assert_eq!(decided.status, 200);
    let settled = fake.shown(BEN, "via admin: denied").await;
    assert_eq!((settled.id, settled.buttons), (asked.id, vec![]));
    world.api.ended(&id).await;
    fake.press(BEN, &asked, "Approve");
    assert!(answered(&fake, 1).await.contains("already decided"));
    let calls = vec![Call::shell("echo ran >> log")];
    world.model.script("again", [Reply::calls(calls)]);
    let id = world.api.tell("d", "again").await;
    let second = |fake: &FakeTelegram| {
        let shown = fake.chat(BEN);
        shown.into_iter().find(|one| one.id != asked.id && one.text.contains("Approval needed"))
    };
    let asked = fake.until("it is asked again", second).await;
    world.api.cancel(&id).await;
    world.api.ended(&id).await;
    let gone = |fake: &FakeTelegram| {
        let shown = fake.chat(BEN);
        shown.into_iter().find(|one| one.id == asked.id && one.buttons.is_empty())
    };
    let gone = fake.until("the buttons are gone", gone).await;
    assert!(gone.text.contains("cancelled"), "{gone:?}");
    assert_eq!(world.read("log"), "");
    world.finish().await;
}

// V-N2, B3: the prompt stands, and is not posted twice
#[tokio::test]
async fn a_prompt_in_a_chat_outlives_the_process() {
    let fake = FakeTelegram::start().await;
    let mut world = routed(&fake, "-1001", "approvers = [\"8\"]").await;
    let id = world.api.tell("c", "go").await;
    let asked = fake.shown(TEAM, "Approval needed: shell").await;
    until("it is known where the prompt stands", || async {
        let rows = rookery_tests::db::open(world.dir());
        let sent: i64 = rows
            .query_row(
                "SELECT count(*) FROM outbox WHERE kind = 'approval' AND state = 'sent'",
                [],
                |r| r.get(0),
            )
            .unwrap();
        if sent == 1 { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
    world.crash().await;
    fake.press(BEN, &asked, "Approve");
    assert_eq!(world.api.ended(&id).await.text(), "done");
    let settled = fake.shown(TEAM, "already decided by 8").await;
    assert_eq!((settled.id, fake.chat(TEAM).len()), (asked.id, 1));
    assert_eq!(world.read("log"), "ran\n");
    world.finish().await;
}

// R13, B1: the way of every answer, with an id
#[tokio::test]
async fn an_operator_says_something_in_a_chat_once_and_it_is_audited() {
    let fake = FakeTelegram::start().await;
    let world = World::start(program!(), config(&fake, "")).await;
    let send = ["channels", "send", "telegram.main"];
    let sent = world.cli(&[&send[..], &["7", "Deploy <1> is done", "--id", "d-1"]].concat()).await;
    assert_eq!(sent.code, Some(0), "{sent:?}");
    assert!(sent.out.starts_with("sent: "), "{sent:?}");
    assert_eq!(fake.chat(ANN)[0].text, "Deploy <1> is done");
    let again = ["7", "Deploy <1> is done", "--id", "d-1", "--json"];
    let again = world.cli(&[&send[..], &again].concat()).await;
    let told = again.json();
    assert_eq!((&told["state"], &told["duplicate"]), (&json!("sent"), &json!(true)));
    assert_eq!(fake.chat(ANN).len(), 1);
    let other = world.cli(&[&send[..], &["7", "Something else", "--id", "d-1"]].concat()).await;
    assert!(other.code == Some(1) && other.err.contains("id_taken"), "{other:?}");
    // A topic; and without an id each is a message of its own.
    for _ in 0..2 {
        let topic = world.cli(&[&send[..], &["-1001/45", "-- topic"]].concat()).await;
        assert_eq!(topic.code, Some(0), "{topic:?}");
    }
    let threads: Vec<_> = fake.chat(TEAM).iter().map(|one| one.thread).collect();
    assert_eq!(threads, [Some(45), Some(45)]);
    let audit = world.api.get("/admin/v1/audit").await;
    let rows: Vec<&Value> =
        audit.as_array().unwrap().iter().filter(|row| row["action"] == "channel.send").collect();
    assert_eq!(rows.len(), 3, "{rows:?}");
    let first = rows.last().unwrap();
    assert_eq!(first["target"], json!("telegram.main"));
    assert_eq!(first["detail"]["conversation"], json!("7"));
    assert!(!audit.to_string().contains("Deploy"), "the audit repeats what was said");
    world.finish().await;
}

#[tokio::test]
async fn what_cannot_be_sent_says_why_and_what_waits_arrives_later() {
    let fake = FakeTelegram::start().await;
    let world = World::start(program!(), config(&fake, "")).await;
    for (channel, chat, code, says) in [
        ("telegram.mian", "7", 1, "the nearest is `telegram.main`"),
        ("ws", "7", 1, "its readers fetch"),
        ("webhook.ci", "7", 1, "`reply_url`"),
        ("telegram.main", "@ann", 1, "named by its number"),
    ] {
        let sent = world.cli(&["channels", "send", channel, chat, "hi"]).await;
        assert_eq!(sent.code, Some(code), "{channel}: {sent:?}");
        assert!(sent.err.contains(says), "{channel}: {sent:?}");
    }
    let blank = world.cli(&["channels", "send", "telegram.main", "7", " "]).await;
    assert_eq!(blank.code, Some(2), "{blank:?}");
    // Refused for good: a dead letter, and exit code 1.
    let blocked = "Forbidden: bot was blocked by the user";
    fake.chat_fault("sendMessage", ANN, Fault::Refuse(403, blocked, Value::Null));
    let dead = world.cli(&["channels", "send", "telegram.main", "7", "hi"]).await;
    assert!(dead.code == Some(1) && dead.out.contains("blocked"), "{dead:?}");
    // Refused for now: it is kept.
    fake.fault("sendMessage", Fault::too_many(1));
    let waits =
        world.cli(&["channels", "send", "telegram.main", "8", "later", "--wait", "0"]).await;
    assert!(waits.code == Some(0) && waits.out.contains("kept until it is"), "{waits:?}");
    fake.shown(BEN, "later").await;
    // The role decides who may.
    let nobody = world.cli(&["channels", "send", "telegram.main", "8", "hi", "--token", "x"]).await;
    assert_eq!(nobody.code, Some(3), "{nobody:?}");
    let letters = world.cli(&["deadletters", "list", "--json"]).await.json();
    assert_eq!(letters.as_array().unwrap().len(), 1);
    let id = letters[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(world.cli(&["deadletters", "purge", &id]).await.code, Some(0));
    world.finish().await;
}

fn bot(id: i64) -> Value {
    json!({ "id": id, "is_bot": true, "first_name": "A bot" })
}

// The kind of fault that mail knows as its own echo.
#[tokio::test]
async fn it_never_answers_itself_and_no_bot_unless_it_is_told_to() {
    let fake = FakeTelegram::start().await;
    let world = World::start(program!(), config(&fake, "groups = \"all\"")).await;
    for from in [BOT, 99] {
        fake.write(from, group(TEAM), json!({ "text": "hello", "from": bot(from) }));
        fake.write(from, private(from), json!({ "text": "/start", "from": bot(from) }));
    }
    fake.all_confirmed().await;
    assert_eq!((fake.chat(TEAM).len(), world.api.ledger().await.accepted), (0, 0));
    let metrics = world.api.metrics().await;
    let dropped = |reason: &str| -> f64 {
        let of = metrics.series("refused").into_iter();
        of.filter(|(_, labels, _)| labels.contains(&format!("\"{reason}\"")))
            .map(|(_, _, count)| count)
            .sum()
    };
    assert_eq!((dropped("own_message"), dropped("bot")), (2.0, 2.0));
    world.finish().await;
}

// The loop that costs money for ever.
#[tokio::test]
async fn two_bots_that_answer_each_other_are_stopped_with_one_notice() {
    let fake = FakeTelegram::start().await;
    let more = "groups = \"all\"\nallow_bots = true\nbot_chain_limit = 2\nstream = false";
    let config = Config::new()
        .agent("channels = [\"webhook.ci\", \"cli\", \"ws\", \"telegram.main\"]")
        .extra(&fake.section(&[ANN, 99], more));
    let world = World::start(program!(), config).await;
    for n in 1..=3 {
        let asked = format!("and you? {n}");
        world.model.script(&asked, [Reply::text(format!("fine {n}"))]);
    }
    for n in 1..=2 {
        let text = format!("and you? {n}");
        fake.write(99, group(TEAM), json!({ "text": text, "from": bot(99) }));
        fake.shown(TEAM, &format!("fine {n}")).await;
    }
    for n in 3..=5 {
        let text = format!("and you? {n}");
        fake.write(99, group(TEAM), json!({ "text": text, "from": bot(99) }));
    }
    fake.shown(TEAM, "2 messages in a row came from bots").await;
    fake.all_confirmed().await;
    assert_eq!(world.api.ledger().await.accepted, 2);
    let metrics = world.api.metrics().await;
    let cut: f64 = metrics
        .series("refused")
        .iter()
        .filter(|(_, labels, _)| labels.contains("bot_chain"))
        .map(|(_, _, count)| *count)
        .sum();
    assert_eq!(cut, 3.0);
    world.model.script("go on", [Reply::text("as you say")]);
    fake.write(ANN, group(TEAM), json!({ "text": "go on" }));
    fake.shown(TEAM, "as you say").await;
    let notices = fake.chat(TEAM).into_iter().filter(|one| one.text.contains("in a row")).count();
    assert_eq!(notices, 1);
    world.finish().await;
}
