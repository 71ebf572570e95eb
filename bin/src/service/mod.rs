//! The service in one process: put together from the settings, started, ended.

mod audit;
mod channels;
mod hooks;
pub(crate) mod memory;
mod plan;
mod stopping;
mod store_health;
mod toolbox;
mod tools;
mod trim;
mod windows;

pub(crate) use plan::{gate, redactor, workspace};
pub(crate) use toolbox::{granted, http_target};
pub(crate) use tools::{builtin_names, builtins, handing_on};

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rookery_actors::gateway::{self, ListenError, Tokens, ensure_admin_token};
use rookery_actors::runtime::{Directory, Spawner, system_world};
use rookery_actors::store::StoreClient;
use rookery_actors::store::sqlite::{SqliteOptions, open, open_reader};
use rookery_actors::tool::process::end_survivors;
use rookery_messages::BoxFuture;
use rookery_messages::address::Address;
use rookery_messages::channel::SenderMsg;
use rookery_messages::exit::ExitReason;
use rookery_messages::hook::Hook;
use rookery_messages::ids::ChannelId;
use rookery_messages::settings::{Settings, StoreSettings};
use rookery_messages::store::{Found, Read, Store, StoreError, StoreReader, Write};
use rookery_messages::time::World;
use rookery_supervisors::health;
use rookery_supervisors::root;
use rookery_supervisors::shutdown::Hurry;
use rookery_supervisors::supervisor::{StopLog, SupervisorMsg};

use crate::logging::make_private;
use store_health::StoreHealth;

/// So long after it is ready nothing of the start goes on any more.
const SETTLED: Duration = Duration::from_secs(1);
/// How long the tree may take until it is ready.
const START_LIMIT: Duration = Duration::from_secs(30);

/// Why the service did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Somebody listens there already.
    #[error("can't listen on {address}: the address is in use")]
    PortTaken {
        /// Where.
        address: SocketAddr,
    },
    /// The store can't be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Anything else: what was tried, what to do.
    #[error("{0}")]
    Failed(String),
}

impl StartError {
    fn failed(error: impl std::fmt::Display) -> Self {
        Self::Failed(error.to_string())
    }
}

/// How a shutdown went.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ShutdownReport {
    /// Actors that had to be killed.
    pub killed: usize,
}

/// A running service.
pub struct Running {
    address: SocketAddr,
    directory: Arc<Directory>,
    root: rookery_actors::runtime::Child<SupervisorMsg>,
    stops: Arc<StopLog>,
    store: StoreClient,
    senders: Vec<(ChannelId, Address<SenderMsg>)>,
    world: World,
    drain: Duration,
    store_health: Arc<StoreHealth>,
    live: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl Running {
    /// Where the gateway listens; the port is real also when 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Who lives.
    pub fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    /// Whether the tree is alive, as `/livez` says. For whoever restarts a process that is not.
    pub fn liveness(&self) -> Arc<dyn Fn() -> bool + Send + Sync> {
        Arc::clone(&self.live)
    }

    /// Resolves when the service ended although nobody asked, with its cause.
    pub async fn ended(&mut self) -> String {
        let root = self.root.handle.ended();
        tokio::pin!(root);
        // What was still on its way when the service became ready has been done by then.
        let reason = match tokio::time::timeout(SETTLED, &mut root).await {
            Ok(reason) => reason,
            Err(_) => {
                trim::startup_code();
                root.await
            }
        };
        match reason {
            ExitReason::Failed { error, .. } => format!("the service gave up: {error}"),
            other => format!("the service ended: {other}"),
        }
    }

    /// Ends it in phases (DESIGN.md, section 8). From `hurry` on nothing is waited for.
    pub async fn shutdown(self, hurry: BoxFuture<'static, ()>) -> ShutdownReport {
        let signal = Hurry::new();
        let stops = Arc::clone(&self.stops);
        let phases = stopping::phases(self);
        let running = rookery_supervisors::shutdown::run(phases, &signal);
        tokio::pin!(running);
        // Each phase has logged its end itself.
        tokio::select! {
            _ = &mut running => {}
            () = hurry => {
                signal.now();
                running.await;
            }
        }
        ShutdownReport { killed: stops.killed().len() }
    }
}

/// Starts the service. `own_files` are the configuration's own: tools may not touch them.
/// `hooks` are the program's own, asked before those of the configuration.
pub async fn start(
    settings: Settings,
    own_files: Vec<PathBuf>,
    hooks: Vec<Arc<dyn Hook>>,
) -> Result<Running, StartError> {
    // Whoever embeds the service need not know that TLS wants a provider first.
    crate::install_crypto();
    let world = system_world();
    let listener = gateway::listen(&settings.gateway.listen).map_err(|error| match error {
        ListenError::InUse { address } => StartError::PortTaken { address },
        error => StartError::failed(error),
    })?;
    let address = listener.local_addr().map_err(StartError::failed)?;
    make_private(&settings.data_dir).map_err(|error| {
        StartError::Failed(format!(
            "the data folder {} can't be made: {error}; check data_dir and its permissions",
            settings.data_dir.display()
        ))
    })?;
    let opened = open_store(&settings, &world).await?;
    let admin_token = if settings.gateway.tokens.is_empty() {
        Some(ensure_admin_token(&settings.data_dir).map_err(StartError::failed)?)
    } else {
        None
    };
    let tokens = match &admin_token {
        Some(token) => Tokens::generated(token),
        None => Tokens::configured(&settings.gateway.tokens),
    };
    let directory = Directory::new(world.clone());
    let drain = Duration::from_secs(settings.shutdown.drain_secs);
    let store_health = Arc::new(StoreHealth::default());
    let parts = plan::Parts {
        settings: Arc::new(settings),
        own_files,
        world: world.clone(),
        directory: Arc::clone(&directory),
        listener,
        tokens,
        admin_token,
        opened,
        store_health: Arc::clone(&store_health),
        hooks,
    };
    let plan = plan::build(parts).map_err(StartError::Failed)?;
    let store = plan.cells.store_client();
    let senders = plan
        .cells
        .senders
        .iter()
        .map(|(id, cell)| (id.clone(), Address::new(Arc::clone(cell))))
        .collect();
    let stops = Arc::new(StopLog::default());
    let ready = Arc::clone(&plan.gateway.deps.probes.ready);
    let live = Arc::clone(&plan.gateway.deps.probes.live);
    let spawner = Spawner::new(Arc::clone(&directory), world.clone());
    let root = root::start(&spawner, plan, &stops).await.map_err(StartError::failed)?;
    let running = Running {
        address,
        directory,
        root,
        stops,
        store,
        senders,
        world,
        drain,
        store_health,
        live,
    };
    wait_ready(&running.directory, &*ready).await?;
    trim::startup_code();
    Ok(running)
}

/// Whoever gets the address can use it at once.
async fn wait_ready(
    directory: &Directory,
    ready: &(dyn Fn() -> gateway::Readiness + Send + Sync),
) -> Result<(), StartError> {
    let deadline = tokio::time::Instant::now() + START_LIMIT;
    loop {
        let now = ready();
        // A channel or provider that can't be reached yet keeps nobody else waiting; store and gateway do.
        let mut missing: Vec<String> = now
            .components
            .iter()
            .filter(|c| !c.ready && matches!(c.name.as_str(), "store" | "gateway" | "sessions"))
            .map(|c| format!("{}: {}", c.name, c.reason.as_deref().unwrap_or("not ready")))
            .collect();
        if !directory.snapshot().is_some_and(|tree| health::has_started(&tree.root)) {
            missing.push("parts of the tree: not started".to_owned());
        }
        if missing.is_empty() {
            return Ok(());
        }
        if tokio::time::Instant::now() >= deadline {
            return Err(StartError::Failed(format!(
                "the service was not ready within {} s: {}",
                START_LIMIT.as_secs(),
                missing.join("; ")
            )));
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Where the database is.
pub(crate) fn store_path(settings: &Settings) -> PathBuf {
    let StoreSettings { path, .. } = &settings.store;
    path.clone().unwrap_or_else(|| settings.data_dir.join("rookery.db"))
}

/// Opens the store once, so that its errors are seen before anything runs, and ends what processes a
/// former life's tools left behind (A129).
async fn open_store(settings: &Settings, world: &World) -> Result<plan::Opened, StartError> {
    let options =
        SqliteOptions { path: store_path(settings), durability: settings.store.durability };
    let mut writer = open(&options)?;
    writer.begin_life(world.now())?;
    let path = writer.path().to_owned();
    let mut reader = open_reader(&path)?;
    if let Found::Processes(records) = reader.read(&Read::Processes)? {
        let ended = end_survivors(&records).await;
        if !ended.is_empty() {
            tracing::warn!(
                groups = ended.len(),
                "ended processes that a former life had left behind"
            );
        }
        let gone: Vec<Write> = records
            .iter()
            .map(|record| Write::ProcessEnded { pgid: record.pgid, call: record.call })
            .collect();
        for answer in writer.apply(&gone) {
            answer?;
        }
    }
    let second = open_reader(&path)?;
    Ok(plan::Opened { writer, readers: [reader, second], options, path })
}
