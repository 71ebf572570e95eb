//! What people show: files that come with messages, and who sees the images among them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails at the place of the fault"
)]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rookery_tests::api::{fresh_id, message};
use rookery_tests::telegram::{FakeTelegram, private};
use rookery_tests::wait::until;
use rookery_tests::{Call, Config, Reply, World, program, wire};
use serde_json::{Value, json};

const ANN: i64 = 7;
const JPEG: &[u8] = b"\xff\xd8\xff\xe0\x00\x10JFIF a picture, as far as its first bytes say";
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n another one";

/// A second provider at the same mock, whose model's name says that it sees.
const SEEING: &str = "[providers.seeing]\nkind = \"openai\"\nbase_url = \"{model}\"\n\
    api_key = \"key-for-the-mock-model\"\nmodel = \"mock-vision\"\n";

fn config(fake: &FakeTelegram, more: &str) -> Config {
    Config::new()
        .agent("channels = [\"webhook.ci\", \"cli\", \"ws\", \"telegram.main\"]")
        .extra(&fake.section(&[ANN], more))
}

fn seeing(fake: &FakeTelegram, more: &str) -> Config {
    config(fake, more).provider("vision = true")
}

/// A photo in two sizes, the larger last.
fn photo(fake: &FakeTelegram, id: &str, bytes: &[u8], caption: &str) -> String {
    fake.file(id, bytes);
    let photo = json!([{ "file_id": format!("{id}-small") }, { "file_id": id }]);
    let number = fake.write(ANN, private(ANN), json!({ "caption": caption, "photo": photo }));
    format!("attachments/{ANN}_{number}-1-photo-{number}.jpg")
}

fn document(fake: &FakeTelegram, name: &str, bytes: &[u8], caption: &str) -> String {
    fake.file(name, bytes);
    let document = json!({ "file_id": name, "file_name": name, "mime_type": "image/png" });
    let number = fake.write(ANN, private(ANN), json!({ "caption": caption, "document": document }));
    format!("attachments/{ANN}_{number}-1-{name}")
}

/// The images of a request, in order.
fn images(request: &Value) -> Vec<(String, Vec<u8>)> {
    let messages = request["messages"].as_array().unwrap().iter();
    let parts = messages.flat_map(|message| message["content"].as_array().into_iter().flatten());
    let shown = parts.filter(|part| part["type"] == "image_url");
    shown
        .map(|part| {
            let (kind, bytes) = wire::image(part).unwrap();
            (kind.to_owned(), bytes)
        })
        .collect()
}

fn jpeg(bytes: &[u8]) -> (String, Vec<u8>) {
    ("image/jpeg".to_owned(), bytes.to_vec())
}

// R2
#[tokio::test]
async fn a_model_that_sees_gets_the_photo_and_still_has_it_when_asked_again() {
    let fake = FakeTelegram::start().await;
    let world = World::start(program!(), seeing(&fake, "")).await;
    let look = Call::new("time", json!({}));
    world.model.script("what is it", [Reply::calls([look]), Reply::text("A rook.")]);
    let path = photo(&fake, "big", JPEG, "what is it");
    fake.shown(ANN, "A rook.").await;
    assert_eq!(fake.downloads(), ["documents/big"]);
    let requests = world.model.requests();
    // Both calls of the turn have it, and the text says where it is.
    assert_eq!(requests.len(), 2);
    for request in &requests {
        assert_eq!(images(request), [jpeg(JPEG)]);
    }
    let told = requests[0].to_string();
    let line = format!("[attached: {path} (image/jpeg, {} bytes)]", JPEG.len());
    assert!(told.contains(&line), "{told}");
    fake.say(ANN, "and its colour?");
    fake.shown(ANN, "and its colour?").await;
    assert_eq!(images(&world.model.last_request()), [jpeg(JPEG)]);
    let kept = world.api.messages("telegram.main", &ANN.to_string()).await;
    assert_eq!(kept[0]["attachments"][0]["path"], path.as_str());
    assert_eq!(kept[0]["attachments"][0]["media_type"], "image/jpeg");
    fake.all_confirmed().await;
    world.finish().await;
}

// R16
#[tokio::test]
async fn a_model_that_sees_nothing_reads_where_the_image_is() {
    let fake = FakeTelegram::start().await;
    let world = World::start(program!(), config(&fake, "")).await;
    let path = photo(&fake, "big", JPEG, "what is it");
    fake.shown(ANN, "what is it").await;
    let request = world.model.last_request();
    let said = request["messages"].as_array().unwrap().last().unwrap()["content"].clone();
    let line = format!("what is it\n[attached: {path} (image/jpeg, {} bytes)]", JPEG.len());
    assert_eq!(said, json!(line));
    fake.all_confirmed().await;
    world.finish().await;
}

// R16
#[tokio::test]
async fn images_are_shown_to_the_provider_that_sees_and_words_go_where_they_always_go() {
    let fake = FakeTelegram::start().await;
    let config = config(&fake, "").agent("vision_provider = \"seeing\"").extra(SEEING);
    let world = World::start(program!(), config).await;
    assert_eq!(world.api.say("c", "plain words").await.result(), "answered");
    photo(&fake, "big", JPEG, "what is it");
    fake.shown(ANN, "what is it").await;
    let asked: Vec<_> = world
        .model
        .requests()
        .iter()
        .map(|request| (request["model"].as_str().unwrap().to_owned(), images(request)))
        .collect();
    let seen = ("mock-vision".to_owned(), vec![jpeg(JPEG)]);
    assert_eq!(asked, [("mock".to_owned(), vec![]), seen]);
    fake.all_confirmed().await;
    world.finish().await;
}

// A058: and of photos that are no album, sent one after the other
#[tokio::test]
async fn photos_that_are_answered_together_are_all_shown_in_order() {
    let fake = FakeTelegram::start().await;
    let more = "queue = \"coalesce\"\ndebounce_ms = 2000";
    let world = World::start(program!(), seeing(&fake, more)).await;
    let shown: Vec<Vec<u8>> =
        (0..3).map(|n| [JPEG, format!(" number {n}").as_bytes()].concat()).collect();
    for (n, bytes) in shown.iter().enumerate() {
        photo(&fake, &format!("f{n}"), bytes, &format!("photo {n}"));
    }
    fake.shown(ANN, "photo 2").await;
    fake.all_confirmed().await;
    assert_eq!(world.model.count(), 1);
    let expected: Vec<_> = shown.iter().map(|bytes| jpeg(bytes)).collect();
    assert_eq!(images(&world.model.last_request()), expected);
    // An album is one message, and keeps them too.
    for (n, bytes) in shown.iter().enumerate() {
        let id = format!("a{n}");
        fake.file(&id, bytes);
        let photo =
            json!({ "caption": "album", "media_group_id": "g", "photo": [{ "file_id": id }] });
        fake.write(ANN, private(ANN), photo);
    }
    fake.shown(ANN, "album").await;
    assert_eq!(images(&world.model.last_request())[3..], expected);
    fake.all_confirmed().await;
    world.finish().await;
}

// B2
#[tokio::test]
async fn killed_before_and_during_the_model_call_the_image_is_in_the_request_all_the_same() {
    let fake = FakeTelegram::start().await;
    let mut world = World::start(program!(), seeing(&fake, "")).await;
    assert_eq!(world.api.act("root/service/sessions", "pause").await.status, 202);
    until("no session is started", || async {
        let sessions = world.api.get("/admin/v1/actors/root/service/sessions").await;
        if sessions["status"] == "paused" { Ok(()) } else { Err(sessions.to_string()) }
    })
    .await;
    photo(&fake, "big", JPEG, "what is it");
    until("it is accepted", || async {
        let turns = world.api.get("/v1/turns?state=queued").await;
        if turns.as_array().unwrap().len() == 1 { Ok(()) } else { Err(turns.to_string()) }
    })
    .await;
    assert_eq!(world.model.count(), 0);
    world.model.script("what is it", [Reply::silence(), Reply::text("A rook.")]);
    world.crash().await;
    world.model.counted(1).await;
    world.crash().await;
    fake.shown(ANN, "A rook.").await;
    for request in world.model.requests() {
        assert_eq!(images(&request), [jpeg(JPEG)]);
    }
    assert_eq!(world.model.count(), 2);
    fake.all_confirmed().await;
    world.finish().await;
}

// R2
#[tokio::test]
async fn an_image_that_is_posted_to_a_webhook_is_shown_too() {
    let fake = FakeTelegram::start().await;
    let world = World::start(program!(), seeing(&fake, "")).await;
    let mut body = message(&fresh_id(), "c", "what is it");
    body["attachments"] = json!([{ "name": "x.png", "data": STANDARD.encode(PNG) }]);
    let answer = world.api.webhook(&body, "?wait=30").await;
    assert_eq!(answer.body["outcome"], "answered", "{answer:?}");
    assert_eq!(images(&world.model.last_request()), [("image/png".to_owned(), PNG.to_vec())]);
    world.finish().await;
}

// I4
#[tokio::test]
async fn what_is_no_image_too_large_or_gone_is_told_in_words() {
    let fake = FakeTelegram::start().await;
    let world = World::start(program!(), seeing(&fake, "")).await;
    let last = |world: &World| world.model.last_request();

    // Its name and the platform call it a picture.
    let path = document(&fake, "words.png", b"just words", "a lie");
    fake.shown(ANN, "a lie").await;
    assert_eq!(images(&last(&world)), []);
    let told = last(&world).to_string();
    assert!(told.contains(&format!("[attached: {path} (text/plain, 10 bytes)]")), "{told}");

    let mut large = PNG.to_vec();
    large.resize(20_000_000, 0);
    let path = document(&fake, "large.png", &large, "twenty million");
    fake.shown(ANN, "twenty million").await;
    assert_eq!(images(&last(&world)), []);
    let told = last(&world).to_string();
    assert!(told.contains(&format!("[attached: {path} (image/png, 20000000 bytes)]")), "{told}");
    assert!(told.contains(&format!("[the image {path} is not shown: ")), "{told}");
    assert!(told.len() < 100_000, "{} bytes", told.len());

    let gone = document(&fake, "gone.png", PNG, "now you see it");
    fake.shown(ANN, "now you see it").await;
    assert_eq!(images(&last(&world)), [("image/png".to_owned(), PNG.to_vec())]);
    std::fs::remove_file(world.work(&gone)).unwrap();
    fake.say(ANN, "now you don't");
    fake.shown(ANN, "now you don't").await;
    assert_eq!(images(&last(&world)), []);
    let told = last(&world).to_string();
    let word = format!("[the image {gone} is not shown: the file is not there any more]");
    assert!(told.contains(&word), "{told}");
    fake.all_confirmed().await;
    world.finish().await;
}
