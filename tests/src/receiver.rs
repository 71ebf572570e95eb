//! Where a webhook's replies are posted to.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use hmac::{Hmac, KeyInit as _, Mac as _};
use parking_lot::Mutex;
use serde_json::Value;
use sha2::Sha256;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::wait::within;

/// One post.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The raw body.
    pub raw: Vec<u8>,
    /// The body.
    pub body: Value,
    /// The signature header.
    pub signature: String,
    /// What it was answered with.
    pub status: u16,
}

#[derive(Default)]
struct Shared {
    answers: Mutex<VecDeque<u16>>,
    deliveries: Mutex<Vec<Delivery>>,
    count: watch::Sender<usize>,
}

/// A server that takes posts; it ends with the handle.
pub struct Receiver {
    shared: Arc<Shared>,
    address: SocketAddr,
    server: tokio::task::JoinHandle<()>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Receiver {
    /// Answers with these statuses, then with 200.
    pub async fn start(answers: impl IntoIterator<Item = u16>) -> Self {
        let shared = Arc::new(Shared::default());
        shared.answers.lock().extend(answers);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = Router::new().route("/reply", post(take)).with_state(Arc::clone(&shared));
        let server = tokio::spawn(async move {
            let _ = axum::serve(crate::without_delay(listener), app).await;
        });
        Self { shared, address, server }
    }

    /// Where to post.
    pub fn url(&self) -> String {
        format!("http://{}/reply", self.address)
    }

    /// The next post that has no answer yet gets this one.
    pub fn answer_next(&self, status: u16) {
        self.shared.answers.lock().push_back(status);
    }

    /// The posts so far.
    pub fn deliveries(&self) -> Vec<Delivery> {
        self.shared.deliveries.lock().clone()
    }

    /// Waits for so many posts in all; gives them.
    pub async fn got(&self, count: usize) -> Vec<Delivery> {
        let mut counted = self.shared.count.subscribe();
        within(&format!("{count} posts to the reply address"), async {
            counted.wait_for(|seen| *seen >= count).await.unwrap();
        })
        .await;
        self.shared.deliveries.lock().clone()
    }
}

async fn take(State(shared): State<Arc<Shared>>, headers: HeaderMap, raw: Bytes) -> StatusCode {
    let signature = headers.get("x-rookery-signature").and_then(|value| value.to_str().ok());
    let status = shared.answers.lock().pop_front().unwrap_or(200);
    shared.deliveries.lock().push(Delivery {
        raw: raw.to_vec(),
        body: serde_json::from_slice(&raw).unwrap_or_default(),
        signature: signature.unwrap_or_default().to_owned(),
        status,
    });
    shared.count.send_modify(|count| *count += 1);
    StatusCode::from_u16(status).unwrap()
}

/// The signature header's value over a body, made apart from the service's own code.
pub fn sign(secret: &str, unix: u64, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(format!("{unix}.").as_bytes());
    mac.update(body);
    let hex: String =
        mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("t={unix},v1={hex}")
}

/// Seconds since 1970.
pub fn unix_now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

/// Whether a delivery carries a fresh signature of `secret` over its body.
pub fn is_signed(delivery: &Delivery, secret: &str) -> bool {
    let time = delivery.signature.strip_prefix("t=").and_then(|rest| rest.split(',').next());
    let Some(time) = time.and_then(|time| time.parse::<u64>().ok()) else { return false };
    unix_now().abs_diff(time) < 300 && delivery.signature == sign(secret, time, &delivery.raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn posts_are_kept_and_their_signatures_checked() {
        let receiver = Receiver::start([500]).await;
        let body = b"{\"reply\":\"x\"}".to_vec();
        let signature = sign("secret", unix_now(), &body);
        let mut statuses = Vec::new();
        for signature in [signature.as_str(), "t=1,v1=00"] {
            let client = crate::http_client();
            let request = client.post(receiver.url()).header("x-rookery-signature", signature);
            statuses.push(request.body(body.clone()).send().await.unwrap().status().as_u16());
        }
        assert_eq!(statuses, [500, 200]);
        let got = receiver.got(2).await;
        assert_eq!(got[0].body["reply"], "x");
        assert!(is_signed(&got[0], "secret") && !is_signed(&got[0], "other"));
        assert!(!is_signed(&got[1], "secret"));
    }
}
