use rookery_messages::channel::{ChannelEvent, Incoming, Press};
use rookery_messages::envelope::{ReplyAddress, Sender};
use rookery_messages::settings::{GroupMode, Secret};
use serde_json::{Value, json};

use super::api::BotApi;
use super::decode::{Me, event};
use super::*;
use crate::outbound::testing::DeadRoute;

fn read(groups: GroupMode, update: Value) -> ChannelEvent {
    let me = Me { id: 99, username: "rook_bot".into() };
    let update = serde_json::from_value(update).unwrap();
    event(&channel_id("main"), &me, groups, update)
}

fn message(update: Value) -> Incoming {
    match read(GroupMode::Mention, update) {
        ChannelEvent::Message(incoming) => *incoming,
        other => panic!("no message: {other:?}"),
    }
}

fn ignored(update: Value) -> &'static str {
    match read(GroupMode::Mention, update) {
        ChannelEvent::Ignored(reason) => reason,
        other => panic!("taken: {other:?}"),
    }
}

fn ann() -> Value {
    json!({ "id": 7, "is_bot": false, "first_name": "Ann", "last_name": "Lee", "username": "ann" })
}

fn sent(chat: Value, more: Value) -> Value {
    let mut message =
        json!({ "message_id": 9, "date": 1, "chat": chat, "from": ann(), "unknown": [] });
    message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({ "update_id": 1, "message": message, "another_unknown": {} })
}

fn private() -> Value {
    json!({ "id": 7, "type": "private", "first_name": "Ann" })
}

fn group() -> Value {
    json!({ "id": -100_123, "type": "supergroup", "title": "Team", "is_forum": true })
}

// A056
#[test]
fn sender_chat_thread_and_message_are_told_apart_in_every_kind_of_chat() {
    let person = message(sent(private(), json!({ "text": "hello" })));
    assert_eq!(
        person.sender,
        Sender { id: "7".into(), display: Some("Ann Lee".into()), is_bot: false }
    );
    assert_eq!((person.conversation.as_str(), person.thread.as_deref()), ("7", None));
    assert_eq!((person.external_id.as_str(), person.private), ("7:9", true));
    assert_eq!((person.text.as_str(), person.reply_to), ("hello", None));

    // In a private chat, and in a group without topics, the number names a message and no topic.
    let stray = message(sent(private(), json!({ "text": "x", "message_thread_id": 5 })));
    assert_eq!(stray.thread, None);

    let here = json!({ "text": "@rook_bot x", "message_thread_id": 5, "is_topic_message": true,
        "reply_to_message": { "message_id": 5, "chat": group(), "forum_topic_created": {} } });
    let topic = message(sent(group(), here));
    assert_eq!((topic.conversation.as_str(), topic.thread.as_deref()), ("-100123/5", Some("5")));
    assert_eq!((topic.sender.id.as_str(), topic.private, topic.reply_to), ("7", false, None));

    let post = json!({ "message_id": 3, "chat": { "id": -1_009, "type": "channel", "title": "News" },
        "sender_chat": { "id": -1_009, "type": "channel", "title": "News" }, "text": "post" });
    let post = message(json!({ "update_id": 2, "channel_post": post }));
    assert_eq!(
        post.sender,
        Sender { id: "-1009".into(), display: Some("News".into()), is_bot: false }
    );
    assert_eq!(post.conversation, "-1009");
}

#[test]
fn in_a_group_only_what_is_said_to_the_bot_is_for_it() {
    let said = |text: &str| sent(group(), json!({ "text": text }));
    assert_eq!(ignored(said("hello all")), "not_addressed");
    assert_eq!(ignored(said("@rook_bottle hi")), "not_addressed");
    assert_eq!(ignored(said("/stop@other_bot")), "not_addressed");
    assert_eq!(message(said("@Rook_Bot, do it")).text, "do it");
    assert_eq!(message(said("please @rook_bot do it")).text, "please @rook_bot do it");
    assert_eq!(message(said("/stop@rook_bot now")).text, "/stop now");
    assert_eq!(message(said("/stop")).text, "/stop");
    let ours = json!({ "message_id": 8, "chat": group(), "text": "I said\nthis",
        "from": { "id": 99, "is_bot": true, "first_name": "Rook" } });
    let reply = message(sent(group(), json!({ "text": "why?", "reply_to_message": ours })));
    assert_eq!(reply.reply_to.as_deref(), Some("8"));
    assert_eq!(reply.quote.as_deref(), Some("Rook: I said\\nthis"));
    let all = read(GroupMode::All, said("hello all"));
    assert!(matches!(all, ChannelEvent::Message(_)), "{all:?}");
}

#[test]
fn service_messages_and_what_has_no_sender_are_left_alone() {
    assert_eq!(ignored(sent(private(), json!({ "new_chat_members": [] }))), "nothing_to_read");
    assert_eq!(ignored(sent(private(), json!({ "text": "x", "from": null }))), "no_sender");
    assert_eq!(ignored(json!({ "update_id": 1, "edited_message": {} })), "not_for_us");
    let sticker = message(sent(private(), json!({ "sticker": { "emoji": "😀" } })));
    assert_eq!(sticker.text, "[sticker 😀]");
}

#[test]
fn bots_are_told_from_people_and_channels() {
    let bot = json!({ "id": 5, "is_bot": true, "first_name": "Other" });
    let said = message(sent(private(), json!({ "text": "hi", "from": bot.clone() })));
    assert_eq!((said.sender.id.as_str(), said.sender.is_bot), ("5", true));
    // What a channel posts comes by a bot of Telegram's own.
    let news = json!({ "id": -1009, "type": "channel", "title": "News" });
    let post = json!({ "text": "hi", "from": bot, "sender_chat": news });
    assert!(!message(sent(private(), post)).sender.is_bot);
}

#[test]
fn a_chat_is_named_by_numbers() {
    let named = |text: &str| super::address(&super::channel_id("main"), text);
    for (text, thread) in [("7", None), ("-1001", None), ("-1001/45", Some("45"))] {
        let address = named(text).unwrap();
        assert_eq!((address.conversation.as_str(), address.thread.as_deref()), (text, thread));
        assert_eq!(super::send::check(&address), Ok(()));
    }
    for text in ["", "ann", "@ann", "7/", "/7", "7/x", "+7", "07", " 7", "7/8/9"] {
        assert!(named(text).is_err(), "{text:?}");
    }
}

// A058
#[test]
fn captions_photos_documents_and_voice_become_text_and_attachments() {
    let photo = sent(
        private(),
        json!({ "caption": "look", "media_group_id": "g1", "photo": [
            { "file_id": "small", "file_size": 10 }, { "file_id": "large", "file_size": 99 }] }),
    );
    let photo = message(photo);
    assert_eq!((photo.text.as_str(), photo.album.as_deref()), ("look", Some("g1")));
    assert_eq!(photo.attachments.len(), 1);
    let file = &photo.attachments[0];
    assert_eq!(
        (file.id.as_str(), file.name.as_str(), file.size),
        ("large", "photo-9.jpg", Some(99))
    );
    let document =
        json!({ "file_id": "d", "file_name": "../a b.pdf", "mime_type": "application/pdf" });
    let files =
        message(sent(private(), json!({ "document": document, "voice": { "file_id": "v" } })));
    let names: Vec<_> = files.attachments.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["../a b.pdf", "voice-9.ogg"]);
}

// A081
#[test]
fn a_press_says_who_pressed_where_and_what() {
    let pressed = |from: Value| {
        let at = json!({ "message_id": 12, "chat": group(), "message_thread_id": 5, "is_topic_message": true });
        read(
            GroupMode::Mention,
            json!({ "update_id": 3, "callback_query":
                { "id": "cb", "from": from, "message": at, "data": "ap:a:x", "chat_instance": "1" } }),
        )
    };
    let ChannelEvent::Press(press) = pressed(ann()) else { panic!("no press") };
    let Press { id, sender, address, message, data } = *press;
    assert_eq!((id.as_str(), message.as_str(), data.as_str()), ("cb", "12", "ap:a:x"));
    assert_eq!(sender.unwrap().id, "7");
    assert_eq!(address.conversation, "-100123/5");
    let ChannelEvent::Press(press) = pressed(Value::Null) else { panic!("no press") };
    assert_eq!(press.sender, None);
}

// A098
#[test]
fn only_the_bare_token_is_one() {
    assert!(is_token("123456:AAExabcdefghijklmnopqrstuvwxyz_-0"));
    for wrong in [
        "",
        "123456",
        "abc:AAExabcdefghijklmnopqrstuvwxyz",
        "123456:short",
        "Use this token: 123456:AAExabcdefghijklmnopqrstuvwxyz",
        "123456:AAExabcdefghijklmnopqrstuvwxyz ",
    ] {
        assert!(!is_token(wrong), "{wrong:?}");
    }
}

// A016
#[test]
fn an_address_that_contradicts_itself_is_refused() {
    let address = |conversation: &str, thread: Option<&str>| ReplyAddress {
        channel: channel_id("main"),
        conversation: conversation.into(),
        thread: thread.map(str::to_owned),
        reply_to: None,
    };
    for (conversation, thread, right) in [
        ("7", None, true),
        ("-1005/3", Some("3"), true),
        ("-1005/3", Some("4"), false),
        ("-1005/3", None, false),
        ("-1005", Some("3"), false),
        ("approvals", None, false),
        ("", None, false),
    ] {
        let checked = send::check(&address(conversation, thread));
        assert_eq!(checked.is_ok(), right, "{conversation} {thread:?}: {checked:?}");
    }
}

// A135: what polls and sends has what a download has
#[tokio::test]
async fn behind_a_dead_ipv6_route_calls_and_downloads_arrive_within_a_second() {
    let _already = rustls::crypto::ring::default_provider().install_default();
    let second = std::time::Duration::from_secs(1);
    let route = DeadRoute::of("bot-api.test").await;
    let api = BotApi::new(&route.url(), Secret::new("1:x")).unwrap();
    let poll = async || {
        let found: Value = api.call("getUpdates", &json!({}), second * 10).await.unwrap();
        assert_eq!(found, json!([]));
    };
    let answer = json!({ "ok": true, "result": [] }).to_string();
    let took = route.answers(&answer, 2, poll).await;
    assert!(took[0] < second && took[1] < took[0], "{took:?}");
    let route = DeadRoute::of("bot-files.test").await;
    let api = BotApi::new(&route.url(), Secret::new("1:x")).unwrap();
    let fetch = async || assert_eq!(api.file("photos/a.jpg", 100).await.unwrap(), b"picture");
    let took = route.answers("picture", 2, fetch).await;
    assert!(took[0] < second && took[1] < took[0], "{took:?}");
}
