//! A model that plays a script: an OpenAI-compatible server on loopback, in the test's own process.
//!
//! Scripts are found by the last user message. A *queue* is used up reply by reply, retries included;
//! a *rule* serves for ever. Without either the model says the message back. Every request is checked as
//! the strictest provider would ([`crate::wire`]); [`MockModel::assert_well_formed`] fails the test.

mod reply;
mod server;

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;

use crate::wait::within;
pub use reply::{Call, Reply};

/// How a request ended, as the server saw it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The reply is on its way.
    Streaming,
    /// The whole reply was handed over.
    Sent,
    /// The client closed the connection first.
    Dropped,
}

/// One request.
#[derive(Clone)]
struct Seen {
    body: Value,
    fate: watch::Sender<Fate>,
}

type Answer = Arc<dyn Fn(&Value) -> Reply + Send + Sync>;

#[derive(Default)]
struct Book {
    queues: Vec<(String, VecDeque<Reply>)>,
    rules: Vec<(String, Answer)>,
    seen: Vec<Seen>,
    count: usize,
    forgets: bool,
    violations: Vec<String>,
    authorizations: Vec<String>,
}

struct Shared {
    book: Mutex<Book>,
    count: watch::Sender<usize>,
}

/// The model's handle; the server ends with it.
pub struct MockModel {
    shared: Arc<Shared>,
    address: std::net::SocketAddr,
    server: tokio::task::JoinHandle<()>,
}

impl Drop for MockModel {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl MockModel {
    /// Starts it on a free port.
    pub async fn start() -> Self {
        let shared = Arc::new(Shared { book: Mutex::default(), count: watch::Sender::new(0) });
        let (address, server) = server::serve(Arc::clone(&shared)).await;
        Self { shared, address, server }
    }

    /// Its address up to and including `/v1`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Replies for requests whose last user message contains `key`, one after the other.
    pub fn script(&self, key: &str, replies: impl IntoIterator<Item = Reply>) {
        let replies: VecDeque<Reply> = replies.into_iter().collect();
        let mut book = self.shared.book.lock();
        match book.queues.iter_mut().find(|(known, _)| known == key) {
            Some((_, queue)) => queue.extend(replies),
            None => book.queues.push((key.to_owned(), replies)),
        }
    }

    /// A reply for every request whose last user message contains `key`, made from the request.
    pub fn rule(&self, key: &str, answer: impl Fn(&Value) -> Reply + Send + Sync + 'static) {
        self.shared.book.lock().rules.push((key.to_owned(), Arc::new(answer)));
    }

    /// From now on requests are counted but not kept: for load.
    pub fn forget_requests(&self) {
        self.shared.book.lock().forgets = true;
    }

    /// Every request body so far, in order of arrival.
    pub fn requests(&self) -> Vec<Value> {
        self.shared.book.lock().seen.iter().map(|seen| seen.body.clone()).collect()
    }

    /// Request bodies whose last user message contains `key`.
    pub fn requests_for(&self, key: &str) -> Vec<Value> {
        self.requests().into_iter().filter(|body| last_user(body).contains(key)).collect()
    }

    /// The newest request body.
    pub fn last_request(&self) -> Value {
        self.shared.book.lock().seen.last().map(|seen| seen.body.clone()).unwrap_or_default()
    }

    /// How many requests came.
    pub fn count(&self) -> usize {
        self.shared.book.lock().count
    }

    /// Waits until so many requests have come in all.
    pub async fn counted(&self, count: usize) {
        let mut counted = self.shared.count.subscribe();
        within(&format!("the model gets {count} requests"), async {
            counted.wait_for(|seen| *seen >= count).await.unwrap();
        })
        .await;
    }

    /// Waits until the request with this number (from 0) was closed by the client before its end.
    pub async fn dropped(&self, number: usize) {
        self.counted(number + 1).await;
        let mut fate = self.shared.book.lock().seen[number].fate.subscribe();
        within(&format!("the client closes request {number}"), async {
            fate.wait_for(|fate| *fate == Fate::Dropped).await.unwrap();
        })
        .await;
    }

    /// How many replies are on their way now.
    pub fn streaming(&self) -> usize {
        let book = self.shared.book.lock();
        book.seen.iter().filter(|seen| *seen.fate.borrow() == Fate::Streaming).count()
    }

    /// The `Authorization` headers that came, each once.
    pub fn authorizations(&self) -> Vec<String> {
        self.shared.book.lock().authorizations.clone()
    }

    /// Fails if any request was malformed (I4).
    pub fn assert_well_formed(&self) {
        let violations = &self.shared.book.lock().violations;
        assert!(violations.is_empty(), "malformed requests to the provider: {violations:#?}");
    }
}

impl Shared {
    /// Takes down a request and picks its reply.
    fn answer(&self, body: Value, authorization: &str) -> (Reply, watch::Sender<Fate>) {
        let fate = watch::Sender::new(Fate::Streaming);
        let mut book = self.book.lock();
        if let Err(violation) = crate::wire::check(&body) {
            book.violations.push(format!("{violation}; in {body}"));
        }
        if !book.authorizations.iter().any(|known| known == authorization) {
            book.authorizations.push(authorization.to_owned());
        }
        let said = last_user(&body);
        let queued = book
            .queues
            .iter_mut()
            .filter(|(key, _)| said.contains(key.as_str()))
            .find_map(|(_, queue)| queue.pop_front());
        let rule = book.rules.iter().find(|(key, _)| said.contains(key.as_str()));
        let reply = match (queued, rule) {
            (Some(reply), _) => reply,
            (None, Some((_, rule))) => rule(&body),
            (None, None) => Reply::text(format!("you said: {said}")),
        };
        book.count += 1;
        if !book.forgets {
            book.seen.push(Seen { body, fate: fate.clone() });
        }
        self.count.send_replace(book.count);
        (reply, fate)
    }
}

/// The text of a request's last user message.
pub fn last_user(body: &Value) -> String {
    body["messages"]
        .as_array()
        .into_iter()
        .flatten()
        .rev()
        .find(|message| message["role"] == "user")
        .and_then(|message| crate::wire::text(message))
        .unwrap_or_default()
        .to_owned()
}

/// The tool results that stand after the last user message: the turn's own, as the model sees them.
pub fn results_since_user(body: &Value) -> Vec<Value> {
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let start = messages.iter().rposition(|message| message["role"] == "user").unwrap_or(0);
    messages[start..].iter().filter(|message| message["role"] == "tool").cloned().collect()
}

/// The texts of the tool results that stand after the last user message.
pub fn result_texts(body: &Value) -> Vec<String> {
    let results = results_since_user(body);
    results.iter().map(|result| crate::wire::text(result).unwrap_or_default().to_owned()).collect()
}

/// Every tool result of the request with its id, in order.
pub fn paired_results(body: &Value) -> Vec<(String, String)> {
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    messages
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| {
            let id = message["tool_call_id"].as_str().unwrap_or_default().to_owned();
            (id, crate::wire::text(message).unwrap_or_default().to_owned())
        })
        .collect()
}

#[cfg(test)]
mod tests;
