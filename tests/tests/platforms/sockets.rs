//! WebSocket clients of the gateway: one for each person, which comes back when its connection is lost.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use parking_lot::Mutex;
use rookery_actors::channel::PullAdapter;
use rookery_messages::channel::ChannelAdapter;
use rookery_messages::ids::ChannelId;
use rookery_messages::settings::Settings;
use rookery_tests::conformance::{Entrance, Platform, Seen};
use rookery_tests::line::Line;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::{own, token_of, with_tokens};

/// Pause before a connection, or a message that was not taken, is tried again.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Default)]
struct Book {
    said: u64,
    /// Not sent yet.
    fresh: Vec<Value>,
    /// Sent, and not known to be taken.
    open: Vec<Value>,
    /// Of these, what was not taken.
    refusals: Vec<Value>,
    last: Option<Value>,
    seq: Option<u64>,
    seen: Vec<Seen>,
    /// The gateway does not let this one in.
    refused: bool,
}

#[derive(Default)]
struct Client {
    book: Mutex<Book>,
    news: Notify,
    /// What presses of all were answered with.
    answers: Arc<Mutex<Vec<String>>>,
    /// Shows only what is finished.
    waits_for_the_end: bool,
}

/// See the module's documentation.
pub struct Sockets {
    line: Line,
    clients: Mutex<HashMap<String, Arc<Client>>>,
    answers: Arc<Mutex<Vec<String>>>,
    waits_for_the_end: bool,
}

impl Sockets {
    pub async fn start() -> Self {
        Self {
            line: Line::start().await,
            clients: Mutex::default(),
            answers: Arc::default(),
            waits_for_the_end: false,
        }
    }

    /// Clients that show an answer when it is whole.
    pub async fn start_patient() -> Self {
        Self { waits_for_the_end: true, ..Self::start().await }
    }

    fn client(&self, who: &str) -> Arc<Client> {
        let mut clients = self.clients.lock();
        let client = clients.entry(who.to_owned()).or_insert_with(|| {
            let client = Arc::new(Client {
                answers: Arc::clone(&self.answers),
                waits_for_the_end: self.waits_for_the_end,
                ..Client::default()
            });
            tokio::spawn(live(Arc::clone(&client), self.line.address(), token_of(who)));
            client
        });
        Arc::clone(client)
    }

    fn send(&self, who: &str, frame: Value) {
        let client = self.client(who);
        client.book.lock().fresh.push(frame);
        client.news.notify_one();
    }
}

/// A client's life: connects, says what is to be said, reads; and again.
async fn live(client: Arc<Client>, address: SocketAddr, token: String) {
    loop {
        let url = format!("ws://{address}/v1/ws?channel=ws&conversation=main");
        let mut request = url.into_client_request().unwrap();
        let bearer = format!("Bearer {token}").parse().unwrap();
        request.headers_mut().insert("authorization", bearer);
        match connect_async(request).await {
            Ok((socket, _)) => {
                let (mut sink, mut stream) = socket.split();
                let again = client.book.lock().again();
                let mut sends = again;
                'connected: loop {
                    for frame in sends {
                        if sink.send(Message::text(frame.to_string())).await.is_err() {
                            break 'connected;
                        }
                    }
                    let retry = tokio::time::sleep(PAUSE);
                    sends = tokio::select! {
                        () = client.news.notified() => client.book.lock().news(),
                        () = retry, if client.book.lock().is_refused() => client.book.lock().retry(),
                        message = stream.next() => match message {
                            Some(Ok(Message::Text(text))) => {
                                let frame: Value = serde_json::from_str(&text).unwrap();
                                client.take(&frame);
                                Vec::new()
                            }
                            Some(Ok(Message::Close(_)) | Err(_)) | None => break 'connected,
                            Some(Ok(_)) => Vec::new(),
                        },
                    };
                }
            }
            Err(Error::Http(answer)) if answer.status() == 401 => {
                client.book.lock().refused = true;
                return;
            }
            Err(_) => {}
        }
        tokio::time::sleep(PAUSE).await;
    }
}

impl Book {
    /// What a new connection begins with: what was missed is asked for, what may be lost is said again.
    fn again(&mut self) -> Vec<Value> {
        let resume = self.seq.map(|seq| json!({ "type": "resume", "seq": seq }));
        let open = self.open.clone();
        resume.into_iter().chain(open).chain(self.news()).collect()
    }

    fn news(&mut self) -> Vec<Value> {
        let fresh = std::mem::take(&mut self.fresh);
        self.open.extend(fresh.iter().filter(|frame| frame["type"] == "message").cloned());
        fresh
    }

    fn is_refused(&self) -> bool {
        !self.refusals.is_empty()
    }

    /// What was not taken is said again.
    fn retry(&mut self) -> Vec<Value> {
        let refused = std::mem::take(&mut self.refusals);
        self.open.iter().filter(|frame| refused.contains(&frame["id"])).cloned().collect()
    }

    fn shown(&mut self, id: &Value) -> &mut Seen {
        let id = id.as_str().unwrap_or_default().to_owned();
        let at = self.seen.iter().position(|one| one.id == id).unwrap_or_else(|| {
            let (text, texts, buttons) = Default::default();
            self.seen.push(Seen { id, text, texts, buttons });
            self.seen.len() - 1
        });
        &mut self.seen[at]
    }
}

impl Client {
    fn take(&self, frame: &Value) {
        let mut book = self.book.lock();
        let text = |field: &str| frame[field].as_str().unwrap_or_default().to_owned();
        match frame["type"].as_str().unwrap() {
            "accepted" => {
                let taken = book.open.iter().position(|one| one["id"] == frame["id"]);
                if let Some(at) = taken {
                    book.last = Some(book.open.remove(at));
                }
            }
            "error" if frame["approval"].is_string() => {
                self.answers.lock().push(text("message"));
            }
            "error" => book.refusals.push(frame["id"].clone()),
            "notice" if frame["approval"].is_string() => {
                self.answers.lock().push(text("text"));
            }
            "delta" if !self.waits_for_the_end => {
                let seen = book.shown(&frame["turn"]);
                seen.text.push_str(&text("text"));
            }
            "ended" => {
                let end = frame["reply"].as_str().or_else(|| frame["error"]["message"].as_str());
                let seen = book.shown(&frame["turn"]);
                seen.text = end.unwrap_or_default().to_owned();
                seen.texts.push(seen.text.clone());
            }
            "approval" => {
                let pending = frame["state"] == "pending";
                let seen = book.shown(&frame["id"]);
                seen.text = format!("Approval needed: {}", text("tool"));
                let button = |label: &str, word: &str| (label.to_owned(), word.to_owned());
                seen.buttons = match pending {
                    true => vec![button("Approve", "approve"), button("Deny", "deny")],
                    false => Vec::new(),
                };
            }
            "gap" => {
                let turn = &frame["snapshot"]["turn"];
                if let Some(reply) = turn["reply"].as_str() {
                    book.shown(&turn["id"]).text = reply.to_owned();
                }
            }
            _ => {}
        }
        book.seq = frame["seq"].as_u64().or(book.seq);
    }
}

impl Platform for Sockets {
    fn adapter(&self) -> Arc<dyn ChannelAdapter> {
        Arc::new(PullAdapter::live(ChannelId::new("ws")))
    }

    fn entrance(&self) -> Entrance {
        Entrance::Gateway
    }

    fn settings(&self) -> Settings {
        with_tokens()
    }

    fn gateway_at(&self, address: SocketAddr) {
        self.line.lead_to(address);
    }

    fn chat(&self, who: &str) -> String {
        own(who)
    }

    fn say(&self, who: &str, text: &str) {
        let client = self.client(who);
        let id = {
            let mut book = client.book.lock();
            book.said += 1;
            format!("m-{}", book.said)
        };
        self.send(who, json!({ "type": "message", "id": id, "text": text }));
    }

    fn deliver_again(&self) {
        let last = |client: &Arc<Client>| client.book.lock().last.take();
        let clients: Vec<(String, Arc<Client>)> =
            self.clients.lock().iter().map(|(who, one)| (who.clone(), Arc::clone(one))).collect();
        let (who, frame) =
            clients.iter().find_map(|(who, one)| Some((who.clone(), last(one)?))).unwrap();
        self.send(&who, frame);
    }

    fn press(&self, who: &str, message: &Seen, label: &str) -> bool {
        let found = message.buttons.iter().find(|(known, _)| known == label);
        let Some((_, word)) = found else { return false };
        self.send(who, json!({ "type": "approval", "id": message.id, "decision": word }));
        true
    }

    fn stumble(&self) {
        self.line.lose_next_answer();
    }

    fn slow_down(&self) {
        self.line.cut_and_refuse(3);
    }

    fn seen(&self, who: &str) -> Vec<Seen> {
        let clients = self.clients.lock();
        clients.get(who).map(|client| client.book.lock().seen.clone()).unwrap_or_default()
    }

    fn unacknowledged(&self) -> usize {
        let clients = self.clients.lock();
        let open = |client: &Arc<Client>| {
            let book = client.book.lock();
            if book.refused { 0 } else { book.open.len() + book.fresh.len() }
        };
        clients.values().map(open).sum()
    }

    fn answers(&self) -> Vec<String> {
        self.answers.lock().clone()
    }
}
