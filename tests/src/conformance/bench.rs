//! The host of one channel around the adapter under test, with a real store and without a model.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rookery_actors::channel::receiver::AllowList;
use rookery_actors::channel::{
    Intake, IntakeArgs, IntakeHandle, Prompts, Receiver, ReceiverArgs, ReceiverMsg, ReceiverStatus,
    Sender, SenderArgs,
};
use rookery_actors::observe::{EventHub, ObserverHandle};
use rookery_actors::policy::redact::Redactor;
use rookery_actors::runtime::{
    Child, Ctx, Directory, SpawnSpec, Spawner, Supervised, system_world,
};
use rookery_actors::store::sqlite::{SqliteOptions, open, open_reader};
use rookery_actors::store::{StoreClient, StoreThreads};
use rookery_messages::address::Address;
use rookery_messages::approval::{Approval, ApprovalState, Risk};
use rookery_messages::channel::{IntakeMsg, LiveTurn, QueuePolicy, SenderMsg};
use rookery_messages::envelope::{Inbound, Sender as Person, TurnOrigin};
use rookery_messages::event::TurnEventKind;
use rookery_messages::exit::{ActorError, ExitReason, StopReason};
use rookery_messages::ids::{AgentName, ApprovalId, CallId, ChannelId, OutboxId};
use rookery_messages::session::RouterMsg;
use rookery_messages::settings::{Durability, OnUnknown};
use rookery_messages::store::{
    Claim, ClaimOutcome, ClaimTerms, NewOutbox, OutboxPayload, StoreError, StoreMsg, StoreReader,
    TurnCommit,
};
use rookery_messages::time::World;
use rookery_messages::turn::{Outcome, TurnClaim, TurnFinish, TurnRecord, TurnState};
use serde_json::json;

use super::{ANN, BEN, Platform};
use crate::wait::{until, within};

/// While set, the store refuses everything with this; and how often it did.
type Fault = Arc<Mutex<(Option<StoreError>, usize)>>;

struct BenchStore;

impl Supervised for BenchStore {
    const KIND: &'static str = "store";
    type Msg = StoreMsg;
    type Args = (std::path::PathBuf, Fault);
    type State = (Option<StoreThreads>, Fault);

    fn start(_: &mut Ctx<Self>, (path, fault): Self::Args) -> Result<Self::State, ActorError> {
        let options = SqliteOptions { path: path.clone(), durability: Durability::Process };
        let writer = open(&options).unwrap();
        let readers: Vec<Box<dyn StoreReader>> = vec![Box::new(open_reader(&path).unwrap())];
        let threads = StoreThreads::start(Box::new(writer), readers, Box::new(|_| {})).unwrap();
        Ok((Some(threads), fault))
    }

    async fn handle(
        _: &mut Ctx<Self>,
        (threads, fault): &mut Self::State,
        message: StoreMsg,
    ) -> Result<(), ActorError> {
        let refused = {
            let mut fault = fault.lock();
            fault.1 += usize::from(fault.0.is_some());
            fault.0.clone()
        };
        let threads = threads.as_ref().unwrap();
        match (message, refused) {
            (StoreMsg::Write { reply, .. }, Some(error)) => drop(reply.send(Err(error))),
            (StoreMsg::Read { reply, .. }, Some(error)) => drop(reply.send(Err(error))),
            (StoreMsg::Write { write, reply }, None) => drop(threads.submit_write(write, reply)),
            (StoreMsg::Read { read, reply }, None) => drop(threads.submit_read(read, reply)),
            (StoreMsg::WriterEnded { cause }, _) => return Err(ActorError::transient(cause)),
        }
        Ok(())
    }

    async fn ended(_: &mut Ctx<Self>, (threads, _): &mut Self::State, _: &ExitReason) {
        threads.take().unwrap().shutdown();
    }
}

/// Nobody runs turns: the checks do.
struct BenchRouter;

impl Supervised for BenchRouter {
    const KIND: &'static str = "router";
    type Msg = RouterMsg;
    type Args = ();
    type State = ();

    fn start(_: &mut Ctx<Self>, (): ()) -> Result<(), ActorError> {
        Ok(())
    }

    async fn handle(_: &mut Ctx<Self>, (): &mut (), _: RouterMsg) -> Result<(), ActorError> {
        Ok(())
    }
}

/// One channel with everything around it. Ends with [`Bench::end`], which fails if anything is left.
pub struct Bench<P> {
    /// The platform.
    pub platform: P,
    fault: Fault,
    /// The store.
    pub store: StoreClient,
    world: World,
    hub: Arc<EventHub>,
    spawner: Spawner,
    channel: ChannelId,
    router: Address<RouterMsg>,
    intake: Child<IntakeMsg>,
    sender: Option<Child<SenderMsg>>,
    receiver: Option<Child<ReceiverMsg>>,
    prompts: Arc<Prompts>,
    folder: tempfile::TempDir,
}

impl<P: Platform> Bench<P> {
    /// The channel, running.
    pub async fn new(platform: P) -> Self {
        crate::install_tls();
        rookery_messages::invariant::set_strict(true);
        let world = system_world();
        let spawner = Spawner::new(Directory::new(world.clone()), world.clone());
        let folder = tempfile::tempdir().unwrap();
        let fault = Fault::default();
        let args = (folder.path().join("rookery.db"), Arc::clone(&fault));
        let store =
            spawner.spawn::<BenchStore>(SpawnSpec::new("store").mailbox(512), args).await.unwrap();
        let store = StoreClient::new(store.address);
        let router = spawner.spawn::<BenchRouter>(SpawnSpec::new("router"), ()).await.unwrap();
        let channel = platform.adapter().id().clone();
        let hub = EventHub::new(world.clone());
        let args = IntakeArgs {
            channel: channel.clone(),
            queue: QueuePolicy::Queue,
            queue_limit: 100,
            debounce: Duration::ZERO,
            claim: None,
            store: store.clone(),
            hub: Arc::clone(&hub),
            router: router.address.clone(),
            sender: None,
            observer: ObserverHandle::nobody(),
        };
        let intake = spawner.spawn::<Intake>(SpawnSpec::new("intake"), args).await.unwrap();
        let mut bench = Self {
            platform,
            fault,
            store,
            world,
            hub,
            spawner,
            channel,
            router: router.address,
            intake,
            sender: None,
            receiver: None,
            prompts: Arc::default(),
            folder,
        };
        bench.begin_life().await;
        bench
    }

    /// Sender and receiver begin, with an adapter that remembers nothing.
    pub async fn begin_life(&mut self) {
        let adapter = self.platform.adapter();
        let args = SenderArgs {
            adapter: Arc::clone(&adapter),
            on_unknown: OnUnknown::Resend,
            store: self.store.clone(),
            hub: Arc::clone(&self.hub),
            prompts: Arc::clone(&self.prompts),
            observer: ObserverHandle::nobody(),
        };
        let spec = SpawnSpec::new("sender").mailbox(256);
        self.sender = Some(self.spawner.spawn::<Sender>(spec, args).await.unwrap());
        if !self.platform.receives() {
            return;
        }
        let args = ReceiverArgs {
            adapter,
            admit: Arc::new(AllowList(vec![ANN.to_owned(), BEN.to_owned()])),
            commands: None,
            intake: IntakeHandle {
                address: self.intake.address.clone(),
                agent: AgentName::new("home"),
            },
            workspace: self.workspace(),
            grant_for: Duration::from_secs(3_600),
            prompts: Arc::clone(&self.prompts),
            store: self.store.clone(),
            router: self.router.clone(),
            redactor: Arc::new(Redactor::new([])),
            observer: ObserverHandle::nobody(),
            status: Arc::<ReceiverStatus>::default(),
        };
        let spec = SpawnSpec::new("receiver");
        self.receiver = Some(self.spawner.spawn::<Receiver>(spec, args).await.unwrap());
    }

    /// Both are killed, as by `kill -9`.
    pub async fn kill(&mut self) {
        if let Some(receiver) = self.receiver.take() {
            receiver.handle.kill();
            receiver.handle.ended().await;
        }
        if let Some(sender) = self.sender.take() {
            sender.handle.kill();
            sender.handle.ended().await;
        }
    }

    /// The sender is stopped as at shutdown; it has its grace.
    pub async fn shut_sender_down(&mut self) {
        let sender = self.sender.take().unwrap();
        sender.handle.stop_by(StopReason::Shutdown, None);
        let exit = within("the sender ends", sender.handle.ended()).await;
        assert_eq!(exit, ExitReason::Stopped { reason: StopReason::Shutdown });
    }

    /// From now on the store refuses everything.
    pub fn break_store(&self) {
        *self.fault.lock() = (Some(StoreError::Busy), 0);
    }

    /// Waits until the store refused something.
    pub async fn store_refused(&self) {
        until("the store refuses something", || async {
            let refused = self.fault.lock().1;
            if refused > 0 { Ok(()) } else { Err("nothing was asked of it".to_owned()) }
        })
        .await;
    }

    /// The store takes everything again.
    pub fn mend_store(&self) {
        self.fault.lock().0 = None;
    }

    /// Where attachments go.
    pub fn workspace(&self) -> std::path::PathBuf {
        self.folder.path().join("work")
    }

    /// All turns, the oldest first.
    pub async fn turns(&self) -> Vec<TurnRecord> {
        let mut turns = self.store.turns(None, None, None, 100).await.unwrap();
        turns.reverse();
        turns
    }

    /// Waits for so many turns.
    pub async fn turns_are(&self, count: usize) -> Vec<TurnRecord> {
        until(&format!("{count} turns"), || async {
            let turns = self.turns().await;
            if turns.len() == count { Ok(turns) } else { Err(format!("{} turns", turns.len())) }
        })
        .await
    }

    /// Waits until everything is acknowledged.
    pub async fn all_acknowledged(&self) {
        until("everything is acknowledged", || async {
            match self.platform.unacknowledged() {
                0 => Ok(()),
                left => Err(format!("{left} left")),
            }
        })
        .await;
    }

    /// Waits until somebody sees a message with these words.
    pub async fn sees(&self, who: &str, part: &str) -> super::Seen {
        until(&format!("{who} sees `{part}`"), || async {
            let seen = self.platform.seen(who);
            let found = seen.iter().find(|message| message.text.contains(part)).cloned();
            found.ok_or_else(|| format!("{seen:?}"))
        })
        .await
    }

    /// A message of somebody's, taken in without the adapter: for what is said about answers alone.
    pub async fn taken(&self, who: &str, text: &str) -> TurnClaim {
        let inbound = Inbound {
            channel: self.channel.clone(),
            external_id: format!("{}:{}", self.platform.chat(who), self.world.ids.next()),
            sender: Person { id: who.to_owned(), display: None },
            conversation: self.platform.chat(who),
            thread: None,
            text: text.to_owned(),
            attachments: Vec::new(),
            origin: TurnOrigin::Channel,
            agent: AgentName::new("home"),
        };
        let handle =
            IntakeHandle { address: self.intake.address.clone(), agent: AgentName::new("home") };
        let accepted = handle.receive(inbound).await.unwrap();
        self.claim(accepted.envelope.conversation_id).await
    }

    /// The next turn of a conversation begins.
    pub async fn claim(&self, conversation_id: rookery_messages::ids::ConversationId) -> TurnClaim {
        let at = self.world.now();
        let claim = Claim {
            conversation_id,
            at,
            terms: ClaimTerms { max_attempts: 3, history_chars: 10_000, together: Arc::default() },
        };
        match self.store.claim(claim).await.unwrap() {
            ClaimOutcome::Turn(claim) => *claim,
            other => panic!("nothing to claim: {other:?}"),
        }
    }

    /// The sender hears that a turn began.
    pub async fn show(&self, claim: &TurnClaim) {
        let conversation_id = claim.record.conversation_id;
        let live = LiveTurn {
            turn: claim.record.id,
            conversation_id,
            address: claim.reply_address.clone(),
            next_seq: self.hub.next_seq(conversation_id),
        };
        let sender = &self.sender.as_ref().unwrap().address;
        sender.send(SenderMsg::TurnBegan(Box::new(live))).await.unwrap();
    }

    /// Something happens in a turn.
    pub fn tell(&self, claim: &TurnClaim, event: TurnEventKind) {
        self.hub.publish(claim.record.conversation_id, claim.record.id, event);
    }

    /// The model says something.
    pub fn write(&self, claim: &TurnClaim, text: &str) {
        self.tell(claim, TurnEventKind::Delta { text: text.to_owned() });
    }

    fn step(&self, claim: &TurnClaim) -> TurnCommit {
        let record = &claim.record;
        TurnCommit::new(record.id, record.conversation_id, claim.fence, self.world.now())
    }

    /// The turn ends with an answer.
    pub async fn answer(&self, claim: &TurnClaim, text: &str) {
        let mut step = self.step(claim);
        let reply = Some(text.to_owned());
        let usage = Default::default();
        step.finish = Some(TurnFinish {
            outcome: Outcome::Answered,
            reply: reply.clone(),
            error: None,
            usage,
        });
        step.outbox.push(NewOutbox {
            id: OutboxId(self.world.ids.next()),
            channel: self.channel.clone(),
            address: claim.reply_address.clone(),
            payload: OutboxPayload::Reply {
                turn: claim.record.id,
                outcome: Outcome::Answered,
                text: text.to_owned(),
            },
        });
        self.store.commit(step).await.unwrap();
        self.tell(
            claim,
            TurnEventKind::Ended {
                outcome: Outcome::Answered,
                reply,
                usage,
                error: None,
                into: None,
            },
        );
        if let Some(sender) = &self.sender {
            sender.address.send(SenderMsg::Due).await.unwrap();
        }
    }

    /// The turn asks for an approval of its sender.
    pub async fn ask(&self, claim: &TurnClaim) -> Approval {
        let now = self.world.now();
        let approval = Approval {
            id: ApprovalId(self.world.ids.next()),
            turn: claim.record.id,
            conversation_id: claim.record.conversation_id,
            channel: self.channel.clone(),
            call: CallId(self.world.ids.next()),
            tool: "file_write".to_owned(),
            arguments: json!({ "path": "a.txt" }),
            arguments_hash: "ab".repeat(32),
            risk: Risk::Medium,
            reason: "it writes".to_owned(),
            asked_at: now,
            expires_at: now + Duration::from_secs(600),
            approvers: vec![claim.sender.clone()],
            asked_for: None,
            summary: "path=a.txt".to_owned(),
            offer: None,
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
        self.tell(claim, TurnEventKind::Approval { approval: Box::new(approval.clone()) });
        approval
    }

    /// Waits until nothing is left to send.
    pub async fn all_sent(&self) {
        until("the outbox is empty", || async {
            match self.store.outbox_due(self.channel.clone()).await.unwrap() {
                None => Ok(()),
                Some(at) => Err(format!("due at {at}")),
            }
        })
        .await;
        assert_eq!(self.store.dead_letters().await.unwrap(), []);
    }

    /// Everything ends in time, and nothing is left (I9, I13).
    pub async fn end(mut self) {
        self.mend_store();
        let directory = Arc::clone(self.spawner.directory());
        if let Some(receiver) = self.receiver.take() {
            receiver.handle.stop_by(StopReason::Shutdown, None);
            within("the receiver ends", receiver.handle.ended()).await;
        }
        if let Some(sender) = self.sender.take() {
            sender.handle.stop_by(StopReason::Shutdown, None);
            within("the sender ends", sender.handle.ended()).await;
        }
        for kind in ["intake", "router", "store"] {
            for entry in directory.of_kind(kind) {
                entry.stop(StopReason::Shutdown);
            }
        }
        within("everything ends", directory.wait_empty()).await;
        assert_eq!(directory.orphans(), Vec::<String>::new());
        assert_eq!(directory.task_count(), 0);
    }
}
