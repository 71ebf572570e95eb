//! The tree, read as a table (DESIGN.md, section 3).
//!
//! | path | what | restart |
//! |---|---|---|
//! | `root` | rest_for_one over store and service | ends the process |
//! | `root/store` | the store | escalates: service is stopped as `StoreLost`, both start again |
//! | `root/service` | one_for_one | escalates |
//! | `…/observer` | metrics, log, subscribers | parks |
//! | `…/recorder` | crashes, operators' deeds | parks |
//! | `…/providers/<profile>` | places, cooldown of one profile | parks |
//! | `…/toolbox/mcp/<server>` | one MCP connection | parks |
//! | `…/memory` | what is remembered; none if it is switched off | parks |
//! | `…/channels/<id>/{sender,intake,receiver}` | one channel | parks |
//! | `…/sessions` | the router, and below it the conversations | parks |
//! | `…/gateway` | HTTP, WebSocket, admin | parks |

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rookery_actors::channel::{IntakeArgs, ReceiverArgs, SenderArgs};
use rookery_actors::gateway::{GatewayArgs, GatewayMsg, MAILBOX};
use rookery_actors::memory::MemoryArgs;
use rookery_actors::model::{Ceiling, ProviderArgs};
use rookery_actors::observe::{ObserverArgs, RecorderMsg};
use rookery_actors::runtime::{Child, SpawnError, SpawnSpec, Spawner};
use rookery_actors::session::RouterArgs;
use rookery_actors::starters;
use rookery_actors::store::{OpenStore, StoreClient};
use rookery_actors::tool::mcp::{McpArgs, McpMsg};
use rookery_messages::address::{Address, AddressCell};
use rookery_messages::channel::{IntakeMsg, SenderMsg};
use rookery_messages::child::{ChildPolicy, Exhausted, Intensity, Strategy};
use rookery_messages::exit::StopReason;
use rookery_messages::ids::ChannelId;
use rookery_messages::memory::MemoryMsg;
use rookery_messages::model::ProviderMsg;
use rookery_messages::observe::ObserverMsg;
use rookery_messages::session::RouterMsg;
use rookery_messages::store::StoreMsg;

use crate::supervisor::{StopLog, SupervisorActor, SupervisorMsg, SupervisorSpec};

/// What outlives every incarnation: addresses, and what was learnt. Made first, so that the parts can be
/// wired to each other.
pub struct Cells {
    /// The store.
    pub store: Arc<AddressCell<StoreMsg>>,
    /// Metrics and log.
    pub observer: Arc<AddressCell<ObserverMsg>>,
    /// Crashes and audit.
    pub recorder: Arc<AddressCell<RecorderMsg>>,
    /// Provider profiles.
    pub providers: BTreeMap<String, Arc<AddressCell<ProviderMsg>>>,
    /// What the provider profiles' models were found not to take.
    pub ceilings: BTreeMap<String, Arc<Ceiling>>,
    /// MCP servers.
    pub mcp: BTreeMap<String, Arc<AddressCell<McpMsg>>>,
    /// Memory.
    pub memory: Arc<AddressCell<MemoryMsg>>,
    /// Channels' intakes.
    pub intakes: BTreeMap<ChannelId, Arc<AddressCell<IntakeMsg>>>,
    /// Channels' senders.
    pub senders: BTreeMap<ChannelId, Arc<AddressCell<SenderMsg>>>,
    /// The router.
    pub router: Arc<AddressCell<RouterMsg>>,
    /// The gateway.
    pub gateway: Arc<AddressCell<GatewayMsg>>,
}

impl Cells {
    /// For these profiles, MCP servers and channels.
    pub fn new<'a>(
        profiles: impl IntoIterator<Item = &'a str> + Clone,
        servers: impl IntoIterator<Item = &'a str>,
        channels: impl IntoIterator<Item = &'a ChannelId> + Clone,
    ) -> Self {
        Self {
            store: AddressCell::new(),
            observer: AddressCell::new(),
            recorder: AddressCell::new(),
            providers: profiles
                .clone()
                .into_iter()
                .map(|p| (p.to_owned(), AddressCell::new()))
                .collect(),
            ceilings: profiles.into_iter().map(|p| (p.to_owned(), Arc::default())).collect(),
            mcp: servers.into_iter().map(|s| (s.to_owned(), AddressCell::new())).collect(),
            memory: AddressCell::new(),
            intakes: channels
                .clone()
                .into_iter()
                .map(|c| (c.clone(), AddressCell::new()))
                .collect(),
            senders: channels.into_iter().map(|c| (c.clone(), AddressCell::new())).collect(),
            router: AddressCell::new(),
            gateway: AddressCell::new(),
        }
    }

    /// The store's typed client.
    pub fn store_client(&self) -> StoreClient {
        StoreClient::new(Address::new(Arc::clone(&self.store)))
    }
}

/// One channel's actors.
#[derive(Clone)]
pub struct ChannelPlan {
    /// The channel.
    pub id: ChannelId,
    /// Takes messages in.
    pub intake: IntakeArgs,
    /// Sends replies out.
    pub sender: SenderArgs,
    /// Listens to the platform, where messages don't come by the gateway.
    pub receiver: Option<ReceiverArgs>,
}

/// Everything the tree is built from.
pub struct ServicePlan {
    /// The addresses.
    pub cells: Cells,
    /// Opens the store.
    pub store: OpenStore,
    /// Metrics and log.
    pub observer: ObserverArgs,
    /// Provider profiles.
    pub providers: Vec<ProviderArgs>,
    /// MCP servers.
    pub mcp: Vec<McpArgs>,
    /// Memory, if there is one.
    pub memory: Option<MemoryArgs>,
    /// Channels.
    pub channels: Vec<ChannelPlan>,
    /// Conversations.
    pub sessions: RouterArgs,
    /// HTTP, WebSocket, admin.
    pub gateway: GatewayArgs,
}

/// Starts the tree; `log` collects how its actors end.
pub async fn start(
    spawner: &Spawner,
    plan: ServicePlan,
    log: &Arc<StopLog>,
) -> Result<Child<SupervisorMsg>, SpawnError> {
    let build = tree(Arc::new(plan), Arc::clone(log));
    let grace = build.grace();
    spawner.spawn::<SupervisorActor>(SpawnSpec::new("root").mailbox(64).grace(grace), build).await
}

/// The table.
fn tree(plan: Arc<ServicePlan>, log: Arc<StopLog>) -> SupervisorSpec {
    let store = starters::store(place("store", 4_096), &plan.cells.store, {
        let open = Arc::clone(&plan.store);
        Box::new(move || Arc::clone(&open))
    });
    let service_log = Arc::clone(&log);
    SupervisorSpec::new(Strategy::RestForOne)
        .siblings_stop_for(StopReason::StoreLost)
        .log_stops(log)
        .child(escalating(10), store)
        .supervisor(escalating(5), SpawnSpec::new("service"), move || service(&plan, &service_log))
}

fn service(plan: &Arc<ServicePlan>, log: &Arc<StopLog>) -> SupervisorSpec {
    let cells = &plan.cells;
    let observer = starters::observer(place("observer", 8_192), &cells.observer, {
        let plan = Arc::clone(plan);
        Box::new(move || plan.observer.clone())
    });
    let recorder = starters::recorder(place("recorder", 1_024), &cells.recorder, {
        let plan = Arc::clone(plan);
        Box::new(move || plan.cells.store_client())
    });
    let router = starters::sessions(place("sessions", 16_384), &cells.router, {
        let plan = Arc::clone(plan);
        Box::new(move || plan.sessions.clone())
    });
    let gateway = starters::gateway(place("gateway", MAILBOX), &cells.gateway, {
        let plan = Arc::clone(plan);
        Box::new(move || plan.gateway.clone())
    });
    let (providers_plan, providers_log) = (Arc::clone(plan), Arc::clone(log));
    let (toolbox_plan, toolbox_log) = (Arc::clone(plan), Arc::clone(log));
    let (channels_plan, channels_log) = (Arc::clone(plan), Arc::clone(log));
    let spec = SupervisorSpec::new(Strategy::OneForOne)
        .log_stops(Arc::clone(log))
        .child(parking(2), observer)
        .child(parking(5), recorder)
        .supervisor(parking(5), SpawnSpec::new("providers"), move || {
            providers(&providers_plan, &providers_log)
        })
        .supervisor(parking(5), SpawnSpec::new("toolbox/mcp"), move || {
            toolbox(&toolbox_plan, &toolbox_log)
        });
    let spec = match plan.memory.clone() {
        Some(args) => {
            let args = Box::new(move || args.clone());
            spec.child(parking(5), starters::memory(place("memory", 256), &cells.memory, args))
        }
        None => spec,
    };
    spec.supervisor(parking(5), SpawnSpec::new("channels"), move || {
        channels(&channels_plan, &channels_log)
    })
    .child(parking(20), router)
    .child(parking(5), gateway)
}

fn providers(plan: &Arc<ServicePlan>, log: &Arc<StopLog>) -> SupervisorSpec {
    let empty = SupervisorSpec::new(Strategy::OneForOne).log_stops(Arc::clone(log));
    plan.providers.iter().fold(empty, |spec, args| {
        let Some(cell) = plan.cells.providers.get(&args.name) else { return spec };
        let args = args.clone();
        let name = args.name.clone();
        spec.child(
            patient(2),
            starters::provider(place(&name, 4_096), cell, Box::new(move || args.clone())),
        )
    })
}

/// Stopped after the conversations, whose tools run on them.
fn toolbox(plan: &Arc<ServicePlan>, log: &Arc<StopLog>) -> SupervisorSpec {
    let empty = SupervisorSpec::new(Strategy::OneForOne).log_stops(Arc::clone(log));
    plan.mcp.iter().fold(empty, |spec, args| {
        let name = args.link.server().to_owned();
        let Some(cell) = plan.cells.mcp.get(&name) else { return spec };
        let args = args.clone();
        spec.child(
            patient(5),
            starters::mcp(place(&name, 256), cell, Box::new(move || args.clone())),
        )
    })
}

fn channels(plan: &Arc<ServicePlan>, log: &Arc<StopLog>) -> SupervisorSpec {
    let empty = SupervisorSpec::new(Strategy::OneForOne).log_stops(Arc::clone(log));
    plan.channels.iter().enumerate().fold(empty, |spec, (index, channel)| {
        let (plan, log) = (Arc::clone(plan), Arc::clone(log));
        spec.supervisor(patient(5), SpawnSpec::new(channel.id.as_str()), move || {
            let empty = SupervisorSpec::new(Strategy::OneForOne).log_stops(Arc::clone(&log));
            match plan.channels.get(index) {
                Some(channel) => one_channel(empty, &plan.cells, channel),
                None => empty,
            }
        })
    })
}

fn one_channel(spec: SupervisorSpec, cells: &Cells, channel: &ChannelPlan) -> SupervisorSpec {
    let (Some(sender_cell), Some(intake_cell)) =
        (cells.senders.get(&channel.id), cells.intakes.get(&channel.id))
    else {
        return spec;
    };
    let (sender, intake) = (channel.sender.clone(), channel.intake.clone());
    let spec = spec
        .child(
            patient(5),
            starters::sender(place("sender", 256), sender_cell, Box::new(move || sender.clone())),
        )
        .child(
            patient(2),
            starters::intake(place("intake", 1_024), intake_cell, Box::new(move || intake.clone())),
        );
    match channel.receiver.clone() {
        // Nobody but itself sends to it: its address need not outlive it.
        Some(receiver) => spec.child(
            patient(2),
            starters::receiver(
                place("receiver", 64),
                &AddressCell::new(),
                Box::new(move || receiver.clone()),
            ),
        ),
        None => spec,
    }
}

/// Where a child stands, and how many messages may wait for it.
fn place(segment: &str, mailbox: usize) -> SpawnSpec {
    SpawnSpec::new(segment).mailbox(mailbox)
}

fn parking(grace_secs: u64) -> ChildPolicy {
    ChildPolicy { grace: Duration::from_secs(grace_secs), ..ChildPolicy::default() }
}

/// For what depends on the world outside: many restarts before it is given up.
fn patient(grace_secs: u64) -> ChildPolicy {
    let intensity = Intensity { restarts: 20, window: Duration::from_secs(300) };
    ChildPolicy { intensity, ..parking(grace_secs) }
}

fn escalating(grace_secs: u64) -> ChildPolicy {
    let intensity = Intensity { restarts: 3, window: Duration::from_secs(60) };
    ChildPolicy { exhausted: Exhausted::Escalate, intensity, ..parking(grace_secs) }
}
