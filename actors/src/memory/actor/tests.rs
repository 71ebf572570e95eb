use parking_lot::Mutex;
use rookery_messages::BoxFuture;
use rookery_messages::address::Address;
use rookery_messages::exit::StopReason;
use rookery_messages::ids::{AgentName, ConversationId, MemoryId};
use rookery_messages::memory::{
    Forget, ListQuery, MemoryEntry, MemoryFilter, NewMemory, RecallQuery, Recalled, Stored,
};
use uuid::Uuid;

use super::super::client::MemoryClient;
use super::*;
use crate::runtime::{Child, Directory, SpawnSpec, Spawner, system_world};

/// How a backend misbehaves.
#[derive(Clone, Copy, PartialEq)]
enum Mood {
    Fine,
    Fails,
    Hangs,
    Panics,
}

struct Moody(Arc<Mutex<Mood>>);

impl Moody {
    fn act<T: Send + 'static>(&self, fine: T) -> BoxFuture<'static, Result<T, MemoryError>> {
        let mood = *self.0.lock();
        Box::pin(async move {
            match mood {
                Mood::Fine => Ok(fine),
                Mood::Fails => Err(MemoryError::Unavailable("the disk is away".to_owned())),
                Mood::Hangs => std::future::pending().await,
                Mood::Panics => panic!("backend panics"),
            }
        })
    }
}

impl Memory for Moody {
    fn store(&self, _: NewMemory) -> BoxFuture<'_, Result<Stored, MemoryError>> {
        Box::pin(std::future::ready(Err(MemoryError::Busy)))
    }

    fn recall(&self, _: RecallQuery) -> BoxFuture<'_, Result<Vec<Recalled>, MemoryError>> {
        self.act(Vec::new())
    }

    fn list(&self, _: ListQuery) -> BoxFuture<'_, Result<Vec<MemoryEntry>, MemoryError>> {
        self.act(Vec::new())
    }

    fn get(&self, _: MemoryId) -> BoxFuture<'_, Result<Option<MemoryEntry>, MemoryError>> {
        self.act(None)
    }

    fn forget(&self, _: Forget) -> BoxFuture<'_, Result<u64, MemoryError>> {
        self.act(0)
    }

    fn is_empty(&self) -> bool {
        true
    }
}

struct Rig {
    mood: Arc<Mutex<Mood>>,
    actor: Child<MemoryMsg>,
    client: MemoryClient,
}

async fn rig(mailbox: usize) -> Rig {
    let world = system_world();
    let spawner = Spawner::new(Directory::new(world.clone()), world);
    let mood = Arc::new(Mutex::new(Mood::Fine));
    let link: Arc<MemoryLink> = Arc::default();
    let opened = Arc::clone(&mood);
    let open = move || -> Result<Arc<dyn Memory>, MemoryError> {
        Ok(Arc::new(Moody(Arc::clone(&opened))))
    };
    let open: OpenMemory = Arc::new(open);
    let args = MemoryArgs { open, link: Arc::clone(&link) };
    let spec = SpawnSpec::new("memory").mailbox(mailbox);
    let actor = spawner.spawn::<MemoryActor>(spec, args).await.unwrap();
    let address: Address<MemoryMsg> = actor.address.clone();
    Rig { mood, actor, client: MemoryClient::new(address, link) }
}

fn question() -> RecallQuery {
    let conversation = ConversationId(Uuid::from_u128(1));
    let filter = MemoryFilter::of_turn(AgentName::new("home"), conversation);
    RecallQuery { filter, text: "x".to_owned(), limit: 4 }
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_fails_or_hangs_is_an_error_in_time_and_the_next_answer_comes() {
    let rig = rig(8).await;
    assert_eq!(rig.client.recall(question()).await, Ok(Vec::new()));
    assert!(rig.client.is_empty());
    *rig.mood.lock() = Mood::Fails;
    let failed = rig.client.recall(question()).await;
    assert_eq!(failed, Err(MemoryError::Unavailable("the disk is away".to_owned())));
    *rig.mood.lock() = Mood::Hangs;
    assert_eq!(rig.client.recall(question()).await, Err(MemoryError::Timeout));
    *rig.mood.lock() = Mood::Fine;
    assert_eq!(rig.client.recall(question()).await, Ok(Vec::new()));
    rig.actor.address.stop(StopReason::Shutdown);
    rig.actor.handle.ended().await;
    assert!(rig.client.recall(question()).await.is_err());
}

// I8, I10
#[tokio::test(start_paused = true)]
async fn requests_under_way_are_bounded_and_a_panic_is_the_actors_alone() {
    let rig = rig(4).await;
    *rig.mood.lock() = Mood::Hangs;
    let asked: Vec<_> = (0..4).map(|_| rig.client.get(MemoryId(Uuid::nil()))).collect();
    assert_eq!(rig.client.get(MemoryId(Uuid::nil())).await, Err(MemoryError::Busy));
    drop(asked);
    // Whoever is gone holds no place any more.
    *rig.mood.lock() = Mood::Fine;
    while rig.client.get(MemoryId(Uuid::nil())).await != Ok(None) {
        tokio::task::yield_now().await;
    }
    *rig.mood.lock() = Mood::Panics;
    let lost = rig.client.recall(question()).await;
    assert!(matches!(lost, Err(MemoryError::Unavailable(_))), "{lost:?}");
    assert!(matches!(rig.actor.handle.ended().await, ExitReason::Panicked { .. }));
}
