//! Our own messages, and those of other bots.

use rookery_messages::store::OutboxPayload;

use super::*;

fn by(sender: &str, is_bot: bool, id: &str) -> ChannelEvent {
    let mut incoming = incoming(sender, id, "and you?");
    incoming.sender.is_bot = is_bot;
    ChannelEvent::Message(Box::new(incoming))
}

impl Rig {
    /// Gives events and waits until they are done with.
    async fn take(&self, token: &str, events: Vec<ChannelEvent>) {
        self.give(token, events).await;
        self.platform.asked(&format!("ack {token}")).await;
    }

    async fn turns(&self) -> usize {
        self.base.store.turns(None, None, None, 50).await.unwrap().len()
    }

    async fn notices(&self) -> Vec<String> {
        let (channel, now) = (ChannelId::new(CHANNEL), self.base.world.now());
        let mut notices = Vec::new();
        for row in self.base.store.claim_outbox(channel, now, 10).await.unwrap() {
            if let OutboxPayload::Notice { text, .. } = row.message.payload {
                notices.push(text);
            }
        }
        notices
    }
}

// Allowed or not, and whatever else is allowed.
#[tokio::test]
async fn our_own_messages_are_dropped_whoever_is_allowed() {
    let rig = Rig::new().await;
    let _receiver = rig.start_with(BotRules { allow: true, chain: 3 }).await;
    rig.take("1", vec![by("me", true, "1"), by("me", false, "2"), by("ann", false, "3")]).await;
    assert_eq!(rig.turns().await, 1);
    assert_eq!(rig.platform.count("send"), 0);
    rig.base.end().await;
}

#[tokio::test]
async fn other_bots_are_dropped_by_default_without_a_word() {
    let rig = Rig::new().await;
    let _receiver = rig.start().await;
    rig.take("1", vec![by("bot", true, "1"), by("ann", false, "2")]).await;
    assert_eq!(rig.turns().await, 1);
    assert_eq!(rig.platform.count("send"), 0);
    rig.base.end().await;
}

// People are told once, and a person's word begins the chain anew.
#[tokio::test]
async fn a_chain_of_bots_is_cut_with_one_notice_until_a_person_writes() {
    let rig = Rig::new().await;
    let receiver = rig.start_with(BotRules { allow: true, chain: 2 }).await;
    let bots = |ids: &[&str]| ids.iter().map(|id| by("bot", true, id)).collect::<Vec<_>>();
    rig.take("1", bots(&["1", "2", "3", "4"])).await;
    assert_eq!(rig.turns().await, 2);
    let notices = rig.notices().await;
    assert!(matches!(&notices[..], [one] if one.contains("2 messages in a row")), "{notices:?}");
    // Delivered again it is known, and no fifth; a new life counts on.
    rig.take("2", bots(&["2"])).await;
    receiver.handle.kill();
    receiver.handle.ended().await;
    let _receiver = rig.start_with(BotRules { allow: true, chain: 2 }).await;
    rig.take("3", bots(&["5"])).await;
    assert_eq!((rig.turns().await, rig.notices().await.len()), (2, 0));
    rig.take("4", vec![by("ann", false, "6")]).await;
    rig.take("5", bots(&["7"])).await;
    assert_eq!(rig.turns().await, 4);
    rig.take("6", bots(&["8", "9"])).await;
    assert_eq!(rig.turns().await, 5);
    rig.base.end().await;
}
