//! Telegram when the platform or the network is unkind.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails at the place of the fault"
)]

use std::time::Duration;

use rookery_tests::telegram::{FakeTelegram, Fault, TOKEN};
use rookery_tests::wait::until;
use rookery_tests::{Config, Gate, Reply, World, program};
use serde_json::Value;

const ANN: i64 = 7;
const BEN: i64 = 8;

async fn start(fake: &FakeTelegram, more: &str) -> World {
    let config = Config::new()
        .agent("channels = [\"webhook.ci\", \"cli\", \"ws\", \"telegram.main\"]")
        .extra(&fake.section(&[ANN, BEN], more));
    World::start(program!(), config).await
}

async fn readiness(world: &World, name: &str) -> Value {
    let ready = world.api.try_get("/readyz").await.body;
    let components = ready["components"].as_array().unwrap().clone();
    components.into_iter().find(|one| one["name"] == name).unwrap_or_default()
}

// A057
#[tokio::test]
async fn conflicts_stalls_and_bad_gateways_of_a_poll_are_waited_out_and_lasting_ones_shown() {
    let fake = FakeTelegram::start().await;
    let world = start(&fake, "").await;
    for fault in [Fault::conflict(), Fault::conflict(), Fault::Page(502), Fault::CutAfter] {
        fake.fault("getUpdates", fault);
    }
    fake.say(ANN, "first");
    fake.shown(ANN, "first").await;
    for _ in 0..4 {
        fake.fault("getUpdates", Fault::conflict());
    }
    until("the conflict is on show", || async {
        let shown = readiness(&world, "receiving/telegram.main").await;
        let reason = shown["reason"].as_str().unwrap_or_default().to_owned();
        if reason.contains("another instance") { Ok(()) } else { Err(shown.to_string()) }
    })
    .await;
    fake.say(ANN, "second");
    fake.shown(ANN, "second").await;
    // A half-open socket: nobody answers, and nobody closes.
    fake.fault("getUpdates", Fault::Hang);
    fake.until("the poll hangs", |fake| (fake.faults_left("getUpdates") == 0).then_some(())).await;
    fake.say(ANN, "third");
    fake.shown(ANN, "third").await;
    fake.all_confirmed().await;
    world.finish().await;
}

// A054
#[tokio::test]
async fn told_to_wait_it_sends_nothing_to_that_chat_and_then_the_final_in_the_same_message() {
    let fake = FakeTelegram::start().await;
    let world = start(&fake, "").await;
    let (first, second) = (Gate::new(), Gate::new());
    let reply = Reply::stream()
        .delta("one ")
        .gate(&first)
        .delta("two ")
        .gate(&second)
        .delta("three")
        .complete("stop");
    world.model.script("go", [reply]);
    fake.say(ANN, "go");
    let draft = fake.shown(ANN, "one").await;
    fake.fault("editMessageText", Fault::too_many(3));
    first.open();
    fake.until("the edit is refused", |fake| {
        (!fake.calls("editMessageText").is_empty()).then_some(())
    })
    .await;
    second.open();
    // Another chat goes on meanwhile.
    fake.say(BEN, "other");
    fake.shown(BEN, "other").await;
    let shown = fake.shown(ANN, "one two three").await;
    assert_eq!(shown.id, draft.id);
    assert_eq!(fake.chat(ANN).len(), 1);
    let edits = fake.calls("editMessageText");
    let edits: Vec<_> = edits.iter().filter(|call| call.body["chat_id"] == ANN).collect();
    assert!(edits[1].at - edits[0].at >= Duration::from_secs(3), "{edits:?}");
    fake.all_confirmed().await;
    world.finish().await;
}

// A053, A055, I11
#[tokio::test]
async fn an_edit_that_changes_nothing_is_done_and_marks_that_are_refused_go_as_plain_text() {
    let fake = FakeTelegram::start().await;
    let world = start(&fake, "stream = false").await;
    fake.fault(
        "sendMessage",
        Fault::Refuse(400, "Bad Request: can't parse entities: it says so", Value::Null),
    );
    world.model.script("marks", [Reply::text("some **bold** words")]);
    fake.say(ANN, "marks");
    let plain = fake.shown(ANN, "some bold words").await;
    assert_eq!(plain.raw, "some bold words");
    let long =
        format!("para\n\n**{}**\n\n```rust\n{}```", "a".repeat(5_000), "let x = 1;\n".repeat(500));
    world.model.script("long", [Reply::text(&long)]);
    fake.say(BEN, "long");
    fake.until("all of it", |fake| {
        let text: String = fake.chat(BEN).iter().map(|message| message.text.clone()).collect();
        let whole = text.matches('a').count() == 5_002 && text.matches("let x = 1;").count() == 500;
        whole.then_some(())
    })
    .await;
    let pieces = fake.chat(BEN);
    assert!(pieces.len() >= 3, "{}", pieces.len());
    assert!(pieces.iter().skip(2).all(|one| one.raw.contains("language-rust")), "{pieces:?}");
    fake.all_confirmed().await;
    world.finish().await;
}

// A053
#[tokio::test]
async fn not_modified_is_success_and_a_send_with_an_unknown_end_is_marked_when_it_is_repeated() {
    let fake = FakeTelegram::start().await;
    let world = start(&fake, "").await;
    let gate = Gate::new();
    let reply = Reply::stream().delta("the answer").gate(&gate).complete("stop");
    world.model.script("go", [reply]);
    fake.say(ANN, "go");
    fake.shown(ANN, "the answer").await;
    gate.open();
    fake.until("the final edit", |fake| (!fake.calls("editMessageText").is_empty()).then_some(()))
        .await;
    fake.all_confirmed().await;
    until("the turn's answer is delivered", || async {
        let metrics = world.api.metrics().await;
        let sent = metrics
            .series("deliver")
            .iter()
            .any(|(_, labels, count)| labels.contains("sent") && *count == 1.0);
        if sent { Ok(()) } else { Err(format!("{:?}", metrics.series("deliver"))) }
    })
    .await;
    assert_eq!(fake.chat(ANN).len(), 1);
    world.finish().await;

    let fake = FakeTelegram::start().await;
    let world = start(&fake, "stream = false").await;
    fake.fault("sendMessage", Fault::CutAfter);
    fake.say(ANN, "hello");
    let again = fake.shown(ANN, "(possibly repeated)").await;
    assert!(again.text.ends_with("hello"), "{again:?}");
    assert_eq!(fake.chat(ANN).len(), 2);
    fake.all_confirmed().await;
    world.finish().await;
}

// A054
#[tokio::test]
async fn a_slow_chat_delays_neither_the_stream_nor_another_chat() {
    let fake = FakeTelegram::start().await;
    let world = start(&fake, "").await;
    let slow = Gate::new();
    for method in ["sendMessage", "editMessageText"] {
        fake.chat_fault(method, ANN, Fault::Wait(slow.clone()));
    }
    let words: Vec<String> = (0..40).map(|n| format!("word{n} ")).collect();
    let gate = Gate::new();
    let stream = words.iter().fold(Reply::stream(), |reply, word| reply.delta(word));
    world.model.script("go", [stream.gate(&gate).complete("stop")]);
    fake.say(ANN, "go");
    // The model has said everything while the first message is still on its way.
    gate.reached().await;
    assert_eq!(fake.chat(ANN), []);
    fake.say(BEN, "quick");
    fake.shown(BEN, "quick").await;
    assert_eq!(fake.chat(ANN), []);
    gate.open();
    slow.open();
    let shown = fake.shown(ANN, "word39").await;
    fake.all_confirmed().await;
    until("all drafts are gone", || async {
        let left = rookery_tests::quiet::live_of_kind(&world.api.tree().await, "draft");
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
    assert_eq!(fake.chat(ANN).len(), 1);
    assert!(shown.texts.len() < 6, "latest wins: {:?}", shown.texts);
    world.finish().await;
}

// A098, I8, I12
#[tokio::test]
async fn a_revoked_token_parks_its_channel_with_the_cause_and_shows_itself_nowhere() {
    let fake = FakeTelegram::start().await;
    let world = start(&fake, "").await;
    fake.say(ANN, "before");
    fake.shown(ANN, "before").await;
    fake.all_confirmed().await;
    fake.revoke();
    until("the receiver is parked", || async {
        let node = world.api.get("/admin/v1/tree").await.to_string();
        let parked = node.contains("channels.telegram.main.bot_token");
        if parked { Ok(()) } else { Err("not parked".to_owned()) }
    })
    .await;
    // The others serve.
    assert_eq!(world.api.say("c", "still here").await.outcome.as_deref(), Some("answered"));
    let tree = world.api.get("/admin/v1/tree").await.to_string();
    let ready = world.api.try_get("/readyz").await.body.to_string();
    let metrics = format!("{:?}", world.api.metrics().await.names());
    for shown in [&tree, &ready, &metrics, &world.service.log()] {
        assert!(!shown.contains(TOKEN));
    }
    world.finish().await;
}

// A098
#[tokio::test]
async fn a_token_among_other_words_is_refused_without_being_shown() {
    let fake = FakeTelegram::start().await;
    let dir = tempfile::tempdir().unwrap();
    let words = format!("Use this token to access the HTTP API:\\n{TOKEN}");
    let section = fake.section(&[ANN], "").replace(TOKEN, &words);
    let agent = "[providers.main]\nkind = \"demo\"\n[agents.home]\nprovider = \"main\"\nchannels = [\"telegram.main\"]\n";
    let file = dir.path().join("rookery.toml");
    std::fs::write(&file, format!("{agent}{section}")).unwrap();
    let args = ["config", "check", "--config", file.to_str().unwrap()];
    let printed =
        rookery_tests::cli::run_with_input(program!().as_ref(), dir.path(), &args, &[], "").await;
    let said = format!("{}{}", printed.out, printed.err);
    assert_ne!(printed.code, Some(0), "{said}");
    assert!(said.contains("channels.telegram.main.bot_token"), "{said}");
    assert!(!said.contains(TOKEN), "{said}");
}
