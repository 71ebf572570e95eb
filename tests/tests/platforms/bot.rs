//! Telegram, with its Bot API server.

use std::sync::Arc;

use rookery_actors::channel::telegram::{TelegramAdapter, channel_id};
use rookery_messages::channel::ChannelAdapter;
use rookery_messages::settings::TelegramSettings;
use rookery_tests::conformance::{ANN, Platform, Seen};
use rookery_tests::telegram::{BOT, FakeTelegram, Fault, Shown, TOKEN, private};
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

    fn ours(&self) -> String {
        BOT.to_string()
    }

    fn say_as_bot(&self, account: &str, text: &str) {
        let from = json!({ "id": id(account), "is_bot": true, "first_name": "A bot" });
        let more = json!({ "text": text, "from": from });
        self.fake.write(id(account), private(id(ANN)), more);
    }

    fn send_file(&self, who: &str, name: &str, bytes: &[u8]) {
        self.fake.file("file", bytes);
        let document = json!({ "document": { "file_id": "file", "file_name": name } });
        self.fake.write(id(who), private(id(who)), document);
    }

    fn deliver_again(&self) {
        self.fake.fault("getUpdates", Fault::Again);
    }

    fn press(&self, who: &str, message: &Seen, label: &str) -> bool {
        // A private chat is one person's; somebody else presses there only in a test.
        let shown = Shown {
            chat: id(ANN),
            thread: None,
            id: message.id.parse().unwrap(),
            text: message.text.clone(),
            raw: String::new(),
            texts: Vec::new(),
            buttons: message.buttons.clone(),
            answers: None,
        };
        self.fake.press(id(who), &shown, label);
        true
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
