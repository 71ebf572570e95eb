//! What is done about an answer with status 400, over real sockets on loopback.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use futures_util::StreamExt as _;
use parking_lot::Mutex;
use rookery_messages::attachment::ImageFormat;
use rookery_messages::chat::{ChatMessage, OpaqueBlock};
use rookery_messages::model::{ModelDelta, ModelErrorClass};
use rookery_messages::settings::{ProviderKind, ReasoningEffort};
use rookery_messages::tool::ToolSpec;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::tests::crypto;
use super::*;
use crate::model::anthropic::{Anthropic, AnthropicProvider};
use crate::model::responses::{Responses, ResponsesProvider};
use crate::model::testing::{asks, call, image, images_of, result, tool};

const MODEL: &str = "claude-sonnet-4-5";
const SAID: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}\n\n\
    data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hi\"}}\n\n\
    data: {\"type\":\"message_stop\"}\n\n";
const COMPLETED: &str = "data: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"Hi\"}\n\n\
    data: {\"type\":\"response.completed\",\"response\":{\"output\":[]}}\n\n";

#[derive(Default)]
struct Book {
    /// What is answered, one after the other; then `said`.
    refusals: VecDeque<String>,
    bodies: Vec<Value>,
}

/// Refuses with these words, one after the other, and then says `said`.
struct Server {
    base: String,
    book: Arc<Mutex<Book>>,
    _tasks: JoinSet<()>,
}

impl Server {
    async fn start(said: &'static str, refusals: &[&str]) -> Self {
        let refusals = refusals
            .iter()
            .map(|words| json!({"type": "error", "error": {"type": "invalid_request_error", "message": words}}).to_string())
            .collect();
        let book = Arc::new(Mutex::new(Book { refusals, bodies: Vec::new() }));
        let answer = move |State(book): State<Arc<Mutex<Book>>>, body: Bytes| async move {
            let mut book = book.lock();
            book.bodies.push(serde_json::from_slice(&body).unwrap());
            match book.refusals.pop_front() {
                Some(words) => (StatusCode::BAD_REQUEST, words),
                None => (StatusCode::OK, said.to_owned()),
            }
        };
        let app = Router::new().fallback(post(answer)).with_state(Arc::clone(&book));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}/v1", listener.local_addr().unwrap());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { base, book, _tasks: tasks }
    }

    fn settings(&self, kind: ProviderKind) -> ProviderSettings {
        crypto();
        ProviderSettings {
            base_url: Some(self.base.clone()),
            reasoning_effort: Some(ReasoningEffort::Low),
            ..ProviderSettings::new(kind, MODEL)
        }
    }

    fn bodies(&self) -> Vec<Value> {
        self.book.lock().bodies.clone()
    }
}

/// A tool loop whose answer has a block of this kind of provider.
fn in_a_loop(kind: &str, block: Value, tools: &[Arc<ToolSpec>]) -> ModelRequest {
    let asked = call(1, Some("toolu_1"), "time", "");
    let origin = Origin { profile: "main".into(), kind: kind.into(), model: MODEL.into() };
    let block = OpaqueBlock { origin, after_text: 0, after_calls: 0, block };
    let messages = vec![
        ChatMessage::user("hi"),
        asks("", std::slice::from_ref(&asked), vec![block]),
        result(&asked, "noon"),
    ];
    ModelRequest {
        messages: Arc::new(messages),
        tools: Arc::new(tools.to_vec()),
        ..ModelRequest::default()
    }
}

fn thinking() -> Value {
    json!({"type": "thinking", "thinking": "t", "signature": "S=="})
}

async fn say<D: Dialect>(
    provider: &HttpProvider<D>,
    request: ModelRequest,
) -> Result<Vec<ModelDelta>, ModelError> {
    let mut stream = provider.stream(request).await?;
    let mut deltas = Vec::new();
    while let Some(delta) = stream.next().await {
        deltas.push(delta?);
    }
    Ok(deltas)
}

// A042
#[tokio::test]
async fn a_refused_signature_is_left_out_once_and_tried_again_with_the_next_question() {
    let words = "messages.1.content.0: Invalid `signature` in `thinking` block";
    let server = Server::start(SAID, &[words]).await;
    let provider =
        AnthropicProvider::new("main", &server.settings(ProviderKind::Anthropic)).unwrap();
    let request = in_a_loop(Anthropic::KIND, thinking(), &[tool("time")]);
    say(&provider, request.clone()).await.unwrap();
    say(&provider, request).await.unwrap();
    let first: Vec<Value> = server
        .bodies()
        .iter()
        .map(|body| body["messages"][1]["content"][0]["type"].clone())
        .collect();
    assert_eq!(first, ["thinking", "tool_use", "thinking"]);
    let asked: Vec<bool> =
        server.bodies().iter().map(|body| body.get("thinking").is_some()).collect();
    assert_eq!(asked, [true, false, true]);
}

// A042, A050
#[tokio::test]
async fn what_is_refused_for_ever_is_tried_a_bounded_number_of_times() {
    let words = ["messages.1.content.0: Invalid `signature` in `thinking` block"; 30];
    let server = Server::start(SAID, &words).await;
    let provider =
        AnthropicProvider::new("main", &server.settings(ProviderKind::Anthropic)).unwrap();
    let request = in_a_loop(Anthropic::KIND, thinking(), &[tool("time")]);
    let error = say(&provider, request).await.unwrap_err();
    assert_eq!(error.class, ModelErrorClass::InvalidRequest);
    assert_eq!(server.bodies().len(), 3);
}

// A105
#[tokio::test]
async fn a_tool_that_anthropic_refuses_is_not_offered_any_more() {
    let server =
        Server::start(SAID, &["tools.1.custom.input_schema: JSON schema is invalid"]).await;
    let provider =
        AnthropicProvider::new("main", &server.settings(ProviderKind::Anthropic)).unwrap();
    let tools = [tool("time"), tool("bad")];
    let request = || in_a_loop(Anthropic::KIND, thinking(), &tools);
    say(&provider, request()).await.unwrap();
    say(&provider, request()).await.unwrap();
    let offered: Vec<usize> =
        server.bodies().iter().map(|body| body["tools"].as_array().unwrap().len()).collect();
    assert_eq!(offered, [2, 1, 1]);
    assert_eq!(provider.quarantined(), ["bad"]);
}

// A052
#[tokio::test]
async fn the_largest_output_of_a_model_is_learned_once() {
    let words =
        "max_tokens: 18432 > 8192, which is the maximum allowed number of output tokens for it";
    let server = Server::start(SAID, &[words]).await;
    let provider =
        AnthropicProvider::new("main", &server.settings(ProviderKind::Anthropic)).unwrap();
    let request = || ModelRequest {
        messages: Arc::new(vec![ChatMessage::user("hi")]),
        ..ModelRequest::default()
    };
    say(&provider, request()).await.unwrap();
    say(&provider, request()).await.unwrap();
    let caps: Vec<Value> = server.bodies().iter().map(|body| body["max_tokens"].clone()).collect();
    assert_eq!(caps, [18_432, 8_192, 8_192]);
}

#[tokio::test]
async fn a_model_without_encrypted_reasoning_is_not_asked_for_it_again() {
    let server =
        Server::start(COMPLETED, &["Encrypted content is not supported with this model."]).await;
    let settings = server.settings(ProviderKind::OpenaiResponses);
    let provider = ResponsesProvider::new("main", &settings).unwrap();
    let item = json!({"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "E=="});
    let request = || in_a_loop(Responses::KIND, item.clone(), &[tool("time")]);
    say(&provider, request()).await.unwrap();
    say(&provider, request()).await.unwrap();
    let asked: Vec<bool> =
        server.bodies().iter().map(|body| body.get("include").is_some()).collect();
    assert_eq!(asked, [true, false, false]);
}

// I4
#[tokio::test]
async fn refused_images_are_told_in_words_and_a_model_that_sees_none_is_not_shown_any_again() {
    for (words, expected) in [
        // One that can't be read says nothing of the next.
        ("Could not process image", [true, false, true]),
        (
            "Invalid content type. image_url is only supported by certain models.",
            [true, false, false],
        ),
    ] {
        let server = Server::start(SAID, &[words]).await;
        let provider =
            AnthropicProvider::new("main", &server.settings(ProviderKind::Anthropic)).unwrap();
        let attachments = vec![image("a.png", ImageFormat::Png)];
        let kind = Default::default();
        let messages = vec![ChatMessage::User { text: "look".into(), kind, attachments }];
        let images = Arc::new(images_of(&messages));
        let request =
            ModelRequest { messages: Arc::new(messages), images, ..ModelRequest::default() };
        say(&provider, request.clone()).await.unwrap();
        say(&provider, request).await.unwrap();
        let first = |body: &Value| body["messages"][0]["content"][0]["type"] == "image";
        assert_eq!(server.bodies().iter().map(first).collect::<Vec<_>>(), expected, "{words}");
    }
}
