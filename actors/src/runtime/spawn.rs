//! The only way to create an actor.

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorCell};
use rookery_messages::address::{Address, AddressCell};
use rookery_messages::exit::ExitReason;
use rookery_messages::time::World;
use rookery_messages::tree::LastExit;

use super::ctx::ChildHandle;
use super::directory::Directory;
use super::entry::Entry;
use super::host::{ExitCell, Host, HostArgs};
use super::panics;
use super::supervised::Supervised;

/// How an actor is to be set up.
#[derive(Clone, Debug)]
pub struct SpawnSpec {
    /// The path segments below the parent: `store`, `turn/<id>`.
    pub segment: String,
    /// Most messages that wait.
    pub mailbox: usize,
    /// How long a stop may take before it is killed.
    pub grace: Duration,
    /// Incarnation number under a supervisor, from 1.
    pub generation: u64,
    /// How the last incarnation ended.
    pub last_exit: Option<LastExit>,
}

impl SpawnSpec {
    /// A mailbox of 64 and a grace of 5 s.
    pub fn new(segment: impl Into<String>) -> Self {
        Self {
            segment: segment.into(),
            mailbox: 64,
            grace: Duration::from_secs(5),
            generation: 1,
            last_exit: None,
        }
    }

    /// Another capacity.
    #[must_use]
    pub fn mailbox(mut self, capacity: usize) -> Self {
        self.mailbox = capacity;
        self
    }

    /// Another grace.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }
}

/// Why an actor was not created.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{path} did not start: {error}")]
pub struct SpawnError {
    /// Which.
    pub path: String,
    /// Why.
    pub error: String,
    /// Trying again can't help.
    pub permanent: bool,
}

impl SpawnError {
    /// As an exit, for policies.
    pub fn as_exit(&self) -> ExitReason {
        ExitReason::StartFailed { error: self.error.clone(), permanent: self.permanent }
    }
}

/// A new actor: its address, and the hold on it.
#[derive(Debug)]
pub struct Child<M> {
    /// Where to send.
    pub address: Address<M>,
    /// The hold.
    pub handle: ChildHandle,
}

pub(super) async fn spawn_under<T: Supervised>(
    directory: &Arc<Directory>,
    world: &World,
    parent: Option<(&Arc<Entry>, ActorCell)>,
    spec: SpawnSpec,
    args: T::Args,
) -> Result<Child<T::Msg>, SpawnError> {
    spawn_at::<T>(directory, world, parent, spec, args, AddressCell::new(), true).await
}

pub(super) async fn spawn_at<T: Supervised>(
    directory: &Arc<Directory>,
    world: &World,
    parent: Option<(&Arc<Entry>, ActorCell)>,
    spec: SpawnSpec,
    args: T::Args,
    cell: Arc<AddressCell<T::Msg>>,
    owns_cell: bool,
) -> Result<Child<T::Msg>, SpawnError> {
    panics::install();
    let path = match &parent {
        Some((parent, _)) => format!("{}/{}", parent.path, spec.segment),
        None => spec.segment.clone(),
    };
    let entry = Arc::new(Entry::new(
        directory.fresh_id(),
        T::KIND,
        path.clone(),
        spec.segment.clone(),
        parent.as_ref().map(|(parent, _)| parent.id),
        world.now(),
        spec.mailbox,
        T::PAUSABLE,
        spec.generation,
        spec.last_exit,
    ));
    let exit = Arc::new(ExitCell::default());
    let host = Host::<T>::new(
        Arc::clone(&entry),
        Arc::clone(directory),
        Arc::clone(&exit),
        owns_cell.then(|| Arc::clone(&cell)),
    );
    let host_args = HostArgs {
        args,
        entry: Arc::clone(&entry),
        directory: Arc::clone(directory),
        world: world.clone(),
        cell: Arc::clone(&cell),
        grace: spec.grace,
        exit: Arc::clone(&exit),
    };
    directory.insert(&entry);
    #[allow(clippy::disallowed_methods, reason = "the one place where actors are spawned")]
    let spawned = match parent {
        // Boxed: a start is as large as all the actor will do, and would be a part of the parent's handler.
        Some((_, supervisor)) => {
            Box::pin(Host::<T>::spawn_linked(None, host, host_args, supervisor)).await
        }
        None => Box::pin(Host::<T>::spawn(None, host, host_args)).await,
    };
    match spawned {
        Ok((actor, _join)) => {
            let Some(stop) = entry.control.get().cloned() else {
                return Err(SpawnError {
                    path,
                    error: "it ended while it was started".to_owned(),
                    permanent: false,
                });
            };
            let handle = ChildHandle {
                id: entry.id,
                kind: T::KIND,
                segment: entry.segment.clone(),
                stop,
                cell: actor.get_cell(),
                exit,
            };
            Ok(Child { address: Address::new(cell), handle })
        }
        Err(error) => {
            let (error, permanent) = match exit.get() {
                Some(ExitReason::StartFailed { error, permanent }) => (error, permanent),
                _ => (error.to_string(), false),
            };
            Err(SpawnError { path, error, permanent })
        }
    }
}

/// Creates actors that have no parent: the root of a tree.
#[derive(Clone)]
pub struct Spawner {
    directory: Arc<Directory>,
    world: World,
}

impl Spawner {
    /// For one directory.
    pub fn new(directory: Arc<Directory>, world: World) -> Self {
        Self { directory, world }
    }

    /// Who lives.
    pub fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    /// Clock, ids, jitter.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Starts a root.
    pub async fn spawn<T: Supervised>(
        &self,
        spec: SpawnSpec,
        args: T::Args,
    ) -> Result<Child<T::Msg>, SpawnError> {
        spawn_under::<T>(&self.directory, &self.world, None, spec, args).await
    }
}
