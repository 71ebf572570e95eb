//! An adapter with a fault: each breaks one rule, so that it is seen that the suite finds it.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::Mutex;
use rookery_messages::BoxFuture;
use rookery_messages::channel::{
    AttachmentRef, Capabilities, ChannelAdapter, ChannelEvent, DownloadFault, Outgoing, Press,
    ReceiveFault, Received, SendAttempt, Streaming,
};
use rookery_messages::envelope::{ReplyAddress, Sender};
use rookery_messages::ids::ChannelId;
use rookery_messages::store::OutboxPayload;
use rookery_messages::tool::head;
use rookery_tests::conformance::{Platform, Seen};

use super::Toy;

/// What an adapter does wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Nothing.
    None,
    /// It gives messages ids of its own.
    NewIds,
    /// It fetches files as they come.
    FetchesFirst,
    /// It acknowledges what it has given.
    AcknowledgesAtOnce,
    /// It gives what came last first.
    Backwards,
    /// It acknowledges what waits when the line was down.
    ForgetsAtFaults,
    /// It begins with what is new.
    SkipsWhatWaited,
    /// It shows no notices.
    NoNotices,
    /// It gives files without their content.
    EmptyFiles,
    /// It does not know its own account.
    KnowsNotItself,
    /// It tells no bots from people.
    TellsNoBots,
    /// It takes a refusal for a delivery.
    TakesNoForYes,
    /// It cuts what is long.
    CutsLong,
    /// It holds a message back until the next.
    HoldsBack,
    /// It never changes a message.
    NeverEdits,
    /// It changes only messages of its own life.
    ForgetsItsMessages,
    /// It keeps one message, and changes it.
    OneMessage,
    /// It takes the chat for the person.
    TrustsTheChat,
}

/// The toy with a faulty adapter.
pub struct Broken {
    toy: Toy,
    fault: Fault,
    drafts: bool,
    /// Something was acknowledged, in whichever life.
    acknowledged: Arc<AtomicBool>,
}

impl Broken {
    pub fn new(fault: Fault) -> Self {
        Self { toy: Toy::default(), fault, drafts: false, acknowledged: Arc::default() }
    }

    /// One that shows drafts.
    pub fn with_drafts(fault: Fault) -> Self {
        Self { drafts: true, ..Self::new(fault) }
    }
}

struct BrokenAdapter {
    inner: Arc<dyn ChannelAdapter>,
    fault: Fault,
    drafts: bool,
    began: AtomicBool,
    acknowledged: Arc<AtomicBool>,
    count: AtomicU64,
    sent: Mutex<HashSet<String>>,
    last: Mutex<Option<String>>,
    held: Mutex<Option<(ReplyAddress, String)>>,
}

impl BrokenAdapter {
    async fn drop_waiting(&self) {
        while let Some(Ok(batch)) = self.inner.receive().now_or_never() {
            if let Some(last) = batch.last() {
                let _ = self.inner.acknowledge(&last.token).await;
            }
        }
    }

    async fn change(&self, event: &mut ChannelEvent) {
        match (event, self.fault) {
            (ChannelEvent::Message(message), Fault::NewIds) => {
                let id = self.count.fetch_add(1, Ordering::Relaxed);
                message.external_id = format!("new-{id}");
            }
            (ChannelEvent::Message(message), Fault::TellsNoBots) => message.sender.is_bot = false,
            (ChannelEvent::Message(message), Fault::FetchesFirst) => {
                for file in &message.attachments {
                    let _ = self.inner.download(file, 1_000).await;
                }
            }
            (ChannelEvent::Press(press), Fault::TrustsTheChat) => {
                press.sender = Some(Sender::person(press.address.conversation.clone()));
            }
            _ => {}
        }
    }

    async fn get(&self) -> Result<Vec<Received>, ReceiveFault> {
        let begins = !self.began.swap(true, Ordering::Relaxed);
        let later = self.acknowledged.load(Ordering::Relaxed);
        if self.fault == Fault::SkipsWhatWaited && begins && later {
            self.drop_waiting().await;
        }
        let mut batch = match self.inner.receive().await {
            Ok(batch) => batch,
            Err(fault) => {
                if self.fault == Fault::ForgetsAtFaults {
                    self.drop_waiting().await;
                }
                return Err(fault);
            }
        };
        for received in &mut batch {
            self.change(&mut received.event).await;
        }
        if self.fault == Fault::Backwards {
            let mut events: Vec<_> = batch.iter().map(|one| one.event.clone()).collect();
            for received in &mut batch {
                received.event = events.pop().unwrap();
            }
        }
        if let (Fault::AcknowledgesAtOnce, Some(last)) = (self.fault, batch.last()) {
            let _ = self.inner.acknowledge(&last.token).await;
        }
        Ok(batch)
    }

    async fn put(&self, message: &Outgoing<'_>) -> SendAttempt {
        let sent = |id: &str| SendAttempt::Sent { external_id: Some(id.to_owned()) };
        let text = match self.fault {
            Fault::CutsLong => head(message.text, 100),
            _ => message.text,
        };
        let mut edit = message.edit.map(str::to_owned);
        match self.fault {
            Fault::NoNotices
                if message.row.is_some_and(|row| {
                    matches!(row.message.payload, OutboxPayload::Notice { .. })
                }) =>
            {
                return sent("none");
            }
            Fault::NeverEdits => edit = None,
            Fault::ForgetsItsMessages => {
                edit = edit.filter(|id| self.sent.lock().contains(id));
            }
            Fault::OneMessage => edit = self.last.lock().clone(),
            Fault::HoldsBack => {
                let now = (message.address.clone(), text.to_owned());
                let Some((address, text)) = self.held.lock().replace(now) else {
                    return sent("held");
                };
                let before = Outgoing { address: &address, text: &text, ..message.clone() };
                return self.inner.send(&before).await;
            }
            _ => {}
        }
        let changed = Outgoing { text, edit: edit.as_deref(), ..message.clone() };
        let attempt = self.inner.send(&changed).await;
        if let SendAttempt::Sent { external_id: Some(id) } = &attempt {
            self.sent.lock().insert(id.clone());
            *self.last.lock() = Some(id.clone());
        }
        match attempt {
            SendAttempt::Failed { .. } if self.fault == Fault::TakesNoForYes => sent("none"),
            attempt => attempt,
        }
    }
}

impl ChannelAdapter for BrokenAdapter {
    fn id(&self) -> &ChannelId {
        self.inner.id()
    }

    fn capabilities(&self) -> Capabilities {
        let able = self.inner.capabilities();
        let interval = Duration::from_millis(20);
        let streaming = if self.drafts { Streaming::Draft { interval } } else { able.streaming };
        Capabilities { streaming, ..able }
    }

    fn own_id(&self) -> Option<String> {
        self.inner.own_id().filter(|_| self.fault != Fault::KnowsNotItself)
    }

    fn send<'a>(&'a self, message: &'a Outgoing<'a>) -> BoxFuture<'a, SendAttempt> {
        Box::pin(self.put(message))
    }

    fn receive(&self) -> BoxFuture<'_, Result<Vec<Received>, ReceiveFault>> {
        Box::pin(self.get())
    }

    fn acknowledge<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<(), ReceiveFault>> {
        self.acknowledged.store(true, Ordering::Relaxed);
        self.inner.acknowledge(token)
    }

    fn download<'a>(
        &'a self,
        file: &'a AttachmentRef,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<u8>, DownloadFault>> {
        if self.fault == Fault::EmptyFiles {
            return Box::pin(async { Ok(Vec::new()) });
        }
        self.inner.download(file, limit)
    }

    fn answer<'a>(&'a self, press: &'a Press, text: &'a str) -> BoxFuture<'a, ()> {
        self.inner.answer(press, text)
    }
}

impl Platform for Broken {
    fn adapter(&self) -> Arc<dyn ChannelAdapter> {
        Arc::new(BrokenAdapter {
            inner: self.toy.adapter(),
            fault: self.fault,
            drafts: self.drafts,
            began: AtomicBool::default(),
            acknowledged: Arc::clone(&self.acknowledged),
            count: AtomicU64::default(),
            sent: Mutex::default(),
            last: Mutex::default(),
            held: Mutex::default(),
        })
    }
    fn say(&self, who: &str, text: &str) {
        self.toy.say(who, text);
    }
    fn say_as_bot(&self, account: &str, text: &str) {
        self.toy.say_as_bot(account, text);
    }
    fn send_file(&self, who: &str, name: &str, bytes: &[u8]) {
        self.toy.send_file(who, name, bytes);
    }
    fn deliver_again(&self) {
        self.toy.deliver_again();
    }
    fn press(&self, who: &str, message: &Seen, label: &str) -> bool {
        self.toy.press(who, message, label)
    }
    fn stumble(&self) {
        self.toy.stumble();
    }
    fn slow_down(&self) {
        self.toy.slow_down();
    }
    fn seen(&self, who: &str) -> Vec<Seen> {
        self.toy.seen(who)
    }
    fn unacknowledged(&self) -> usize {
        self.toy.unacknowledged()
    }
    fn fetched(&self) -> usize {
        self.toy.fetched()
    }
    fn answers(&self) -> Vec<String> {
        self.toy.answers()
    }
}
