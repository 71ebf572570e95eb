//! The toy's platform, as the conformance suite plays with it.

use std::sync::Arc;

use rookery_messages::channel::{AttachmentRef, ChannelAdapter, ChannelEvent, Incoming, Press};
use rookery_messages::envelope::{ReplyAddress, Sender};
use rookery_messages::ids::ChannelId;
use rookery_tests::conformance::{ANN, Platform, Seen};

use super::{Server, ToyAdapter};

/// The fake, as the suite plays with it.
#[derive(Default)]
pub struct Toy(Arc<Server>);

impl Toy {
    fn give(&self, make: impl FnOnce(u64) -> ChannelEvent) {
        let mut book = self.0.book.lock();
        book.next += 1;
        self.0.waiting.lock().push_back((book.next, make(book.next)));
        self.0.news.send_modify(|n| *n += 1);
    }

    fn message(&self, who: &str, text: &str, attachments: Vec<AttachmentRef>) {
        self.message_of(Sender::person(who), who, text, attachments);
    }

    fn message_of(&self, sender: Sender, chat: &str, text: &str, attachments: Vec<AttachmentRef>) {
        let (conversation, text) = (chat.to_owned(), text.to_owned());
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

impl Platform for Toy {
    fn adapter(&self) -> Arc<dyn ChannelAdapter> {
        Arc::new(ToyAdapter(ChannelId::new("toy.one"), Arc::clone(&self.0)))
    }
    fn say(&self, who: &str, text: &str) {
        self.message(who, text, Vec::new());
    }
    fn say_as_bot(&self, account: &str, text: &str) {
        let sender = Sender { is_bot: true, ..Sender::person(account) };
        self.message_of(sender, ANN, text, Vec::new());
    }
    fn send_file(&self, who: &str, name: &str, bytes: &[u8]) {
        let id = String::from_utf8(bytes.to_vec()).unwrap();
        self.message(
            who,
            "",
            vec![AttachmentRef { id, name: name.to_owned(), mime: None, size: None }],
        );
    }
    fn deliver_again(&self) {
        let last = self.0.last.lock().clone().unwrap();
        self.give(|_| last.1);
    }
    fn press(&self, who: &str, message: &Seen, label: &str) -> bool {
        let data = message
            .buttons
            .iter()
            .find(|(known, _)| known == label)
            .map(|(_, data)| data.clone())
            .unwrap();
        let address = ReplyAddress {
            channel: ChannelId::new("toy.one"),
            conversation: ANN.to_owned(),
            thread: None,
            reply_to: None,
        };
        let (sender, message) = (Some(Sender::person(who)), message.id.clone());
        self.give(|n| {
            ChannelEvent::Press(Box::new(Press {
                id: n.to_string(),
                sender,
                address,
                message,
                data,
            }))
        });
        true
    }
    fn stumble(&self) {
        self.0.book.lock().stumbles += 1;
        self.0.news.send_modify(|n| *n += 1);
    }
    fn slow_down(&self) {
        self.0.book.lock().slow = true;
    }
    fn seen(&self, who: &str) -> Vec<Seen> {
        self.0
            .chats
            .lock()
            .iter()
            .filter(|(chat, _)| chat == who)
            .map(|(_, one)| one.clone())
            .collect()
    }
    fn unacknowledged(&self) -> usize {
        self.0.waiting.lock().len()
    }
    fn fetched(&self) -> usize {
        self.0.book.lock().fetched
    }
    fn answers(&self) -> Vec<String> {
        self.0.said.lock().clone()
    }
}
