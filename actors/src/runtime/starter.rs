//! Starts the incarnations of one child for a supervisor, which need not know the child's type.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use ractor::ActorCell;
use rookery_messages::BoxFuture;
use rookery_messages::address::{Address, AddressCell};
use rookery_messages::time::World;
use rookery_messages::tree::LastExit;

use super::ctx::ChildHandle;
use super::directory::Directory;
use super::entry::Entry;
use super::panics;
use super::spawn::{SpawnError, SpawnSpec, spawn_at};
use super::supervised::Supervised;

/// Under whom a child is started: from [`super::Ctx::as_parent`].
pub struct Parent {
    pub(super) entry: Arc<Entry>,
    pub(super) cell: ActorCell,
    pub(super) directory: Arc<Directory>,
    pub(super) world: World,
}

/// Starts incarnations of one child, whatever its type.
pub trait StartChild: Send + Sync {
    /// The path segments below the supervisor.
    fn segment(&self) -> &str;

    /// The kind of the actors it starts.
    fn kind(&self) -> &'static str;

    /// Incarnations so far, also under former incarnations of the supervisor.
    fn generation(&self) -> u64;

    /// Sends say `Restarting` until the next start.
    fn suspend(&self);

    /// Sends say `Closed`: there will be no next start.
    fn close(&self);

    /// Starts the next incarnation; whoever asked adopts it with [`super::Ctx::adopt`].
    fn start(
        &self,
        parent: Parent,
        grace: Duration,
        last_exit: Option<LastExit>,
    ) -> BoxFuture<'_, Result<ChildHandle, SpawnError>>;
}

/// A child ready to be started, its type forgotten.
#[derive(Clone)]
pub struct Starter(Arc<dyn StartChild>);

impl Starter {
    /// Of a child that is more than one actor.
    pub fn new(child: impl StartChild + 'static) -> Self {
        Self(Arc::new(child))
    }
}

impl<T: Supervised> From<ChildStarter<T>> for Starter {
    fn from(child: ChildStarter<T>) -> Self {
        Self::new(child)
    }
}

impl std::ops::Deref for Starter {
    type Target = dyn StartChild;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

/// Starts incarnations of one actor, behind an address that outlives them.
pub struct ChildStarter<T: Supervised> {
    cell: Arc<AddressCell<T::Msg>>,
    spec: SpawnSpec,
    args: Box<dyn Fn() -> T::Args + Send + Sync>,
    label: PhantomData<fn() -> T>,
}

impl<T: Supervised> ChildStarter<T> {
    /// `args` is called for each incarnation.
    pub fn new(spec: SpawnSpec, args: impl Fn() -> T::Args + Send + Sync + 'static) -> Self {
        Self { cell: AddressCell::new(), spec, args: Box::new(args), label: PhantomData }
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
}

impl<T: Supervised> StartChild for ChildStarter<T> {
    fn segment(&self) -> &str {
        &self.spec.segment
    }

    fn kind(&self) -> &'static str {
        T::KIND
    }

    fn generation(&self) -> u64 {
        self.address().generation()
    }

    fn suspend(&self) {
        self.cell.suspend();
    }

    fn close(&self) {
        self.cell.close();
    }

    fn start(
        &self,
        parent: Parent,
        grace: Duration,
        last_exit: Option<LastExit>,
    ) -> BoxFuture<'_, Result<ChildHandle, SpawnError>> {
        panics::install();
        let generation = self.generation() + 1;
        // The arguments are built in the supervisor's handler: a panic there is the child's (I8).
        let args = catch_unwind(AssertUnwindSafe(|| (self.args)())).map_err(|payload| {
            let report = panics::report(&*payload);
            format!("its arguments panicked: {} at {}", report.message, report.location)
        });
        Box::pin(async move {
            let Parent { entry, cell, directory, world } = parent;
            let args = args.map_err(|error| SpawnError {
                path: format!("{}/{}", entry.path, self.spec.segment),
                error,
                permanent: false,
            })?;
            let mut spec = self.spec.clone();
            spec.grace = grace;
            spec.generation = generation;
            spec.last_exit = last_exit;
            let behind = Arc::clone(&self.cell);
            let under = Some((&entry, cell));
            let child = spawn_at::<T>(&directory, &world, under, spec, args, behind, false).await?;
            Ok(child.handle)
        })
    }
}
