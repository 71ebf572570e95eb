//! One test for each sharp edge of ractor that the runtime layer handles (RACTOR.md). Each fails
//! without the handling it names.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rookery_messages::address::{
    Address, AddressCell, Mailbox, MailboxGauge, Message, Reserved, SendError, StopHandle,
};
use rookery_messages::exit::{ActorError, ExitReason, StopReason};
use rookery_messages::ids::ActorId;
use rookery_messages::invariant::{Invariant, Tolerate};
use rookery_messages::tree::ActorStatus;
use tokio::sync::{mpsc, oneshot};

use super::*;

type Log = Arc<Mutex<Vec<String>>>;

enum TestMsg {
    Note(&'static str),
    Fail,
    Panic,
    Hang,
    BlockUntil(oneshot::Receiver<()>),
    SlowTask(mpsc::Sender<&'static str>),
    Spawn(&'static str, oneshot::Sender<Address<TestMsg>>),
    SpawnReporter,
    SendFromHandler(Address<TestMsg>, oneshot::Sender<bool>),
    Report(&'static str),
    End,
}

impl Message for TestMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Note(_) => "Note",
            Self::Fail => "Fail",
            Self::Panic => "Panic",
            Self::Hang => "Hang",
            Self::BlockUntil(_) => "BlockUntil",
            Self::SlowTask(_) => "SlowTask",
            Self::Spawn(..) => "Spawn",
            Self::SpawnReporter => "SpawnReporter",
            Self::SendFromHandler(..) => "SendFromHandler",
            Self::Report(_) => "Report",
            Self::End => "End",
        }
    }
}

struct Probe;

struct ProbeArgs {
    name: &'static str,
    log: Log,
    report_to: Option<Reserved<TestMsg>>,
}

struct ProbeState {
    name: &'static str,
    log: Log,
    report_to: Option<Reserved<TestMsg>>,
}

impl ProbeState {
    fn note(&self, what: impl std::fmt::Display) {
        self.log.lock().push(format!("{}: {what}", self.name));
    }
}

/// Tells when it is dropped.
struct DropBell(mpsc::Sender<&'static str>);

impl Drop for DropBell {
    fn drop(&mut self) {
        let _ = self.0.try_send("dropped");
    }
}

impl Supervised for Probe {
    const KIND: &'static str = "probe";
    type Msg = TestMsg;
    type Args = ProbeArgs;
    type State = ProbeState;

    fn start(_: &mut Ctx<Self>, args: ProbeArgs) -> Result<ProbeState, ActorError> {
        let ProbeArgs { name, log, report_to } = args;
        Ok(ProbeState { name, log, report_to })
    }

    async fn handle(
        ctx: &mut Ctx<Self>,
        state: &mut ProbeState,
        message: TestMsg,
    ) -> Result<(), ActorError> {
        match message {
            TestMsg::Note(text) => state.note(text),
            TestMsg::Report(text) => state.note(format!("report {text}")),
            TestMsg::Fail => return Err(ActorError::transient("broken")),
            TestMsg::Panic => panic!("boom"),
            TestMsg::Hang => std::future::pending::<()>().await,
            TestMsg::BlockUntil(gate) => {
                let _ = gate.await;
            }
            TestMsg::SlowTask(bell) => {
                let _ = bell.try_send("started");
                let bell = DropBell(bell);
                ctx.task(async move {
                    let _bell = bell;
                    std::future::pending::<()>().await;
                    None
                });
            }
            TestMsg::Spawn(name, reply) => {
                let args = ProbeArgs { name, log: Arc::clone(&state.log), report_to: None };
                let child = ctx.spawn::<Probe>(SpawnSpec::new(name), args).await.unwrap();
                let _ = reply.send(child.address);
            }
            TestMsg::SpawnReporter => {
                let report_to = ctx.address().reserve();
                let log = Arc::clone(&state.log);
                let args = ProbeArgs { name: "reporter", log, report_to };
                let child = ctx.spawn::<Probe>(SpawnSpec::new("reporter"), args).await.unwrap();
                child.address.try_send(TestMsg::End).unwrap();
            }
            TestMsg::SendFromHandler(to, reply) => {
                let refused = to.send(TestMsg::Note("late")).await;
                let _ = reply.send(matches!(refused, Err(SendError::InHandler(_))));
            }
            TestMsg::End => {
                if let Some(report) = state.report_to.take() {
                    report.send(TestMsg::Report("done")).unwrap();
                }
                ctx.end();
            }
        }
        Ok(())
    }

    async fn child_exited(
        _: &mut Ctx<Self>,
        state: &mut ProbeState,
        exit: ChildExit,
    ) -> Result<(), ActorError> {
        state.note(format!("child {} {}", exit.segment, exit.reason));
        Ok(())
    }

    async fn ended(_: &mut Ctx<Self>, state: &mut ProbeState, reason: &ExitReason) {
        state.note(format!("ended {reason}"));
    }
}

struct Rig {
    spawner: Spawner,
    log: Log,
}

impl Rig {
    fn new() -> Self {
        rookery_messages::invariant::set_strict(true);
        let world = system_world();
        let directory = Directory::new(world.clone());
        Self { spawner: Spawner::new(directory, world), log: Log::default() }
    }

    async fn root(&self, spec: SpawnSpec) -> Child<TestMsg> {
        let args = ProbeArgs { name: "root", log: Arc::clone(&self.log), report_to: None };
        self.spawner.spawn::<Probe>(spec, args).await.unwrap()
    }

    fn log(&self) -> Vec<String> {
        self.log.lock().clone()
    }

    async fn settled(&self) {
        self.spawner.directory().wait_empty().await;
    }
}

async fn spawn_child(parent: &Address<TestMsg>, name: &'static str) -> Address<TestMsg> {
    let (reply, address) = oneshot::channel();
    parent.send(TestMsg::Spawn(name, reply)).await.unwrap();
    address.await.unwrap()
}

// Plain ractor kills the children of a stopping parent without their post_stop.
#[tokio::test]
async fn children_run_their_end_when_the_parent_stops() {
    let rig = Rig::new();
    let root = rig.root(SpawnSpec::new("root")).await;
    let child = spawn_child(&root.address, "child").await;
    let grandchild = spawn_child(&child, "grandchild").await;
    grandchild.send(TestMsg::Note("alive")).await.unwrap();
    root.address.stop(StopReason::Shutdown);
    rig.settled().await;
    let log = rig.log();
    let ends: Vec<_> = log.iter().filter(|line| line.contains("ended")).collect();
    assert_eq!(
        ends,
        [
            "grandchild: ended stopped: shutdown",
            "child: ended stopped: shutdown",
            "root: ended stopped: shutdown",
        ]
    );
}

// Plain ractor hands out a supervision event before the messages that were sent first.
#[tokio::test]
async fn a_report_is_not_lost_to_its_exit_event() {
    let rig = Rig::new();
    let root = rig.root(SpawnSpec::new("root")).await;
    root.address.send(TestMsg::SpawnReporter).await.unwrap();
    // Keeps the parent busy until report and exit event both wait.
    let (open, gate) = oneshot::channel();
    root.address.send(TestMsg::BlockUntil(gate)).await.unwrap();
    while rig.spawner.directory().len() > 1
        || !rig.log().contains(&"reporter: ended finished".into())
    {
        tokio::task::yield_now().await;
    }
    open.send(()).unwrap();
    root.address.send(TestMsg::End).await.unwrap();
    rig.settled().await;
    let log = rig.log();
    let report = log.iter().position(|line| line == "root: report done");
    let exit = log.iter().position(|line| line == "root: child reporter finished");
    assert!(report.is_some() && exit.is_none_or(|exit| report < Some(exit)), "{log:?}");
}

// Plain ractor keeps an ended child's state, with what it holds, in the parent's queue.
#[tokio::test]
async fn a_task_dies_with_its_actor_although_the_parent_is_busy() {
    let rig = Rig::new();
    let root = rig.root(SpawnSpec::new("root")).await;
    let child = spawn_child(&root.address, "child").await;
    let (bell, mut rung) = mpsc::channel(2);
    child.send(TestMsg::SlowTask(bell)).await.unwrap();
    assert_eq!(rung.recv().await, Some("started"));
    let (open, gate) = oneshot::channel();
    root.address.send(TestMsg::BlockUntil(gate)).await.unwrap();
    child.stop(StopReason::User);
    assert_eq!(rung.recv().await, Some("dropped"));
    open.send(()).unwrap();
    root.address.stop(StopReason::User);
    rig.settled().await;
}

#[tokio::test]
async fn a_killed_actor_takes_its_tasks_and_children_along() {
    let rig = Rig::new();
    let root = rig.root(SpawnSpec::new("root")).await;
    let child = spawn_child(&root.address, "child").await;
    let grandchild = spawn_child(&child, "grandchild").await;
    let (bell, mut rung) = mpsc::channel(2);
    grandchild.send(TestMsg::SlowTask(bell)).await.unwrap();
    assert_eq!(rung.recv().await, Some("started"));
    child.send(TestMsg::Hang).await.unwrap();
    let entry = rig.spawner.directory().find("root/child").unwrap();
    while entry.status() != ActorStatus::Busy {
        tokio::task::yield_now().await;
    }
    entry.kill();
    assert_eq!(rung.recv().await, Some("dropped"));
    root.address.send(TestMsg::End).await.unwrap();
    rig.settled().await;
    assert_eq!(rig.log().iter().filter(|l| l.starts_with("child: ended")).count(), 0);
}

#[tokio::test]
async fn a_stop_is_seen_while_slow_work_runs_and_the_mailbox_is_full() {
    let rig = Rig::new();
    let root = rig.root(SpawnSpec::new("root").mailbox(2)).await;
    let (bell, mut rung) = mpsc::channel(2);
    // The task takes over its message's place, so one place is left.
    root.address.send(TestMsg::SlowTask(bell)).await.unwrap();
    assert_eq!(rung.recv().await, Some("started"));
    let (open, gate) = oneshot::channel();
    root.address.send(TestMsg::BlockUntil(gate)).await.unwrap();
    while root.address.try_send(TestMsg::Note("queued")).is_ok() {}
    assert!(matches!(
        root.address.try_send(TestMsg::Note("late")),
        Err(SendError::Full(TestMsg::Note("late")))
    ));
    root.address.stop(StopReason::User);
    open.send(()).unwrap();
    assert_eq!(rung.recv().await, Some("dropped"));
    rig.settled().await;
    // The stop was seen before the queued message.
    assert_eq!(rig.log(), ["root: ended stopped: user"]);
}

#[tokio::test]
async fn a_handler_may_not_wait_for_room_so_two_full_mailboxes_do_not_deadlock() {
    let rig = Rig::new();
    let root = rig.root(SpawnSpec::new("root")).await;
    let child = spawn_child(&root.address, "child").await;
    let (reply, refused) = oneshot::channel();
    root.address.send(TestMsg::SendFromHandler(child, reply)).await.unwrap();
    assert!(refused.await.unwrap());
    root.address.stop(StopReason::User);
    rig.settled().await;
}

#[tokio::test]
async fn panic_text_location_and_message_in_hand_are_recorded() {
    let rig = Rig::new();
    let (told, mut records) = mpsc::channel(8);
    rig.spawner.directory().set_exit_hook(Arc::new(move |record: &ExitRecord| {
        let _ = told.try_send(record.clone());
    }));
    let root = rig.root(SpawnSpec::new("root")).await;
    let child = spawn_child(&root.address, "child").await;
    child.send(TestMsg::Panic).await.unwrap();
    let record = records.recv().await.unwrap();
    assert_eq!((record.path.as_str(), record.in_hand), ("root/child", Some("Panic")));
    let ExitReason::Panicked { message, location } = record.reason else { panic!("no panic") };
    assert_eq!(message, "boom");
    assert!(location.contains("runtime/tests.rs:"), "{location}");
    // It stays on show below its parent.
    let tree = rig.spawner.directory().snapshot().unwrap();
    let buried = &tree.root.children[0];
    assert_eq!((buried.path.as_str(), buried.status), ("root/child", ActorStatus::Ended));
    assert_eq!(buried.last_exit.as_ref().unwrap().in_hand.as_deref(), Some("Panic"));
    root.address.stop(StopReason::User);
    rig.settled().await;
}

// I12
#[tokio::test]
async fn what_a_panic_or_an_error_says_is_cleaned_before_anybody_is_told() {
    let rig = Rig::new();
    let (told, mut records) = mpsc::channel(8);
    rig.spawner.directory().set_exit_hook(Arc::new(move |record: &ExitRecord| {
        let _ = told.try_send(record.clone());
    }));
    let redactor = crate::policy::redact::Redactor::new(["boom", "broken"]);
    rig.spawner.directory().set_cleaner(Arc::new(move |text: &str| redactor.scrub(text)));
    let root = rig.root(SpawnSpec::new("root")).await;
    for message in [TestMsg::Panic, TestMsg::Fail] {
        let child = spawn_child(&root.address, "child").await;
        child.send(message).await.unwrap();
        let said = records.recv().await.unwrap().reason.to_string();
        assert!(said.contains("[redacted]"), "{said}");
        assert!(!said.contains("boom") && !said.contains("broken"), "{said}");
        let tree = format!("{:?}", rig.spawner.directory().snapshot().unwrap());
        assert!(tree.contains("[redacted]") && !tree.contains("boom"), "{tree}");
    }
    assert!(rig.log().iter().all(|line| !line.contains("broken")), "its parent is told no more");
    root.address.stop(StopReason::User);
    rig.settled().await;
}

#[tokio::test]
async fn a_failing_child_ends_alone_and_its_parent_is_told() {
    // I8
    let rig = Rig::new();
    let root = rig.root(SpawnSpec::new("root")).await;
    let child = spawn_child(&root.address, "child").await;
    let sibling = spawn_child(&root.address, "sibling").await;
    child.send(TestMsg::Fail).await.unwrap();
    while !rig.log().contains(&"root: child child failed: broken".into()) {
        tokio::task::yield_now().await;
    }
    sibling.send(TestMsg::Note("still here")).await.unwrap();
    assert!(matches!(child.try_send(TestMsg::End), Err(SendError::Closed(_))));
    root.address.stop(StopReason::User);
    rig.settled().await;
    assert!(rig.log().contains(&"sibling: still here".into()));
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_hangs_past_its_grace_is_killed() {
    // I14
    let rig = Rig::new();
    let root = rig.root(SpawnSpec::new("root").grace(Duration::from_secs(3))).await;
    root.address.send(TestMsg::Hang).await.unwrap();
    let entry = rig.spawner.directory().find("root").unwrap();
    while entry.status() != ActorStatus::Busy {
        tokio::task::yield_now().await;
    }
    root.address.stop(StopReason::Shutdown);
    assert_eq!(root.handle.ended().await, ExitReason::Killed);
    rig.settled().await;
}

#[tokio::test(start_paused = true)]
async fn the_first_stop_reason_wins() {
    let rig = Rig::new();
    let root = rig.root(SpawnSpec::new("root")).await;
    root.address.stop(StopReason::User);
    root.address.stop(StopReason::Shutdown);
    let reason = root.handle.ended().await;
    assert_eq!(reason, ExitReason::Stopped { reason: StopReason::User });
}

#[tokio::test]
async fn directory_and_ractor_agree_and_nobody_is_an_orphan() {
    // I9
    let rig = Rig::new();
    let root = rig.root(SpawnSpec::new("root")).await;
    let mut parent = root.address.clone();
    for name in ["a", "b", "c"] {
        parent = spawn_child(&parent, name).await;
    }
    let tree = rig.spawner.directory().snapshot().unwrap();
    assert_eq!(tree.root.children[0].children[0].children[0].path, "root/a/b/c");
    assert!(rig.spawner.directory().orphans().is_empty());
    root.address.stop(StopReason::User);
    rig.settled().await;
}

// I9
#[test]
fn an_actor_under_a_parent_that_is_gone_is_counted_as_a_violation() {
    let tolerated = Tolerate::on_this_thread();
    let world = system_world();
    let directory = Directory::new(world.clone());
    let gone = directory.fresh_id();
    let (path, segment) = ("gone/x".to_owned(), "x".to_owned());
    let id = directory.fresh_id();
    let stray = Entry::new(id, "probe", path, segment, Some(gone), world.now(), 8, false, 1, None);
    directory.insert(&Arc::new(stray));
    assert_eq!(tolerated.seen(Invariant::I9), 1);
    assert_eq!(directory.orphans(), ["gone/x"]);
}

// I10
#[test]
fn a_mailbox_that_holds_more_than_its_cap_is_counted_as_a_violation() {
    let tolerated = Tolerate::on_this_thread();
    let gauge = Arc::new(MailboxGauge::default());
    let stop = StopHandle::new(Arc::default(), Arc::new(|| ()), Arc::new(|| ()));
    let post = Box::new(|_| Ok(()));
    let cell = AddressCell::new();
    cell.install(Arc::new(Mailbox::new(ActorId(1), 1, Arc::clone(&gauge), post, stop)));
    let address: Address<TestMsg> = Address::new(cell);
    // A message that came in past the places.
    gauge.entered();
    address.try_send(TestMsg::Note("one too many")).unwrap();
    assert_eq!(tolerated.seen(Invariant::I10), 1);
}
