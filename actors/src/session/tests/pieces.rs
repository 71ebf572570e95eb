//! A turn or a session alone, given what no healthy store gives it.

use rookery_messages::address::{AddressCell, Delivery, Mailbox, StopHandle};
use rookery_messages::ids::ActorId;
use rookery_messages::invariant::{Invariant, Tolerate};
use rookery_messages::model::ProviderMsg;
use rookery_messages::session::SessionMsg;
use rookery_messages::store::{Claim, ClaimOutcome, ClaimTerms, StoredMessage};
use rookery_messages::tree::ActorStatus;
use rookery_messages::turn::TurnClaim;

use super::*;
use crate::session::actor::SessionArgs;
use crate::turn::{TurnActor, TurnArgs};

impl Rig {
    /// Nobody claims rows any more but the test.
    pub(super) async fn without_router(&self) {
        (self.roots[0])();
        while self.spawner.directory().counts().contains_key("router") {
            tokio::task::yield_now().await;
        }
    }

    pub(super) async fn claim(&self) -> Box<TurnClaim> {
        let claim = Claim {
            conversation_id: self.conversation,
            at: self.spawner.world().now(),
            terms: ClaimTerms { max_attempts: 3, history_chars: 100_000, together: Arc::default() },
        };
        match self.store.claim(claim).await.unwrap() {
            ClaimOutcome::Turn(claim) => claim,
            other => panic!("{other:?}"),
        }
    }

    async fn run_alone(&self, claim: Box<TurnClaim>) {
        let bundle = Arc::clone(&self.deps.agents[&claim.record.agent]);
        self.run_with(claim, bundle).await;
    }

    pub(super) async fn run_with(&self, claim: Box<TurnClaim>, bundle: Arc<AgentBundle>) {
        let args = TurnArgs {
            bundle,
            channel: self.deps.channels[&claim.record.channel].clone(),
            claim,
            deps: Arc::clone(&self.deps),
            nothing_waits: Arc::default(),
        };
        let spec = SpawnSpec::new("turn/alone").mailbox(64);
        self.spawner.spawn::<TurnActor>(spec, args).await.unwrap();
    }
}

fn repairs(told: &[Observation]) -> u32 {
    told.iter()
        .map(|seen| match seen {
            Observation::Repaired { changes, .. } => *changes,
            _ => 0,
        })
        .sum()
}

#[tokio::test]
async fn without_a_user_message_the_turn_fails_and_the_provider_is_not_called() {
    // V-A15
    let rig = Rig::plain().await;
    rig.without_router().await;
    let (turn, mut events) = rig.take("m1", "webhook.ci").await;
    let mut claim = rig.claim().await;
    claim.history[0].message = ChatMessage::assistant("said by nobody's wish");
    rig.run_alone(claim).await;
    assert_eq!(events.end().await.0, Outcome::Failed);
    let error = rig.record(turn).await.error.unwrap();
    assert_eq!(error.code, "provider_invalid_request");
    assert!(error.message.contains("no user message"), "{error:?}");
    assert!(rig.provider.requests.lock().is_empty());
    rig.quiet().await;
}

#[tokio::test]
async fn a_stored_history_that_begins_or_ends_wrongly_is_mended_before_it_is_sent() {
    // V-A16, V-C10, V-C16
    let rig = Rig::plain().await;
    rig.without_router().await;
    let (turn, mut events) = rig.take("m1", "webhook.ci").await;
    let mut claim = rig.claim().await;
    let own = claim.history.pop().unwrap();
    let stored = |message| StoredMessage { message, ..own.clone() };
    let orphan = |n: u128| ChatMessage::Tool {
        call: rookery_messages::ids::CallId(uuid::Uuid::from_u128(n)),
        wire_id: format!("call_{n}"),
        name: "read".into(),
        output: "of a call that is nowhere".into(),
        outside: false,
    };
    claim.history = [
        ChatMessage::assistant("before anybody asked"),
        orphan(1),
        ChatMessage::user("earlier"),
        ChatMessage::assistant("answered"),
        orphan(2),
        own.message.clone(),
    ]
    .map(stored)
    .to_vec();
    rig.run_alone(claim).await;
    assert_eq!(events.end().await.0, Outcome::Answered);
    let sent = rig.provider.requests.lock()[0].messages.clone();
    let texts: Vec<_> = sent.iter().map(|message| message.text()).collect();
    assert_eq!(texts, ["You are Rookery.", "earlier", "answered", "message m1"]);
    assert_eq!(repairs(&rig.observed(turn).await), 3);
    rig.quiet().await;
}

#[tokio::test]
async fn a_second_turn_of_a_conversation_is_counted_as_a_violation_and_does_not_start() {
    // I3
    let rig = Rig::plain().await;
    rig.without_router().await;
    *rig.provider.hang_after.lock() = Some(0);
    let (turn, mut events) = rig.take("m1", "webhook.ci").await;
    let args = SessionArgs {
        conversation: rig.conversation,
        router: rig.router.clone(),
        arrival: Default::default(),
        deps: Arc::clone(&rig.deps),
    };
    let spec = SpawnSpec::new("session").mailbox(16);
    let session = rig.spawner.spawn::<SessionActor>(spec, args).await.unwrap().address;
    while rig.provider.requests.lock().is_empty() {
        tokio::task::yield_now().await;
    }
    let tolerated = Tolerate::on_this_thread();
    let again = rig.claim().await;
    session.send(SessionMsg::Claimed(Ok(ClaimOutcome::Turn(again)))).await.unwrap();
    let entry = rig.spawner.directory().find("session").unwrap();
    while tolerated.seen(Invariant::I3) == 0 || entry.status() == ActorStatus::Busy {
        tokio::task::yield_now().await;
    }
    assert_eq!(rig.spawner.directory().of_kind("turn").len(), 1);
    // The claim made the running attempt a stale one: it leaves without a word, and the row is taken up.
    rig.stop(turn, StopReason::User);
    assert_eq!(events.end().await, (Outcome::Answered, Some("done".into())));
    assert_eq!((tolerated.seen(Invariant::I3), rig.record(turn).await.attempts), (1, 3));
    session.stop(StopReason::Shutdown);
    while rig.spawner.directory().counts().contains_key("session") {
        tokio::task::yield_now().await;
    }
    rig.quiet().await;
}

#[tokio::test]
async fn a_provider_whose_actor_is_being_started_is_waited_for_and_one_given_up_is_not() {
    let rig = Rig::plain().await;
    rig.without_router().await;
    let known = Arc::clone(&rig.deps.agents[&AgentName::new("home")]);
    for (id, comes) in [("m1", true), ("m2", false)] {
        let cell: Arc<AddressCell<ProviderMsg>> = AddressCell::new();
        let profile = ProfileRef {
            name: "main".into(),
            address: Address::new(Arc::clone(&cell)),
            max_attempts: 1,
            tool_mode: ToolMode::Native,
            sight: Default::default(),
            ceiling: Arc::default(),
        };
        let bundle = AgentBundle { chain: Arc::new([profile]), ..AgentBundle::clone(&known) };
        let (_, mut events) = rig.take(id, "webhook.ci").await;
        rig.run_with(rig.claim().await, Arc::new(bundle)).await;
        while rig.spawner.directory().counts().get("model") != Some(&1) {
            tokio::task::yield_now().await;
        }
        assert!(rig.provider.requests.lock().is_empty());
        if comes {
            // As a restart does: from now on what is sent to the address arrives.
            let actor = known.chain[0].address.clone();
            let post = Box::new(move |delivery: Delivery<ProviderMsg>| {
                actor
                    .try_send(delivery.message)
                    .map_err(|refused| Delivery { message: refused.into_message(), permit: None })
            });
            let stop = StopHandle::new(Arc::default(), Arc::new(|| ()), Arc::new(|| ()));
            let mailbox = Mailbox::new(ActorId(1), 8, Arc::default(), post, stop);
            cell.install(Arc::new(mailbox));
            assert_eq!(events.end().await, (Outcome::Answered, Some("done".into())));
            rig.provider.requests.lock().clear();
        } else {
            cell.close();
            assert_eq!(events.end().await.0, Outcome::Failed);
        }
        while !rig.spawner.directory().of_kind("turn").is_empty() {
            tokio::task::yield_now().await;
        }
    }
    rig.quiet().await;
}
