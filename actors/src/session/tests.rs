//! The engine in one process: router, sessions, turns, batches, on a real SQLite file, with a scripted
//! provider and tools that misbehave on purpose.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use parking_lot::Mutex;
use rookery_messages::BoxFuture;
use rookery_messages::address::Address;
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
use rookery_messages::session::RouterMsg;
use rookery_messages::settings::{Durability, RiskProfile, RuntimeProfile};
use rookery_messages::store::{
    Accept, DecideApproval, DecideOutcome, Store, StoreError, Write, Written,
};
use rookery_messages::tool::{
    CallEffects, Effects, Reach, Tool, ToolContext, ToolResult, ToolSpec, text,
};
use rookery_messages::turn::{CallState, Outcome, TurnRecord};
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, mpsc};

use super::*;
use crate::model::{ProfileRef, ProviderActor, ProviderArgs};
use crate::observe::{
    EventHub, HubItem, ObserverActor, ObserverArgs, ObserverHandle, Subscription,
};
use crate::policy::gate::Gate;
use crate::policy::redact::Redactor;
use crate::runtime::{Child, Directory, Entry, SpawnSpec, Spawner, system_world};
use crate::store::sqlite::{SqliteOptions, open, open_reader};
use crate::store::{OpenStore, OpenedStore, StoreActor, StoreClient};
use crate::tool::registry::Registry;
use crate::turn::{AgentBundle, ChannelFacts, TurnDeps};

mod observed;
mod pieces;

type Reply = Result<Vec<Result<ModelDelta, ModelError>>, ModelError>;

/// Answers with what was scripted, and keeps every request.
#[derive(Default)]
struct Scripted {
    replies: Mutex<VecDeque<Reply>>,
    requests: Mutex<Vec<ModelRequest>>,
    hang_after: Mutex<Option<usize>>,
}

impl ModelProvider for Scripted {
    fn kind(&self) -> &str {
        "scripted"
    }

    fn model(&self) -> &str {
        "scripted-1"
    }

    fn stream(&self, request: ModelRequest) -> BoxFuture<'_, Result<ModelStream, ModelError>> {
        self.requests.lock().push(request);
        let reply = self.replies.lock().pop_front();
        let hang = self.hang_after.lock().take();
        Box::pin(async move {
            let deltas = reply.unwrap_or_else(|| says("done"))?;
            match hang {
                Some(n) => {
                    let shown: Vec<_> = deltas.into_iter().take(n).collect();
                    let stuck = stream::pending();
                    let both = futures_util::StreamExt::chain(stream::iter(shown), stuck);
                    Ok(Box::pin(both) as ModelStream)
                }
                None => Ok(Box::pin(stream::iter(deltas)) as ModelStream),
            }
        })
    }
}

fn ended(calls: Vec<RawCall>) -> Result<ModelDelta, ModelError> {
    let finish = if calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
    Ok(ModelDelta::Ended { calls, finish })
}

fn says(words: &str) -> Reply {
    let usage = Usage { input: 10, output: 2 };
    Ok(vec![Ok(ModelDelta::Text(words.into())), Ok(ModelDelta::Usage(usage)), ended(vec![])])
}

fn asks(calls: &[(&str, Value)]) -> Reply {
    let calls = calls
        .iter()
        .enumerate()
        .map(|(n, (name, arguments))| RawCall {
            provider_id: Some(format!("call_{n}")),
            name: (*name).to_owned(),
            arguments: arguments.to_string(),
        })
        .collect();
    Ok(vec![Ok(ModelDelta::Text("let me see".into())), ended(calls)])
}

/// One tool whose behaviour its arguments choose.
struct Probe {
    name: &'static str,
    effects: Effects,
    runs: Arc<Mutex<Vec<String>>>,
    gate: Arc<Notify>,
    began: mpsc::Sender<()>,
}

impl Tool for Probe {
    fn spec(&self) -> Arc<ToolSpec> {
        Arc::new(ToolSpec {
            name: self.name.into(),
            description: "a probe".into(),
            parameters: json!({ "type": "object" }),
        })
    }

    fn effects(&self, _: &Map<String, Value>) -> CallEffects {
        CallEffects { effects: self.effects, reach: Reach::Workspace, ..CallEffects::read_only() }
    }

    fn execute<'a>(
        &'a self,
        arguments: &'a Map<String, Value>,
        cx: &'a ToolContext,
    ) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            let what = arguments.get("do").and_then(Value::as_str).unwrap_or("say").to_owned();
            self.runs.lock().push(what.clone());
            match what.as_str() {
                "fail" => ToolResult::failed("exit 1"),
                "empty" => ToolResult::ok(""),
                "panic" => panic!("probe panics"),
                "wait" => {
                    let _ = self.began.send(()).await;
                    self.gate.notified().await;
                    ToolResult::ok("waited")
                }
                "hang" => {
                    let _ = self.began.send(()).await;
                    cx.cancel.cancelled().await;
                    ToolResult::failed("cancelled")
                }
                other => ToolResult::ok(format!("said {other}")),
            }
        })
    }
}

/// Keeps the answers of claims back while it is closed.
#[derive(Clone, Default)]
struct Hold(Arc<(Mutex<bool>, parking_lot::Condvar)>);

impl Hold {
    fn set(&self, held: bool) {
        *self.0.0.lock() = held;
        self.0.1.notify_all();
    }

    fn wait(&self) {
        let mut held = self.0.0.lock();
        while *held {
            self.0.1.wait(&mut held);
        }
    }
}

struct HeldStore(Moody, Hold);

impl Store for HeldStore {
    fn apply(&mut self, writes: &[Write]) -> Vec<Result<Written, StoreError>> {
        let answers = self.0.apply(writes);
        if writes.iter().any(|write| matches!(write, Write::Claim(_))) {
            self.1.wait();
        }
        answers
    }

    fn begin_life(&mut self, at: jiff::Timestamp) -> Result<(), StoreError> {
        self.0.begin_life(at)
    }
}

type Refusal = Box<dyn Fn(&Write) -> bool + Send>;

/// Refuses the first write that fits, for a passing reason.
struct Moody {
    inner: Box<dyn Store>,
    refuse: Arc<Mutex<Option<Refusal>>>,
}

impl Store for Moody {
    fn apply(&mut self, writes: &[Write]) -> Vec<Result<Written, StoreError>> {
        let mut refuse = self.refuse.lock();
        let fits = |write: &Write| refuse.as_ref().is_some_and(|refuse| refuse(write));
        let Some(at) = writes.iter().position(fits) else { return self.inner.apply(writes) };
        *refuse = None;
        let mut answers = self.inner.apply(&writes[..at]);
        answers.push(Err(StoreError::Busy));
        answers.extend(self.inner.apply(&writes[at + 1..]));
        answers
    }

    fn begin_life(&mut self, at: jiff::Timestamp) -> Result<(), StoreError> {
        self.inner.begin_life(at)
    }
}

/// Keeps what an observer is told.
#[derive(Default)]
struct Sink(Mutex<Vec<Observation>>);

impl Observer for Sink {
    fn observe(&self, observation: &Observation) {
        self.0.lock().push(observation.clone());
    }
}

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

impl Rig {
    async fn new(profile: RiskProfile, runtime: RuntimeProfile) -> Self {
        rookery_messages::invariant::set_strict(true);
        let dir = tempfile::tempdir().unwrap();
        let world = system_world();
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
        let store_actor: Child<_> =
            spawner.spawn::<StoreActor>(SpawnSpec::new("store"), open_store).await.unwrap();
        let store = StoreClient::new(store_actor.address.clone());
        let provider = Arc::new(Scripted::default());
        let args =
            ProviderArgs { name: "main".into(), provider: provider.clone(), max_concurrency: 4 };
        let profile_actor =
            spawner.spawn::<ProviderActor>(SpawnSpec::new("provider"), args).await.unwrap();
        let runs: Arc<Mutex<Vec<String>>> = Arc::default();
        let gate = Arc::new(Notify::new());
        let (began_tx, began) = mpsc::channel(64);
        let mut tools = Registry::new();
        for (name, effects) in
            [("read", Effects::ReadOnly), ("again", Effects::Idempotent), ("once", Effects::Once)]
        {
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
            }]),
            tools: Arc::new(tools),
            gate: Gate::new(Arc::new(profile), workspace, &[]),
            runtime,
            system_prompt: "You are Rookery.".into(),
            approval_route: None,
        };
        let channel =
            |can_ask| ChannelFacts { posts_replies: false, can_ask, approvers: None, sender: None };
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
            channels: HashMap::from([
                (ChannelId::new("ws"), channel(true)),
                (ChannelId::new("webhook.ci"), channel(false)),
            ]),
            approval_timeout: Duration::from_secs(600),
            history_chars: 100_000,
            max_attempts: 3,
            session_idle: Duration::from_millis(50),
            max_sessions: 100,
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
        self.router.send(RouterMsg::Hint { conversation, interrupt: false }).await.unwrap();
        accepted
    }

    /// Puts a message into the inbox and tells nobody.
    async fn take(&self, id: &str, channel: &str) -> (TurnId, Following) {
        self.take_for("home", id, channel).await
    }

    async fn take_for(&self, agent: &str, id: &str, channel: &str) -> (TurnId, Following) {
        let fresh = || self.spawner.world().ids.next();
        let accept = Accept {
            inbound: Inbound {
                channel: ChannelId::new(channel),
                external_id: id.into(),
                sender: Sender { id: "ann".into(), display: None },
                conversation: "c1".into(),
                thread: None,
                text: format!("message {id}"),
                origin: TurnOrigin::Channel,
                agent: AgentName::new(agent),
            },
            envelope: EnvelopeId(fresh()),
            turn: TurnId(fresh()),
            conversation_id: self.conversation,
            queue_limit: 20,
            at: self.spawner.world().now(),
        };
        // The router's sweep may find the row before the hint does: follow first.
        let events = self.hub.subscribe(self.conversation, None);
        let outcome = self.store.accept(accept).await.unwrap();
        let turn = outcome.envelope.turn;
        (turn, Following { turn, events, seen: Vec::new() })
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

#[tokio::test]
async fn a_message_is_answered_and_the_next_turn_sees_the_history_with_one_system_message() {
    // V-A2, V-A3
    let rig = Rig::plain().await;
    rig.script([says("hello"), says("again")]);
    let (turn, mut events) = rig.accept("m1", "webhook.ci").await;
    assert_eq!(events.end().await, (Outcome::Answered, Some("hello".into())));
    assert_eq!(rig.record(turn).await.usage, Usage { input: 10, output: 2 });
    let (_, mut events) = rig.accept("m2", "webhook.ci").await;
    events.end().await;
    let messages = rig.provider.requests.lock()[1].messages.clone();
    let texts: Vec<_> = messages.iter().map(|m| m.text()).collect();
    assert_eq!(texts, ["You are Rookery.", "message m1", "hello", "message m2"]);
    rig.quiet().await;
}

#[tokio::test]
async fn every_call_of_a_parallel_batch_has_its_own_result_in_order() {
    // A112, V-I5, V-I6, V-I7, V-I8, V-I10, V-N3, I4
    let rig = Rig::plain().await;
    let mut calls: Vec<(&str, Value)> =
        (0..24).map(|n| ("read", json!({ "do": n.to_string() }))).collect();
    calls[3] = ("read", json!({ "do": "fail" }));
    calls[7] = ("read", json!({ "do": "panic" }));
    calls[9] = ("read", json!({ "do": "empty" }));
    calls[11] = ("nothing", json!({}));
    rig.script([asks(&calls), says("done")]);
    let (turn, mut events) = rig.accept("m1", "webhook.ci").await;
    assert_eq!(events.end().await.0, Outcome::Answered);
    let expected: Vec<String> = (0..24)
        .map(|n| match n {
            3 => "error: exit 1".to_owned(),
            7 => format!("error: {}", text::CRASHED),
            9 => text::NO_OUTPUT.to_owned(),
            11 => "Unknown tool: nothing".to_owned(),
            n => format!("said {n}"),
        })
        .collect();
    assert_eq!(rig.last_results(), expected);
    let record = rig.record(turn).await;
    let failed = states(&record).iter().filter(|s| **s == CallState::Failed).count();
    assert_eq!((record.calls.len(), failed), (24, 3));
    let opened = events.kinds().iter().filter(|k| **k == "tool_call").count();
    let closed = events.kinds().iter().filter(|k| **k == "tool_result").count();
    assert_eq!((opened, closed), (24, 24));
    rig.quiet().await;
}

#[tokio::test]
async fn a_stop_keeps_what_finished_and_marks_the_rest_in_order() {
    // V-I11, V-I12, V-I14, A109, I6
    let sequential = RuntimeProfile { parallel_tools: false, ..RuntimeProfile::default() };
    let mut rig = Rig::new(RiskProfile::default(), sequential).await;
    let calls =
        [("read", json!({})), ("read", json!({ "do": "hang" })), ("read", json!({ "do": "c" }))];
    rig.script([asks(&calls)]);
    let (turn, mut events) = rig.accept("m1", "webhook.ci").await;
    rig.began.recv().await.unwrap();
    rig.stop(turn, StopReason::User);
    assert_eq!(events.end().await.0, Outcome::Cancelled);
    let record = rig.record(turn).await;
    assert_eq!(
        states(&record),
        [CallState::Succeeded, CallState::Interrupted, CallState::Interrupted]
    );
    assert_eq!(record.error.unwrap().code, "cancelled");
    let opened = events.kinds().iter().filter(|k| **k == "tool_call").count();
    let closed = events.kinds().iter().filter(|k| **k == "tool_result").count();
    assert_eq!((opened, closed), (2, 2));
    rig.script([says("fine")]);
    let (_, mut next) = rig.accept("m2", "webhook.ci").await;
    assert_eq!(next.end().await.0, Outcome::Answered);
    assert_eq!(
        rig.last_results(),
        ["said say", text::INTERRUPTED_RUNNING, text::INTERRUPTED_NOT_STARTED]
    );
    rig.quiet().await;
}

#[tokio::test]
async fn a_stop_during_the_stream_keeps_the_shown_text_with_the_marker() {
    // V-E15, V-E17
    let rig = Rig::plain().await;
    *rig.provider.hang_after.lock() = Some(1);
    rig.script([says("half an ans")]);
    let (turn, mut events) = rig.accept("m1", "webhook.ci").await;
    events.until(|kind| matches!(kind, TurnEventKind::Delta { .. })).await;
    rig.stop(turn, StopReason::User);
    assert_eq!(events.end().await.0, Outcome::Cancelled);
    let history =
        rig.store.messages(ChannelId::new("webhook.ci"), "c1".into(), 10).await.unwrap().unwrap();
    let last = history.last().unwrap().message.text().to_owned();
    assert_eq!(last, format!("half an ans\n{}", text::INTERRUPTED_MARKER));
    rig.quiet().await;
}

#[tokio::test]
async fn an_approval_asked_and_given_runs_the_call_once() {
    // V-H3, I5, I7
    let rig = Rig::plain().await;
    rig.script([asks(&[("once", json!({ "do": "write" }))]), says("done")]);
    let (turn, mut events) = rig.accept("m1", "ws").await;
    let asked = events.until(|kind| matches!(kind, TurnEventKind::Approval { .. })).await;
    let TurnEventKind::Approval { approval } = asked else { unreachable!() };
    assert!(rig.runs.lock().is_empty());
    assert_eq!(approval.turn, turn);
    rig.decide(&approval, Decision::Approve).await;
    assert_eq!(events.end().await.0, Outcome::Answered);
    assert_eq!(*rig.runs.lock(), ["write"]);
    assert_eq!(rig.last_results(), ["said write"]);
    rig.quiet().await;
}

#[tokio::test]
async fn where_nobody_can_be_asked_the_call_is_denied_at_once() {
    // V-H6
    let rig = Rig::plain().await;
    rig.script([asks(&[("once", json!({}))]), says("done")]);
    let (turn, mut events) = rig.accept("m1", "webhook.ci").await;
    assert_eq!(events.end().await.0, Outcome::Answered);
    assert_eq!(rig.last_results(), [text::DENIED_NOBODY_ASKED]);
    assert_eq!(states(&rig.record(turn).await), [CallState::Denied]);
    assert!(rig.runs.lock().is_empty());
    rig.quiet().await;
}

#[tokio::test]
async fn a_duplicate_runs_once_and_has_the_first_ones_result_but_reads_may_repeat() {
    // V-G10, V-G12
    let profile = RiskProfile { auto_approve: vec!["once".into()], ..RiskProfile::default() };
    let rig = Rig::new(profile, RuntimeProfile::default()).await;
    let same = json!({ "do": "x" });
    let calls =
        [("once", same.clone()), ("once", same.clone()), ("read", same.clone()), ("read", same)];
    rig.script([asks(&calls), says("done")]);
    let (turn, mut events) = rig.accept("m1", "webhook.ci").await;
    assert_eq!(events.end().await.0, Outcome::Answered);
    assert_eq!(rig.runs.lock().len(), 3);
    let twin = format!("{}said x", text::DUPLICATE_PREFIX);
    assert_eq!(rig.last_results(), ["said x", &twin, "said x", "said x"]);
    assert_eq!(states(&rig.record(turn).await)[1], CallState::Duplicate);
    rig.quiet().await;
}

#[tokio::test]
async fn a_turn_stopped_by_shutdown_resumes_and_runs_no_finished_call_again() {
    // V-N1
    let mut rig = Rig::plain().await;
    let calls = [("read", json!({ "do": "a" })), ("read", json!({ "do": "hang" }))];
    rig.script([asks(&calls)]);
    let (turn, mut events) = rig.accept("m1", "webhook.ci").await;
    rig.began.recv().await.unwrap();
    events.until(|kind| matches!(kind, TurnEventKind::ToolResult { .. })).await;
    rig.stop(turn, StopReason::Shutdown);
    // Its session goes on at once, as after a restart; the same call hangs again.
    rig.began.recv().await.unwrap();
    assert_eq!(rig.record(turn).await.attempts, 2);
    assert_eq!(*rig.runs.lock(), ["a", "hang", "hang"]);
    rig.stop(turn, StopReason::User);
    assert_eq!(events.end().await.0, Outcome::Cancelled);
    assert_eq!(states(&rig.record(turn).await), [CallState::Succeeded, CallState::Interrupted]);
    rig.quiet().await;
}

#[tokio::test]
async fn turns_of_one_conversation_run_one_after_the_other() {
    // V-N8, I3
    let mut rig = Rig::plain().await;
    rig.script([asks(&[("read", json!({ "do": "wait" }))]), says("one"), says("two")]);
    let (_, mut first) = rig.accept("m1", "webhook.ci").await;
    rig.began.recv().await.unwrap();
    let (second_turn, mut second) = rig.accept("m2", "webhook.ci").await;
    assert_eq!(rig.spawner.directory().of_kind("turn").len(), 1);
    assert_eq!(rig.record(second_turn).await.attempts, 0);
    rig.gate.notify_one();
    assert_eq!(first.end().await, (Outcome::Answered, Some("one".into())));
    assert_eq!(second.end().await, (Outcome::Answered, Some("two".into())));
    rig.quiet().await;
}

#[tokio::test]
async fn a_failure_before_any_text_is_tried_again_and_an_empty_answer_is_never_a_success() {
    // V-E18
    let rig = Rig::plain().await;
    let cut = ModelError::new(ModelErrorClass::Network, "connection refused");
    rig.script([Err(cut), says("second try")]);
    let (_, mut events) = rig.accept("m1", "webhook.ci").await;
    assert_eq!(events.end().await, (Outcome::Answered, Some("second try".into())));
    rig.script([Ok(vec![ended(vec![])]), Ok(vec![ended(vec![])])]);
    let (turn, mut events) = rig.accept("m2", "webhook.ci").await;
    assert_eq!(events.end().await.0, Outcome::Failed);
    assert_eq!(rig.record(turn).await.error.unwrap().code, "provider_empty");
    rig.quiet().await;
}

#[tokio::test]
async fn a_cancel_between_the_claim_and_its_answer_stops_the_turn_all_the_same() {
    // V-N7, R19
    let rig = Rig::plain().await;
    *rig.provider.hang_after.lock() = Some(0);
    rig.hold.set(true);
    let (turn, mut events) = rig.accept("m1", "webhook.ci").await;
    // The row is claimed, and its session does not know yet: the mark comes too late for the claim, and
    // there is no actor to stop.
    while rig.record(turn).await.attempts == 0 {
        tokio::task::yield_now().await;
    }
    let conversation = rig.conversation;
    rig.router.send(RouterMsg::Cancel { conversation, turn }).await.unwrap();
    let session = rig.only("session");
    let seen = session.observe(Duration::from_secs(10)).await;
    assert_eq!(seen["turn"], Value::Null, "the turn has not begun");
    // The router passes it on before it shows itself.
    rig.only("router").observe(Duration::from_secs(10)).await;
    rig.hold.set(false);
    assert_eq!(events.end().await.0, Outcome::Cancelled);
    rig.quiet().await;
}

#[tokio::test]
async fn a_request_whose_actor_an_operator_stops_is_asked_again_and_its_answer_counts() {
    // V-N2, I7
    let rig = Rig::plain().await;
    rig.script([asks(&[("once", json!({ "do": "write" }))]), says("done")]);
    let (turn, mut events) = rig.accept("m1", "ws").await;
    let is_question = |kind: &TurnEventKind| matches!(kind, TurnEventKind::Approval { .. });
    let first = events.until(is_question).await;
    rig.only("approval").stop(StopReason::Operator("ann".into()));
    let again = events.until(is_question).await;
    let TurnEventKind::Approval { approval } = &again else { unreachable!() };
    assert_eq!(first, again, "the same request");
    let request = DecideApproval {
        approval: approval.id,
        decision: Decision::Approve,
        decider: Decider { who: "ann".into(), via: "ws".into() },
        privileged: false,
        at: rig.spawner.world().now(),
        grant: None,
    };
    rig.store.decide(request).await.unwrap();
    let conversation = approval.conversation_id;
    let hint = RouterMsg::ApprovalHint { conversation, turn, approval: approval.id };
    rig.router.send(hint).await.unwrap();
    assert_eq!(events.end().await.0, Outcome::Answered);
    assert_eq!(*rig.runs.lock(), ["write"]);
    rig.quiet().await;
}

#[tokio::test]
async fn however_often_the_router_is_resumed_it_sweeps_once_at_a_time() {
    // I13
    let rig = Rig::plain().await;
    let router = rig.only("router");
    for _ in 0..10 {
        router.set_paused(true);
        router.set_paused(false);
        router.observe(Duration::from_secs(10)).await;
    }
    // The tenth sweep's answer sets the one timer; each of ten chains would have its own.
    while router.task_count() != 1 {
        tokio::task::yield_now().await;
    }
    rig.store.ledger().await.unwrap();
    router.observe(Duration::from_secs(10)).await;
    assert_eq!(router.task_count(), 1);
    rig.quiet().await;
}

#[tokio::test]
async fn rows_behind_a_session_that_an_operator_stops_do_not_wait_for_the_sweep() {
    // I1
    let mut rig = Rig::plain().await;
    rig.script([asks(&[("read", json!({ "do": "wait" }))]), says("two")]);
    let (_, mut first) = rig.accept("m1", "webhook.ci").await;
    rig.began.recv().await.unwrap();
    let (_, mut second) = rig.accept("m2", "webhook.ci").await;
    rig.only("session").stop(StopReason::Operator("ann".into()));
    assert_eq!(first.end().await.0, Outcome::Cancelled);
    // The sweep would come after ten.
    let end = tokio::time::timeout(Duration::from_secs(5), second.end()).await;
    assert_eq!(end.unwrap().0, Outcome::Answered);
    rig.quiet().await;
}

#[tokio::test]
async fn a_paused_session_does_not_go_to_rest_and_forget_its_pause() {
    let rig = Rig::plain().await;
    let (_, mut events) = rig.accept("m1", "webhook.ci").await;
    events.end().await;
    let session = rig.only("session");
    session.set_paused(true);
    tokio::time::pause();
    // Far past the idle time.
    tokio::time::advance(Duration::from_secs(1)).await;
    tokio::time::resume();
    session.observe(Duration::from_secs(10)).await;
    rig.store.has_open(rig.conversation).await.unwrap();
    rig.only("router").observe(Duration::from_secs(10)).await;
    let (turn, mut events) = rig.accept("m2", "webhook.ci").await;
    rig.only("router").observe(Duration::from_secs(10)).await;
    session.observe(Duration::from_secs(10)).await;
    assert_eq!(rig.only("session").id, session.id);
    assert_eq!(rig.record(turn).await.attempts, 0);
    session.set_paused(false);
    assert_eq!(events.end().await.0, Outcome::Answered);
    rig.quiet().await;
}

#[tokio::test]
async fn turns_under_a_router_that_an_operator_stops_leave_in_good_order() {
    // I1, I8
    let mut rig = Rig::plain().await;
    rig.script([asks(&[("read", json!({ "do": "hang" }))])]);
    let (turn, _events) = rig.accept("m1", "webhook.ci").await;
    rig.began.recv().await.unwrap();
    rig.only("router").stop(StopReason::Operator("ann".into()));
    rig.until(|directory| directory.of_kind("router").is_empty()).await;
    let record = rig.record(turn).await;
    assert_eq!((record.outcome, record.attempts), (None, 1), "a later life goes on");
    rig.quiet().await;
}

#[tokio::test]
async fn a_row_whose_agent_is_gone_waits_however_often_it_is_hinted_at() {
    // I1
    let rig = Rig::plain().await;
    let (turn, _events) = rig.accept_for("nobody", "m1", "webhook.ci").await;
    while rig.record(turn).await.attempts == 0 {
        tokio::task::yield_now().await;
    }
    let conversation = rig.conversation;
    let seen = rig.only("session");
    for _ in 0..5 {
        rig.router.send(RouterMsg::Hint { conversation, interrupt: false }).await.unwrap();
        rig.only("router").observe(Duration::from_secs(10)).await;
        seen.observe(Duration::from_secs(10)).await;
        rig.store.ledger().await.unwrap();
    }
    let record = rig.record(turn).await;
    assert_eq!((record.outcome, record.attempts), (None, 1));
    assert_eq!(rig.only("session").id, seen.id);
    rig.quiet().await;
}
