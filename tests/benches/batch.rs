//! A batch of 1 000 parallel calls that do nothing, journal included, beside 1 000 bare ractor actors that do
//! the same.
//!
//! `cargo bench -p rookery-tests --bench batch`. The batch is the service's own: collector, one tool actor a
//! call, each begin and end in the journal of a real database (durability `process`), events and all. The bare
//! side spawns as many actors below one that collects, runs the same call in each, waits until they are gone,
//! and writes the same rows. What it takes without the rows is printed too. Numbers are printed, not asserted.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a bench is no actor, and fails at the place of the fault"
)]

#[path = "batch/bare.rs"]
mod bare;
#[path = "batch/ours.rs"]
mod ours;

#[global_allocator]
static ALLOCATOR: rookery::Allocator = rookery::ALLOCATOR;

/// Calls a batch.
const CALLS: usize = 1_000;
/// How often both sides take turns; the ratio is the middle one's.
const ROUNDS: usize = 11;
/// Longest the batch may take, in times of the bare side.
const TARGET: f64 = 3.0;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let service = ours::Service::start().await;
        let dir = tempfile::tempdir().unwrap();
        let journal = bare::Journal::open(&dir.path().join("bare.db"));
        // The first round of each warms allocator, caches and statements.
        bare::run(CALLS, Some(&journal)).await;
        service.batch(CALLS).await;
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            let idle = bare::run(CALLS, None).await;
            let theirs = bare::run(CALLS, Some(&journal)).await;
            let ours = service.batch(CALLS).await;
            rounds.push([ours, theirs, idle].map(|took| took.as_secs_f64() * 1e3));
        }
        let of = |pick: fn(&[f64; 3]) -> f64| median(rounds.iter().map(pick).collect());
        let ratio = of(|[ours, theirs, _]| ours / theirs);
        println!("{CALLS} parallel calls that do nothing; durability `process`");
        println!("  rookery: {:.1} ms", of(|[ours, ..]| *ours));
        println!("     bare: {:.1} ms", of(|[_, theirs, _]| *theirs));
        println!(
            "     bare, nothing written: {:.1} ms, ratio to that {:.2}",
            of(|[.., idle]| *idle),
            of(|[ours, _, idle]| ours / idle)
        );
        let verdict = if ratio <= TARGET { "met" } else { "MISSED" };
        println!("ratio: {ratio:.2}, target <= {TARGET}: {verdict}");
        service.stop().await;
    });
}

/// The middle one.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
