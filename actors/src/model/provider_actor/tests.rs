use std::time::Duration;

use futures_util::future::join_all;
use rookery_messages::BoxFuture;
use rookery_messages::address::Address;
use rookery_messages::exit::StopReason;
use rookery_messages::model::{ModelErrorClass, ModelRequest, ModelStream};
use tokio::time::advance;

use super::*;
use crate::runtime::{Directory, SpawnSpec, Spawner, system_world};

struct Unused;

impl ModelProvider for Unused {
    fn kind(&self) -> &str {
        "unused"
    }

    fn model(&self) -> &str {
        "none"
    }

    fn stream(&self, _: ModelRequest) -> BoxFuture<'_, Result<ModelStream, ModelError>> {
        Box::pin(async { Err(ModelError::new(ModelErrorClass::Server, "nobody asks")) })
    }
}

struct Rig {
    spawner: Spawner,
    address: Address<ProviderMsg>,
}

impl Rig {
    async fn new(max_concurrency: usize, requests_per_minute: Option<u32>) -> Self {
        let world = system_world();
        let spawner = Spawner::new(Directory::new(world.clone()), world);
        let args = ProviderArgs {
            name: "main".into(),
            provider: Arc::new(Unused),
            max_concurrency,
            requests_per_minute,
            max_retry_after: Duration::from_secs(300),
            ceiling: Arc::default(),
        };
        let actor = spawner.spawn::<ProviderActor>(SpawnSpec::new("main"), args).await.unwrap();
        Self { spawner, address: actor.address }
    }

    async fn ask(&self) -> oneshot::Receiver<Admission> {
        let (reply, answer) = oneshot::channel();
        self.address.send(ProviderMsg::Acquire { reply }).await.unwrap();
        answer
    }

    async fn admission(&self) -> Admission {
        self.ask().await.await.unwrap()
    }

    async fn slot(&self) -> Slot {
        match self.admission().await {
            Admission::Granted(slot) => slot,
            other => panic!("{other:?}"),
        }
    }

    async fn wait(&self) -> Option<Duration> {
        match self.admission().await {
            Admission::CoolingDown { wait, .. } => Some(wait),
            Admission::Granted(_) => None,
            Admission::Refused(error) => panic!("{error}"),
        }
    }

    async fn outcome(&self, error: Option<ModelError>) {
        self.address.send(ProviderMsg::Outcome { error }).await.unwrap();
    }

    async fn over(self) {
        self.address.stop(StopReason::Shutdown);
        while !self.spawner.directory().counts().is_empty() {
            tokio::task::yield_now().await;
        }
    }
}

fn limited(after: Option<Duration>) -> ModelError {
    ModelError { retry_after: after, ..ModelError::new(ModelErrorClass::RateLimited, "slow") }
}

// R17
#[tokio::test(start_paused = true)]
async fn no_more_calls_run_at_once_than_there_are_places_and_who_waits_gets_the_next() {
    let rig = Rig::new(2, None).await;
    let (first, second) = (rig.slot().await, rig.slot().await);
    let waiting = [rig.ask().await, rig.ask().await];
    // One of those that wait is stopped: it takes no place.
    let [stopped, mut last] = waiting;
    drop(stopped);
    assert!(last.try_recv().is_err());
    drop(first.permit);
    let third = match last.await.unwrap() {
        Admission::Granted(slot) => slot,
        other => panic!("{other:?}"),
    };
    drop((second, third));
    drop((rig.slot().await, rig.slot().await));
    rig.over().await;
}

// A045, A046, V-L6
#[tokio::test(start_paused = true)]
async fn after_a_refusal_all_calls_are_sent_away_until_then_and_come_back_spread_out() {
    let rig = Rig::new(64, None).await;
    let seven = Duration::from_secs(7);
    rig.outcome(Some(limited(Some(seven)))).await;
    let waits = join_all((0..20).map(|_| rig.wait())).await;
    let waits: Vec<Duration> = waits.into_iter().map(|wait| wait.unwrap()).collect();
    assert!(waits.iter().all(|wait| (seven..=seven + seven / 10).contains(wait)), "{waits:?}");
    assert!(waits.iter().any(|wait| *wait != waits[0]), "they all come back at once");
    // Being sent away is no evidence: the time stays what the provider said.
    advance(seven).await;
    assert_eq!(rig.wait().await, None);
    rig.over().await;
}

// V-L6: days are no time to wait
#[tokio::test(start_paused = true)]
async fn who_asks_for_days_is_asked_again_after_the_longest_wait_that_is_believed() {
    let rig = Rig::new(64, None).await;
    for (asked, believed, cut) in [(200, 200, false), (3_600, 300, true)] {
        rig.outcome(Some(limited(Some(Duration::from_secs(asked))))).await;
        let believed = Duration::from_secs(believed);
        match rig.admission().await {
            Admission::CoolingDown { wait, capped, .. } => {
                assert!((believed..=believed + believed / 10).contains(&wait), "{wait:?}");
                assert_eq!(capped, cut);
            }
            other => panic!("{other:?}"),
        }
        advance(believed).await;
        assert_eq!(rig.wait().await, None);
    }
    rig.over().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waited_for_a_place_is_sent_away_if_the_provider_cools_down_meanwhile() {
    let rig = Rig::new(1, None).await;
    let slot = rig.slot().await;
    let waiting = rig.ask().await;
    rig.outcome(Some(limited(Some(Duration::from_secs(9))))).await;
    assert!(rig.wait().await.is_some());
    drop(slot);
    assert!(matches!(waiting.await.unwrap(), Admission::CoolingDown { .. }));
    rig.over().await;
}

// R17
#[tokio::test(start_paused = true)]
async fn the_limit_of_calls_a_minute_is_shared_by_all_and_shown_in_the_tree() {
    let rig = Rig::new(64, Some(2)).await;
    drop((rig.slot().await, rig.slot().await));
    let wait = rig.wait().await.unwrap();
    assert!((Duration::from_secs(60)..=Duration::from_secs(66)).contains(&wait), "{wait:?}");
    advance(Duration::from_secs(60)).await;
    assert_eq!(rig.wait().await, None);
    rig.over().await;
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_is_down_is_asked_by_one_call_at_a_time_until_it_is_back() {
    let rig = Rig::new(64, None).await;
    let down = ModelError::new(ModelErrorClass::Network, "down");
    for _ in 0..8 {
        drop(rig.slot().await);
        rig.outcome(Some(down.clone())).await;
    }
    assert!(rig.wait().await.is_some());
    advance(Duration::from_secs(5)).await;
    let probe = rig.slot().await;
    assert!(rig.wait().await.is_some(), "one probe is out");
    drop(probe);
    rig.outcome(None).await;
    assert_eq!(join_all((0..20).map(|_| rig.wait())).await, [None; 20]);
    rig.over().await;
}
