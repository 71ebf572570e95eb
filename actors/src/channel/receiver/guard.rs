//! Guards against answering ourselves, and against programs that answer each other for ever.
//!
//! They stand before everything else: a program is not even told that it may not speak, since it might answer
//! that. What is counted stands in the store, so that a restart gives a chain no new length.

use std::time::Duration;

use rookery_messages::channel::{Incoming, SenderMsg};
use rookery_messages::store::{NewOutbox, OutboxPayload};
use rookery_messages::time::World;

use super::ReceiverArgs;
use super::listen::inbound;
use crate::channel::post;

/// Pause before the store is asked again.
const STORE_PAUSE: Duration = Duration::from_millis(500);

/// What becomes of messages that programs write.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BotRules {
    /// Those of other bots are answered.
    pub allow: bool,
    /// So many of them in a row, in one conversation, until a person writes.
    pub chain: u32,
}

/// Why a message is dropped whoever is allowed, if it is.
pub(super) fn refuses(args: &ReceiverArgs, incoming: &Incoming) -> Option<&'static str> {
    let sender = &incoming.sender;
    if args.adapter.own_id().is_some_and(|own| own == sender.id) {
        return Some("own_message");
    }
    (sender.is_bot && !args.bots.allow).then_some("bot")
}

/// Whether bots have had the conversation to themselves for too long. Its people are told so once.
pub(super) async fn ends_chain(args: &ReceiverArgs, world: &World, incoming: &Incoming) -> bool {
    if !incoming.sender.is_bot {
        return false;
    }
    let most = args.bots.chain.max(1);
    let chain = loop {
        let (place, id) = (incoming.conversation.clone(), incoming.external_id.clone());
        match args.store.bots(args.channel().clone(), place, id, most).await {
            Ok(chain) => break chain,
            Err(error) => {
                tracing::warn!(%error, "the bots of a conversation can't be counted; it is tried again");
                tokio::time::sleep(STORE_PAUSE).await;
            }
        }
    };
    // Delivered again, it is known, and answered once.
    if chain.known || chain.length < most {
        return false;
    }
    let last = chain.last.map(|last| last.to_string()).unwrap_or_default();
    let mut address = inbound(args, incoming.clone()).reply_address();
    address.reply_to = None;
    let notice = NewOutbox {
        // The chain's last message names it: whatever comes behind that says nothing new.
        id: post::id_of("bot_chain", args.channel(), &[&incoming.conversation, &last]),
        channel: args.channel().clone(),
        address,
        payload: OutboxPayload::Notice { turn: None, text: notice(most) },
    };
    while let Err(error) = args.store.post(notice.clone(), None, world.now()).await {
        tracing::warn!(%error, "a notice could not be written; it is tried again");
        tokio::time::sleep(STORE_PAUSE).await;
    }
    if let Some(sender) = &args.sender {
        // A full mailbox is fine: the sender looks by itself now and then.
        let _ = sender.try_send(SenderMsg::Due);
    }
    true
}

fn notice(most: u32) -> String {
    format!(
        "{most} messages in a row came from bots, so bots are not answered here any more until a person writes."
    )
}
