//! A turn's events as a client reads them.

use bytes::BytesMut;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use serde_json::Value;

use crate::wait::within;

/// The event stream of one turn.
pub struct EventStream {
    body: BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    buffer: BytesMut,
}

impl EventStream {
    /// Of an answered request.
    pub fn of(response: reqwest::Response) -> Self {
        Self { body: response.bytes_stream().boxed(), buffer: BytesMut::new() }
    }

    /// The next event; none at the end of the stream. The `event:` line must say what `type` says.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(event) = self.take() {
                return Some(event);
            }
            match self.body.next().await {
                Some(Ok(bytes)) => self.buffer.extend_from_slice(&bytes),
                Some(Err(_)) | None => return None,
            }
        }
    }

    /// All events up to the one of type `kind`, that one included.
    pub async fn until(&mut self, kind: &str) -> Vec<Value> {
        let mut events = Vec::new();
        within(&format!("the event `{kind}`"), async {
            while let Some(event) = self.next().await {
                let found = event["type"] == kind;
                events.push(event);
                if found {
                    return;
                }
            }
            panic!("the stream ended without `{kind}`: {events:#?}");
        })
        .await;
        events
    }

    fn take(&mut self) -> Option<Value> {
        loop {
            let end = self.buffer.windows(2).position(|pair| pair == b"\n\n")?;
            let block = self.buffer.split_to(end + 2);
            let block = String::from_utf8(block.to_vec()).unwrap();
            let line = |name: &str| {
                block
                    .lines()
                    .find_map(|line| line.strip_prefix(name))
                    .map(|rest| rest.trim().to_owned())
            };
            let Some(data) = line("data:") else { continue };
            let event: Value = serde_json::from_str(&data).unwrap();
            if let Some(kind) = line("event:") {
                assert_eq!(event["type"], kind, "the event's line and its type differ");
            }
            return Some(event);
        }
    }
}

/// The types of events, in order.
pub fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap_or_default()).collect()
}

/// The visible text of all `delta` events.
pub fn visible(events: &[Value]) -> String {
    events
        .iter()
        .filter(|event| event["type"] == "delta")
        .filter_map(|event| event["text"].as_str())
        .collect()
}
