//! The host of one channel around the adapter under test, with a real store and without a model: the real
//! sender and intake, and whichever of receiver and gateway its messages come in by.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use rookery_actors::channel::receiver::AllowList;
use rookery_actors::channel::{
    BotRules, Intake, IntakeArgs, IntakeHandle, Prompts, Receiver, ReceiverArgs, ReceiverMsg,
    ReceiverStatus, Sender, SenderArgs,
};
use rookery_actors::gateway::{self, GatewayMsg, listen};
use rookery_actors::observe::{EventHub, ObserverHandle};
use rookery_actors::policy::redact::Redactor;
use rookery_actors::runtime::{Child, Directory, SpawnSpec, Spawner, system_world};
use rookery_actors::store::StoreClient;
use rookery_messages::address::Address;
use rookery_messages::channel::{Capabilities, IntakeMsg, QueuePolicy, SenderMsg};
use rookery_messages::exit::{ExitReason, StopReason};
use rookery_messages::ids::{AgentName, ChannelId};
use rookery_messages::observe::Observation;
use rookery_messages::session::RouterMsg;
use rookery_messages::settings::OnUnknown;
use rookery_messages::store::StoreError;
use rookery_messages::time::World;

use super::host::{BenchRouter, BenchStore, Fault, Observed, Watcher};
use super::{ANN, BEN, BOT, Entrance, Platform};
use crate::wait::{until, within};

/// Most messages of a conversation that wait.
pub const QUEUE_LIMIT: u32 = 12;

/// One channel with everything around it. Ends with [`Bench::end`], which fails if anything is left.
pub struct Bench<P> {
    /// The platform.
    pub platform: P,
    /// What its adapter can do.
    pub able: Capabilities,
    /// The store.
    pub store: StoreClient,
    pub(super) world: World,
    pub(super) hub: Arc<EventHub>,
    pub(super) spawner: Spawner,
    pub(super) channel: ChannelId,
    pub(super) router: Address<RouterMsg>,
    pub(super) intake: Child<IntakeMsg>,
    pub(super) sender: Option<Child<SenderMsg>>,
    pub(super) observer: ObserverHandle,
    receiver: Option<Child<ReceiverMsg>>,
    gateway: Option<Child<GatewayMsg>>,
    listener: Arc<TcpListener>,
    prompts: Arc<Prompts>,
    bots: BotRules,
    fault: Fault,
    observed: Observed,
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
        let observed = Observed::default();
        let spec = SpawnSpec::new("observer").mailbox(1_024);
        let watcher = spawner.spawn::<Watcher>(spec, Arc::clone(&observed)).await.unwrap();
        let observer = ObserverHandle::new(watcher.address);
        let adapter = platform.adapter();
        let (channel, able) = (adapter.id().clone(), adapter.capabilities());
        let hub = EventHub::new(world.clone());
        let args = IntakeArgs {
            channel: channel.clone(),
            queue: QueuePolicy::Queue,
            queue_limit: QUEUE_LIMIT,
            debounce: Duration::ZERO,
            claim: None,
            store: store.clone(),
            hub: Arc::clone(&hub),
            router: router.address.clone(),
            sender: None,
            observer: observer.clone(),
        };
        let intake = spawner.spawn::<Intake>(SpawnSpec::new("intake"), args).await.unwrap();
        let listener = listen("127.0.0.1:0").unwrap();
        platform.gateway_at(listener.local_addr().unwrap());
        let mut bench = Self {
            platform,
            able,
            store,
            world,
            hub,
            spawner,
            channel,
            router: router.address,
            intake,
            sender: None,
            observer,
            receiver: None,
            gateway: None,
            listener,
            prompts: Arc::default(),
            bots: BotRules::default(),
            fault,
            observed,
            folder,
        };
        bench.begin_life().await;
        bench
    }

    /// Sender, and receiver or gateway, begin, with an adapter that remembers nothing.
    pub async fn begin_life(&mut self) {
        let adapter = self.platform.adapter();
        self.prompts = Arc::default();
        let args = SenderArgs {
            adapter: Arc::clone(&adapter),
            on_unknown: OnUnknown::Resend,
            store: self.store.clone(),
            hub: Arc::clone(&self.hub),
            prompts: Arc::clone(&self.prompts),
            observer: self.observer.clone(),
        };
        let spec = SpawnSpec::new("sender").mailbox(256);
        let sender = self.spawner.spawn::<Sender>(spec, args).await.unwrap();
        let address = sender.address.clone();
        self.sender = Some(sender);
        if self.platform.entrance() == Entrance::Gateway {
            let args = super::gateway::args(self, adapter, Arc::clone(&self.listener));
            let spec = SpawnSpec::new("gateway").mailbox(gateway::MAILBOX);
            let spec = spec.grace(Duration::from_secs(5));
            self.gateway = Some(self.spawner.spawn::<gateway::Gateway>(spec, args).await.unwrap());
            return;
        }
        let ours = self.platform.ours();
        let allowed = [ANN, BEN, BOT, ours.as_str()].map(str::to_owned);
        let args = ReceiverArgs {
            adapter,
            admit: Arc::new(AllowList(allowed.into())),
            commands: None,
            bots: self.bots,
            intake: self.intake_handle(),
            workspace: self.workspace(),
            grant_for: Duration::from_secs(3_600),
            prompts: Arc::clone(&self.prompts),
            sender: Some(address),
            store: self.store.clone(),
            router: self.router.clone(),
            redactor: Arc::new(Redactor::new([])),
            observer: self.observer.clone(),
            status: Arc::<ReceiverStatus>::default(),
        };
        let spec = SpawnSpec::new("receiver");
        self.receiver = Some(self.spawner.spawn::<Receiver>(spec, args).await.unwrap());
    }

    /// The intake, as whoever takes messages in has it.
    pub(super) fn intake_handle(&self) -> IntakeHandle {
        IntakeHandle { address: self.intake.address.clone(), agent: AgentName::new("home") }
    }

    /// From the next life on other bots are answered, so many messages in a row.
    pub fn allow_bots(&mut self, chain: u32) {
        self.bots = BotRules { allow: true, chain };
    }

    /// All that a life began is killed, as by `kill -9`.
    pub async fn kill(&mut self) {
        if let Some(receiver) = self.receiver.take() {
            receiver.handle.kill();
            receiver.handle.ended().await;
        }
        if let Some(gateway) = self.gateway.take() {
            gateway.handle.kill();
            gateway.handle.ended().await;
            for connection in self.spawner.directory().of_kind("connection") {
                connection.kill();
            }
            self.none_of("connection").await;
        }
        if let Some(sender) = self.sender.take() {
            sender.handle.kill();
            sender.handle.ended().await;
        }
    }

    /// Sender and gateway are stopped as at shutdown, in that order; each has its grace.
    pub async fn shut_down(&mut self) {
        let sender = self.sender.take().unwrap();
        sender.handle.stop_by(StopReason::Shutdown, None);
        let exit = within("the sender ends", sender.handle.ended()).await;
        assert_eq!(exit, ExitReason::Stopped { reason: StopReason::Shutdown });
        self.shut_gateway_down().await;
    }

    async fn shut_gateway_down(&mut self) {
        let Some(gateway) = self.gateway.take() else { return };
        gateway.handle.stop_by(StopReason::Shutdown, None);
        let exit = within("the gateway ends", gateway.handle.ended()).await;
        assert_eq!(exit, ExitReason::Stopped { reason: StopReason::Shutdown });
    }

    async fn none_of(&self, kind: &str) {
        until(&format!("no {kind} is left"), || async {
            match self.spawner.directory().of_kind(kind).len() {
                0 => Ok(()),
                left => Err(format!("{left} left")),
            }
        })
        .await;
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

    /// Waits until so many redeliveries were known again.
    pub async fn recognised(&self, count: usize) {
        let known =
            |one: &&Observation| matches!(one, Observation::Accepted { duplicate: true, .. });
        self.counted(&format!("{count} redeliveries are known again"), count, known).await;
    }

    /// Waits until so much was refused before it became a message.
    pub async fn refused(&self, count: usize) {
        let refused = |one: &&Observation| matches!(one, Observation::Refused { .. });
        self.counted(&format!("{count} refusals are counted"), count, refused).await;
    }

    async fn counted(&self, what: &str, count: usize, of: impl Fn(&&Observation) -> bool) {
        until(what, || async {
            let found = self.observed.lock().iter().filter(&of).count();
            if found >= count { Ok(()) } else { Err(format!("{found}")) }
        })
        .await;
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

    /// All that somebody sees now, in order.
    pub fn all_seen(&self, who: &str) -> String {
        let texts: Vec<String> = self.platform.seen(who).into_iter().map(|one| one.text).collect();
        texts.join("\n")
    }

    /// What the newest press was answered with, once there are so many answers.
    pub async fn answered(&self, count: usize) -> String {
        until(&format!("{count} answers to presses"), || async {
            let mut answers = self.platform.answers();
            if answers.len() == count {
                Ok(answers.pop().unwrap())
            } else {
                Err(format!("{answers:?}"))
            }
        })
        .await
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
        self.shut_gateway_down().await;
        for kind in ["intake", "router", "store", "observer"] {
            for entry in directory.of_kind(kind) {
                entry.stop(StopReason::Shutdown);
            }
        }
        within("everything ends", directory.wait_empty()).await;
        assert_eq!(directory.orphans(), Vec::<String>::new());
        assert_eq!(directory.task_count(), 0);
    }
}
