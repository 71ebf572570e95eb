//! A small world for tests of channels and the gateway: the real store on a real file, a router that
//! only listens.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rookery_messages::address::Address;
use rookery_messages::approval::{Approval, ApprovalState, GrantOffer, Risk};
use rookery_messages::chat::ChatMessage;
use rookery_messages::envelope::{Inbound, Sender, TurnOrigin};
use rookery_messages::exit::{ActorError, ExitReason, StopReason};
use rookery_messages::ids::{AgentName, ApprovalId, CallId, ChannelId, MessageId, OutboxId};
use rookery_messages::session::RouterMsg;
use rookery_messages::settings::Durability;
use rookery_messages::store::{
    Claim, ClaimOutcome, ClaimTerms, NewOutbox, OutboxPayload, StoreError, StoreMsg, StoreReader,
    StoredMessage, TurnCommit,
};
use rookery_messages::time::World;
use rookery_messages::turn::{Outcome, TurnClaim, TurnFinish, TurnState};
use serde_json::json;
use tokio::sync::mpsc;

use crate::observe::EventHub;
use crate::runtime::{Child, Ctx, Directory, SpawnSpec, Spawner, Supervised, system_world};
use crate::store::sqlite::{SqliteOptions, open, open_reader};
use crate::store::{StoreClient, StoreThreads};

/// Longest wait for anything in a test.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Everything answers with this, once set.
pub(crate) type Fault = Arc<Mutex<Option<StoreError>>>;

struct TestStore;

struct TestStoreArgs {
    folder: std::path::PathBuf,
    fault: Fault,
}

impl Supervised for TestStore {
    const KIND: &'static str = "store";
    type Msg = StoreMsg;
    type Args = TestStoreArgs;
    type State = (Option<StoreThreads>, Fault);

    fn start(_: &mut Ctx<Self>, args: TestStoreArgs) -> Result<Self::State, ActorError> {
        let path = args.folder.join("rookery.db");
        let options = SqliteOptions { path: path.clone(), durability: Durability::Process };
        let store = open(&options).unwrap();
        let readers: Vec<Box<dyn StoreReader>> =
            (0..2).map(|_| Box::new(open_reader(&path).unwrap()) as Box<dyn StoreReader>).collect();
        let threads = StoreThreads::start(Box::new(store), readers, Box::new(|_| {})).unwrap();
        Ok((Some(threads), args.fault))
    }

    async fn handle(
        _: &mut Ctx<Self>,
        (threads, fault): &mut Self::State,
        message: StoreMsg,
    ) -> Result<(), ActorError> {
        let fault = fault.lock().clone();
        let threads = threads.as_ref().unwrap();
        match message {
            StoreMsg::Write { write, reply } => match fault {
                Some(error) => drop(reply.send(Err(error))),
                None => drop(threads.submit_write(write, reply)),
            },
            StoreMsg::Read { read, reply } => match fault {
                Some(error) => drop(reply.send(Err(error))),
                None => drop(threads.submit_read(read, reply)),
            },
            StoreMsg::WriterEnded { cause } => return Err(ActorError::transient(cause)),
        }
        Ok(())
    }

    async fn ended(_: &mut Ctx<Self>, (threads, _): &mut Self::State, _: &ExitReason) {
        threads.take().unwrap().shutdown();
    }
}

struct TestRouter;

impl Supervised for TestRouter {
    const KIND: &'static str = "router";
    type Msg = RouterMsg;
    type Args = mpsc::Sender<RouterMsg>;
    type State = mpsc::Sender<RouterMsg>;

    fn start(_: &mut Ctx<Self>, args: Self::Args) -> Result<Self::State, ActorError> {
        Ok(args)
    }

    async fn handle(
        _: &mut Ctx<Self>,
        state: &mut Self::State,
        message: RouterMsg,
    ) -> Result<(), ActorError> {
        state.try_send(message).unwrap();
        Ok(())
    }
}

/// The world.
pub(crate) struct Base {
    pub spawner: Spawner,
    pub world: World,
    pub hub: Arc<EventHub>,
    pub store: StoreClient,
    pub fault: Fault,
    pub router: Address<RouterMsg>,
    pub routed: mpsc::Receiver<RouterMsg>,
    _folder: tempfile::TempDir,
}

impl Base {
    pub async fn new() -> Self {
        rookery_messages::invariant::set_strict(true);
        let world = system_world();
        let spawner = Spawner::new(Directory::new(world.clone()), world.clone());
        let folder = tempfile::tempdir().unwrap();
        let fault = Fault::default();
        let args = TestStoreArgs { folder: folder.path().to_owned(), fault: Arc::clone(&fault) };
        let spec = SpawnSpec::new("store").mailbox(512);
        let store: Child<StoreMsg> = spawner.spawn::<TestStore>(spec, args).await.unwrap();
        let (heard, routed) = mpsc::channel(4_096);
        let spec = SpawnSpec::new("router").mailbox(512);
        let router = spawner.spawn::<TestRouter>(spec, heard).await.unwrap();
        Self {
            hub: EventHub::new(world.clone()),
            store: StoreClient::new(store.address),
            router: router.address,
            spawner,
            world,
            fault,
            routed,
            _folder: folder,
        }
    }

    /// Everything ends, and nothing is left.
    pub async fn end(self) {
        let directory = self.spawner.directory();
        let of_store = |kind: &str| matches!(kind, "store" | "router");
        let kinds: Vec<_> = directory.counts().into_keys().filter(|kind| !of_store(kind)).collect();
        for kind in kinds {
            for entry in directory.of_kind(kind).iter().filter(|entry| entry.parent.is_none()) {
                entry.stop(StopReason::Shutdown);
            }
        }
        while directory.len() > 2 {
            tokio::task::yield_now().await;
        }
        for kind in ["router", "store"] {
            for entry in directory.of_kind(kind) {
                entry.stop(StopReason::Shutdown);
            }
        }
        tokio::time::timeout(SOON, directory.wait_empty()).await.unwrap();
        // I9
        assert_eq!(directory.orphans(), Vec::<String>::new());
        assert_eq!(directory.task_count(), 0);
    }

    /// Claims the next turn of a conversation.
    pub async fn claim(&self, conversation_id: rookery_messages::ids::ConversationId) -> TurnClaim {
        let claim = Claim {
            conversation_id,
            at: self.world.now(),
            terms: ClaimTerms { max_attempts: 3, history_chars: 10_000, together: Arc::default() },
        };
        match self.store.claim(claim).await.unwrap() {
            ClaimOutcome::Turn(claim) => *claim,
            other => panic!("nothing to claim: {other:?}"),
        }
    }

    /// An empty step of a claimed turn.
    pub fn step(&self, claim: &TurnClaim) -> TurnCommit {
        let record = &claim.record;
        TurnCommit::new(record.id, record.conversation_id, claim.fence, self.world.now())
    }

    /// Ends a claimed turn with a reply, as a session would: the record, then the event.
    pub async fn answer(&self, claim: &TurnClaim, reply: &str) {
        let mut step = self.step(claim);
        step.messages.push(StoredMessage {
            id: MessageId(self.world.ids.next()),
            turn: claim.record.id,
            at: self.world.now(),
            message: ChatMessage::assistant(reply),
        });
        step.finish = Some(TurnFinish {
            outcome: Outcome::Answered,
            reply: Some(reply.to_owned()),
            error: None,
            usage: Default::default(),
        });
        step.outbox.push(NewOutbox {
            id: OutboxId(self.world.ids.next()),
            channel: claim.record.channel.clone(),
            address: claim.reply_address.clone(),
            payload: OutboxPayload::Reply {
                turn: claim.record.id,
                outcome: Outcome::Answered,
                text: reply.to_owned(),
            },
        });
        self.store.commit(step).await.unwrap();
        let ended = rookery_messages::event::TurnEventKind::Ended {
            outcome: Outcome::Answered,
            reply: Some(reply.to_owned()),
            usage: Default::default(),
            error: None,
            into: None,
        };
        self.hub.publish(claim.record.conversation_id, claim.record.id, ended);
    }

    /// A claimed turn asks for an approval.
    pub async fn ask(&self, claim: &TurnClaim) -> Approval {
        let now = self.world.now();
        let approval = Approval {
            id: ApprovalId(self.world.ids.next()),
            turn: claim.record.id,
            conversation_id: claim.record.conversation_id,
            channel: claim.record.channel.clone(),
            call: CallId(self.world.ids.next()),
            tool: "file_write".to_owned(),
            arguments: json!({ "path": "a.txt" }),
            arguments_hash: "ab".repeat(32),
            risk: Risk::Medium,
            reason: "writes".to_owned(),
            asked_at: now,
            expires_at: now + Duration::from_secs(600),
            approvers: vec![claim.sender.clone()],
            asked_for: None,
            summary: "path=a.txt".to_owned(),
            offer: Some(GrantOffer {
                pattern: "file_write {}".to_owned(),
                key: "key".to_owned(),
                narrow: false,
            }),
            batch: None,
            route: None,
            state: ApprovalState::Pending,
            decision: None,
            decided_by: None,
            decided_at: None,
        };
        let mut step = self.step(claim);
        step.state = Some(TurnState::WaitingApproval);
        step.approvals.push(approval.clone());
        self.store.commit(step).await.unwrap();
        approval
    }
}

/// A message as an adapter decodes it.
pub(crate) fn inbound(channel: &str, conversation: &str, id: &str) -> Inbound {
    Inbound {
        channel: ChannelId::new(channel),
        external_id: id.to_owned(),
        sender: Sender::person("ann"),
        conversation: conversation.to_owned(),
        thread: None,
        text: format!("text of {id}"),
        attachments: Vec::new(),
        origin: TurnOrigin::Channel,
        agent: AgentName::new("home"),
    }
}
