//! An embeddings endpoint (OpenAI's form) that knows a few topics, and misbehaves when told to.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Json, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// Words that mean the same thing.
const TOPICS: [&[&str]; 3] =
    [&["car", "automobile", "vehicle"], &["tea", "beverage"], &["umbrella", "rain", "weather"]];

/// How it behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mood {
    /// It gives vectors.
    #[default]
    Fine,
    /// It answers with this status.
    Fails(u16),
    /// It answers nothing.
    Silent,
    /// One number too many.
    Longer,
}

#[derive(Default)]
struct Shared {
    mood: Mutex<Mood>,
    asked: Mutex<Vec<Value>>,
}

/// The server; it ends with the handle.
pub struct MockEmbeddings {
    shared: Arc<Shared>,
    address: SocketAddr,
    server: tokio::task::JoinHandle<()>,
}

impl Drop for MockEmbeddings {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl MockEmbeddings {
    /// Starts it on loopback.
    pub async fn start() -> Self {
        let shared = Arc::new(Shared::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app =
            Router::new().route("/v1/embeddings", post(embed)).with_state(Arc::clone(&shared));
        let server = tokio::spawn(async move {
            let _ = axum::serve(crate::without_delay(listener), app).await;
        });
        Self { shared, address, server }
    }

    /// The sections of the configuration that use it.
    pub fn sections(&self) -> String {
        format!(
            "[providers.meaning]\nkind = \"openai\"\nmodel = \"unused\"\nbase_url = \"http://{}/v1\"\n\
             api_key = \"key-for-the-embeddings\"\n\
             [memory.embeddings]\nprovider = \"meaning\"\nmodel = \"embed-1\"\n",
            self.address
        )
    }

    /// From now on it behaves like this.
    pub fn mood(&self, mood: Mood) {
        *self.shared.mood.lock() = mood;
    }

    /// The bodies it was asked with.
    pub fn asked(&self) -> Vec<Value> {
        self.shared.asked.lock().clone()
    }
}

async fn embed(State(shared): State<Arc<Shared>>, Json(body): Json<Value>) -> Response {
    shared.asked.lock().push(body.clone());
    let mood = *shared.mood.lock();
    let more = match mood {
        Mood::Fine => 0,
        Mood::Longer => 1,
        Mood::Silent => std::future::pending().await,
        Mood::Fails(status) => return StatusCode::from_u16(status).unwrap().into_response(),
    };
    let texts = body["input"].as_array().unwrap();
    let data = texts.iter().enumerate().map(|(index, text)| {
        json!({ "object": "embedding", "index": index, "embedding": vector(text.as_str().unwrap(), more) })
    });
    Json(json!({ "object": "list", "data": data.collect::<Vec<_>>() })).into_response()
}

fn vector(text: &str, more: usize) -> Vec<f64> {
    let text = text.to_lowercase();
    let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric()).collect();
    let about = TOPICS.map(|topic| topic.iter().any(|word| words.contains(word)));
    // What all texts have in common, so that unrelated ones are not at right angles.
    let own = f64::from(u8::from(!about.contains(&true)));
    let about = about.map(|about| f64::from(u8::from(about)));
    [&about[..], &[0.4, own], &vec![0.0; more]].concat()
}
