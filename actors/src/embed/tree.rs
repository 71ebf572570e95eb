//! The actors of an embedded agent, below one of its own.
//!
//! `embedded` owns store, observer, providers, memory, router and intake; it starts them in this order and stops
//! them against it: the turns write until they are gone. There is no restarting here: if one of them
//! fails, all end, and the program is told by what it asks next. What is in the store is safe.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rookery_messages::address::{Address, Message};
use rookery_messages::exit::{ActorError, StopReason};
use rookery_messages::ids::{ActorId, AgentName, ChannelId, TurnId};
use rookery_messages::memory::Memory;
use rookery_messages::model::ModelProvider;
use rookery_messages::settings::{Durability, Secret, ToolMode};
use rookery_messages::store::{ClaimTerms, Store};
use rookery_messages::time::World;
use rookery_messages::tool::Tool;
use tokio::sync::oneshot;

use super::agent::{Agent, Parts};
use super::builder::Remembers;
use super::folder::Folder;
use super::{AgentBuilder, EmbedError};
use crate::channel::commands::Stopper;
use crate::channel::{Intake, IntakeArgs, IntakeHandle};
use crate::hook::Hooks;
use crate::memory::sqlite::{SqliteMemory, SqliteMemoryOptions};
use crate::memory::{self, Floor, MemoryActor, MemoryArgs, MemoryClient, MemoryLink, OpenMemory};
use crate::model::{Ceiling, ProfileRef, ProviderActor, ProviderArgs, Sight};
use crate::observe::{EventHub, ObserverActor, ObserverArgs, ObserverHandle};
use crate::policy::gate::Gate;
use crate::policy::redact::Redactor;
use crate::runtime::{
    Child, ChildExit, ChildStarter, Ctx, Directory, SpawnSpec, Spawner, StartChild, Supervised,
};
use crate::session::{RouterActor, RouterArgs};
use crate::store::sqlite::{SqliteOptions, open, open_reader};
use crate::store::{OpenStore, OpenedStore, StoreActor, StoreClient};
use crate::turn::budget::Prices;
use crate::turn::delegate::Nested;
use crate::turn::{AgentBundle, ChannelFacts, MemoryAccess, Narrowing, TurnDeps};

/// The one channel there is.
pub(super) const CHANNEL: &str = "direct";
/// The one agent.
pub(super) const AGENT: &str = "embedded";
/// How long all of it may take to stop.
const GRACE: Duration = Duration::from_secs(30);
/// A conversation's actor ends after this idle time.
const IDLE: Duration = Duration::from_secs(60);
/// How long a turn waits for memory.
const RECALL_LIMIT: Duration = Duration::from_secs(1);
/// Most entries an agent remembers.
const MOST_REMEMBERED: u64 = 10_000;
/// About how many characters a token stands for, at most.
const CHARS_PER_TOKEN: u64 = 6;
/// Most characters of history loaded when the window has no limit.
const MOST_HISTORY: u64 = 16_000_000;

/// See the module's documentation.
pub(super) struct Embedded;

pub(super) struct EmbeddedArgs {
    builder: Box<AgentBuilder>,
    open: OpenStore,
    memory: Option<OpenMemory>,
    workspace: PathBuf,
    ready: oneshot::Sender<Result<Parts, EmbedError>>,
}

pub(super) enum EmbeddedMsg {
    /// Start the others.
    Begin,
    /// A turn nobody follows any more shall stop.
    Cancel(TurnId),
}

impl Message for EmbeddedMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Begin => "Begin",
            Self::Cancel(_) => "Cancel",
        }
    }
}

pub(super) struct Children {
    args: Option<EmbeddedArgs>,
    stopper: Option<Stopper>,
    /// In the order they were started.
    started: Vec<ActorId>,
}

impl Supervised for Embedded {
    const KIND: &'static str = "embedded";
    type Msg = EmbeddedMsg;
    type Args = EmbeddedArgs;
    type State = Children;

    fn start(ctx: &mut Ctx<Self>, args: EmbeddedArgs) -> Result<Children, ActorError> {
        ctx.note_to_self(EmbeddedMsg::Begin);
        Ok(Children { args: Some(args), stopper: None, started: Vec::new() })
    }

    async fn handle(
        ctx: &mut Ctx<Self>,
        state: &mut Children,
        message: EmbeddedMsg,
    ) -> Result<(), ActorError> {
        match message {
            EmbeddedMsg::Begin => {
                let Some(args) = state.args.take() else { return Ok(()) };
                let EmbeddedArgs { builder, open, memory, workspace, ready } = args;
                let parts = state.begin(ctx, *builder, open, memory, workspace).await;
                let failed = parts.is_err();
                let nobody_waits = ready.send(parts).is_err();
                if failed || nobody_waits {
                    state.stop_next(ctx, &StopReason::Shutdown);
                }
            }
            EmbeddedMsg::Cancel(turn) => {
                if let Some(stopper) = state.stopper.clone() {
                    let by = rookery_messages::approval::Decider {
                        who: CHANNEL.to_owned(),
                        via: CHANNEL.to_owned(),
                    };
                    ctx.task(async move {
                        if let Err(error) = stopper.cancel(turn, by).await {
                            tracing::warn!(%turn, %error, "a turn nobody follows could not be marked as cancelled");
                        }
                        None
                    });
                }
            }
        }
        Ok(())
    }

    async fn child_exited(
        ctx: &mut Ctx<Self>,
        state: &mut Children,
        exit: ChildExit,
    ) -> Result<(), ActorError> {
        state.started.retain(|id| *id != exit.id);
        if ctx.stopping().is_none() && exit.reason.is_abnormal() {
            return Err(ActorError::transient(format!("{} ended: {}", exit.segment, exit.reason)));
        }
        let reason = ctx.stopping().cloned().unwrap_or(StopReason::Shutdown);
        state.stop_next(ctx, &reason);
        Ok(())
    }

    async fn stop_requested(
        ctx: &mut Ctx<Self>,
        state: &mut Children,
        reason: &StopReason,
    ) -> Result<(), ActorError> {
        state.stop_next(ctx, reason);
        Ok(())
    }
}

impl Children {
    /// The last that was started goes first; the next when it has gone.
    fn stop_next(&self, ctx: &mut Ctx<Embedded>, reason: &StopReason) {
        match self.started.last() {
            Some(id) => ctx.stop_child(*id, reason.clone()),
            None => ctx.end(),
        }
    }

    async fn child<T: Supervised>(
        &mut self,
        ctx: &mut Ctx<Embedded>,
        spec: SpawnSpec,
        args: T::Args,
    ) -> Result<Child<T::Msg>, EmbedError> {
        let child = ctx.spawn::<T>(spec, args).await;
        let child = child.map_err(|error| EmbedError::Start(error.to_string()))?;
        self.started.push(child.handle.id);
        Ok(child)
    }

    /// The providers' actors, in the order they are asked.
    async fn providers(
        &mut self,
        ctx: &mut Ctx<Embedded>,
        providers: Vec<Arc<dyn ModelProvider>>,
    ) -> Result<Arc<[ProfileRef]>, EmbedError> {
        let mut chain = Vec::with_capacity(providers.len());
        for (at, provider) in providers.into_iter().enumerate() {
            let (name, segment) = match at {
                0 => (AGENT.to_owned(), "provider".to_owned()),
                at => (format!("fallback-{at}"), format!("fallback/{at}")),
            };
            let ceiling: Arc<Ceiling> = Arc::default();
            let args = ProviderArgs {
                name: name.clone(),
                provider,
                max_concurrency: 64,
                requests_per_minute: None,
                max_retry_after: std::time::Duration::from_secs(300),
                ceiling: Arc::clone(&ceiling),
            };
            let actor = self.child::<ProviderActor>(ctx, SpawnSpec::new(segment), args).await?;
            chain.push(ProfileRef {
                name,
                address: actor.address,
                max_attempts: 4,
                tool_mode: ToolMode::Native,
                sight: Sight::default(),
                ceiling,
            });
        }
        Ok(chain.into())
    }

    /// Memory's actor: what turns are told of it, and its tools.
    async fn memory(
        &mut self,
        ctx: &mut Ctx<Embedded>,
        open: OpenMemory,
        floor: Floor,
        (redactor, world): (&Arc<Redactor>, &World),
    ) -> Result<(MemoryAccess, [Arc<dyn Tool>; 4]), EmbedError> {
        let link: Arc<MemoryLink> = Arc::default();
        let args = MemoryArgs { open, link: Arc::clone(&link) };
        let actor =
            self.child::<MemoryActor>(ctx, SpawnSpec::new("memory").mailbox(256), args).await?;
        let memory: Arc<dyn Memory> = Arc::new(MemoryClient::new(actor.address, link));
        let tools = memory::tools::all(&memory, redactor, world);
        Ok((MemoryAccess { memory, floor, deadline: RECALL_LIMIT, suppressed: false }, tools))
    }

    async fn begin(
        &mut self,
        ctx: &mut Ctx<Embedded>,
        mut builder: AgentBuilder,
        open: OpenStore,
        memory: Option<OpenMemory>,
        workspace: PathBuf,
    ) -> Result<Parts, EmbedError> {
        let world = ctx.world().clone();
        let store =
            self.child::<StoreActor>(ctx, SpawnSpec::new("store").mailbox(512), open).await?;
        let store = StoreClient::new(store.address);
        let args = ObserverArgs { sinks: builder.observers, panics: Arc::default() };
        let spec = SpawnSpec::new("observer").mailbox(4_096);
        let observer = self.child::<ObserverActor>(ctx, spec, args).await?;
        let observer = ObserverHandle::new(observer.address);
        let redactor = Arc::new(Redactor::new(builder.secrets.iter().map(Secret::expose)));
        let providers = std::mem::take(&mut builder.providers);
        let chain = self.providers(ctx, providers).await?;
        let memory = match memory {
            Some(open) => {
                let (access, tools) =
                    self.memory(ctx, open, builder.floor, (&redactor, &world)).await?;
                for tool in tools {
                    builder.tools.insert(tool)?;
                }
                Some(access)
            }
            None => None,
        };
        let hub = EventHub::new(world.clone());
        let channel = ChannelId::new(CHANNEL);
        let history = match builder.runtime.max_context_tokens {
            0 => MOST_HISTORY,
            tokens => tokens.saturating_mul(CHARS_PER_TOKEN).min(MOST_HISTORY),
        };
        let bundle = AgentBundle {
            name: AgentName::new(AGENT),
            chain,
            models: Arc::default(),
            vision: Arc::default(),
            tools: Arc::new(builder.tools),
            mcp: Arc::default(),
            gate: Gate::new(Arc::new(builder.risk), workspace, &[]),
            narrowing: Narrowing::default(),
            channels: Arc::new([channel.clone()]),
            hooks: Hooks::new(builder.hooks),
            runtime: builder.runtime,
            system_prompt: builder.system_prompt,
            approval_route: None,
            approval_inherits: false,
            receipts: Default::default(),
            anchor: Arc::default(),
            memory,
        };
        let facts = ChannelFacts {
            posts_replies: false,
            can_ask: builder.can_ask,
            approvers: None,
            sender: None,
        };
        // The router is its own address's owner: turns hint it, and it starts them.
        let cell = rookery_messages::address::AddressCell::new();
        let terms = ClaimTerms {
            max_attempts: 3,
            history_chars: usize::try_from(history).unwrap_or(usize::MAX),
            together: Arc::default(),
        };
        let deps = Arc::new(TurnDeps {
            store: store.clone(),
            hub: Arc::clone(&hub),
            observer: observer.clone(),
            redactor,
            agents: HashMap::from([(AgentName::new(AGENT), Arc::new(bundle))]),
            router: Address::new(Arc::clone(&cell)),
            nested: Nested::default(),
            channels: HashMap::from([(channel.clone(), facts)]),
            terms: terms.clone(),
            approval_timeout: builder.approval_timeout,
            session_idle: IDLE,
            max_sessions: 10_000,
            receipts: Arc::default(),
            rates: Arc::default(),
            retention: builder.retention,
            prices: Prices::new(builder.price.map(|price| (AGENT.to_owned(), price))),
            budget: Default::default(),
        });
        let spec = SpawnSpec::new("sessions").mailbox(1_024);
        let router =
            ChildStarter::<RouterActor>::new(spec, move || RouterArgs { deps: Arc::clone(&deps) });
        let router = router.behind(cell);
        let started = router.start(ctx.as_parent(), GRACE, None).await;
        let started = started.map_err(|error| EmbedError::Start(error.to_string()))?;
        self.started.push(started.id);
        ctx.adopt(started);
        let router = router.address();
        let args = IntakeArgs {
            channel: channel.clone(),
            queue: builder.policy,
            queue_limit: builder.queue_limit,
            debounce: Duration::from_secs(1),
            claim: Some(terms),
            store: store.clone(),
            hub: Arc::clone(&hub),
            router: router.clone(),
            sender: None,
            observer,
        };
        let intake = self.child::<Intake>(ctx, SpawnSpec::new("intake").mailbox(512), args).await?;
        let stopper = Stopper {
            directory: Arc::clone(ctx.directory()),
            store: store.clone(),
            hub: Arc::clone(&hub),
            router: router.clone(),
            world,
        };
        self.stopper = Some(stopper.clone());
        let intake = IntakeHandle { address: intake.address, agent: AgentName::new(AGENT) };
        Ok(Parts { store, hub, intake, stopper, router })
    }
}

/// Opens what the agent remembers in; `file`, if it goes with the agent.
fn remembering(memory: Remembers, file: PathBuf, durability: Durability) -> OpenMemory {
    let path = match memory {
        Remembers::Own(own) => return Arc::new(move || Ok(Arc::clone(&own))),
        Remembers::File(path) => path,
        Remembers::WithAgent => file,
    };
    let options = SqliteMemoryOptions { path, durability, max_entries: MOST_REMEMBERED };
    Arc::new(move || Ok(Arc::new(SqliteMemory::open(&options)?)))
}

/// Prepares the folders and starts all of it.
pub(super) async fn build(mut builder: AgentBuilder) -> Result<Agent, EmbedError> {
    if let Some(error) = builder.refused_tool.take() {
        return Err(error);
    }
    let all_named = builder.workspace.is_some()
        && builder.store.is_some()
        && !matches!(builder.memory, Some(Remembers::WithAgent));
    let folder = if all_named { None } else { Some(Folder::new(&builder.world)?) };
    let inside = |name: &str| folder.as_ref().map(|folder| folder.path().join(name));
    let workspace = builder.workspace.clone().or_else(|| inside("work")).unwrap_or_default();
    let path = builder.store.clone().or_else(|| inside("rookery.db")).unwrap_or_default();
    std::fs::create_dir_all(&workspace).map_err(|source| EmbedError::File {
        what: "the workspace can't be made at",
        path: workspace.clone(),
        source,
    })?;
    let (durability, world) = (builder.durability, builder.world.clone());
    let memory = builder.memory.take().map(|memory| {
        let file = inside("memory.db").unwrap_or_default();
        remembering(memory, file, durability)
    });
    let clock = world.clone();
    let open: OpenStore = Arc::new(move || {
        let options = SqliteOptions { path: path.clone(), durability };
        let mut writer = open(&options)?;
        writer.begin_life(clock.now())?;
        let readers = [open_reader(writer.path())?, open_reader(writer.path())?];
        Ok(OpenedStore {
            writer: Box::new(writer),
            readers: readers.into_iter().map(|reader| Box::new(reader) as _).collect(),
        })
    });
    let spawner = Spawner::new(Directory::new(world.clone()), world);
    let (ready, parts) = oneshot::channel();
    let args = EmbeddedArgs { builder: Box::new(builder), open, memory, workspace, ready };
    let spec = SpawnSpec::new("embedded").mailbox(4_096).grace(GRACE);
    let root = spawner
        .spawn::<Embedded>(spec, args)
        .await
        .map_err(|error| EmbedError::Start(error.to_string()))?;
    let parts = parts.await.map_err(|_| EmbedError::Start("it ended at once".to_owned()))??;
    Ok(Agent::new(parts, root, spawner, folder))
}
