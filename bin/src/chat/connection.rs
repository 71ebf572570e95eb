//! One WebSocket connection, over the same HTTP client as everything else: same TLS, same refusals.

use futures_util::{SinkExt, StreamExt};
use reqwest::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use reqwest::{Method, StatusCode, Upgraded};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::{client::generate_key, derive_accept_key};
use tokio_tungstenite::tungstenite::protocol::Role;

use super::frames::ClientFrame;
use crate::client::{Client, ClientError, refusal};

/// An open connection.
pub(super) struct Connection {
    socket: WebSocketStream<Upgraded>,
}

/// What came.
#[derive(Debug)]
pub(super) enum Incoming {
    /// A frame's text.
    Text(String),
    /// A sign of life.
    Alive,
    /// It is over.
    Lost,
}

impl Connection {
    /// Opens one (RFC 6455, section 4.1). A refusal is read like any other answer of the API.
    pub(super) async fn open(client: &Client, query: &[(&str, &str)]) -> Result<Self, ClientError> {
        let key = generate_key();
        let answer = client
            .request(Method::GET, client.url(&["v1", "ws"], query))
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, "websocket")
            .header(SEC_WEBSOCKET_VERSION, "13")
            .header(SEC_WEBSOCKET_KEY, &key)
            .send()
            .await
            .map_err(|error| client.unreachable(&error))?;
        let status = answer.status();
        if status != StatusCode::SWITCHING_PROTOCOLS {
            let body = answer.bytes().await.unwrap_or_default();
            return Err(refusal(&client.shown_base(), status, &body));
        }
        let expected = derive_accept_key(key.as_bytes());
        let accepted = answer.headers().get(SEC_WEBSOCKET_ACCEPT);
        if accepted.is_none_or(|value| value.as_bytes() != expected.as_bytes()) {
            return Err(ClientError::Unreadable {
                url: client.shown_base(),
                cause: "the WebSocket handshake has the wrong key".to_owned(),
            });
        }
        let upgraded = answer.upgrade().await.map_err(|error| client.unreachable(&error))?;
        Ok(Self { socket: WebSocketStream::from_raw_socket(upgraded, Role::Client, None).await })
    }

    /// What comes next. Cancel safe.
    pub(super) async fn next(&mut self) -> Incoming {
        match self.socket.next().await {
            Some(Ok(Message::Text(text))) => Incoming::Text(text.to_string()),
            Some(Ok(Message::Close(_)) | Err(_)) | None => Incoming::Lost,
            Some(Ok(_)) => Incoming::Alive,
        }
    }

    /// Sends a frame; false when the connection is lost.
    pub(super) async fn send(&mut self, frame: &ClientFrame) -> bool {
        match serde_json::to_string(frame) {
            Ok(text) => self.socket.send(Message::text(text)).await.is_ok(),
            Err(_) => false,
        }
    }

    /// Asks for a sign of life; false when the connection is lost.
    pub(super) async fn ping(&mut self) -> bool {
        self.socket.send(Message::Ping(Vec::new().into())).await.is_ok()
    }

    /// Takes leave, so that the service needn't find out by itself.
    pub(super) async fn close(mut self) {
        // The other end may be gone already, which is the same in the end.
        let _ = self.socket.close(None).await;
    }
}
