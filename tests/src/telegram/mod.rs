//! A Bot API server on loopback, in the test's own process: strict about what it is sent, and as unkind as
//! the network when it is told to be.
//!
//! It keeps updates until a poll's `offset` confirms them, as Telegram does; it refuses texts that are too
//! long, HTML that does not parse and edits that change nothing. Faults are queued by method.

mod html;
mod server;

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::gate::Gate;
use crate::wait::within;

/// The bot's token: a secret (I12, A098).
pub const TOKEN: &str = "123456:AAEx-the-token-of-the-bot-in-tests_0";
/// The bot's own id.
pub const BOT: i64 = 123_456;

/// What happens to a call instead of, or besides, its effect.
#[derive(Clone)]
pub enum Fault {
    /// It is refused with this code and description, and `parameters`.
    Refuse(u16, &'static str, Value),
    /// Nobody answers, and the connection stays: a half-open socket.
    Hang,
    /// It has its effect, and the connection breaks before the answer.
    CutAfter,
    /// It waits until the test opens the gate.
    Wait(Gate),
    /// A poll gives again what was confirmed last.
    Again,
    /// The answer is no JSON: a proxy's page.
    Page(u16),
}

impl Fault {
    /// 429 with `retry_after`.
    pub fn too_many(secs: u64) -> Self {
        Self::Refuse(429, "Too Many Requests: retry later", json!({ "retry_after": secs }))
    }

    /// 409, as after a restart.
    pub fn conflict() -> Self {
        let text = "Conflict: terminated by other getUpdates request";
        Self::Refuse(409, text, Value::Null)
    }
}

/// A message as people see it.
#[derive(Clone, PartialEq, Debug)]
pub struct Shown {
    /// The chat.
    pub chat: i64,
    /// Its topic.
    pub thread: Option<i64>,
    /// The message.
    pub id: i64,
    /// Its text, tags read.
    pub text: String,
    /// As it was sent.
    pub raw: String,
    /// Every text it had, the newest last.
    pub texts: Vec<String>,
    /// Its buttons: label and data.
    pub buttons: Vec<(String, String)>,
    /// The message it answers.
    pub answers: Option<i64>,
}

/// A call that came.
#[derive(Clone, Debug)]
pub struct Called {
    /// The method.
    pub method: String,
    /// Its parameters.
    pub body: Value,
    /// When.
    pub at: Instant,
}

#[derive(Default)]
struct Book {
    updates: VecDeque<(i64, Value)>,
    last_confirmed: Option<(i64, Value)>,
    next_update: i64,
    next_message: i64,
    messages: Vec<Shown>,
    calls: Vec<Called>,
    faults: HashMap<String, VecDeque<Fault>>,
    /// Faults of calls to one chat.
    chat_faults: HashMap<(String, i64), Fault>,
    answers: Vec<(String, String)>,
    files: HashMap<String, Vec<u8>>,
    downloads: Vec<String>,
    given_again: usize,
    holds_confirmations: bool,
    revoked: bool,
}

struct Shared {
    book: Mutex<Book>,
    changed: watch::Sender<u64>,
}

impl Shared {
    fn change(&self) {
        self.changed.send_modify(|n| *n += 1);
    }
}

/// The server's handle; it ends with it.
pub struct FakeTelegram {
    shared: Arc<Shared>,
    address: SocketAddr,
    server: tokio::task::JoinHandle<()>,
}

impl Drop for FakeTelegram {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl FakeTelegram {
    /// Starts it on a free port.
    pub async fn start() -> Self {
        let book = Book { next_update: 1_000, next_message: 100, ..Book::default() };
        let shared = Arc::new(Shared { book: Mutex::new(book), changed: watch::Sender::new(0) });
        let (address, server) = server::serve(Arc::clone(&shared)).await;
        Self { shared, address, server }
    }

    /// For `api_base_url`.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The configuration's section of a bot `main` that listens to `allowed`.
    pub fn section(&self, allowed: &[i64], more: &str) -> String {
        let allowed: Vec<String> = allowed.iter().map(i64::to_string).collect();
        format!(
            "[channels.telegram.main]\nbot_token = \"{TOKEN}\"\napi_base_url = \"{}\"\n\
             allowed_users = {allowed:?}\npoll_timeout_secs = 1\ndraft_interval_ms = 100\n{more}\n",
            self.base_url()
        )
    }

    /// An update, without its number.
    pub fn push(&self, update: Value) {
        let mut book = self.shared.book.lock();
        let number = book.next_update;
        book.next_update += 1;
        let mut update = update;
        update["update_id"] = json!(number);
        book.updates.push_back((number, update));
        drop(book);
        self.shared.change();
    }

    /// A number for a message of somebody's.
    pub fn fresh_message(&self) -> i64 {
        let mut book = self.shared.book.lock();
        book.next_message += 1;
        book.next_message
    }

    /// Somebody writes to the bot, with fields of a message besides; gives the message's number.
    pub fn write(&self, from: i64, chat: Value, more: Value) -> i64 {
        let id = self.fresh_message();
        let mut message =
            json!({ "message_id": id, "date": 1, "chat": chat, "from": person(from) });
        message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.push(json!({ "message": message }));
        id
    }

    /// Somebody says something in private.
    pub fn say(&self, from: i64, text: &str) -> i64 {
        self.write(from, private(from), json!({ "text": text }))
    }

    /// Somebody presses a button of a message.
    pub fn press(&self, from: i64, message: &Shown, label: &str) {
        let found = message.buttons.iter().find(|(known, _)| known == label);
        let data = found.map(|(_, data)| data.clone()).unwrap_or_else(|| label.to_owned());
        let chat = if message.chat < 0 { group(message.chat) } else { private(message.chat) };
        let id = format!("cb-{from}-{}", self.fresh_message());
        self.push(json!({ "callback_query": {
            "id": id, "from": person(from), "data": data, "chat_instance": "1",
            "message": { "message_id": message.id, "chat": chat, "date": 1 },
        } }));
    }

    /// A file that can be fetched.
    pub fn file(&self, id: &str, bytes: &[u8]) {
        self.shared.book.lock().files.insert(id.to_owned(), bytes.to_vec());
    }

    /// The next call of `method` that has none yet meets this.
    pub fn fault(&self, method: &str, fault: Fault) {
        let mut book = self.shared.book.lock();
        book.faults.entry(method.to_owned()).or_default().push_back(fault);
    }

    /// Every call of `method` to `chat` meets this.
    pub fn chat_fault(&self, method: &str, chat: i64, fault: Fault) {
        self.shared.book.lock().chat_faults.insert((method.to_owned(), chat), fault);
    }

    /// Faults of a method that no call has met yet.
    pub fn faults_left(&self, method: &str) -> usize {
        self.shared.book.lock().faults.get(method).map_or(0, VecDeque::len)
    }

    /// How often something confirmed was given again.
    pub fn given_again(&self) -> usize {
        self.shared.book.lock().given_again
    }

    /// Whether polls that would confirm something are left without an answer, and confirm nothing.
    pub fn hold_confirmations(&self, hold: bool) {
        self.shared.book.lock().holds_confirmations = hold;
    }

    /// The token is not known any more.
    pub fn revoke(&self) {
        self.shared.book.lock().revoked = true;
    }

    /// The messages of a chat, as people see them.
    pub fn chat(&self, chat: i64) -> Vec<Shown> {
        let book = self.shared.book.lock();
        book.messages.iter().filter(|message| message.chat == chat).cloned().collect()
    }

    /// All calls of a method.
    pub fn calls(&self, method: &str) -> Vec<Called> {
        let book = self.shared.book.lock();
        book.calls.iter().filter(|call| call.method == method).cloned().collect()
    }

    /// What pressing was answered with, by the press.
    pub fn answers(&self) -> Vec<(String, String)> {
        self.shared.book.lock().answers.clone()
    }

    /// The paths of files that were fetched.
    pub fn downloads(&self) -> Vec<String> {
        self.shared.book.lock().downloads.clone()
    }

    /// How many updates wait for a confirmation.
    pub fn unconfirmed(&self) -> usize {
        self.shared.book.lock().updates.len()
    }

    /// Waits until something is so, looking after each call.
    pub async fn until<T>(&self, what: &str, look: impl Fn(&Self) -> Option<T>) -> T {
        let mut changed = self.shared.changed.subscribe();
        within(what, async {
            loop {
                changed.borrow_and_update();
                if let Some(found) = look(self) {
                    return found;
                }
                changed.changed().await.unwrap();
            }
        })
        .await
    }

    /// Waits for a message in a chat whose text holds `part`.
    pub async fn shown(&self, chat: i64, part: &str) -> Shown {
        self.until(&format!("`{part}` in chat {chat}"), |fake| {
            fake.chat(chat).into_iter().find(|message| message.text.contains(part))
        })
        .await
    }

    /// Waits until everything is confirmed.
    pub async fn all_confirmed(&self) {
        self.until("all updates are confirmed", |fake| (fake.unconfirmed() == 0).then_some(()))
            .await;
    }
}

/// A person as the Bot API shows one.
pub fn person(id: i64) -> Value {
    json!({ "id": id, "is_bot": false, "first_name": format!("Person {id}") })
}

/// A chat of two.
pub fn private(id: i64) -> Value {
    json!({ "id": id, "type": "private" })
}

/// A group.
pub fn group(id: i64) -> Value {
    json!({ "id": id, "type": "supergroup", "title": "Group" })
}
