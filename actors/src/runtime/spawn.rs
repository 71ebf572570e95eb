//! The only way to create an actor.

use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorCell};
use rookery_messages::address::{Address, AddressCell};
use rookery_messages::exit::ExitReason;
use rookery_messages::time::World;
use rookery_messages::tree::LastExit;

use super::ctx::{ChildHandle, Ctx};
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

async fn spawn_at<T: Supervised>(
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

/// Starts incarnations of one child for a supervisor, behind an address that outlives them.
pub struct ChildStarter<T: Supervised> {
    cell: Arc<AddressCell<T::Msg>>,
    spec: SpawnSpec,
    args: Arc<dyn Fn() -> T::Args + Send + Sync>,
    label: PhantomData<fn() -> T>,
}

impl<T: Supervised> ChildStarter<T> {
    /// `args` is called for each incarnation.
    pub fn new(spec: SpawnSpec, args: impl Fn() -> T::Args + Send + Sync + 'static) -> Self {
        Self { cell: AddressCell::new(), spec, args: Arc::new(args), label: PhantomData }
    }

    /// Uses an address cell that others have addresses of already.
    #[must_use]
    pub fn behind(mut self, cell: Arc<AddressCell<T::Msg>>) -> Self {
        self.cell = cell;
        self
    }

    /// The address of whatever incarnation there is.
    pub fn address(&self) -> Address<T::Msg> {
        Address::new(Arc::clone(&self.cell))
    }

    /// The path segments below the supervisor.
    pub fn segment(&self) -> &str {
        &self.spec.segment
    }

    /// The kind of the actors it starts.
    pub fn kind(&self) -> &'static str {
        T::KIND
    }

    /// Sends say `Restarting` until the next start.
    pub fn suspend(&self) {
        self.cell.suspend();
    }

    /// Sends say `Closed`: there will be no next start.
    pub fn close(&self) {
        self.cell.close();
    }

    /// Starts the next incarnation under the actor that `ctx` belongs to.
    pub fn start<'a, P: Supervised>(
        &'a self,
        ctx: &'a mut Ctx<P>,
        grace: Duration,
        generation: u64,
        last_exit: Option<LastExit>,
    ) -> impl Future<Output = Result<ChildHandle, SpawnError>> + Send + 'a {
        panics::install();
        // The arguments are built in the supervisor's handler: a panic there is the child's (I8).
        let args = catch_unwind(AssertUnwindSafe(|| (self.args)())).map_err(|payload| {
            let report = panics::report(&*payload);
            format!("its arguments panicked: {} at {}", report.message, report.location)
        });
        async move {
            let args = args.map_err(|error| SpawnError {
                path: format!("{}/{}", ctx.path(), self.spec.segment),
                error,
                permanent: false,
            })?;
            let mut spec = self.spec.clone();
            spec.grace = grace;
            spec.generation = generation;
            spec.last_exit = last_exit;
            let (entry, cell) = ctx.parent();
            let (entry, directory, world) =
                (Arc::clone(entry), Arc::clone(ctx.directory()), ctx.world().clone());
            let child = spawn_at::<T>(
                &directory,
                &world,
                Some((&entry, cell)),
                spec,
                args,
                Arc::clone(&self.cell),
                false,
            )
            .await?;
            ctx.adopt(child.handle.clone());
            Ok(child.handle)
        }
    }
}
