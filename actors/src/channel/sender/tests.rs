use std::collections::HashMap;

use parking_lot::Mutex;
use rookery_messages::BoxFuture;
use rookery_messages::channel::Outgoing;
use rookery_messages::envelope::ReplyAddress;
use rookery_messages::ids::{ChannelId, OutboxId, TurnId};
use rookery_messages::store::{NewOutbox, OutboxPayload};
use rookery_messages::turn::Outcome;
use tokio::sync::mpsc;
use uuid::Uuid;

use super::*;
use crate::channel::testing::{Base, SOON, inbound};
use crate::runtime::{Child, SpawnSpec, system_world};
use rookery_messages::exit::StopReason;
use rookery_messages::store::Accept;

fn row(attempts: u32) -> OutboxRow {
    let channel = ChannelId::new("fake");
    let address = ReplyAddress {
        channel: channel.clone(),
        conversation: "c".into(),
        thread: None,
        reply_to: None,
    };
    let payload = OutboxPayload::Reply {
        turn: TurnId(Uuid::nil()),
        outcome: Outcome::Answered,
        text: "hi".into(),
    };
    OutboxRow {
        message: NewOutbox { id: OutboxId(Uuid::nil()), channel, address, payload },
        attempts,
        possibly_repeated: false,
        progress: vec![],
        created_at: system_world().now(),
    }
}

fn failed(retry_after: Option<u64>) -> SendAttempt {
    let retry_after = retry_after.map(Duration::from_secs);
    SendAttempt::Failed { cause: "no".into(), retry_after }
}

fn delay(row: &OutboxRow, attempt: SendAttempt) -> Duration {
    let world = system_world();
    match judge(row, attempt, OnUnknown::Resend, &world) {
        SendResult::Retry { at, .. } | SendResult::Unknown { resend_at: Some(at), .. } => {
            Duration::try_from(at.duration_since(world.now())).unwrap()
        }
        other => panic!("no delay: {other:?}"),
    }
}

#[test]
fn a_failed_send_waits_longer_each_time_but_never_beyond_its_ceiling() {
    let margin = Duration::from_millis(100);
    for (attempts, ceiling) in [(0, 1), (1, 2), (3, 8), (9, 300), (18, 300)] {
        let ceiling = Duration::from_secs(ceiling);
        let delay = delay(&row(attempts), failed(None));
        assert!(delay + margin >= ceiling / 2 && delay <= ceiling, "{attempts}: {delay:?}");
    }
    let asked = delay(&row(0), failed(Some(60)));
    assert!(asked > Duration::from_secs(59) && asked <= Duration::from_secs(60), "{asked:?}");
    let absurd = delay(&row(0), failed(Some(1_000_000)));
    assert!(absurd <= LONGEST_RETRY_AFTER, "{absurd:?}");
}

#[test]
fn what_a_send_means_follows_from_what_is_known_of_it() {
    let world = system_world();
    let unknown = || SendAttempt::Unknown { cause: "timeout".into() };
    let refused = SendAttempt::Refused { cause: "gone".into() };
    let judged = |row: &OutboxRow, attempt, policy| judge(row, attempt, policy, &world);
    assert_eq!(
        judged(&row(0), refused, OnUnknown::Resend),
        SendResult::Dead { cause: "gone".into() }
    );
    assert_eq!(
        judged(&row(0), unknown(), OnUnknown::Hold),
        SendResult::Unknown { cause: "timeout".into(), resend_at: None }
    );
    assert!(delay(&row(0), unknown()) <= FIRST_DELAY);
    // I11: what is given up is a dead letter with its cause.
    let last = judged(&row(MAX_ATTEMPTS - 1), failed(None), OnUnknown::Resend);
    assert_eq!(last, SendResult::Dead { cause: "given up after 20 tries: no".into() });
    let mut old = row(2);
    old.created_at = world.now() - MAX_AGE;
    assert!(matches!(judged(&old, failed(None), OnUnknown::Resend), SendResult::Dead { .. }));
    assert!(matches!(
        judged(&old, unknown(), OnUnknown::Resend),
        SendResult::Unknown { resend_at: None, .. }
    ));
}

type Plan = Arc<Mutex<HashMap<String, Vec<SendAttempt>>>>;

/// Answers a conversation's sends from a plan, then with success; `block` never answers, `panic` panics.
struct FakeAdapter {
    id: ChannelId,
    plan: Plan,
    seen: mpsc::Sender<(String, bool)>,
}

impl ChannelAdapter for FakeAdapter {
    fn id(&self) -> &ChannelId {
        &self.id
    }

    fn send<'a>(&'a self, message: &'a Outgoing<'a>) -> BoxFuture<'a, SendAttempt> {
        Box::pin(async move {
            let row = message.row.unwrap();
            let OutboxPayload::Reply { text, .. } = &row.message.payload else { panic!("a reply") };
            self.seen.send((text.clone(), row.possibly_repeated)).await.unwrap();
            let conversation = &row.message.address.conversation;
            let next = self
                .plan
                .lock()
                .get_mut(conversation)
                .and_then(|plan| (!plan.is_empty()).then(|| plan.remove(0)));
            match next {
                Some(SendAttempt::Refused { cause }) if cause == "block" => {
                    std::future::pending().await
                }
                Some(SendAttempt::Refused { cause }) if cause == "panic" => panic!("boom"),
                Some(attempt) => attempt,
                None => SendAttempt::Sent { external_id: None },
            }
        })
    }
}

struct Rig {
    base: Base,
    plan: Plan,
    seen: mpsc::Receiver<(String, bool)>,
    args: SenderArgs,
}

impl Rig {
    async fn new(on_unknown: OnUnknown) -> Self {
        let base = Base::new().await;
        let plan = Plan::default();
        let (tell, seen) = mpsc::channel(64);
        let adapter =
            FakeAdapter { id: ChannelId::new("fake"), plan: Arc::clone(&plan), seen: tell };
        let args = SenderArgs {
            adapter: Arc::new(adapter),
            on_unknown,
            store: base.store.clone(),
            hub: Arc::clone(&base.hub),
            prompts: Arc::default(),
            observer: ObserverHandle::nobody(),
        };
        Self { base, plan, seen, args }
    }

    async fn start(&self) -> Child<SenderMsg> {
        let spawner = &self.base.spawner;
        spawner.spawn::<Sender>(SpawnSpec::new("sender"), self.args.clone()).await.unwrap()
    }

    fn plan(&self, conversation: &str, attempts: Vec<SendAttempt>) {
        self.plan.lock().insert(conversation.to_owned(), attempts);
    }

    /// One answered turn, whose reply stands in the outbox.
    async fn reply(&self, conversation: &str, text: &str) {
        let world = &self.base.world;
        let accept = Accept {
            inbound: inbound("fake", conversation, text),
            envelope: rookery_messages::ids::EnvelopeId(world.ids.next()),
            turn: TurnId(world.ids.next()),
            conversation_id: rookery_messages::ids::ConversationId(world.ids.next()),
            queue_limit: 20,
            child: None,
            claim: None,
            at: world.now(),
        };
        let accepted = self.base.store.accept(accept).await.unwrap();
        let claim = self.base.claim(accepted.envelope.conversation_id).await;
        self.base.answer(&claim, text).await;
    }

    async fn next(&mut self) -> (String, bool) {
        tokio::time::timeout(SOON, self.seen.recv()).await.unwrap().unwrap()
    }

    /// Until nothing waits in the outbox and `letters` are dead.
    async fn settled(&self, letters: usize) -> Vec<rookery_messages::store::DeadLetter> {
        let channel = ChannelId::new("fake");
        loop {
            let due = self.base.store.outbox_due(channel.clone()).await.unwrap();
            let dead = self.base.store.dead_letters().await.unwrap();
            if due.is_none() && dead.len() == letters {
                return dead;
            }
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn a_conversation_keeps_its_order_over_a_retry_while_others_go_on() {
    let mut rig = Rig::new(OnUnknown::Resend).await;
    rig.plan("a", vec![failed(None)]);
    for (conversation, text) in [("a", "a1"), ("a", "a2"), ("b", "b1"), ("b", "b2")] {
        rig.reply(conversation, text).await;
    }
    let _sender = rig.start().await;
    let mut seen = Vec::new();
    for _ in 0..5 {
        seen.push(rig.next().await.0);
    }
    let of = |c: char| -> Vec<_> { seen.iter().filter(|text| text.starts_with(c)).collect() };
    // A014
    assert_eq!(of('a'), ["a1", "a1", "a2"]);
    assert_eq!(of('b'), ["b1", "b2"]);
    assert_eq!(seen.last().map(String::as_str), Some("a2"), "{seen:?}");
    rig.settled(0).await;
    rig.base.end().await;
}

#[tokio::test]
async fn a_hint_finds_new_rows_at_once_and_a_pause_holds_them() {
    let mut rig = Rig::new(OnUnknown::Resend).await;
    let sender = rig.start().await;
    rig.reply("a", "first").await;
    sender.address.send(SenderMsg::Due).await.unwrap();
    assert_eq!(rig.next().await.0, "first");
    let entry = rig.base.spawner.directory().find("sender").unwrap();
    assert!(entry.set_paused(true));
    rig.reply("a", "second").await;
    sender.address.send(SenderMsg::Due).await.unwrap();
    assert!(entry.observe(SOON).await["in_hand"].is_number());
    assert!(rig.seen.try_recv().is_err());
    entry.set_paused(false);
    assert_eq!(rig.next().await.0, "second");
    rig.settled(0).await;
    rig.base.end().await;
}

#[tokio::test]
async fn why_a_message_did_not_arrive_is_seen_before_it_is_given_up() {
    let mut rig = Rig::new(OnUnknown::Resend).await;
    rig.plan("a", vec![failed(Some(3_000))]);
    rig.reply("a", "text").await;
    let _sender = rig.start().await;
    rig.next().await;
    let entry = rig.base.spawner.directory().find("sender").unwrap();
    let detail = loop {
        let detail = entry.observe(SOON).await;
        if !detail["last_error"].is_null() {
            break detail;
        }
        tokio::task::yield_now().await;
    };
    let cause = detail["last_error"].as_str().unwrap();
    assert_eq!(entry.waiting_on(), Some(format!("another try: {cause}")));
    rig.base.end().await;
}

#[tokio::test]
async fn an_unknown_outcome_is_resent_marked_or_held_by_policy() {
    let unknown = || SendAttempt::Unknown { cause: "no answer".into() };
    let mut rig = Rig::new(OnUnknown::Resend).await;
    rig.plan("a", vec![unknown()]);
    rig.reply("a", "text").await;
    let _sender = rig.start().await;
    assert_eq!(rig.next().await, ("text".to_owned(), false));
    assert_eq!(rig.next().await, ("text".to_owned(), true));
    rig.settled(0).await;
    rig.base.end().await;

    let mut rig = Rig::new(OnUnknown::Hold).await;
    rig.plan("a", vec![unknown()]);
    rig.reply("a", "text").await;
    let _sender = rig.start().await;
    rig.next().await;
    // I11
    let dead = rig.settled(1).await;
    assert_eq!((dead[0].cause.as_str(), dead[0].class.as_str()), ("no answer", "transient"));
    rig.base.end().await;
}

#[tokio::test]
async fn what_a_killed_sender_had_in_hand_is_sent_again_as_possibly_repeated() {
    let mut rig = Rig::new(OnUnknown::Resend).await;
    rig.plan("a", vec![SendAttempt::Refused { cause: "block".into() }]);
    rig.reply("a", "text").await;
    let sender = rig.start().await;
    assert_eq!(rig.next().await, ("text".to_owned(), false));
    sender.handle.kill();
    sender.handle.ended().await;
    let _sender = rig.start().await;
    assert_eq!(rig.next().await, ("text".to_owned(), true));
    rig.settled(0).await;
    rig.base.end().await;
}

#[tokio::test]
async fn a_crashing_adapter_costs_one_try_and_not_the_sender() {
    // I8
    let mut rig = Rig::new(OnUnknown::Resend).await;
    rig.plan("a", vec![SendAttempt::Refused { cause: "panic".into() }]);
    rig.reply("a", "a").await;
    rig.reply("b", "b").await;
    let sender = rig.start().await;
    for _ in 0..3 {
        rig.next().await;
    }
    rig.settled(0).await;
    assert_eq!(sender.handle.exit(), None);
    rig.base.end().await;
}

#[tokio::test]
async fn at_shutdown_what_is_due_is_delivered_first() {
    let mut rig = Rig::new(OnUnknown::Resend).await;
    for n in 0..40 {
        rig.reply(&format!("c{n}"), &format!("text {n}")).await;
    }
    let sender = rig.start().await;
    rig.next().await;
    sender.address.stop(StopReason::Shutdown);
    tokio::time::timeout(SOON, sender.handle.ended()).await.unwrap();
    let mut delivered = 1;
    while rig.seen.try_recv().is_ok() {
        delivered += 1;
    }
    assert_eq!(delivered, 40);
    rig.settled(0).await;
    rig.base.end().await;
}
