//! Telegram, end to end: the program, a Bot API server, a model.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails at the place of the fault"
)]

use rookery_tests::model::result_texts;
use rookery_tests::telegram::{FakeTelegram, Fault, TOKEN, group};
use rookery_tests::wait::until;
use rookery_tests::{Call, Config, Gate, Reply, World, db, program};
use serde_json::json;

const ANN: i64 = 7;
const BEN: i64 = 8;
const EVE: i64 = 666;

fn config(fake: &FakeTelegram, more: &str) -> Config {
    Config::new()
        .agent("channels = [\"webhook.ci\", \"cli\", \"ws\", \"telegram.main\"]")
        .extra(&fake.section(&[ANN, BEN], more))
}

async fn start(fake: &FakeTelegram, more: &str) -> World {
    World::start(program!(), config(fake, more)).await
}

/// The turns of the bot, the oldest first.
async fn turns(world: &World) -> Vec<serde_json::Value> {
    let turns = world.api.get("/v1/turns?limit=50").await;
    let mut turns: Vec<_> = turns.as_array().unwrap().clone();
    turns.retain(|turn| turn["channel"] == "telegram.main");
    turns.reverse();
    turns
}

/// The whole life of the service left the token nowhere (A098).
fn assert_no_token(world: &World) {
    assert!(!world.service.log().contains(TOKEN), "the log holds the token");
    for entry in std::fs::read_dir(world.dir().join("data")).unwrap().flatten() {
        let bytes = std::fs::read(entry.path()).unwrap_or_default();
        let found = bytes.windows(TOKEN.len()).any(|part| part == TOKEN.as_bytes());
        assert!(!found, "{} holds the token", entry.path().display());
    }
}

// R1, R2, R7, A003, A077
#[tokio::test]
async fn an_answer_is_one_message_that_grows_and_holds_no_thoughts() {
    let fake = FakeTelegram::start().await;
    let world = start(&fake, "").await;
    let gate = Gate::new();
    let reply = Reply::stream()
        .delta("<think>I should greet</think>Hello **wor")
        .gate(&gate)
        .delta("ld** & all")
        .complete("stop");
    world.model.script("hi", [reply]);
    fake.say(ANN, "hi");
    let draft = fake.shown(ANN, "Hello **wor").await;
    gate.open();
    let shown = fake.shown(ANN, "Hello world & all").await;
    assert_eq!((shown.id, shown.raw.as_str()), (draft.id, "Hello <b>world</b> &amp; all"));
    fake.all_confirmed().await;
    assert_eq!(fake.chat(ANN).len(), 1, "{:?}", fake.chat(ANN));
    assert!(shown.texts.iter().all(|text| !text.contains("greet")), "{:?}", shown.texts);
    assert!(!fake.calls("sendChatAction").is_empty());
    until("the turn has ended", || async {
        let turns = turns(&world).await;
        if turns[0]["outcome"] == "answered" { Ok(()) } else { Err(format!("{turns:?}")) }
    })
    .await;
    assert_no_token(&world);
    world.finish().await;
}

// R4, A076
#[tokio::test]
async fn a_stranger_hears_nothing_and_nothing_of_theirs_is_fetched() {
    let fake = FakeTelegram::start().await;
    let world = start(&fake, "").await;
    fake.file("f1", b"bytes");
    let file = json!({ "document": { "file_id": "f1", "file_name": "a.txt" } });
    fake.write(EVE, rookery_tests::telegram::private(EVE), file);
    for text in ["hi", "/start", "/help", "/status"] {
        fake.say(EVE, text);
    }
    fake.all_confirmed().await;
    assert_eq!(fake.chat(EVE), []);
    assert_eq!((fake.downloads().len(), fake.calls("getFile").len()), (0, 0));
    assert_eq!((world.model.count(), world.api.ledger().await.accepted), (0, 0));
    let metrics = world.api.metrics().await;
    let dropped: f64 = metrics
        .series("refused")
        .iter()
        .filter(|(_, labels, _)| labels.contains("telegram.main") && labels.contains("not_allowed"))
        .map(|(_, _, count)| *count)
        .sum();
    assert_eq!(dropped, 5.0);
    world.finish().await;
}

// R3, I2, A012, A015
#[tokio::test]
async fn killed_between_poll_and_confirmation_it_answers_once_in_the_same_chat() {
    let fake = FakeTelegram::start().await;
    let mut world = start(&fake, "").await;
    let gate = Gate::new();
    let slow = Reply::stream().delta("Half an ").gate(&gate).delta("answer").complete("stop");
    world.model.script("question", [slow, Reply::text("Whole answer")]);
    fake.hold_confirmations(true);
    fake.say(ANN, "question");
    let draft = fake.shown(ANN, "Half an").await;
    assert_eq!(fake.unconfirmed(), 1);
    until("the draft is on record", || async {
        let drafts = "SELECT count(*) FROM drafts";
        let count: i64 = db::open(world.dir()).query_row(drafts, [], |row| row.get(0)).unwrap();
        if count == 1 { Ok(()) } else { Err(format!("{count} drafts")) }
    })
    .await;
    world.service.kill_9().await;
    fake.hold_confirmations(false);
    world.service.restart().await;
    let shown = fake.shown(ANN, "Whole answer").await;
    fake.all_confirmed().await;
    assert_eq!(shown.id, draft.id, "the draft of the first life became the answer");
    assert_eq!(fake.chat(ANN).len(), 1, "{:?}", fake.chat(ANN));
    assert_eq!(turns(&world).await.len(), 1);
    // Two real messages with the same words are two turns; one delivered twice is one.
    fake.say(ANN, "ok");
    fake.say(ANN, "ok");
    fake.until("two more answers", |fake| (fake.chat(ANN).len() == 3).then_some(())).await;
    fake.all_confirmed().await;
    fake.fault("getUpdates", Fault::Again);
    fake.until("it is delivered again", |fake| (fake.given_again() == 1).then_some(())).await;
    fake.all_confirmed().await;
    assert_eq!(turns(&world).await.len(), 3);
    world.finish().await;
}

// A056
#[tokio::test]
async fn a_topic_of_a_group_is_a_conversation_of_its_own_and_answers_stay_in_it() {
    let fake = FakeTelegram::start().await;
    let world = start(&fake, "").await;
    let topic = |n: i64, text: &str| json!({ "text": text, "message_thread_id": n, "is_topic_message": true });
    let first = fake.write(ANN, group(-1_005), topic(3, "@rook_bot in three"));
    let second = fake.write(BEN, group(-1_005), topic(4, "@rook_bot in four"));
    fake.write(ANN, group(-1_005), topic(3, "nothing for you"));
    let three = fake.shown(-1_005, "in three").await;
    let four = fake.shown(-1_005, "in four").await;
    assert_eq!((three.thread, three.answers), (Some(3), Some(first)));
    assert_eq!((four.thread, four.answers), (Some(4), Some(second)));
    fake.all_confirmed().await;
    let conversations: Vec<_> =
        turns(&world).await.iter().map(|turn| turn["conversation"].clone()).collect();
    assert_eq!(conversations, ["-1005/3", "-1005/4"]);
    world.finish().await;
}

// A081, A087, A088, I7, B3
#[tokio::test]
async fn an_approval_is_a_button_for_whoever_was_asked_and_nobody_else() {
    let fake = FakeTelegram::start().await;
    let config = config(&fake, "").level("supervised").risk("auto_approve = [\"file_edit\"]");
    let world = World::start(program!(), config).await;
    let write = Call::new("file_write", json!({ "path": "a.txt", "content": "written" }));
    world.model.script("write it", [Reply::calls([write]), Reply::text("It is written")]);
    let said = json!({ "text": "@rook_bot write it" });
    fake.write(ANN, group(-1_005), said);
    let prompt = fake.shown(-1_005, "Approval needed: file_write").await;
    assert!(prompt.text.contains("\"content\": \"written\""), "{}", prompt.text);
    let labels: Vec<_> = prompt.buttons.iter().map(|(label, _)| label.as_str()).collect();
    assert_eq!(labels, ["Approve", "Deny", "Always"]);

    // Somebody else of the group, a stranger, and the same button in another chat.
    fake.press(BEN, &prompt, "Approve");
    fake.press(EVE, &prompt, "Always");
    let elsewhere = rookery_tests::telegram::Shown { chat: ANN, ..prompt.clone() };
    fake.press(ANN, &elsewhere, "Approve");
    fake.until("three answers", |fake| (fake.answers().len() == 3).then_some(())).await;
    let refused: Vec<_> = fake.answers().into_iter().map(|(_, text)| text).collect();
    assert!(refused[..2].iter().all(|text| text.contains("not among those")), "{refused:?}");
    assert!(refused[2].contains("another chat"), "{refused:?}");
    assert!(!world.work("a.txt").exists());
    assert_eq!(fake.chat(-1_005)[0].buttons.len(), 3, "it stays open");

    fake.press(ANN, &prompt, "Approve");
    fake.shown(-1_005, "It is written").await;
    assert_eq!(world.read("a.txt"), "written");
    let settled = fake.shown(-1_005, "already decided by 7 via telegram.main: approved").await;
    assert_eq!((settled.id, settled.buttons.len()), (prompt.id, 0));

    // A replay is answered with what stands.
    fake.press(ANN, &prompt, "Deny");
    fake.until("the replay is answered", |fake| (fake.answers().len() == 5).then_some(())).await;
    assert!(fake.answers()[4].1.contains("already decided by 7"), "{:?}", fake.answers());
    fake.all_confirmed().await;
    let audit = world.cli(&["audit", "--json"]).await;
    assert!(
        audit.out.contains("approval.not_allowed") && audit.out.contains("\"8\""),
        "{}",
        audit.out
    );
    world.finish().await;
}

#[tokio::test]
async fn files_are_in_the_workspace_when_the_model_reads_of_them() {
    let fake = FakeTelegram::start().await;
    let world = start(&fake, "max_attachment_bytes = 10").await;
    fake.file("good", b"content");
    fake.file("liar", b"more than ten bytes");
    let file = |id: &str, size: u64| {
        json!({ "caption": format!("look at {id}"),
            "document": { "file_id": id, "file_name": "../n o.txt", "file_size": size } })
    };
    let id = fake.write(ANN, rookery_tests::telegram::private(ANN), file("good", 7));
    fake.write(ANN, rookery_tests::telegram::private(ANN), file("large", 11));
    fake.write(ANN, rookery_tests::telegram::private(ANN), file("liar", 5));
    fake.shown(ANN, "look at liar").await;
    let name = format!("attachments/{ANN}_{id}-1-n_o.txt");
    assert_eq!(world.read(&name), "content");
    let told = world.model.requests_for("look at good")[0].to_string();
    assert!(told.contains(&format!("[attached: {name} (text/plain, 7 bytes)]")), "{told}");
    for (key, why) in
        [("large", "it has 11 bytes, 10 are allowed"), ("liar", "it has more than the 10")]
    {
        let told = world.model.requests_for(&format!("look at {key}"))[0].to_string();
        assert!(told.contains(why), "{told}");
    }
    assert_eq!(fake.downloads(), ["documents/good", "documents/liar"]);
    fake.all_confirmed().await;
    world.finish().await;
}

// A026
#[tokio::test]
async fn nobody_types_once_the_turn_has_ended_however_it_ends() {
    let fake = FakeTelegram::start().await;
    let world = start(&fake, "").await;
    world.model.script("fails", [Reply::error(400, "no"), Reply::error(400, "no")]);
    fake.say(ANN, "fails");
    fake.shown(ANN, "[failed]").await;
    fake.say(BEN, "works");
    fake.shown(BEN, "works").await;
    until("no draft is left", || async {
        let left = rookery_tests::quiet::live_of_kind(&world.api.tree().await, "draft");
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
    let typed = fake.calls("sendChatAction").len();
    let polls = fake.calls("getUpdates").len();
    // Telegram's sign would have been renewed within two polls of a second and the 4 s between signs.
    fake.until("six polls more", |fake| (fake.calls("getUpdates").len() > polls + 5).then_some(()))
        .await;
    assert_eq!(fake.calls("sendChatAction").len(), typed);
    fake.all_confirmed().await;
    world.finish().await;
}

// A003
#[tokio::test]
async fn results_of_tools_are_not_shown_while_they_run_but_what_runs_is() {
    let fake = FakeTelegram::start().await;
    let world = start(&fake, "").await;
    let calls =
        Reply::stream().delta("Let me see.").ask([Call::hold("look")]).complete("tool_calls");
    world.model.script("look", [calls, Reply::text("Seen.")]);
    fake.say(ANN, "look");
    let draft = fake.shown(ANN, "⏳ running shell").await;
    assert!(draft.text.starts_with("Let me see."), "{draft:?}");
    world.file("look.started").await;
    world.put("look.go", "");
    let shown = fake.shown(ANN, "Seen.").await;
    assert_eq!(shown.id, draft.id);
    assert!(shown.texts.iter().all(|text| !text.contains("look done")), "{:?}", shown.texts);
    assert!(result_texts(&world.model.last_request())[0].contains("look done"));
    fake.all_confirmed().await;
    world.finish().await;
}

// A008, B5
#[tokio::test]
async fn whoever_finds_the_queue_full_is_told_so() {
    let fake = FakeTelegram::start().await;
    let world = start(&fake, "queue_limit = 1").await;
    let gate = Gate::new();
    world.model.script("first", [Reply::stream().gate(&gate).delta("one").complete("stop")]);
    fake.say(ANN, "first");
    gate.reached().await;
    fake.say(ANN, "second");
    fake.say(ANN, "third");
    fake.shown(ANN, "queue full: 1 messages of this conversation are waiting already").await;
    gate.open();
    fake.shown(ANN, "one").await;
    fake.shown(ANN, "second").await;
    fake.all_confirmed().await;
    let ledger = world.api.ledger().await;
    assert_eq!((ledger.accepted, ledger.rejected), (3, 1), "{ledger:?}");
    world.finish().await;
}

// R19, A088
#[tokio::test]
async fn commands_act_at_once_are_answered_in_the_chat_and_reach_no_model() {
    let fake = FakeTelegram::start().await;
    let world = start(&fake, "").await;
    world.model.script("long", [Reply::stream().delta("I begin").hang()]);
    fake.say(ANN, "long");
    let draft = fake.shown(ANN, "I begin").await;
    fake.say(ANN, "/stop");
    fake.until("the draft became the end", |fake| {
        fake.chat(ANN)
            .into_iter()
            .find(|one| one.id == draft.id && one.text.contains("[cancelled]"))
    })
    .await;
    fake.say(ANN, "/help");
    fake.shown(ANN, "/status").await;
    fake.say(ANN, "/approve");
    fake.all_confirmed().await;
    assert_eq!(world.model.count(), 1);
    let menu = fake.calls("setMyCommands").remove(0).body;
    let names: Vec<_> =
        menu["commands"].as_array().unwrap().iter().map(|c| &c["command"]).collect();
    assert_eq!(names, ["stop", "new", "status", "model", "help"]);
    world.finish().await;
}
