//! Memory: from settings to its actor, tools, routes, and what turns are told.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use rookery_actors::memory::sqlite::{SqliteMemory, SqliteMemoryOptions};
use rookery_actors::memory::{
    self, Embedder, Floor, HybridArgs, HybridMemory, Likeness, MemoryArgs, MemoryClient,
    MemoryLink, OpenMemory,
};
use rookery_actors::model::embeddings::EmbeddingClient;
use rookery_actors::observe::ObserverHandle;
use rookery_actors::policy::redact::Redactor;
use rookery_actors::tool::registry::Registry;
use rookery_actors::turn::MemoryAccess;
use rookery_messages::address::{Address, AddressCell};
use rookery_messages::memory::{Memory, MemoryError};
use rookery_messages::settings::{AgentSettings, MemoryBackend, Settings};
use rookery_messages::time::World;
use rookery_supervisors::root::Cells;

/// Memory's part of the plan; all of it empty if it is switched off.
pub(super) struct MemoryPlan {
    /// What the actor is built from.
    pub(super) args: Option<MemoryArgs>,
    /// How everybody else gets at it.
    pub(super) client: Option<Arc<dyn Memory>>,
}

/// Where its file is.
pub(crate) fn path(settings: &Settings) -> PathBuf {
    settings.memory.path.clone().unwrap_or_else(|| settings.data_dir.join("memory.db"))
}

/// Meanings, if the settings want them.
fn hybrid(
    settings: &Settings,
    redactor: &Arc<Redactor>,
    observer: &ObserverHandle,
) -> Result<Option<impl Fn() -> HybridArgs + Send + Sync + 'static>, String> {
    let Some(wanted) = &settings.memory.embeddings else { return Ok(None) };
    let profile = settings.providers.get(&wanted.provider).ok_or_else(|| {
        format!("memory.embeddings.provider: there is no provider `{}`", wanted.provider)
    })?;
    let embedder = EmbeddingClient::new(wanted, profile, redactor);
    let embedder: Arc<dyn Embedder> = Arc::new(embedder.map_err(|error| error.to_string())?);
    let likeness = Likeness {
        unrelated: f64::from(wanted.unrelated_percent) / 100.0,
        same: f64::from(wanted.same_percent) / 100.0,
    };
    let patience = Duration::from_millis(wanted.timeout_ms);
    let (redactor, observer) = (Arc::clone(redactor), observer.clone());
    Ok(Some(move || HybridArgs {
        embedder: Arc::clone(&embedder),
        likeness,
        patience,
        redactor: Arc::clone(&redactor),
        observer: observer.clone(),
    }))
}

pub(super) fn plan(
    settings: &Settings,
    cells: &Cells,
    redactor: &Arc<Redactor>,
    observer: &ObserverHandle,
) -> Result<MemoryPlan, String> {
    let options = match settings.memory.backend {
        MemoryBackend::None => return Ok(MemoryPlan { args: None, client: None }),
        MemoryBackend::Sqlite => SqliteMemoryOptions {
            path: path(settings),
            durability: settings.store.durability,
            max_entries: settings.memory.max_entries,
        },
    };
    let link: Arc<MemoryLink> = Arc::default();
    let hybrid = hybrid(settings, redactor, observer)?;
    let open = move || -> Result<Arc<dyn Memory>, MemoryError> {
        let words = SqliteMemory::open(&options)?;
        Ok(match &hybrid {
            Some(args) => Arc::new(HybridMemory::new(words, args())),
            None => Arc::new(words),
        })
    };
    let open: OpenMemory = Arc::new(open);
    let client = MemoryClient::new(Address::new(Arc::clone(&cells.memory)), Arc::clone(&link));
    Ok(MemoryPlan { args: Some(MemoryArgs { open, link }), client: Some(Arc::new(client)) })
}

/// Adds the tools it offers, for whoever only asks what they would do.
pub(crate) fn offer(settings: &Settings, tools: &mut Registry, world: &World) {
    let client = MemoryClient::new(Address::new(AddressCell::new()), Arc::default());
    let client: Arc<dyn Memory> = Arc::new(client);
    let client = (settings.memory.backend != MemoryBackend::None).then_some(client);
    MemoryPlan { args: None, client }.equip(tools, &Arc::new(Redactor::new([])), world);
}

impl MemoryPlan {
    /// Adds its tools.
    pub(super) fn equip(&self, tools: &mut Registry, redactor: &Arc<Redactor>, world: &World) {
        let own = self.client.iter().flat_map(|client| memory::tools::all(client, redactor, world));
        for tool in own {
            if let Err(error) = tools.insert(tool) {
                tracing::error!(%error, "a tool of the memory is left out");
            }
        }
    }

    /// What an agent's turns are told unasked.
    pub(super) fn access(
        &self,
        settings: &Settings,
        agent: &AgentSettings,
    ) -> Option<MemoryAccess> {
        let hours = i64::from(settings.memory.half_life_days) * 24;
        Some(MemoryAccess {
            memory: Arc::clone(self.client.as_ref()?),
            floor: Floor {
                least: f64::from(settings.memory.floor_percent) / 100.0,
                half_life: SignedDuration::from_hours(hours),
            },
            deadline: Duration::from_millis(settings.memory.recall_timeout_ms),
            suppressed: !agent.uses_memory,
        })
    }
}
