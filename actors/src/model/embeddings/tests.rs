//! Over real sockets on loopback.

use std::sync::OnceLock;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap as Head, StatusCode, Uri};
use parking_lot::Mutex;

use super::*;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Default)]
struct Seen {
    uri: String,
    head: Head,
    body: Value,
}

/// A server that answers everything alike, and keeps what it was asked.
struct Server {
    base: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    _end: tokio::sync::oneshot::Sender<()>,
}

type Kept = (Arc<Mutex<Vec<Seen>>>, u16, String);

async fn server(status: u16, answer: impl Into<String>) -> Server {
    static CRYPTO: OnceLock<()> = OnceLock::new();
    CRYPTO.get_or_init(|| drop(rustls::crypto::ring::default_provider().install_default()));
    let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
    let kept: Kept = (Arc::clone(&seen), status, answer.into());
    let handle = |State((seen, status, answer)): State<Kept>,
                  uri: Uri,
                  head: Head,
                  body: String| async move {
        let body = serde_json::from_str(&body).unwrap();
        seen.lock().push(Seen { uri: uri.to_string(), head, body });
        (StatusCode::from_u16(status).unwrap(), answer)
    };
    let app = Router::new().fallback(handle).with_state(kept);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let (end, ended) = tokio::sync::oneshot::channel();
    let serve = axum::serve(listener, app).with_graceful_shutdown(async {
        let _ = ended.await;
    });
    #[allow(clippy::disallowed_methods, reason = "a test's own server")]
    tokio::spawn(async move { serve.await.unwrap() });
    Server { base, seen, _end: end }
}

fn embedder(kind: ProviderKind, base: &str, dimensions: Option<u32>) -> EmbeddingClient {
    let profile = ProviderSettings {
        base_url: Some(base.to_owned()),
        api_key: Some(Secret::new("sk-of-the-embedder")),
        ..ProviderSettings::new(kind, "chat-model")
    };
    let settings = EmbeddingSettings {
        provider: "main".to_owned(),
        model: "embed-1".to_owned(),
        dimensions,
        timeout_ms: 600,
        unrelated_percent: 25,
        same_percent: 65,
    };
    EmbeddingClient::new(&settings, &profile, &Arc::default()).unwrap()
}

fn texts() -> Vec<String> {
    vec!["tea".to_owned(), "grüne Wiese".to_owned()]
}

#[tokio::test]
async fn each_kind_is_asked_in_its_own_way_and_gives_the_vectors_in_order() {
    let openai = json!({ "data": [
        { "index": 1, "embedding": [0.0, 1.0] }, { "index": 0, "embedding": [1, 0.0] },
    ]});
    let gemini = json!({ "embeddings": [{ "values": [1.0, 0.0] }, { "values": [0.0, 1.0] }] });
    let ollama = json!({ "model": "embed-1", "embeddings": [[1.0, 0.0], [0.0, 1.0]] });
    let part = |text: &str| {
        json!({
            "model": "models/embed-1",
            "content": { "parts": [{ "text": text }] },
            "outputDimensionality": 2,
        })
    };
    for (kind, under, answer, uri, sent) in [
        (
            ProviderKind::Openai,
            "/v1",
            openai,
            "/v1/embeddings",
            json!({ "model": "embed-1", "input": texts(), "encoding_format": "float", "dimensions": 2 }),
        ),
        (
            ProviderKind::Gemini,
            "",
            gemini,
            "/v1beta/models/embed-1:batchEmbedContents",
            json!({ "requests": [part("tea"), part("grüne Wiese")] }),
        ),
        (
            ProviderKind::Ollama,
            "/api",
            ollama,
            "/api/embed",
            json!({ "model": "embed-1", "input": texts(), "truncate": true, "dimensions": 2 }),
        ),
    ] {
        let server = server(200, answer.to_string()).await;
        let embedder = embedder(kind, &format!("{}{under}", server.base), Some(2));
        let vectors = embedder.embed(&texts(), PATIENCE).await.unwrap();
        assert_eq!(vectors, [[1.0, 0.0], [0.0, 1.0]], "{kind:?}");
        let seen = &server.seen.lock()[0];
        assert_eq!((seen.uri.as_str(), &seen.body), (uri, &sent), "{kind:?}");
        let key = match kind {
            ProviderKind::Gemini => seen.head["x-goog-api-key"].to_str().unwrap(),
            _ => seen.head["authorization"].to_str().unwrap(),
        };
        assert!(key.ends_with("sk-of-the-embedder"), "{kind:?}");
    }
}

// I12
#[tokio::test]
async fn what_is_refused_or_unreadable_is_a_typed_error_without_the_key() {
    use ModelErrorClass as Class;
    let echoed = r#"{"error": {"message": "no key sk-of-the-embedder"}}"#;
    for (status, answer, class) in [
        (401, echoed, Class::Auth),
        (400, r#"{"error": {"message": "input is too odd"}}"#, Class::InvalidRequest),
        (429, "slow down", Class::RateLimited),
        (503, "", Class::Server),
        (200, "<html>", Class::Protocol),
        (200, r#"{"data": [{"embedding": ["a"]}]}"#, Class::Protocol),
        (200, r#"{"data": [{"embedding": null}]}"#, Class::Protocol),
        (302, "", Class::InvalidRequest),
    ] {
        let server = server(status, answer).await;
        let embedder = embedder(ProviderKind::Openai, &server.base, None);
        let error = embedder.embed(&texts(), PATIENCE).await.unwrap_err();
        assert_eq!(error.class, class, "{status} {answer}: {error}");
        assert!(!error.message.contains("sk-of-the"), "{error}");
    }
    let endless = server(200, "x".repeat(MAX_ANSWER + 1)).await;
    let error = embedder(ProviderKind::Openai, &endless.base, None).embed(&texts(), PATIENCE).await;
    assert_eq!(error.unwrap_err().class, Class::Protocol);
}

#[tokio::test]
async fn an_answer_that_does_not_come_is_given_up_in_time() {
    static CRYPTO: OnceLock<()> = OnceLock::new();
    CRYPTO.get_or_init(|| drop(rustls::crypto::ring::default_provider().install_default()));
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", silent.local_addr().unwrap());
    let embedder = embedder(ProviderKind::Ollama, &base, None);
    let error = embedder.embed(&texts(), Duration::from_millis(50)).await.unwrap_err();
    assert_eq!(error.class, ModelErrorClass::IdleTimeout);
}
