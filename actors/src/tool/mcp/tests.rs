//! The server's actor, with a connector that does as it is told, on a paused clock.

use std::sync::Arc;
use std::time::Duration;

use rookery_messages::address::{Address, AddressCell};
use rookery_messages::exit::StopReason;
use tokio::time::Instant;

use super::catalog::effects;
use super::testing::{Attempt, Script, Scripted, info};
use super::*;
use crate::policy::redact::Redactor;
use crate::runtime::{Child, ChildHandle, Directory, SpawnSpec, Spawner, system_world};
use rookery_messages::tool::{CallEffects, Effects, Reach};

const CONNECT_LIMIT: Duration = Duration::from_secs(7);

struct Rig {
    link: Arc<Link>,
    script: Arc<Script>,
    actor: ChildHandle,
    address: Address<McpMsg>,
    _spawner: Spawner,
}

impl Rig {
    async fn new(attempts: impl IntoIterator<Item = Attempt>) -> Self {
        let script = Arc::new(Script::default());
        script.attempts.lock().extend(attempts);
        let cell = AddressCell::new();
        let link = Link::new("s", Address::new(Arc::clone(&cell)));
        let world = system_world();
        let spawner = Spawner::new(Directory::new(world.clone()), world);
        let args = McpArgs {
            link: Arc::clone(&link),
            connector: Arc::clone(&script) as Arc<dyn Connector>,
            trusted: false,
            connect_limit: CONNECT_LIMIT,
            call_limit: Duration::from_secs(1),
            redactor: Arc::new(Redactor::new(["hush-hush"])),
            known: Arc::new(|_| {}),
        };
        let spec = SpawnSpec::new("s").mailbox(256).grace(Duration::from_secs(5));
        let Child { handle, address, .. } = spawner.spawn::<McpActor>(spec, args).await.unwrap();
        Self { link, script, actor: handle, address, _spawner: spawner }
    }

    /// Waits until `wanted` holds. The clock is paused: it goes on when nothing else does.
    async fn when(&self, wanted: impl Fn(&Self) -> bool) {
        let look = async {
            while !wanted(self) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(600), look).await.unwrap();
    }

    fn tools(&self) -> Vec<String> {
        self.link.tools().iter().map(|tool| tool.original().to_owned()).collect()
    }

    fn tries(&self) -> Vec<Instant> {
        self.script.tries.lock().clone()
    }
}

fn session(lists: &[&[&str]]) -> Arc<Scripted> {
    let session = Scripted::default();
    for names in lists {
        // Two tools a page.
        let mut pages: Vec<Page> = names
            .chunks(2)
            .map(|page| Page {
                tools: page.iter().copied().map(info).collect(),
                next: Some("more".to_owned()),
            })
            .collect();
        if let Some(last) = pages.last_mut() {
            last.next = None;
        }
        session.lists.lock().push_back(pages);
    }
    Arc::new(session)
}

// A101
#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_come_is_tried_again_ever_more_slowly_and_its_reason_is_shown() {
    let rig = Rig::new((0..12).map(|_| Attempt::Fails("no hush-hush here"))).await;
    rig.when(|rig| rig.tries().len() == 12).await;
    let tries = rig.tries();
    let pauses: Vec<Duration> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses[0] <= Duration::from_millis(110), "{pauses:?}");
    for (pause, next) in pauses.iter().zip(&pauses[1..8]) {
        assert!(*next > *pause / 2, "{pauses:?}");
    }
    assert!(pauses[10] >= Duration::from_secs(15), "{pauses:?}");
    assert!(pauses.iter().all(|pause| *pause <= Duration::from_secs(31)), "{pauses:?}");
    rig.when(|rig| matches!(rig.link.status(), Status::Connecting)).await;
    // The thirteenth hangs: it is given up after its limit.
    rig.when(|rig| matches!(rig.link.status(), Status::Failed { .. })).await;
    let trouble = rig.link.trouble().unwrap();
    assert!(trouble.contains("within 7 s") && !trouble.contains("hush-hush"), "{trouble}");
    rig.actor.stop_by(StopReason::Shutdown, None);
    rig.actor.ended().await;
    assert_eq!(rig.link.status(), Status::Stopped);
}

// A101
#[tokio::test(start_paused = true)]
async fn calls_of_a_server_that_died_wait_for_its_one_new_connection_and_its_tools_stay() {
    let rig = Rig::new([
        Attempt::Succeeds(session(&[&["x"]])),
        Attempt::Succeeds(session(&[&["x", "y"]])),
    ])
    .await;
    rig.when(|rig| rig.link.status() == Status::Ready).await;
    rig.script.ups.lock()[0].die.notify_one();
    rig.when(|rig| matches!(rig.link.status(), Status::Failed { .. })).await;
    assert_eq!(rig.tools(), ["x"]);
    let waits = (0..5).map(|_| rig.link.session(Duration::from_secs(10)));
    let lives: Vec<u64> =
        futures_util::future::join_all(waits).await.into_iter().map(|l| l.unwrap().life).collect();
    assert_eq!(lives, [2; 5]);
    assert_eq!((rig.tries().len(), rig.tools()), (2, vec!["x".to_owned(), "y".to_owned()]));
}

// A101
#[tokio::test(start_paused = true)]
async fn a_server_that_answers_neither_a_call_nor_a_ping_is_connected_to_anew() {
    let deaf = session(&[&["x"]]);
    let rig =
        Rig::new([Attempt::Succeeds(Arc::clone(&deaf)), Attempt::Succeeds(session(&[&["x"]]))])
            .await;
    rig.when(|rig| rig.link.status() == Status::Ready).await;
    rig.address.try_send(McpMsg::Suspect { life: 1 }).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((rig.link.status(), rig.tries().len()), (Status::Ready, 1));
    *deaf.deaf.lock() = true;
    rig.address.try_send(McpMsg::Suspect { life: 7 }).unwrap();
    rig.address.try_send(McpMsg::Suspect { life: 1 }).unwrap();
    rig.when(|rig| rig.tries().len() == 2 && rig.link.status() == Status::Ready).await;
    assert!(rig.script.ups.lock()[0].over.is_cancelled());
}

// A106, A107
#[tokio::test(start_paused = true)]
async fn bursts_of_announcements_end_with_the_last_list_whole() {
    let server = session(&[&["a"], &["a"], &[], &["a", "b", "c", "d", "e"]]);
    let rig = Rig::new([Attempt::Succeeds(Arc::clone(&server))]).await;
    rig.when(|rig| rig.link.status() == Status::Ready).await;
    let events = Arc::clone(&rig.script.ups.lock()[0].events);
    for _ in 0..5 {
        events.tools_changed();
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    rig.when(|_| *server.listings.lock() == 2).await;
    // While it is being read.
    events.tools_changed();
    rig.when(|rig| rig.tools().len() == 5).await;
    assert_eq!(rig.tools(), ["a", "b", "c", "d", "e"]);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!((*server.listings.lock(), rig.tools().len()), (4, 5));
}

#[tokio::test(start_paused = true)]
async fn a_stopped_actor_ends_after_its_connection_has() {
    let rig = Rig::new([Attempt::Succeeds(session(&[&["x"]]))]).await;
    rig.when(|rig| rig.link.status() == Status::Ready).await;
    rig.actor.stop_by(StopReason::Shutdown, None);
    rig.actor.ended().await;
    assert!(rig.script.ups.lock()[0].over.is_cancelled());
    assert!(rig.link.session(Duration::from_secs(1)).await.is_err());
}

#[test]
fn a_servers_hints_count_only_if_the_operator_trusts_it() {
    let reads = Hints { read_only: Some(true), ..Hints::default() };
    let unknown = CallEffects { brings_in: true, ..CallEffects::unknown() };
    assert_eq!(effects(false, reads), unknown);
    let of = |hints| {
        let CallEffects { effects, reach, .. } = effects(true, hints);
        (effects, reach)
    };
    assert_eq!(of(reads), (Effects::ReadOnly, Reach::Outside));
    assert_eq!(of(Hints::default()), (Effects::Once, Reach::Outside));
    let again = Hints { idempotent: Some(true), ..Hints::default() };
    assert_eq!(of(again), (Effects::Idempotent, Reach::Outside));
    let inside = Hints { open_world: Some(false), destructive: Some(false), ..Hints::default() };
    assert_eq!(of(inside), (Effects::Once, Reach::Workspace));
    assert_eq!(of(Hints { destructive: None, ..inside }), (Effects::Once, Reach::Outside));
}
