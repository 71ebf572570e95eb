//! A client of the HTTP contract (DESIGN.md, section 7), as a user, an operator or a script would be.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use reqwest::Method;
use rookery_messages::tree::TreeSnapshot;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::book::{Book, Ledger};
use crate::prom::Samples;
use crate::sse::EventStream;
use crate::wait::{PATIENCE, until, within};
use crate::ws::Ws;

/// Speaks to one service, with or without a token.
#[derive(Clone)]
pub struct Api {
    client: reqwest::Client,
    base: String,
    token: Option<String>,
    book: Arc<Mutex<Book>>,
}

/// An answer: status and JSON body (null if it is none).
#[derive(Clone, PartialEq, Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub body: Value,
}

impl Answer {
    /// The error's code, for an answer that is an error object as the contract has it.
    pub fn code(&self) -> &str {
        let error = &self.body["error"];
        assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "{self:?}");
        error["code"].as_str().unwrap_or_else(|| panic!("no error code: {self:?}"))
    }
}

/// A turn as the API shows it.
#[derive(Clone, Debug, Deserialize)]
pub struct Turn {
    /// The turn.
    pub id: String,
    /// The platform's id of the conversation.
    pub conversation: String,
    /// The channel.
    pub channel: String,
    /// `queued`, `running`, `waiting_approval` or `ended`.
    pub state: String,
    /// How it ended.
    pub outcome: Option<String>,
    /// The final text.
    pub reply: Option<String>,
    /// Why it failed.
    pub error: Option<TurnFault>,
    /// How often it was begun.
    pub attempts: u32,
    /// When it began.
    pub started_at: Option<String>,
    /// When it ended.
    pub ended_at: Option<String>,
    /// Tokens.
    pub usage: Tokens,
    /// Its calls, in order.
    pub calls: Vec<CallView>,
}

/// Why a turn failed.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct TurnFault {
    /// Stable word.
    pub code: String,
    /// For people.
    pub message: String,
}

/// Tokens of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
pub struct Tokens {
    /// Read.
    pub input: u64,
    /// Written.
    pub output: u64,
}

/// A call of a turn.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct CallView {
    /// The call.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// Where it stands.
    pub state: String,
    /// When the tool began.
    pub started_at: Option<String>,
    /// When the call ended.
    pub ended_at: Option<String>,
}

impl Turn {
    /// The outcome's word, or the state's while there is none.
    pub fn result(&self) -> &str {
        self.outcome.as_deref().unwrap_or(&self.state)
    }

    /// The final text, or nothing.
    pub fn text(&self) -> &str {
        self.reply.as_deref().unwrap_or_default()
    }

    /// The error's code, or nothing.
    pub fn fault(&self) -> &str {
        self.error.as_ref().map(|error| error.code.as_str()).unwrap_or_default()
    }

    /// The states of its calls, in order.
    pub fn call_states(&self) -> Vec<&str> {
        self.calls.iter().map(|call| call.state.as_str()).collect()
    }
}

impl Api {
    /// For a base address; the book is shared by its clones.
    pub fn new(base: &str, token: Option<String>) -> Self {
        let base = base.to_owned();
        Self { client: crate::http_client(), base, token, book: Arc::default() }
    }

    /// The same service, somebody else's token, or none.
    pub fn with_token(&self, token: Option<&str>) -> Self {
        Self { token: token.map(str::to_owned), ..self.clone() }
    }

    /// The base address.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// A request with the token, not yet sent.
    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request =
            self.client.request(method, format!("{}{path}", self.base)).timeout(2 * PATIENCE);
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    /// Sends a request and reads the answer.
    pub async fn send(&self, request: reqwest::RequestBuilder) -> Answer {
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let body = response.bytes().await.unwrap();
        Answer { status, body: serde_json::from_slice(&body).unwrap_or_default() }
    }

    /// `GET`, whatever the answer.
    pub async fn try_get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path)).await
    }

    /// `GET` that must succeed.
    pub async fn get(&self, path: &str) -> Value {
        let answer = self.try_get(path).await;
        assert_eq!(answer.status, 200, "GET {path}: {answer:?}");
        answer.body
    }

    /// `POST` of JSON, whatever the answer.
    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(self.request(Method::POST, path).json(body)).await
    }

    /// Posts to the webhook `ci`; `query` is nothing or `?wait=…`. A taken message goes into the book.
    pub async fn webhook(&self, body: &Value, query: &str) -> Answer {
        let answer = self.post(&format!("/v1/channels/webhook/ci{query}"), body).await;
        if let (Some(id), Some(turn)) = (body["id"].as_str(), answer.body["turn"].as_str()) {
            self.book.lock().note("webhook.ci", id, turn).unwrap();
        }
        answer
    }

    /// Sends a message with an id of its own and doesn't wait; gives the turn's id.
    pub async fn tell(&self, conversation: &str, text: &str) -> String {
        let body = message(&fresh_id(), conversation, text);
        let answer = self.webhook(&body, "").await;
        assert_eq!(answer.status, 202, "{answer:?}");
        assert!(answer.body["envelope"].is_string(), "{answer:?}");
        answer.body["turn"].as_str().unwrap().to_owned()
    }

    /// Sends a message and waits for its turn's end.
    pub async fn say(&self, conversation: &str, text: &str) -> Turn {
        let body = message(&fresh_id(), conversation, text);
        let answer = self.webhook(&body, "?wait=50").await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let turn = self.turn(answer.body["turn"].as_str().unwrap()).await;
        assert_eq!(turn.state, "ended", "{turn:?}");
        assert_eq!(answer.body["outcome"].as_str(), turn.outcome.as_deref(), "{answer:?}");
        assert_eq!(answer.body["reply"].as_str(), turn.reply.as_deref(), "{answer:?}");
        turn
    }

    /// A turn.
    pub async fn turn(&self, id: &str) -> Turn {
        serde_json::from_value(self.get(&format!("/v1/turns/{id}")).await).unwrap()
    }

    /// Waits until a turn is as wanted, looking anew at each of its events.
    pub async fn turn_when(&self, id: &str, what: &str, wanted: impl Fn(&Turn) -> bool) -> Turn {
        until(&format!("turn {id}: {what}"), || async {
            let mut events = self.events(id).await;
            loop {
                let turn = self.turn(id).await;
                if wanted(&turn) {
                    return Ok(turn);
                }
                // At the end of the stream, and for facts without an event, the look is repeated.
                let next =
                    tokio::time::timeout(std::time::Duration::from_millis(200), events.next());
                if !matches!(next.await, Ok(Some(_))) {
                    return Err(format!("{turn:?}"));
                }
            }
        })
        .await
    }

    /// Waits for a turn's end.
    pub async fn ended(&self, id: &str) -> Turn {
        self.turn_when(id, "it has ended", |turn| turn.state == "ended").await
    }

    /// Cancels a turn; it may have ended.
    pub async fn cancel(&self, id: &str) {
        let answer = self.post(&format!("/v1/turns/{id}/cancel"), &json!({})).await;
        assert_eq!(answer.status, 202, "{answer:?}");
    }

    /// Follows a turn's events.
    pub async fn events(&self, id: &str) -> EventStream {
        let response = self
            .request(Method::GET, &format!("/v1/turns/{id}/events"))
            .header("accept", "text/event-stream")
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), 200);
        EventStream::of(response)
    }

    /// The approvals that can be seen.
    pub async fn approvals(&self) -> Vec<Value> {
        let body = self.get("/admin/v1/approvals").await;
        body.as_array().unwrap_or_else(|| panic!("no list: {body}")).clone()
    }

    /// Waits until a turn asks for approval of a call that nobody decided yet; gives the request.
    pub async fn approval_of(&self, turn: &str) -> Value {
        until(&format!("turn {turn} asks for approval"), || async {
            let pending = self.approvals().await;
            let own = pending.iter().find(|a| a["turn"] == turn && a["state"] == "pending");
            own.cloned().ok_or_else(|| format!("{pending:?}"))
        })
        .await
    }

    /// Decides an approval, whatever the answer.
    pub async fn decide(&self, approval: &Value, decision: &Value) -> Answer {
        let id = approval["id"].as_str().unwrap();
        self.post(&format!("/admin/v1/approvals/{id}"), decision).await
    }

    /// The messages of a conversation, as people read them.
    pub async fn messages(&self, channel: &str, conversation: &str) -> Vec<Value> {
        let path = format!("/v1/conversations/{channel}/{conversation}/messages?limit=500");
        self.get(&path).await["messages"].as_array().unwrap().clone()
    }

    /// `role: content` of each message of a webhook conversation.
    pub async fn transcript(&self, conversation: &str) -> Vec<String> {
        let messages = self.messages("webhook.ci", conversation).await;
        messages
            .iter()
            .map(|m| format!("{}: {}", m["role"].as_str().unwrap(), m["content"].as_str().unwrap()))
            .collect()
    }

    /// The ledger.
    pub async fn ledger(&self) -> Ledger {
        serde_json::from_value(self.get("/admin/v1/ledger").await).unwrap()
    }

    /// The live tree.
    pub async fn tree(&self) -> TreeSnapshot {
        serde_json::from_value(self.get("/admin/v1/tree").await).unwrap()
    }

    /// The metrics.
    pub async fn metrics(&self) -> Samples {
        let response = self.request(Method::GET, "/metrics").send().await.unwrap();
        assert_eq!(response.status(), 200);
        Samples::parse(&response.text().await.unwrap())
    }

    /// A WebSocket to a conversation.
    pub async fn ws(&self, conversation: &str) -> Ws {
        let base = self.base.replacen("http", "ws", 1);
        let bearer = self.token.as_ref().map(|token| format!("Bearer {token}"));
        let headers: Vec<_> = bearer.iter().map(|b| ("authorization", b.as_str())).collect();
        let url = format!("{base}/v1/ws?agent=home&conversation={conversation}");
        Ws::connect(&url, &headers).await.unwrap()
    }

    /// Turns this test's messages got.
    pub fn known_turns(&self) -> Vec<String> {
        self.book.lock().turns()
    }

    /// Stops, kills, restarts, pauses or resumes the actor at a path of the tree.
    pub async fn act(&self, path: &str, verb: &str) -> Answer {
        let path = format!("/admin/v1/actors/{path}/{verb}");
        within("the admin route answers", self.post(&path, &json!({"reason": "test"}))).await
    }
}

/// A webhook message.
pub fn message(id: &str, conversation: &str, text: &str) -> Value {
    json!({"id": id, "sender": "alice", "conversation": conversation, "text": text})
}

/// An external message id that no other message of this process has.
pub fn fresh_id() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("m{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
