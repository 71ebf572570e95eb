//! A platform in memory and its adapter: the whole contract on one page, to begin from.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use rookery_messages::BoxFuture;
use rookery_messages::channel::{
    AttachmentRef, Capabilities, ChannelAdapter, ChannelEvent, DownloadFault, Incoming, Outgoing,
    Press, ReceiveFault, Received, SendAttempt, Streaming, Unit,
};
use rookery_messages::envelope::{ReplyAddress, Sender};
use rookery_messages::ids::ChannelId;
use rookery_tests::conformance::{ANN, Platform, Seen};
use tokio::sync::watch;

/// The platform: what waits to be received, what stands in the chats.
#[derive(Default)]
struct Server {
    waiting: Mutex<VecDeque<(u64, ChannelEvent)>>,
    last: Mutex<Option<(u64, ChannelEvent)>>,
    chats: Mutex<Vec<(String, Seen)>>,
    said: Mutex<Vec<String>>,
    faults: Mutex<(u32, u32, usize, u64)>,
    news: watch::Sender<u64>,
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
        Capabilities { limit, unit, streaming, attachments, buttons: true, ..Default::default() }
    }

    fn send<'a>(&'a self, message: &'a Outgoing<'a>) -> BoxFuture<'a, SendAttempt> {
        Box::pin(async {
            if std::mem::take(&mut self.1.faults.lock().1) > 0 {
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
                let stumbles = self.1.faults.lock().0;
                if stumbles > 0 {
                    self.1.faults.lock().0 -= 1;
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
        self.1.faults.lock().2 += 1;
        Box::pin(async { Ok(file.id.clone().into_bytes()) })
    }

    fn answer<'a>(&'a self, _: &'a Press, text: &'a str) -> BoxFuture<'a, ()> {
        self.1.said.lock().push(text.to_owned());
        Box::pin(async {})
    }
}

/// The fake, as the suite plays with it.
#[derive(Default)]
pub struct Toy(Arc<Server>);

impl Toy {
    fn give(&self, make: impl FnOnce(u64) -> ChannelEvent) {
        let mut faults = self.0.faults.lock();
        faults.3 += 1;
        self.0.waiting.lock().push_back((faults.3, make(faults.3)));
        self.0.news.send_modify(|n| *n += 1);
    }

    fn message(&self, who: &str, text: &str, attachments: Vec<AttachmentRef>) {
        let sender = Sender { id: who.to_owned(), display: None };
        let (conversation, text) = (who.to_owned(), text.to_owned());
        self.give(|n| {
            ChannelEvent::Message(Box::new(Incoming {
                external_id: n.to_string(),
                sender,
                conversation,
                thread: None,
                reply_to: None,
                quote: None,
                private: true,
                text,
                attachments,
                album: None,
            }))
        });
    }
}

#[rustfmt::skip]
impl Platform for Toy {
    fn adapter(&self) -> Arc<dyn ChannelAdapter> { Arc::new(ToyAdapter(ChannelId::new("toy.one"), Arc::clone(&self.0))) }
    fn say(&self, who: &str, text: &str) { self.message(who, text, Vec::new()); }
    fn send_file(&self, who: &str, name: &str, bytes: &[u8]) {
        let id = String::from_utf8(bytes.to_vec()).unwrap();
        self.message(who, "", vec![AttachmentRef { id, name: name.to_owned(), mime: None, size: None }]);
    }
    fn deliver_again(&self) { let last = self.0.last.lock().clone().unwrap(); self.give(|_| last.1); }
    fn press(&self, who: &str, message: &Seen, label: &str) {
        let data = message.buttons.iter().find(|(known, _)| known == label).map(|(_, data)| data.clone()).unwrap();
        let address = ReplyAddress { channel: ChannelId::new("toy.one"), conversation: ANN.to_owned(), thread: None, reply_to: None };
        let (sender, message) = (Some(Sender { id: who.to_owned(), display: None }), message.id.clone());
        self.give(|n| ChannelEvent::Press(Box::new(Press { id: n.to_string(), sender, address, message, data })));
    }
    fn stumble(&self) { self.0.faults.lock().0 += 1; self.0.news.send_modify(|n| *n += 1); }
    fn slow_down(&self) { self.0.faults.lock().1 = 1; }
    fn seen(&self, who: &str) -> Vec<Seen> { self.0.chats.lock().iter().filter(|(chat, _)| chat == who).map(|(_, one)| one.clone()).collect() }
    fn unacknowledged(&self) -> usize { self.0.waiting.lock().len() }
    fn fetched(&self) -> usize { self.0.faults.lock().2 }
    fn answers(&self) -> Vec<String> { self.0.said.lock().clone() }
}
