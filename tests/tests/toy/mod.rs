//! A platform in memory and its adapter: the whole contract on one page, to begin from. How the suite plays
//! with the platform is in `platform.rs`.

mod broken;
mod platform;

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use rookery_messages::BoxFuture;
use rookery_messages::channel::{
    AttachmentRef, Capabilities, ChannelAdapter, ChannelEvent, DownloadFault, Outgoing, Press,
    ReceiveFault, Received, SendAttempt, Streaming, Unit,
};
use rookery_messages::ids::ChannelId;
use rookery_tests::conformance::Seen;
use tokio::sync::watch;

pub use broken::{Broken, Fault};
pub use platform::Toy;

/// The platform: what waits to be received, what stands in the chats.
#[derive(Default)]
struct Server {
    waiting: Mutex<VecDeque<(u64, ChannelEvent)>>,
    last: Mutex<Option<(u64, ChannelEvent)>>,
    chats: Mutex<Vec<(String, Seen)>>,
    said: Mutex<Vec<String>>,
    book: Mutex<Book>,
    news: watch::Sender<u64>,
}

#[derive(Default)]
struct Book {
    next: u64,
    stumbles: u32,
    slow: bool,
    fetched: usize,
}

/// The adapter.
struct ToyAdapter(ChannelId, Arc<Server>);

impl ChannelAdapter for ToyAdapter {
    fn id(&self) -> &ChannelId {
        &self.0
    }

    fn capabilities(&self) -> Capabilities {
        let (limit, unit, attachments) = (Some(300), Unit::Chars, Some(1_000));
        let streaming = Streaming::Paragraphs;
        Capabilities {
            limit,
            unit,
            streaming,
            attachments,
            buttons: true,
            bots: true,
            ..Default::default()
        }
    }

    fn own_id(&self) -> Option<String> {
        Some("1".to_owned())
    }

    fn send<'a>(&'a self, message: &'a Outgoing<'a>) -> BoxFuture<'a, SendAttempt> {
        Box::pin(async {
            if std::mem::take(&mut self.1.book.lock().slow) {
                let retry_after = Some(std::time::Duration::from_secs(1));
                return SendAttempt::Failed { cause: "slow down".to_owned(), retry_after };
            }
            let buttons = message.buttons.iter().flatten();
            let buttons = buttons.map(|b| (b.label.clone(), b.data.clone())).collect();
            let mut chats = self.1.chats.lock();
            let known = chats.iter().position(|(_, one)| Some(one.id.as_str()) == message.edit);
            let id = known.unwrap_or(chats.len()).to_string();
            let text = message.text.to_owned();
            let seen = Seen { id: id.clone(), texts: vec![text.clone()], text, buttons };
            match known {
                Some(at) => chats[at].1 = seen,
                None => chats.push((message.address.conversation.clone(), seen)),
            }
            SendAttempt::Sent { external_id: Some(id) }
        })
    }

    fn receive(&self) -> BoxFuture<'_, Result<Vec<Received>, ReceiveFault>> {
        Box::pin(async {
            let mut news = self.1.news.subscribe();
            loop {
                news.borrow_and_update();
                let stumbles = self.1.book.lock().stumbles;
                if stumbles > 0 {
                    self.1.book.lock().stumbles -= 1;
                    let cause = "the line is down".to_owned();
                    return Err(ReceiveFault::Passing { cause, retry_after: None });
                }
                let waiting = self.1.waiting.lock().clone();
                if !waiting.is_empty() {
                    let received = |(n, event): (u64, _)| Received { token: n.to_string(), event };
                    return Ok(waiting.into_iter().map(received).collect());
                }
                let _ = news.changed().await;
            }
        })
    }

    fn acknowledge<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<(), ReceiveFault>> {
        let mut waiting = self.1.waiting.lock();
        while waiting.front().is_some_and(|(n, _)| token.parse().is_ok_and(|t: u64| *n <= t)) {
            *self.1.last.lock() = waiting.pop_front();
        }
        Box::pin(async { Ok(()) })
    }

    fn download<'a>(
        &'a self,
        file: &'a AttachmentRef,
        _: u64,
    ) -> BoxFuture<'a, Result<Vec<u8>, DownloadFault>> {
        self.1.book.lock().fetched += 1;
        Box::pin(async { Ok(file.id.clone().into_bytes()) })
    }

    fn answer<'a>(&'a self, _: &'a Press, text: &'a str) -> BoxFuture<'a, ()> {
        self.1.said.lock().push(text.to_owned());
        Box::pin(async {})
    }
}
