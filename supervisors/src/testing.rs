//! A world for this crate's tests: a worker that fails on demand, a clock that is paused, no jitter.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rookery_actors::runtime::{
    Child, ChildStarter, Ctx, Directory, SpawnSpec, Spawner, Supervised, system_world,
};
use rookery_messages::address::{Address, AddressCell, Message};
use rookery_messages::child::{ChildPolicy, Strategy};
use rookery_messages::exit::{ActorError, ExitReason, StopReason};
use rookery_messages::time::Rng;
use rookery_messages::tree::ActorStatus;
use tokio::sync::oneshot;

use crate::supervisor::{SupervisorActor, SupervisorMsg, SupervisorReport, SupervisorSpec};

pub(crate) enum WorkMsg {
    Ping(oneshot::Sender<()>),
    Fail,
    FailForGood,
    Panic,
    Hang,
    Finish,
    StopNow,
}

impl Message for WorkMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Ping(_) => "Ping",
            Self::Fail => "Fail",
            Self::FailForGood => "FailForGood",
            Self::Panic => "Panic",
            Self::Hang => "Hang",
            Self::Finish => "Finish",
            Self::StopNow => "StopNow",
        }
    }
}

pub(crate) type Log = Arc<Mutex<Vec<String>>>;

/// How a worker behaves in all its incarnations.
#[derive(Clone, Default)]
pub(crate) struct Habits {
    /// So many starts fail.
    pub(crate) bad_starts: Arc<AtomicU32>,
    /// A stop takes so long.
    pub(crate) stop_takes: Duration,
}

pub(crate) struct Worker;

pub(crate) struct WorkArgs {
    pub(crate) name: &'static str,
    pub(crate) log: Log,
    pub(crate) habits: Habits,
}

impl WorkArgs {
    fn note(&self, what: impl std::fmt::Display) {
        self.log.lock().push(format!("{} {what}", self.name));
    }
}

impl Supervised for Worker {
    const KIND: &'static str = "worker";
    const PAUSABLE: bool = true;
    type Msg = WorkMsg;
    type Args = WorkArgs;
    type State = WorkArgs;

    fn start(_: &mut Ctx<Self>, args: WorkArgs) -> Result<WorkArgs, ActorError> {
        let bad = |left: u32| left.checked_sub(1);
        if args.habits.bad_starts.fetch_update(Ordering::Relaxed, Ordering::Relaxed, bad).is_ok() {
            args.note("bad start");
            return Err(ActorError::transient("no start today"));
        }
        args.note("start");
        Ok(args)
    }

    async fn handle(
        ctx: &mut Ctx<Self>,
        _: &mut WorkArgs,
        message: WorkMsg,
    ) -> Result<(), ActorError> {
        match message {
            WorkMsg::Ping(reply) => {
                let _ = reply.send(());
            }
            WorkMsg::Fail => return Err(ActorError::transient("broken")),
            WorkMsg::FailForGood => return Err(ActorError::permanent("token revoked")),
            WorkMsg::Panic => panic!("boom"),
            WorkMsg::Hang => std::future::pending::<()>().await,
            WorkMsg::Finish | WorkMsg::StopNow => ctx.end(),
        }
        Ok(())
    }

    async fn stop_requested(
        ctx: &mut Ctx<Self>,
        state: &mut WorkArgs,
        _: &StopReason,
    ) -> Result<(), ActorError> {
        if state.habits.stop_takes.is_zero() {
            ctx.end();
        } else {
            ctx.after(state.habits.stop_takes, WorkMsg::StopNow);
        }
        Ok(())
    }

    async fn ended(_: &mut Ctx<Self>, state: &mut WorkArgs, reason: &ExitReason) {
        state.note(reason);
    }

    fn observe(state: &WorkArgs) -> serde_json::Value {
        serde_json::json!({ "name": state.name })
    }
}

struct FullJitter;

impl Rng for FullJitter {
    fn fraction(&self) -> f64 {
        1.0
    }
}

pub(crate) struct Rig {
    pub(crate) spawner: Spawner,
    pub(crate) log: Log,
}

impl Rig {
    pub(crate) fn new() -> Self {
        rookery_messages::invariant::set_strict(true);
        let mut world = system_world();
        world.rng = Arc::new(FullJitter);
        let directory = Directory::new(world.clone());
        Self { spawner: Spawner::new(directory, world), log: Log::default() }
    }

    pub(crate) fn directory(&self) -> &Arc<Directory> {
        self.spawner.directory()
    }

    pub(crate) fn starter(
        &self,
        name: &'static str,
        habits: Habits,
        cell: &Arc<AddressCell<WorkMsg>>,
    ) -> ChildStarter<Worker> {
        starter(name, habits, cell, &self.log)
    }

    pub(crate) async fn root(&self, spec: SupervisorSpec) -> Child<SupervisorMsg> {
        let spawn = SpawnSpec::new("root").grace(spec.grace());
        self.spawner.spawn::<SupervisorActor>(spawn, spec).await.unwrap()
    }

    /// A root over workers with these names and one policy; gives their addresses.
    pub(crate) async fn workers<const N: usize>(
        &self,
        strategy: Strategy,
        policy: ChildPolicy,
        names: [&'static str; N],
    ) -> (Child<SupervisorMsg>, [Address<WorkMsg>; N]) {
        let cells: [_; N] = std::array::from_fn(|_| AddressCell::new());
        let mut spec = SupervisorSpec::new(strategy).siblings_stop_for(StopReason::StoreLost);
        for (name, cell) in names.iter().zip(&cells) {
            spec = spec.child(policy.clone(), self.starter(name, Habits::default(), cell));
        }
        let root = self.root(spec).await;
        let addresses = cells.map(Address::new);
        for address in &addresses {
            ping(address).await;
        }
        self.log.lock().clear();
        (root, addresses)
    }

    pub(crate) fn log(&self) -> Vec<String> {
        self.log.lock().clone()
    }

    pub(crate) fn status(&self, path: &str) -> Option<ActorStatus> {
        let live = self.directory().find(path).map(|entry| entry.status());
        live.or_else(|| self.directory().placeholder(path).map(|place| place.status))
    }

    pub(crate) async fn until_status(&self, path: &str, status: ActorStatus) {
        until(|| self.status(path) == Some(status)).await;
    }

    /// Ends the tree; nobody is left.
    pub(crate) async fn finish(&self, root: &Child<SupervisorMsg>) -> ExitReason {
        root.address.stop(StopReason::Shutdown);
        let exit = root.handle.ended().await;
        self.directory().wait_empty().await;
        assert_eq!(self.directory().task_count(), 0);
        exit
    }
}

pub(crate) fn starter(
    name: &'static str,
    habits: Habits,
    cell: &Arc<AddressCell<WorkMsg>>,
    log: &Log,
) -> ChildStarter<Worker> {
    let log = Arc::clone(log);
    ChildStarter::new(SpawnSpec::new(name), move || WorkArgs {
        name,
        log: Arc::clone(&log),
        habits: habits.clone(),
    })
    .behind(Arc::clone(cell))
}

/// Waits for a condition on the paused clock; fails the test if it does not come within ten minutes of it.
pub(crate) async fn until(mut condition: impl FnMut() -> bool) {
    for _ in 0..600_000_u32 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("the condition did not come true");
}

/// Waits until the current incarnation answers.
pub(crate) async fn ping(address: &Address<WorkMsg>) {
    loop {
        let (reply, answer) = oneshot::channel();
        if address.try_send(WorkMsg::Ping(reply)).is_ok() && answer.await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

pub(crate) async fn report(root: &Address<SupervisorMsg>) -> SupervisorReport {
    let (reply, answer) = oneshot::channel();
    root.send(SupervisorMsg::Report(reply)).await.unwrap();
    answer.await.unwrap()
}

/// Spawns a worker `child` below itself, without supervising it.
pub(crate) struct Parent;

impl Supervised for Parent {
    const KIND: &'static str = "parent";
    type Msg = WorkMsg;
    type Args = WorkArgs;
    type State = WorkArgs;

    fn start(ctx: &mut Ctx<Self>, args: WorkArgs) -> Result<WorkArgs, ActorError> {
        ctx.address()
            .try_send(WorkMsg::Finish)
            .map_err(|error| ActorError::transient(error.to_string()))?;
        Ok(args)
    }

    async fn handle(
        ctx: &mut Ctx<Self>,
        state: &mut WorkArgs,
        _: WorkMsg,
    ) -> Result<(), ActorError> {
        let (log, habits) = (Arc::clone(&state.log), state.habits.clone());
        let args = WorkArgs { name: "child", log, habits };
        let spawned = ctx.spawn::<Worker>(SpawnSpec::new("child"), args).await;
        spawned.map(|_| ()).map_err(|error| ActorError::transient(error.to_string()))
    }
}
