//! Many turns at once: none fails, none is lost or doubled, and everything returns to its level.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails at the place of the fault"
)]

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rookery_tests::level::Slack;
use rookery_tests::quiet::{count_live, count_tasks};
use rookery_tests::wait::until;
use rookery_tests::{Api, Config, Reply, World, program};

const TURNS: usize = 2_000;
const CONCURRENCY: usize = 64;
const CONVERSATIONS: usize = 500;

/// What pools may keep: connections to the model and of the test's own client, memory of the allocator.
const SLACK: Slack = Slack { rss_kib: 64 * 1_024, fds: 2 * CONCURRENCY + 16, threads: 8 };

/// Sends `turns` messages, so many at a time; gives the replies.
async fn rush(api: &Api, name: &str, turns: usize) -> Vec<String> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..CONCURRENCY {
        let (api, next, name) = (api.clone(), Arc::clone(&next), name.to_owned());
        workers.spawn(async move {
            let mut replies = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= turns {
                    return replies;
                }
                let conversation = format!("c{}", number % CONVERSATIONS);
                let text = format!("{name} {number}.");
                let turn = api.say(&conversation, &text).await;
                assert_eq!(turn.result(), "answered", "{turn:?}");
                assert_eq!(turn.text(), format!("re: {text}"));
                replies.push(turn.text().to_owned());
            }
        });
    }
    workers.join_all().await.concat()
}

async fn at_rest(world: &World) {
    until("every session has gone to rest", || async {
        let tree = world.api.tree().await;
        match rookery_tests::quiet::live_of_kind(&tree, "session") {
            left if left.is_empty() => Ok(()),
            left => Err(format!("{} sessions", left.len())),
        }
    })
    .await;
}

// I1, I2, I13
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_turns_at_concurrency_64_leave_nothing_behind() {
    let config = Config::new().webhook("queue_limit = 200").provider("max_concurrency = 64");
    let world = World::start(program!(), config).await;
    world.model.forget_requests();
    world.model.rule("", |body| {
        let said = rookery_tests::model::last_user(body);
        Reply::deltas(["re", ": ", said.as_str()])
    });
    // Once, so that pools, caches and the allocator have their size.
    rush(&world.api, "warm-up", 256).await;
    at_rest(&world).await;
    let (before, tree) = (world.service.level(), world.api.tree().await);
    let (actors, tasks) = (count_live(&tree), count_tasks(&tree));

    let replies = rush(&world.api, "load", TURNS).await;
    assert_eq!(replies.iter().collect::<HashSet<_>>().len(), TURNS);
    assert_eq!(world.model.count(), 256 + TURNS, "one request a turn");
    let ledger = world.api.ledger().await;
    assert_eq!((ledger.accepted, ledger.answered, ledger.open), (2_256, 2_256, 0));

    at_rest(&world).await;
    until("actors, tasks, handles, threads and memory return to their level", || async {
        let tree = world.api.tree().await;
        let (live, owned) = (count_live(&tree), count_tasks(&tree));
        // The connection that asks is an actor too.
        if live > actors + 1 || owned > tasks + 2 {
            return Err(format!("{live} actors, {actors} before; {owned} tasks, {tasks} before"));
        }
        world.service.level().back_to(&before, &SLACK)
    })
    .await;
    world.finish().await;
}
