//! The service's own batch, below a parent that stands for the turn.

use std::sync::Arc;
use std::time::Duration;

use rookery_actors::observe::{EventHub, ObserverHandle, TurnVoice};
use rookery_actors::policy::rate::SenderRates;
use rookery_actors::policy::redact::Redactor;
use rookery_actors::runtime::{
    Child, Ctx, Directory, SpawnSpec, Spawner, Supervised, system_world,
};
use rookery_actors::store::sqlite::{SqliteOptions, open, open_reader};
use rookery_actors::store::{OpenedStore, StoreActor, StoreClient};
use rookery_actors::tool::collector::{BatchActor, BatchArgs};
use rookery_actors::turn::StoredProcesses;
use rookery_messages::BoxFuture;
use rookery_messages::chat::{Arguments, ToolCall};
use rookery_messages::envelope::{Inbound, Sender, TurnOrigin};
use rookery_messages::exit::{ActorError, StopReason};
use rookery_messages::ids::{AgentName, CallId, ChannelId, ConversationId, EnvelopeId, TurnId};
use rookery_messages::observe::TurnScope;
use rookery_messages::settings::Durability;
use rookery_messages::store::{Accept, Claim, ClaimOutcome, ClaimTerms, Store, StoreMsg};
use rookery_messages::tool::{
    Authority, CallEffects, Effects, PlannedCall, RunnableCall, SlotPlan, Tool, ToolContext,
    ToolResult, ToolSpec,
};
use rookery_messages::turn::{CallState, TurnClaim, TurnMsg};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A tool that does nothing.
struct Nothing(Arc<ToolSpec>);

impl Tool for Nothing {
    fn spec(&self) -> Arc<ToolSpec> {
        Arc::clone(&self.0)
    }

    fn effects(&self, _: &Map<String, Value>) -> CallEffects {
        CallEffects::read_only()
    }

    fn execute<'a>(
        &'a self,
        _: &'a Map<String, Value>,
        _: &'a ToolContext,
    ) -> BoxFuture<'a, ToolResult> {
        Box::pin(async { ToolResult::ok("done") })
    }
}

/// What the batch is spawned under.
struct Parent;

/// Makes the batch, with a place for its report.
type MakeBatch = Box<dyn FnOnce(&Ctx<Parent>) -> (SpawnSpec, BatchArgs) + Send>;

struct ParentArgs {
    batch: MakeBatch,
    done: oneshot::Sender<usize>,
}

impl Supervised for Parent {
    const KIND: &'static str = "turn";
    type Msg = TurnMsg;
    type Args = ParentArgs;
    type State = Option<ParentArgs>;

    fn start(ctx: &mut Ctx<Self>, args: ParentArgs) -> Result<Self::State, ActorError> {
        ctx.note_to_self(TurnMsg::Begin);
        Ok(Some(args))
    }

    async fn handle(
        ctx: &mut Ctx<Self>,
        state: &mut Self::State,
        message: TurnMsg,
    ) -> Result<(), ActorError> {
        match message {
            TurnMsg::Begin => {
                let ParentArgs { batch, done } = state.take().unwrap();
                let (spec, args) = batch(ctx);
                ctx.spawn::<BatchActor>(spec, args).await.unwrap();
                *state = Some(ParentArgs { batch: Box::new(|_| unreachable!()), done });
            }
            TurnMsg::BatchEnded(report) => {
                let good = report.outcomes.iter().filter(|o| o.state == CallState::Succeeded);
                state.take().unwrap().done.send(good.count()).unwrap();
                ctx.end();
            }
            _ => {}
        }
        Ok(())
    }
}

/// A store, and what a batch needs beside it.
pub struct Service {
    spawner: Spawner,
    store: Child<StoreMsg>,
    client: StoreClient,
    hub: Arc<EventHub>,
    tool: Arc<dyn Tool>,
    _dir: tempfile::TempDir,
}

impl Service {
    /// On a fresh database.
    pub async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let world = system_world();
        let spawner = Spawner::new(Directory::new(world.clone()), world.clone());
        let path = dir.path().join("bench.db");
        let opener = {
            let (path, world) = (path.clone(), world.clone());
            Arc::new(move || {
                let options = SqliteOptions { path: path.clone(), durability: Durability::Process };
                let mut writer = open(&options)?;
                writer.begin_life(world.now())?;
                let readers: Vec<Box<dyn rookery_messages::store::StoreReader>> =
                    vec![Box::new(open_reader(&path)?)];
                Ok(OpenedStore { writer: Box::new(writer), readers })
            })
        };
        let spec = SpawnSpec::new("store").mailbox(1_024);
        let store = spawner.spawn::<StoreActor>(spec, opener).await.unwrap();
        let spec = ToolSpec {
            name: "nothing".into(),
            description: "does nothing".into(),
            parameters: json!({ "type": "object" }),
        };
        Self {
            client: StoreClient::new(store.address.clone()),
            store,
            hub: EventHub::new(world),
            tool: Arc::new(Nothing(Arc::new(spec))),
            spawner,
            _dir: dir,
        }
    }

    /// How long one batch takes, from its spawn to its report.
    pub async fn batch(&self, calls: usize) -> Duration {
        let claim = self.claim().await;
        let scope = TurnScope {
            turn: claim.record.id,
            conversation_id: claim.record.conversation_id,
            channel: claim.record.channel.clone(),
            agent: claim.record.agent.clone(),
        };
        let voice = TurnVoice::new(scope, Arc::clone(&self.hub), ObserverHandle::nobody());
        let slots: Vec<PlannedCall> = (0..calls).map(|_| self.planned(&claim)).collect();
        let store = self.client.clone();
        let rates = SenderRates {
            limiter: Arc::default(),
            profile: Arc::default(),
            channel: claim.record.channel.clone(),
            sender: "bench".into(),
        };
        let (done, report) = oneshot::channel();
        let batch = Box::new(move |ctx: &Ctx<Parent>| {
            let args = BatchArgs {
                batch: 1,
                first_seq: 10,
                turn: claim.record.id,
                conversation_id: claim.record.conversation_id,
                fence: claim.fence,
                slots,
                parallel: true,
                delegator: None,
                max_result_chars: 50_000,
                store,
                voice,
                redactor: Arc::new(Redactor::new([])),
                receipts: None,
                rates,
                report: ctx.address().reserve().unwrap(),
            };
            (SpawnSpec::new("batch/1").mailbox(calls * 3 + 16), args)
        });
        let began = Instant::now();
        let spec = SpawnSpec::new(format!("turn/{}", self.id()));
        self.spawner.spawn::<Parent>(spec, ParentArgs { batch, done }).await.unwrap();
        assert_eq!(report.await.unwrap(), calls, "each call has succeeded");
        began.elapsed()
    }

    fn id(&self) -> uuid::Uuid {
        self.spawner.world().ids.next()
    }

    fn planned(&self, claim: &TurnClaim) -> PlannedCall {
        let call = CallId(self.id());
        PlannedCall {
            call: ToolCall {
                id: call,
                provider_id: None,
                name: "nothing".into(),
                arguments: Arguments::Object(Map::new()),
            },
            tool: "nothing".into(),
            plan: SlotPlan::Run(Box::new(RunnableCall {
                tool: Arc::clone(&self.tool),
                arguments: Map::new(),
                effects: Effects::ReadOnly,
                context: ToolContext {
                    turn: claim.record.id,
                    call,
                    conversation_id: claim.record.conversation_id,
                    channel: claim.record.channel.clone(),
                    agent: claim.record.agent.clone(),
                    origin: claim.record.origin,
                    workspace: self._dir.path().to_owned(),
                    forbidden_paths: Arc::new([]),
                    network: Arc::default(),
                    authority: Authority::Policy,
                    tainted: None,
                    cancel: CancellationToken::new(),
                    grace: Duration::from_secs(2),
                    processes: Arc::new(StoredProcesses(self.client.clone())),
                    progress: Arc::new(|_| {}),
                },
            })),
        }
    }

    /// A turn of a conversation of its own, taken in and claimed.
    async fn claim(&self) -> Box<TurnClaim> {
        let at = self.spawner.world().now();
        let conversation_id = ConversationId(self.id());
        let accept = Accept {
            inbound: Inbound {
                channel: ChannelId::new("webhook.ci"),
                external_id: self.id().to_string(),
                sender: Sender::person("bench"),
                conversation: self.id().to_string(),
                thread: None,
                text: "run them".into(),
                attachments: Vec::new(),
                origin: TurnOrigin::Channel,
                agent: AgentName::new("home"),
            },
            envelope: EnvelopeId(self.id()),
            turn: TurnId(self.id()),
            conversation_id,
            queue_limit: 10,
            child: None,
            claim: None,
            at,
        };
        self.client.accept(accept).await.unwrap();
        let claim = Claim {
            conversation_id,
            at,
            terms: ClaimTerms {
                max_attempts: 3,
                history_chars: 10_000,
                together: Default::default(),
            },
        };
        match self.client.claim(claim).await.unwrap() {
            ClaimOutcome::Turn(claim) => claim,
            other => panic!("{other:?}"),
        }
    }

    /// Ends the store.
    pub async fn stop(self) {
        self.store.handle.stop_by(StopReason::Shutdown, None);
        self.store.handle.ended().await;
    }
}
