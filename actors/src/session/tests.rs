//! The engine in one process: router, sessions, turns, batches, on a real SQLite file, with a scripted
//! provider and tools that misbehave on purpose.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use parking_lot::Mutex;
use rookery_messages::BoxFuture;
use rookery_messages::address::{Address, AddressCell};
use rookery_messages::approval::{Approval, Decider, Decision};
use rookery_messages::chat::{ChatMessage, Usage};
use rookery_messages::envelope::{Inbound, Sender, TurnOrigin};
use rookery_messages::event::{TurnEvent, TurnEventKind};
use rookery_messages::exit::StopReason;
use rookery_messages::ids::{AgentName, ChannelId, ConversationId, EnvelopeId, TurnId};
use rookery_messages::model::{
    FinishReason, ModelDelta, ModelError, ModelErrorClass, ModelProvider, ModelRequest,
    ModelStream, RawCall,
};
use rookery_messages::observe::{Observation, Observer};
use rookery_messages::session::{Arrival, RouterMsg, Steering};
use rookery_messages::settings::{
    Durability, RetentionSettings, RiskProfile, RuntimeProfile, SpendLimit, ToolMode,
};
use rookery_messages::store::{
    Accept, ClaimTerms, DecideApproval, DecideOutcome, Store, StoreError, Write, Written,
};
use rookery_messages::time::World;
use rookery_messages::tool::{
    CallEffects, Effects, Reach, Tool, ToolContext, ToolResult, ToolSpec, text,
};
use rookery_messages::turn::{CallState, Outcome, TurnRecord};
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, mpsc};

use super::*;
use crate::hook::Hooks;
use crate::model::{ProfileRef, ProviderActor, ProviderArgs, Sight};
use crate::observe::{
    EventHub, HubItem, ObserverActor, ObserverArgs, ObserverHandle, Subscription,
};
use crate::policy::gate::Gate;
use crate::policy::redact::Redactor;
use crate::runtime::{Child, Directory, Entry, SpawnSpec, Spawner, system_world};
use crate::store::sqlite::{SqliteOptions, open, open_reader};
use crate::store::{OpenStore, OpenedStore, StoreActor, StoreClient};
use crate::tool::registry::Registry;
use crate::turn::budget::Prices;
use crate::turn::delegate::Nested;
use crate::turn::{AgentBundle, AskedAt, ChannelFacts, Narrowing, TurnDeps};

mod budgets;
mod closing;
mod consent;
mod delegating;
mod doubles;
mod engine;
mod limits;
mod observed;
mod orders;
mod overflowing;
mod pieces;
mod preparing;
mod remembering;
mod schedules;
mod seeing;
mod waiting;

use self::doubles::*;

struct Rig {
    hold: Hold,
    _dir: tempfile::TempDir,
    spawner: Spawner,
    store: StoreClient,
    hub: Arc<EventHub>,
    sink: Arc<Sink>,
    refuse: Arc<Mutex<Option<Refusal>>>,
    deps: Arc<TurnDeps>,
    provider: Arc<Scripted>,
    runs: Arc<Mutex<Vec<String>>>,
    gate: Arc<Notify>,
    began: mpsc::Receiver<()>,
    router: Address<RouterMsg>,
    roots: Vec<Box<dyn Fn() + Send + Sync>>,
    conversation: ConversationId,
}

/// What a test may change about the service.
struct Setup {
    bundle: AgentBundle,
    channels: HashMap<ChannelId, ChannelFacts>,
    approval_timeout: Duration,
    together: Arc<[ChannelId]>,
    prices: Prices,
    budget: SpendLimit,
}

impl Rig {
    async fn new(profile: RiskProfile, runtime: RuntimeProfile) -> Self {
        Self::built(profile, runtime, |_| {}).await
    }

    async fn with(change: impl FnOnce(&mut Setup)) -> Self {
        Self::built(RiskProfile::default(), RuntimeProfile::default(), change).await
    }

    async fn hooked(
        profile: RiskProfile,
        runtime: RuntimeProfile,
        hooks: Hooks,
        narrowing: Narrowing,
    ) -> Self {
        let change = |setup: &mut Setup| {
            setup.bundle.hooks = hooks;
            setup.bundle.narrowing = narrowing;
        };
        Self::built(profile, runtime, change).await
    }

    async fn built(
        profile: RiskProfile,
        runtime: RuntimeProfile,
        change: impl FnOnce(&mut Setup),
    ) -> Self {
        Self::in_world(system_world(), false, profile, runtime, change).await
    }

    /// Without threads the store answers in its handler: nothing but the runtime's clock decides what comes
    /// first.
    async fn in_world(
        world: World,
        without_threads: bool,
        profile: RiskProfile,
        runtime: RuntimeProfile,
        change: impl FnOnce(&mut Setup),
    ) -> Self {
        rookery_messages::invariant::set_strict(true);
        let dir = tempfile::tempdir().unwrap();
        let spawner = Spawner::new(Directory::new(world.clone()), world.clone());
        let path = dir.path().join("rookery.db");
        let hold = Hold::default();
        let held = hold.clone();
        let refuse: Arc<Mutex<Option<Refusal>>> = Arc::default();
        let refused = refuse.clone();
        let open_store: OpenStore = Arc::new(move || {
            let options = SqliteOptions { path: path.clone(), durability: Durability::Process };
            let moody = Moody { inner: Box::new(open(&options)?), refuse: refused.clone() };
            let mut writer = HeldStore(moody, held.clone());
            writer.begin_life(system_world().now())?;
            let reader = open_reader(&path)?;
            Ok(OpenedStore { writer: Box::new(writer), readers: vec![Box::new(reader)] })
        });
        let spec = SpawnSpec::new("store");
        let store_actor: Child<_> = if without_threads {
            spawner.spawn::<InlineStore>(spec, open_store).await.unwrap()
        } else {
            spawner.spawn::<StoreActor>(spec, open_store).await.unwrap()
        };
        let store = StoreClient::new(store_actor.address.clone());
        let provider = Arc::new(Scripted::default());
        let args = ProviderArgs {
            name: "main".into(),
            provider: provider.clone(),
            max_concurrency: 4,
            requests_per_minute: None,
            max_retry_after: std::time::Duration::from_secs(300),
            ceiling: Arc::default(),
        };
        let profile_actor =
            spawner.spawn::<ProviderActor>(SpawnSpec::new("provider"), args).await.unwrap();
        let runs: Arc<Mutex<Vec<String>>> = Arc::default();
        let gate = Arc::new(Notify::new());
        let (began_tx, began) = mpsc::channel(64);
        let mut tools = Registry::new();
        for (name, effects) in [
            ("read", Effects::ReadOnly),
            ("again", Effects::Idempotent),
            ("once", Effects::Once),
            ("fetch", Effects::ReadOnly),
            ("share", Effects::Idempotent),
        ] {
            let (runs, gate, began) = (runs.clone(), gate.clone(), began_tx.clone());
            tools.insert(Arc::new(Probe { name, effects, runs, gate, began })).unwrap();
        }
        let workspace = dir.path().join("work");
        std::fs::create_dir_all(&workspace).unwrap();
        let bundle = AgentBundle {
            name: AgentName::new("home"),
            chain: Arc::new([ProfileRef {
                name: "main".into(),
                address: profile_actor.address.clone(),
                max_attempts: 2,
                tool_mode: ToolMode::Native,
                sight: Sight::default(),
                ceiling: Arc::default(),
            }]),
            models: Arc::default(),
            vision: Arc::default(),
            tools: Arc::new(tools),
            mcp: Arc::default(),
            gate: Gate::new(Arc::new(profile), workspace, &[]),
            narrowing: Narrowing::default(),
            channels: Arc::default(),
            hooks: Hooks::default(),
            runtime,
            system_prompt: "You are Rookery.".into(),
            approval_route: None,
            approval_inherits: false,
            receipts: Default::default(),
            anchor: Arc::default(),
            memory: None,
        };
        let channel =
            |can_ask| ChannelFacts { posts_replies: false, can_ask, approvers: None, sender: None };
        let mut setup = Setup {
            bundle,
            channels: HashMap::from([
                (ChannelId::new("ws"), channel(true)),
                (ChannelId::new("webhook.ci"), channel(false)),
            ]),
            approval_timeout: Duration::from_secs(600),
            together: Arc::default(),
            prices: Prices::default(),
            budget: SpendLimit::default(),
        };
        change(&mut setup);
        let Setup { bundle, channels, approval_timeout, together, prices, budget } = setup;
        let hub = EventHub::new(world);
        let sink = Arc::new(Sink::default());
        let sinks: Vec<Arc<dyn Observer>> = vec![sink.clone()];
        let observer = spawner
            .spawn::<ObserverActor>(
                SpawnSpec::new("observer").mailbox(4_096),
                ObserverArgs { sinks, panics: Arc::default() },
            )
            .await
            .unwrap();
        let deps = Arc::new(TurnDeps {
            store: store.clone(),
            hub: hub.clone(),
            observer: ObserverHandle::new(observer.address.clone()),
            redactor: Arc::new(Redactor::new([])),
            agents: HashMap::from([(AgentName::new("home"), Arc::new(bundle))]),
            router: Address::new(AddressCell::new()),
            nested: Nested::default(),
            channels,
            terms: ClaimTerms { max_attempts: 3, history_chars: 100_000, together },
            approval_timeout,
            session_idle: Duration::from_millis(50),
            max_sessions: 100,
            receipts: Arc::default(),
            rates: Arc::default(),
            // Nothing but the sweep's timer is the router's own.
            retention: RetentionSettings { journal_days: 0, inbox_days: 0 },
            prices,
            budget,
        });
        let args = RouterArgs { deps: deps.clone() };
        let router = spawner
            .spawn::<RouterActor>(SpawnSpec::new("sessions").mailbox(256), args)
            .await
            .unwrap();
        let (a, b, c) = (router.address.clone(), profile_actor.address, store_actor.address);
        let d = observer.address;
        let roots: Vec<Box<dyn Fn() + Send + Sync>> = vec![
            Box::new(move || a.stop(StopReason::Shutdown)),
            Box::new(move || b.stop(StopReason::Shutdown)),
            Box::new(move || c.stop(StopReason::Shutdown)),
            Box::new(move || d.stop(StopReason::Shutdown)),
        ];
        let router = router.address;
        let conversation = ConversationId(spawner.world().ids.next());
        Self {
            hold,
            _dir: dir,
            spawner,
            store,
            hub,
            sink,
            refuse,
            deps,
            provider,
            runs,
            gate,
            began,
            router,
            roots,
            conversation,
        }
    }

    async fn plain() -> Self {
        Self::new(RiskProfile::default(), RuntimeProfile::default()).await
    }

    fn script(&self, replies: impl IntoIterator<Item = Reply>) {
        self.provider.replies.lock().extend(replies);
    }

    async fn accept(&self, id: &str, channel: &str) -> (TurnId, Following) {
        self.accept_for("home", id, channel).await
    }

    async fn accept_for(&self, agent: &str, id: &str, channel: &str) -> (TurnId, Following) {
        let accepted = self.take_for(agent, id, channel).await;
        let conversation = self.conversation;
        self.router.send(RouterMsg::hint(conversation)).await.unwrap();
        accepted
    }

    /// Puts a message into the inbox and tells nobody.
    async fn take(&self, id: &str, channel: &str) -> (TurnId, Following) {
        self.take_for("home", id, channel).await
    }

    async fn take_for(&self, agent: &str, id: &str, channel: &str) -> (TurnId, Following) {
        let accept = self.message(agent, id, channel);
        self.put(accept).await
    }

    fn message(&self, agent: &str, id: &str, channel: &str) -> Accept {
        let fresh = || self.spawner.world().ids.next();
        Accept {
            inbound: Inbound {
                channel: ChannelId::new(channel),
                external_id: id.into(),
                sender: Sender::person("ann"),
                conversation: "c1".into(),
                thread: None,
                text: format!("message {id}"),
                attachments: Vec::new(),
                origin: TurnOrigin::Channel,
                agent: AgentName::new(agent),
            },
            envelope: EnvelopeId(fresh()),
            turn: TurnId(fresh()),
            conversation_id: self.conversation,
            queue_limit: 20,
            child: None,
            claim: None,
            at: self.spawner.world().now(),
        }
    }

    async fn put(&self, accept: Accept) -> (TurnId, Following) {
        // The router's sweep may find the row before the hint does: follow first.
        let events = self.hub.subscribe(self.conversation, None);
        let outcome = self.store.accept(accept).await.unwrap();
        let turn = outcome.envelope.turn;
        (turn, Following { turn, events, seen: Vec::new() })
    }

    /// A message of somebody, told to the router as the channel's policy has it.
    async fn arrives(
        &self,
        sender: &str,
        id: &str,
        arrival: impl FnOnce(Steering) -> Arrival,
    ) -> (TurnId, Following) {
        let mut message = self.message("home", id, "ws");
        message.inbound.sender.id = sender.to_owned();
        let steering = Steering { turn: message.turn, inbound: message.inbound.clone() };
        let accepted = self.put(message).await;
        let (conversation, arrival) = (self.conversation, arrival(steering));
        self.router.send(RouterMsg::Hint { conversation, arrival }).await.unwrap();
        accepted
    }

    async fn record(&self, turn: TurnId) -> TurnRecord {
        self.store.turn(turn).await.unwrap().unwrap()
    }

    /// The one live actor of a kind.
    fn only(&self, kind: &str) -> Arc<Entry> {
        let mut found = self.spawner.directory().of_kind(kind);
        assert_eq!(found.len(), 1, "one {kind}");
        found.remove(0)
    }

    /// Waits until something holds, letting everybody else run meanwhile.
    async fn until(&self, holds: impl Fn(&Directory) -> bool) {
        while !holds(self.spawner.directory()) {
            tokio::task::yield_now().await;
        }
    }

    /// As [`Rig::until`], on a paused clock: time goes on while nothing else does.
    async fn until_slowly(&self, holds: impl Fn(&Directory) -> bool) {
        while !holds(self.spawner.directory()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn stop(&self, turn: TurnId, reason: StopReason) {
        let turns = self.spawner.directory().of_kind("turn");
        let segment = format!("turn/{turn}");
        turns.iter().find(|entry| entry.segment == segment).unwrap().stop(reason);
    }

    /// Decides a request and hints at it, as a surface does.
    async fn decide(&self, approval: &Approval, decision: Decision) {
        let request = DecideApproval {
            approval: approval.id,
            decision,
            decider: Decider { who: "ann".into(), via: "ws".into() },
            privileged: false,
            at: self.spawner.world().now(),
            grant: None,
        };
        let decided = self.store.decide(request).await.unwrap();
        assert!(matches!(decided, DecideOutcome::Decided(_)), "{decided:?}");
        let (conversation, turn) = (approval.conversation_id, approval.turn);
        let hint = RouterMsg::ApprovalHint { conversation, turn, approval: approval.id };
        self.router.send(hint).await.unwrap();
    }

    /// What the observer was told of a turn, once it knows of the turn's end.
    async fn observed(&self, turn: TurnId) -> Vec<Observation> {
        loop {
            let told = self.sink.0.lock().clone();
            let told: Vec<Observation> = told
                .into_iter()
                .filter(|seen| observed::scope_of(seen).is_some_and(|scope| scope.turn == turn))
                .collect();
            if told.iter().any(|seen| matches!(seen, Observation::TurnEnded { .. })) {
                return told;
            }
            tokio::task::yield_now().await;
        }
    }

    /// The tool messages of the last request.
    fn last_results(&self) -> Vec<String> {
        let requests = self.provider.requests.lock();
        let last = requests.last().unwrap();
        let tools = last.messages.iter().filter(|m| matches!(m, ChatMessage::Tool { .. }));
        tools.map(|m| m.text().to_owned()).collect()
    }

    /// Nothing is left running: no turn, tool, batch, model or approval actor, and after the roots have
    /// stopped, nobody at all.
    async fn quiet(self) {
        assert!(self.store.ledger().await.unwrap().adds_up());
        for stop in &self.roots {
            stop();
            // The store goes last: the sessions write until they are gone.
            while self.spawner.directory().counts().contains_key("router") {
                tokio::task::yield_now().await;
            }
        }
        self.spawner.directory().wait_empty().await;
        assert!(self.spawner.directory().orphans().is_empty());
    }
}

struct Following {
    turn: TurnId,
    events: Subscription,
    seen: Vec<TurnEvent>,
}

impl Following {
    async fn until(&mut self, stop: impl Fn(&TurnEventKind) -> bool) -> TurnEventKind {
        loop {
            let next = tokio::time::timeout(Duration::from_secs(30), self.events.next()).await;
            let Ok(HubItem::Event(event)) = next else { panic!("{next:?} after {:#?}", self.seen) };
            if event.turn != self.turn {
                continue;
            }
            self.seen.push((*event).clone());
            if stop(&event.kind) {
                return event.kind.clone();
            }
        }
    }

    async fn end(&mut self) -> (Outcome, Option<String>) {
        match self.until(|kind| matches!(kind, TurnEventKind::Ended { .. })).await {
            TurnEventKind::Ended { outcome, reply, .. } => (outcome, reply),
            _ => unreachable!(),
        }
    }

    fn kinds(&self) -> Vec<&'static str> {
        self.seen.iter().map(|event| event.kind.as_str()).collect()
    }

    /// The events about tool calls, in order.
    fn cards(&self) -> Vec<&'static str> {
        self.kinds().into_iter().filter(|kind| kind.starts_with("tool_")).collect()
    }
}

fn states(record: &TurnRecord) -> Vec<CallState> {
    record.calls.iter().map(|call| call.state).collect()
}
