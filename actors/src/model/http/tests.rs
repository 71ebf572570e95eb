//! Over real sockets on loopback.

use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use axum::routing::post;
use futures_util::StreamExt as _;
use parking_lot::Mutex;
use rookery_messages::chat::{ChatMessage, Usage};
use rookery_messages::model::{FinishReason, ModelDelta};
use rookery_messages::settings::ProviderKind;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::*;
use crate::model::openai::{OpenAi, OpenAiProvider};
use crate::outbound::testing::DeadRoute;

const KEY: &str = "sk-test-0123456789";
/// Longer than anything here takes, shorter than a person's patience.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) fn crypto() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        // Another test of this binary may have been first; any provider will do.
        drop(rustls::crypto::ring::default_provider().install_default());
    });
}

fn settings(base_url: &str) -> ProviderSettings {
    ProviderSettings {
        base_url: Some(base_url.to_owned()),
        api_key: Some(Secret::new(format!("{KEY}\n"))),
        idle_timeout_secs: 10,
        ..ProviderSettings::new(ProviderKind::Openai, "test-model")
    }
}

fn provider(settings: &ProviderSettings) -> OpenAiProvider {
    crypto();
    OpenAiProvider::new("main", settings).unwrap()
}

fn request() -> ModelRequest {
    ModelRequest { messages: Arc::new(vec![ChatMessage::user("hi")]), ..ModelRequest::default() }
}

type Outcome = (Vec<ModelDelta>, Option<ModelError>);

async fn ask(provider: &OpenAiProvider) -> Outcome {
    let mut stream = match provider.stream(request()).await {
        Ok(stream) => stream,
        Err(error) => return (vec![], Some(error)),
    };
    let mut deltas = Vec::new();
    while let Some(item) = stream.next().await {
        match item {
            Ok(delta) => deltas.push(delta),
            Err(error) => return (deltas, Some(error)),
        }
    }
    (deltas, None)
}

/// Reads one request: head and body.
async fn read_request(socket: &mut TcpStream) -> String {
    let mut read = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&read).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| {
                    line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned)
                })
                .map_or(0, |length| length.parse::<usize>().unwrap());
            if body.len() >= length {
                return text;
            }
        }
        assert_ne!(socket.read_buf(&mut read).await.unwrap(), 0, "the client left early");
    }
}

/// What the server does after it has written its answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Close,
    /// Waits until the client is gone.
    Hold,
}

/// Answers the first request with these bytes. The receiver gets word once the client is gone.
async fn raw_server(answer: Vec<u8>, then: Then) -> (String, oneshot::Receiver<()>, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    let (gone, seen) = oneshot::channel();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        read_request(&mut socket).await;
        socket.write_all(&answer).await.unwrap();
        if then == Then::Hold {
            let mut rest = Vec::new();
            // Either the end of the stream or a reset: the client is gone.
            drop(socket.read_to_end(&mut rest).await);
        }
        let _ = gone.send(());
    });
    (base, seen, tasks)
}

/// One chunk of a body with chunked encoding.
fn chunked(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

const SSE_HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const HI: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n";
const STOP: &str = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const USAGE: &str =
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\n";
const DONE: &str = "data: [DONE]\n\n";

fn said() -> ModelDelta {
    ModelDelta::Text("Hi".to_owned())
}

fn ended() -> ModelDelta {
    ModelDelta::Ended { calls: vec![], finish: FinishReason::Stop }
}

async fn refused(answer: &str) -> ModelError {
    let (base, _seen, _tasks) = raw_server(answer.as_bytes().to_vec(), Then::Close).await;
    ask(&provider(&settings(&base))).await.1.unwrap()
}

type Requests = Arc<Mutex<Vec<(HeaderMap, Value)>>>;

async fn completions(
    State(requests): State<Requests>,
    headers: HeaderMap,
    body: String,
) -> impl IntoResponse {
    requests.lock().push((headers, serde_json::from_str(&body).unwrap()));
    let stream = [": ping\n\n", HI, STOP, USAGE, DONE].concat();
    ([("content-type", "text/event-stream; charset=utf-8")], stream)
}

#[tokio::test]
async fn a_stream_over_http_is_read_to_its_end_and_its_connection_used_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v1/", listener.local_addr().unwrap());
    let connections: Arc<Mutex<std::collections::HashSet<std::net::SocketAddr>>> = Arc::default();
    let requests = Requests::default();
    let seen = connections.clone();
    let app = Router::new()
        .route("/v1/chat/completions", post(completions))
        .with_state(requests.clone())
        .layer(axum::middleware::from_fn(
            move |axum::extract::ConnectInfo(peer): axum::extract::ConnectInfo<
                std::net::SocketAddr,
            >,
                  request: axum::extract::Request,
                  next: axum::middleware::Next| {
                seen.lock().insert(peer);
                next.run(request)
            },
        ));
    let mut tasks = JoinSet::new();
    let service = app.into_make_service_with_connect_info::<std::net::SocketAddr>();
    tasks.spawn(async move { axum::serve(listener, service).await.unwrap() });

    let provider = provider(&settings(&base));
    assert_eq!((provider.kind(), provider.model()), ("openai", "test-model"));
    for _ in 0..3 {
        let usage = ModelDelta::Usage(Usage { input: 1, output: 2 });
        assert_eq!(ask(&provider).await, (vec![said(), usage, ended()], None));
    }
    assert_eq!(connections.lock().len(), 1, "the pool keeps the connection");
    let requests = requests.lock();
    let (headers, body) = &requests[0];
    assert_eq!(headers["authorization"], format!("Bearer {KEY}"));
    assert_eq!(headers["content-type"], "application/json");
    assert_eq!((&body["model"], &body["stream"]), (&json!("test-model"), &json!(true)));
    assert_eq!(body["messages"], json!([{"role": "user", "content": "hi"}]));
}

// V-L2, V-L24
#[tokio::test]
async fn a_refused_key_is_an_auth_error_without_the_key() {
    let body = format!(r#"{{"error":{{"message":"Incorrect API key provided: {KEY}"}}}}"#);
    let error = refused(&format!(
        "HTTP/1.1 401 Unauthorized\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ))
    .await;
    assert_eq!(error.class, ModelErrorClass::Auth);
    assert!(error.message.contains("main") && error.message.contains("401"), "{error}");
    assert!(!error.message.contains(KEY), "{error}");
}

// V-L6, A045
#[tokio::test]
async fn a_rate_limit_says_when_to_come_back() {
    let error = refused(
        "HTTP/1.1 429 Too Many Requests\r\nretry-after: 7\r\ncontent-length: 4\r\n\r\nslow",
    )
    .await;
    assert_eq!(error.class, ModelErrorClass::RateLimited);
    assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
}

#[tokio::test]
async fn a_page_of_html_with_status_200_is_a_protocol_error_with_an_excerpt() {
    let error = refused(
        "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 34\r\n\r\n<html><title>Sign in</title></html",
    )
    .await;
    assert_eq!(error.class, ModelErrorClass::Protocol);
    assert!(error.message.contains("Sign in"), "{error}");
}

#[tokio::test]
async fn a_redirection_is_not_followed() {
    let error = refused(
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
    )
    .await;
    assert_eq!(error.class, ModelErrorClass::InvalidRequest);
    assert!(error.message.contains("307"), "{error}");
}

// V-L24
#[tokio::test]
async fn an_endless_error_body_is_read_in_bounds() {
    let mut answer = b"HTTP/1.1 500 Oops\r\n\r\n".to_vec();
    answer.extend(b"words ".repeat(100_000));
    let (base, _seen, _tasks) = raw_server(answer, Then::Hold).await;
    let error = ask(&provider(&settings(&base))).await.1.unwrap();
    assert_eq!(error.class, ModelErrorClass::Server);
    assert!(error.message.len() < 700, "{} bytes", error.message.len());
}

// A035, V-L16
#[tokio::test]
async fn a_stream_that_ends_or_breaks_early_is_no_success() {
    let ends = [SSE_HEAD, &chunked(HI), "0\r\n\r\n"].concat();
    let breaks = [SSE_HEAD, &chunked(HI)].concat();
    for (answer, class) in [(ends, ModelErrorClass::Truncated), (breaks, ModelErrorClass::Network)]
    {
        let (base, _seen, _tasks) = raw_server(answer.into_bytes(), Then::Close).await;
        let (deltas, error) = ask(&provider(&settings(&base))).await;
        assert_eq!((deltas, error.map(|error| error.class)), (vec![said()], Some(class)));
    }
}

// A111
#[tokio::test]
async fn broken_chunk_encoding_fails_at_once_and_closes_the_connection() {
    let answer = [SSE_HEAD, &chunked(HI), "zz\r\n"].concat();
    let (base, seen, _tasks) = raw_server(answer.into_bytes(), Then::Hold).await;
    let provider = provider(&settings(&base));
    let mut stream = provider.stream(request()).await.unwrap();
    assert_eq!(stream.next().await, Some(Ok(said())));
    let begun = Instant::now();
    let error = stream.next().await.unwrap().unwrap_err();
    assert_eq!(error.class, ModelErrorClass::Network);
    assert!(begun.elapsed() < Duration::from_secs(5), "it waited for the idle timeout");
    // The stream itself is still held: the connection went with the error.
    timeout(PATIENCE, seen).await.unwrap().unwrap();
    assert_eq!(stream.next().await, None);
}

// V-L19
#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    let answer = [SSE_HEAD, &chunked(HI)].concat();
    let (base, seen, _tasks) = raw_server(answer.into_bytes(), Then::Hold).await;
    let provider = provider(&settings(&base));
    let mut stream = provider.stream(request()).await.unwrap();
    assert_eq!(stream.next().await, Some(Ok(said())));
    drop(stream);
    timeout(PATIENCE, seen).await.unwrap().unwrap();
}

// V-L17
#[tokio::test]
async fn a_finished_response_does_not_wait_for_the_connection_to_close() {
    let answer = [SSE_HEAD, &chunked(HI), &chunked(STOP)].concat();
    let (base, seen, _tasks) = raw_server(answer.into_bytes(), Then::Hold).await;
    let begun = Instant::now();
    let got = ask(&provider(&settings(&base))).await;
    assert_eq!(got, (vec![said(), ended()], None));
    assert!(begun.elapsed() < Duration::from_secs(5), "it waited for the idle timeout");
    timeout(PATIENCE, seen).await.unwrap().unwrap();
}

// A023
#[tokio::test]
async fn a_silent_server_runs_into_the_idle_timeout_before_and_after_its_head() {
    for answer in [String::new(), [SSE_HEAD, &chunked(HI)].concat()] {
        let (base, seen, _tasks) = raw_server(answer.into_bytes(), Then::Hold).await;
        let mut settings = settings(&base);
        settings.idle_timeout_secs = 1;
        let (_, error) = timeout(PATIENCE, ask(&provider(&settings))).await.unwrap();
        assert_eq!(error.map(|error| error.class), Some(ModelErrorClass::IdleTimeout));
        timeout(PATIENCE, seen).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn an_address_where_nobody_listens_is_a_network_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://user:password@{}/v1?key=abc", listener.local_addr().unwrap());
    drop(listener);
    let error = ask(&provider(&settings(&base))).await.1.unwrap();
    assert_eq!(error.class, ModelErrorClass::Network);
    assert!(!error.message.contains("password") && !error.message.contains("abc"), "{error}");
}

// A135
#[tokio::test]
async fn a_provider_behind_a_dead_ipv6_route_is_asked_within_a_second() {
    let route = DeadRoute::of("provider.test").await;
    let provider = provider(&settings(&format!("{}/v1", route.url())));
    let answer = json!({"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]});
    let call = async || assert_eq!(ask(&provider).await.1, None);
    let took = route.answers(&answer.to_string(), 2, call).await;
    assert!(took[0] < Duration::from_secs(1) && took[1] < took[0], "{took:?}");
}

#[test]
fn settings_that_cannot_work_are_refused_with_what_to_do() {
    crypto();
    let good = settings("http://127.0.0.1:1/v1");
    let class =
        |settings: ProviderSettings| OpenAiProvider::new("main", &settings).unwrap_err().class;
    let model = ProviderSettings { model: " ".to_owned(), ..good.clone() };
    assert_eq!(class(model), ModelErrorClass::InvalidRequest);
    for base in ["not a url", "ftp://x/v1", "mailto:a@b"] {
        let base = ProviderSettings { base_url: Some(base.to_owned()), ..good.clone() };
        assert_eq!(class(base), ModelErrorClass::InvalidRequest);
    }
    let key = ProviderSettings { api_key: Some(Secret::new("a\nb")), ..good.clone() };
    assert_eq!(class(key), ModelErrorClass::Auth);
    let none = ProviderSettings { api_key: None, ..good };
    assert!(OpenAiProvider::new("main", &none).is_ok());
}

#[test]
fn the_endpoint_is_made_from_the_base() {
    for (base, want) in [
        ("https://api.example.com/v1", "https://api.example.com/v1/chat/completions"),
        ("https://api.example.com/v1/", "https://api.example.com/v1/chat/completions"),
        (
            "https://gw.example.com/x?api-version=1",
            "https://gw.example.com/x/chat/completions?api-version=1",
        ),
        ("http://h/v1/chat/completions", "http://h/v1/chat/completions"),
    ] {
        assert_eq!(OpenAi::endpoint(Some(base), "m").unwrap().as_str(), want);
    }
}
