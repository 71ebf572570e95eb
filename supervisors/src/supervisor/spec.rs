//! What a supervisor is built from: a strategy, and children in order of start.

use std::sync::Arc;
use std::time::Duration;

use rookery_actors::runtime::{
    ChildHandle, ChildStarter, Parent, SpawnError, SpawnSpec, StartChild, Starter,
};
use rookery_messages::BoxFuture;
use rookery_messages::child::{ChildPolicy, Strategy};
use rookery_messages::exit::StopReason;
use rookery_messages::tree::LastExit;

use super::SupervisorActor;
use super::report::StopLog;

/// How long past its grace a child may take to be gone: the runtime's margin before a kill.
pub(super) const KILL_MARGIN: Duration = Duration::from_millis(500);

/// A supervisor as a child: given up, it closes the addresses of all below it.
struct Nested {
    starter: ChildStarter<SupervisorActor>,
    build: Arc<dyn Fn() -> SupervisorSpec + Send + Sync>,
}

impl StartChild for Nested {
    fn segment(&self) -> &str {
        self.starter.segment()
    }

    fn kind(&self) -> &'static str {
        self.starter.kind()
    }

    fn generation(&self) -> u64 {
        self.starter.generation()
    }

    fn suspend(&self) {
        self.starter.suspend();
    }

    fn close(&self) {
        self.starter.close();
        for child in (self.build)().children {
            child.starter.close();
        }
    }

    fn start(
        &self,
        parent: Parent,
        grace: Duration,
        last_exit: Option<LastExit>,
    ) -> BoxFuture<'_, Result<ChildHandle, SpawnError>> {
        self.starter.start(parent, grace, last_exit)
    }
}

pub(super) struct ChildSpec {
    pub(super) policy: ChildPolicy,
    pub(super) starter: Starter,
}

/// What a supervisor is built from. Built anew for each incarnation of it; addresses that are to outlive
/// the supervisor itself come from cells made outside, with [`ChildStarter::behind`].
pub struct SupervisorSpec {
    pub(super) strategy: Strategy,
    pub(super) sibling_stop: StopReason,
    pub(super) children: Vec<ChildSpec>,
    pub(super) stops: Option<Arc<StopLog>>,
}

impl SupervisorSpec {
    /// Without children yet.
    pub fn new(strategy: Strategy) -> Self {
        Self { strategy, sibling_stop: StopReason::ParentEnded, children: Vec::new(), stops: None }
    }

    /// Adds a child; it is started after, and stopped before, those added so far.
    #[must_use]
    pub fn child(mut self, policy: ChildPolicy, starter: impl Into<Starter>) -> Self {
        self.children.push(ChildSpec { policy, starter: starter.into() });
        self
    }

    /// Adds a supervisor as a child. `build` is called for each incarnation, and once more to close its
    /// addresses when it is given up, so it does nothing but build. Its grace is at least what its own
    /// children may need.
    #[must_use]
    pub fn supervisor(
        mut self,
        mut policy: ChildPolicy,
        spec: SpawnSpec,
        build: impl Fn() -> SupervisorSpec + Send + Sync + 'static,
    ) -> Self {
        let build: Arc<dyn Fn() -> SupervisorSpec + Send + Sync> = Arc::new(build);
        policy.grace = policy.grace.max(build().grace());
        let args = Arc::clone(&build);
        let starter = ChildStarter::<SupervisorActor>::new(spec, move || args());
        self.children.push(ChildSpec { policy, starter: Starter::new(Nested { starter, build }) });
        self
    }

    /// Why siblings are stopped when another child's end takes them along. Default: `ParentEnded`.
    #[must_use]
    pub fn siblings_stop_for(mut self, reason: StopReason) -> Self {
        self.sibling_stop = reason;
        self
    }

    /// Where the report of an ordered stop goes.
    #[must_use]
    pub fn log_stops(mut self, log: Arc<StopLog>) -> Self {
        self.stops = Some(log);
        self
    }

    /// How long an ordered stop of all children may take: they are stopped one after the other.
    pub fn grace(&self) -> Duration {
        let children: Duration =
            self.children.iter().map(|child| child.policy.grace + KILL_MARGIN).sum();
        children + KILL_MARGIN
    }
}
