//! A WebSocket client.

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::wait::within;

/// A connection to `/v1/ws`.
pub struct Ws(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Ws {
    /// Connects; `headers` come on top.
    pub async fn connect(url: &str, headers: &[(&'static str, &str)]) -> Result<Self, Error> {
        let mut request = url.into_client_request()?;
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        let connecting = tokio_tungstenite::connect_async(request);
        let (stream, _) = within("the WebSocket connects", connecting).await?;
        Ok(Self(stream))
    }

    /// Sends a frame.
    pub async fn send(&mut self, frame: &Value) {
        self.0.send(Message::text(frame.to_string())).await.unwrap();
    }

    /// Sends text that may be no JSON.
    pub async fn send_raw(&mut self, text: &str) {
        self.0.send(Message::text(text)).await.unwrap();
    }

    /// Sends a message.
    pub async fn say(&mut self, id: &str, text: &str) {
        self.send(&json!({"type": "message", "id": id, "text": text})).await;
    }

    /// The next frame; none when the connection is closed.
    pub async fn next(&mut self) -> Option<Value> {
        within("a frame", async {
            loop {
                match self.0.next().await {
                    Some(Ok(Message::Text(text))) => {
                        return Some(serde_json::from_str(&text).unwrap());
                    }
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
                    Some(Ok(_)) => {}
                }
            }
        })
        .await
    }

    /// All frames up to the one of type `kind`, that one included.
    pub async fn until(&mut self, kind: &str) -> Vec<Value> {
        let mut frames = Vec::new();
        loop {
            let Some(frame) = self.next().await else {
                panic!("the connection closed without `{kind}`: {frames:#?}");
            };
            let found = frame["type"] == kind;
            frames.push(frame);
            if found {
                return frames;
            }
        }
    }

    /// Closes it.
    pub async fn close(mut self) {
        // The other side may be gone already.
        let _ = self.0.close(None).await;
    }
}
