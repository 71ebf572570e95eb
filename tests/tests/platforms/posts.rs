//! A webhook: programs that post messages for people, and the server that replies are posted to.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rookery_actors::channel::webhook::WebhookAdapter;
use rookery_actors::runtime::system_world;
use rookery_messages::channel::ChannelAdapter;
use rookery_messages::ids::ChannelId;
use rookery_messages::settings::{Secret, Settings, WebhookSettings};
use rookery_tests::conformance::{ANN, BEN, Entrance, Platform, Seen};
use rookery_tests::http_client;
use rookery_tests::line::Line;
use rookery_tests::receiver::{Receiver, sign, unix_now};
use serde_json::{Value, json};
use tokio::sync::mpsc;

const SECRET: &str = "whsec-0123456789abcdef";
/// Most bodies that wait for one program.
const MOST_WAITING: usize = 256;

/// The conversation that requests for approval are posted to.
const APPROVALS: &str = "approvals";

#[derive(Default)]
struct Book {
    posted: u64,
    /// Posted, and not known to be taken.
    open: usize,
    last: Option<Value>,
    answers: Vec<String>,
}

/// See the module's documentation.
pub struct Posts {
    receiver: Receiver,
    line: Arc<Line>,
    book: Arc<Mutex<Book>>,
    /// A program for each person: it posts in order.
    programs: Mutex<HashMap<String, mpsc::Sender<Value>>>,
}

impl Posts {
    pub async fn start() -> Self {
        Self {
            receiver: Receiver::start([]).await,
            line: Arc::new(Line::start().await),
            book: Arc::default(),
            programs: Mutex::default(),
        }
    }

    fn post(&self, who: &str, body: Value) {
        self.book.lock().open += 1;
        let mut programs = self.programs.lock();
        let program = programs.entry(who.to_owned()).or_insert_with(|| {
            let (give, take) = mpsc::channel(MOST_WAITING);
            tokio::spawn(program(take, self.line.address(), Arc::clone(&self.book)));
            give
        });
        program.try_send(body).unwrap();
    }

    fn message(&self, who: &str, conversation: &str, text: &str) -> Value {
        let mut book = self.book.lock();
        book.posted += 1;
        json!({
            "id": format!("m-{}", book.posted), "sender": who, "conversation": conversation,
            "text": text,
        })
    }
}

/// Posts what it is given, each until there is an answer that says what became of it.
async fn program(mut bodies: mpsc::Receiver<Value>, address: SocketAddr, book: Arc<Mutex<Book>>) {
    let client = http_client();
    let url = format!("http://{address}/v1/channels/webhook/ci");
    while let Some(body) = bodies.recv().await {
        let raw = body.to_string();
        loop {
            let signature = sign(SECRET, unix_now(), raw.as_bytes());
            let request = client
                .post(&url)
                .header("content-type", "application/json")
                .header("x-rookery-signature", signature)
                .body(raw.clone());
            if let Ok(answer) = request.send().await
                && !answer.status().is_server_error()
            {
                let answer: Value = answer.json().await.unwrap_or_default();
                let mut book = book.lock();
                book.open -= 1;
                if body["conversation"] == APPROVALS {
                    // A refusal shows what stands, too.
                    let said = answer["error"]["message"].as_str();
                    let said = said.or_else(|| answer["approval"]["state"].as_str());
                    book.answers.push(said.unwrap_or_default().to_owned());
                } else if answer["turn"].is_string() {
                    book.last = Some(body);
                }
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Platform for Posts {
    fn adapter(&self) -> Arc<dyn ChannelAdapter> {
        let (id, url) = (ChannelId::new("webhook.ci"), self.receiver.url());
        let secret = Some(Secret::new(SECRET));
        Arc::new(WebhookAdapter::new(id, &url, secret, system_world()).unwrap())
    }

    fn entrance(&self) -> Entrance {
        Entrance::Gateway
    }

    fn settings(&self) -> Settings {
        let mut settings = Settings::default();
        let hook = WebhookSettings {
            secret: Some(Secret::new(SECRET)),
            allowed_users: vec![ANN.to_owned(), BEN.to_owned()],
            reply_url: Some(self.receiver.url()),
            ..WebhookSettings::default()
        };
        settings.channels.webhook.insert("ci".to_owned(), hook);
        settings
    }

    fn gateway_at(&self, address: SocketAddr) {
        self.line.lead_to(address);
    }

    fn say(&self, who: &str, text: &str) {
        let body = self.message(who, who, text);
        self.post(who, body);
    }

    fn deliver_again(&self) {
        let last = self.book.lock().last.clone().unwrap();
        let who = last["sender"].as_str().unwrap().to_owned();
        self.post(&who, last);
    }

    fn press(&self, who: &str, message: &Seen, label: &str) -> bool {
        let found = message.buttons.iter().find(|(known, _)| known == label);
        let Some((_, command)) = found else { return false };
        let body = self.message(who, APPROVALS, command);
        self.post(who, body);
        true
    }

    fn stumble(&self) {
        self.line.lose_next_answer();
    }

    fn slow_down(&self) {
        self.receiver.answer_next(503);
    }

    fn seen(&self, who: &str) -> Vec<Seen> {
        let posts = self.receiver.deliveries().into_iter().filter(|post| post.status == 200);
        posts
            .filter(|post| {
                post.body["conversation"] == who || post.body["conversation"] == APPROVALS
            })
            .map(|post| {
                let text = post.body["reply"].as_str().or_else(|| post.body["notice"].as_str());
                let text = text.unwrap_or_default().to_owned();
                Seen { id: String::new(), texts: vec![text.clone()], buttons: ways(&text), text }
            })
            .collect()
    }

    fn unacknowledged(&self) -> usize {
        self.book.lock().open
    }

    fn answers(&self) -> Vec<String> {
        self.book.lock().answers.clone()
    }
}

/// What a request says it is answered with.
fn ways(text: &str) -> Vec<(String, String)> {
    let way = |label: &str, word: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(word))?;
        let id = line.split_whitespace().next()?;
        Some((label.to_owned(), format!("{word}{id}")))
    };
    [way("Approve", "/approve "), way("Deny", "/deny ")].into_iter().flatten().collect()
}
