//! A line between a client and a server that can be cut, and that hears what is said on it.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};

/// Who said something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Speaker {
    /// Who connected.
    Client,
    /// Whom they connected to.
    Server,
}

#[derive(Default)]
struct Book {
    target: Option<SocketAddr>,
    /// So many connections are closed as soon as they come.
    refused: usize,
    /// So many answers are lost, and the connection with each.
    lost: usize,
    /// WebSocket frames as JSON, in order.
    frames: Vec<(Speaker, Value)>,
    /// The client's last message frame, as it was.
    last: Vec<u8>,
    again: VecDeque<Vec<u8>>,
}

#[derive(Default)]
struct Shared {
    book: Mutex<Book>,
    cuts: watch::Sender<u64>,
    again: Notify,
}

/// The line's handle; it ends with it.
pub struct Line {
    shared: Arc<Shared>,
    address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.task.abort();
        self.cut();
    }
}

impl Line {
    /// A line that leads nowhere yet.
    pub async fn start() -> Self {
        let shared = Arc::<Shared>::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { shared, address, task }
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// It leads there.
    pub fn lead_to(&self, target: SocketAddr) {
        self.shared.book.lock().target = Some(target);
    }

    /// All that is connected is cut off, and so many connections after it are refused.
    pub fn cut_and_refuse(&self, connections: usize) {
        self.shared.book.lock().refused = connections;
        self.cut();
    }

    fn cut(&self) {
        self.shared.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// The answer to what the client says next, besides GET, is lost, and the connection is cut.
    pub fn lose_next_answer(&self) {
        self.shared.book.lock().lost += 1;
    }

    /// The client's last message comes once more, from the same connection.
    pub fn say_again(&self) {
        let mut book = self.shared.book.lock();
        let last = book.last.clone();
        assert!(!last.is_empty(), "no message was sent yet");
        book.again.push_back(last);
        drop(book);
        self.shared.again.notify_waiters();
    }

    /// What was said over WebSockets.
    pub fn said(&self, by: Speaker) -> Vec<Value> {
        let book = self.shared.book.lock();
        book.frames
            .iter()
            .filter(|(speaker, _)| *speaker == by)
            .map(|(_, frame)| frame.clone())
            .collect()
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        let target = {
            let mut book = shared.book.lock();
            if book.refused > 0 {
                book.refused -= 1;
                continue;
            }
            book.target
        };
        let (shared, cuts) = (Arc::clone(&shared), shared.cuts.subscribe());
        tokio::spawn(async move {
            let Some(target) = target else { return };
            if let Ok(server) = TcpStream::connect(target).await {
                // Whatever ends it, both ends see it closed.
                let _ = carry(client, server, &shared, cuts).await;
            }
        });
    }
}

async fn carry(
    mut client: TcpStream,
    mut server: TcpStream,
    shared: &Shared,
    mut cuts: watch::Receiver<u64>,
) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut up, mut down) = ([0; 16_384], [0; 16_384]);
    let (mut of_client, mut of_server) = (Frames::default(), Frames::default());
    let mut loses = false;
    loop {
        let again = shared.again.notified();
        let said_again =
            if of_client.upgraded { shared.book.lock().again.pop_front() } else { None };
        if let Some(frame) = said_again {
            server.write_all(&frame).await?;
        }
        tokio::select! {
            _ = cuts.changed() => return Ok(()),
            () = again => {}
            count = client.read(&mut up) => {
                let chunk = &up[..count?];
                if chunk.is_empty() {
                    return Ok(());
                }
                {
                    let mut book = shared.book.lock();
                    if !loses && book.lost > 0 && !chunk.starts_with(b"GET ") {
                        book.lost -= 1;
                        loses = true;
                    }
                    for (raw, frame) in of_client.take(chunk) {
                        if frame["type"] == "message" {
                            book.last = raw;
                        }
                        book.frames.push((Speaker::Client, frame));
                    }
                }
                server.write_all(chunk).await?;
            }
            count = server.read(&mut down) => {
                let chunk = &down[..count?];
                if chunk.is_empty() || loses {
                    return Ok(());
                }
                for (_, frame) in of_server.take(chunk) {
                    shared.book.lock().frames.push((Speaker::Server, frame));
                }
                client.write_all(chunk).await?;
            }
        }
    }
}

/// Reads the texts of a WebSocket (RFC 6455, section 5.2) from one direction's bytes.
#[derive(Default)]
struct Frames {
    bytes: Vec<u8>,
    upgraded: bool,
}

impl Frames {
    /// The frames that are whole now, as they were and as JSON.
    fn take(&mut self, chunk: &[u8]) -> Vec<(Vec<u8>, Value)> {
        self.bytes.extend_from_slice(chunk);
        if !self.upgraded {
            let Some(end) = self.bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
                return Vec::new();
            };
            let head = &self.bytes[..end];
            self.upgraded = head.starts_with(b"GET /v1/ws") || head.starts_with(b"HTTP/1.1 101");
            if !self.upgraded {
                self.bytes.clear();
                return Vec::new();
            }
            self.bytes.drain(..end + 4);
        }
        let mut frames = Vec::new();
        while let Some((raw, payload)) = self.next() {
            // Only texts are of interest, and all of them are JSON.
            if let Ok(frame) = serde_json::from_slice(&payload) {
                frames.push((raw, frame));
            }
        }
        frames
    }

    fn next(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        let masked = self.bytes.get(1)? & 0x80 != 0;
        let (length, mut at) = match self.bytes[1] & 0x7f {
            126 => (u64::from(u16::from_be_bytes(self.bytes.get(2..4)?.try_into().unwrap())), 4),
            127 => (u64::from_be_bytes(self.bytes.get(2..10)?.try_into().unwrap()), 10),
            short => (u64::from(short), 2),
        };
        let mut mask = [0; 4];
        if masked {
            mask.copy_from_slice(self.bytes.get(at..at + 4)?);
            at += 4;
        }
        let end = at + usize::try_from(length).unwrap();
        let payload = self.bytes.get(at..end)?;
        let payload =
            payload.iter().zip(mask.iter().cycle()).map(|(byte, key)| byte ^ key).collect();
        Some((self.bytes.drain(..end).collect(), payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masked_and_plain_texts_are_read_however_they_are_cut() {
        let mut bytes = b"GET /v1/ws HTTP/1.1\r\nhost: x\r\n\r\n".to_vec();
        let text = br#"{"type":"message"}"#;
        let mask = [1, 2, 3, 4];
        let mut frame = vec![0x81, 0x80 | u8::try_from(text.len()).unwrap()];
        frame.extend(mask);
        frame.extend(text.iter().zip(mask.iter().cycle()).map(|(byte, key)| byte ^ key));
        bytes.extend(&frame);
        bytes.extend([0x8a, 0]);
        let mut frames = Frames::default();
        let found: Vec<_> = bytes.chunks(5).flat_map(|chunk| frames.take(chunk)).collect();
        assert_eq!(found, [(frame, serde_json::json!({ "type": "message" }))]);
        let mut long = b"HTTP/1.1 101 Switching Protocols\r\n\r\n".to_vec();
        let text = format!("\"{}\"", "x".repeat(300));
        long.extend([0x81, 126]);
        long.extend(u16::try_from(text.len()).unwrap().to_be_bytes());
        long.extend(text.as_bytes());
        let found = Frames::default().take(&long);
        assert_eq!(found[0].1, Value::String("x".repeat(300)));
    }
}
