//! The loop to compare with: a server that calls the model and gives its text back, and nothing else.

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::net::TcpListener;

#[derive(Clone)]
struct Bare {
    client: reqwest::Client,
    model: String,
}

/// Runs until it is killed; its first line of output is its address.
pub async fn serve(model: &str) {
    let client = rookery_tests::http_client();
    let state = Bare { client, model: format!("{model}/v1/chat/completions") };
    let app = Router::new().route("/turn", post(turn)).with_state(state);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("http://{}", listener.local_addr().unwrap());
    axum::serve(rookery_tests::without_delay(listener), app).await.unwrap();
}

async fn turn(State(bare): State<Bare>, Json(message): Json<Value>) -> Json<Value> {
    let body = json!({
        "model": "mock",
        "stream": true,
        "messages": [
            {"role": "system", "content": "You are a helpful assistant."},
            {"role": "user", "content": message["text"]}
        ]
    });
    let response = bare.client.post(&bare.model).json(&body).send().await.unwrap();
    let (mut stream, mut buffer, mut reply) = (response.bytes_stream(), Vec::new(), String::new());
    while let Some(bytes) = stream.next().await {
        buffer.extend_from_slice(&bytes.unwrap());
        while let Some(end) = buffer.windows(2).position(|pair| pair == b"\n\n") {
            let event: Vec<u8> = buffer.drain(..end + 2).collect();
            let data = event.strip_prefix(b"data: ").unwrap();
            if data.starts_with(b"[DONE]") {
                break;
            }
            let data: Value = serde_json::from_slice(data).unwrap();
            if let Some(text) = data["choices"][0]["delta"]["content"].as_str() {
                reply.push_str(text);
            }
        }
    }
    Json(json!({ "reply": reply }))
}
