//! The channels of the product as the conformance suite sees them.

use std::sync::Arc;

use parking_lot::Mutex;
use rookery_actors::channel::PullAdapter;
use rookery_actors::channel::telegram::{TelegramAdapter, channel_id};
use rookery_actors::channel::webhook::WebhookAdapter;
use rookery_actors::runtime::system_world;
use rookery_messages::channel::ChannelAdapter;
use rookery_messages::ids::ChannelId;
use rookery_messages::settings::TelegramSettings;
use rookery_tests::conformance::{Platform, Seen};
use rookery_tests::receiver::Receiver;
use rookery_tests::telegram::{FakeTelegram, Fault, Shown, TOKEN, private};
use serde_json::json;

/// Telegram, with its Bot API server.
pub struct Bot {
    fake: FakeTelegram,
    settings: TelegramSettings,
}

impl Bot {
    pub async fn start() -> Self {
        let fake = FakeTelegram::start().await;
        let settings = json!({
            "bot_token": TOKEN, "api_base_url": fake.base_url(),
            "poll_timeout_secs": 1, "draft_interval_ms": 100,
        });
        Self { fake, settings: serde_json::from_value(settings).unwrap() }
    }
}

fn id(who: &str) -> i64 {
    who.parse().unwrap()
}

impl Platform for Bot {
    fn adapter(&self) -> Arc<dyn ChannelAdapter> {
        Arc::new(TelegramAdapter::new(channel_id("main"), &self.settings, &[]).unwrap())
    }

    fn say(&self, who: &str, text: &str) {
        self.fake.say(id(who), text);
    }

    fn send_file(&self, who: &str, name: &str, bytes: &[u8]) {
        self.fake.file("file", bytes);
        let document = json!({ "document": { "file_id": "file", "file_name": name } });
        self.fake.write(id(who), private(id(who)), document);
    }

    fn deliver_again(&self) {
        self.fake.fault("getUpdates", Fault::Again);
    }

    fn press(&self, who: &str, message: &Seen, label: &str) {
        // A private chat is one person's; somebody else presses there only in a test.
        let shown = Shown {
            chat: id(rookery_tests::conformance::ANN),
            thread: None,
            id: message.id.parse().unwrap(),
            text: message.text.clone(),
            raw: String::new(),
            texts: Vec::new(),
            buttons: message.buttons.clone(),
            answers: None,
        };
        self.fake.press(id(who), &shown, label);
    }

    fn stumble(&self) {
        self.fake.fault("getUpdates", Fault::Page(502));
    }

    fn slow_down(&self) {
        self.fake.fault("sendMessage", Fault::too_many(1));
    }

    fn seen(&self, who: &str) -> Vec<Seen> {
        let seen = |shown: Shown| Seen {
            id: shown.id.to_string(),
            text: shown.text,
            texts: shown.texts,
            buttons: shown.buttons,
        };
        self.fake.chat(id(who)).into_iter().map(seen).collect()
    }

    fn unacknowledged(&self) -> usize {
        self.fake.unconfirmed()
    }

    fn fetched(&self) -> usize {
        self.fake.downloads().len() + self.fake.calls("getFile").len()
    }

    fn answers(&self) -> Vec<String> {
        self.fake.answers().into_iter().map(|(_, text)| text).collect()
    }
}

/// A webhook, with the server its answers are posted to.
pub struct Posted {
    receiver: Receiver,
    slow: Mutex<bool>,
}

impl Posted {
    pub async fn start() -> Self {
        Self { receiver: Receiver::start([]).await, slow: Mutex::new(false) }
    }
}

impl Platform for Posted {
    fn adapter(&self) -> Arc<dyn ChannelAdapter> {
        let (id, url) = (ChannelId::new("webhook.ci"), self.receiver.url());
        Arc::new(WebhookAdapter::new(id, &url, None, system_world()).unwrap())
    }

    fn receives(&self) -> bool {
        false
    }

    fn slow_down(&self) {
        *self.slow.lock() = true;
        self.receiver.answer_next(503);
    }

    fn seen(&self, who: &str) -> Vec<Seen> {
        // What was answered with 503 came, and was not taken.
        let posts = self.receiver.deliveries();
        let taken = posts.iter().skip(usize::from(*self.slow.lock()));
        taken
            .filter(|post| post.body["conversation"] == who)
            .map(|post| {
                let text = post.body["reply"].as_str().unwrap_or_default().to_owned();
                Seen { id: String::new(), texts: vec![text.clone()], text, buttons: Vec::new() }
            })
            .collect()
    }
}

/// A channel whose readers fetch their answers.
pub struct Fetched(ChannelId);

impl Fetched {
    pub fn new(name: &str) -> Self {
        Self(ChannelId::new(name))
    }
}

impl Platform for Fetched {
    fn adapter(&self) -> Arc<dyn ChannelAdapter> {
        Arc::new(PullAdapter::new(self.0.clone()))
    }

    fn receives(&self) -> bool {
        false
    }

    fn carries(&self) -> bool {
        false
    }

    fn seen(&self, _: &str) -> Vec<Seen> {
        Vec::new()
    }
}
