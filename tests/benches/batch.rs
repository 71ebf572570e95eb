//! A batch of 1 000 parallel calls that do nothing, journal included, beside 1 000 bare ractor actors.
//!
//! `cargo bench -p rookery-tests --bench batch`. The batch is the service's own: collector, one tool actor a
//! call, each begin and end in the journal of a real database (durability `process`), events and all. The bare
//! side spawns as many actors, has each do nothing, and waits until they are gone. Numbers are printed, not
//! asserted.

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
        // The first round of each warms allocator, caches and statements.
        bare::run(CALLS).await;
        service.batch(CALLS).await;
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            let (theirs, ours) = (bare::run(CALLS).await, service.batch(CALLS).await);
            rounds.push((ours.as_secs_f64(), theirs.as_secs_f64()));
        }
        let ratio = median(rounds.iter().map(|(ours, theirs)| ours / theirs).collect());
        let side = |pick: fn(&(f64, f64)) -> f64| median(rounds.iter().map(pick).collect()) * 1e3;
        println!("{CALLS} parallel calls that do nothing; durability `process`");
        println!("  rookery: {:.1} ms", side(|round| round.0));
        println!("     bare: {:.1} ms", side(|round| round.1));
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
