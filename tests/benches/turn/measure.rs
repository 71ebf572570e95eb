//! The client of both, and the arithmetic.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::DELTAS;

/// Targets of the comparison.
const RATE_TARGET: f64 = 0.3;
const P50_TARGET: f64 = 3.0;

/// A server under load.
#[derive(Clone)]
pub struct Load {
    client: reqwest::Client,
    url: String,
    name: &'static str,
    sent: Arc<AtomicUsize>,
}

/// One run: requests a second, and the middle latency.
#[derive(Clone, Copy)]
pub struct Run {
    pub rate: f64,
    pub p50: Duration,
}

/// Service and bare loop, one after the other.
pub struct Round {
    pub alone: (Run, Run),
    pub many: (Run, Run),
}

impl Load {
    /// Our webhook at this address.
    pub fn webhook(base: &str) -> Self {
        Self::new(format!("{base}/v1/channels/webhook/ci?wait=60"), "rookery")
    }

    /// The bare loop at this address.
    pub fn bare(base: &str) -> Self {
        Self::new(format!("{base}/turn"), "bare loop")
    }

    fn new(url: String, name: &'static str) -> Self {
        Self { client: rookery_tests::http_client(), url, name, sent: Arc::default() }
    }

    /// One turn in a conversation of its own; gives the reply.
    pub async fn turn(&self, text: &str) -> String {
        let number = self.sent.fetch_add(1, Ordering::Relaxed);
        let body = json!({
            "id": format!("m{number}"), "sender": "bench",
            "conversation": format!("c{number}"), "text": text
        });
        let response = self.client.post(&self.url).json(&body).send().await.unwrap();
        let answer: Value = response.json().await.unwrap();
        answer["reply"].as_str().unwrap_or_else(|| panic!("{}: {answer}", self.name)).to_owned()
    }

    /// So many turns, so many at a time.
    pub async fn run(&self, concurrency: usize, turns: usize) -> Run {
        let left = Arc::new(AtomicUsize::new(turns));
        let began = Instant::now();
        let mut workers = tokio::task::JoinSet::new();
        for _ in 0..concurrency {
            let (load, left) = (self.clone(), Arc::clone(&left));
            workers.spawn(async move { load.work(&left).await });
        }
        let mut took = workers.join_all().await.concat();
        let total = began.elapsed();
        took.sort();
        assert_eq!(took.len(), turns);
        Run { rate: turns as f64 / total.as_secs_f64(), p50: took[turns / 2] }
    }

    async fn work(&self, left: &AtomicUsize) -> Vec<Duration> {
        let mut took = Vec::new();
        while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok()
        {
            let began = Instant::now();
            let reply = self.turn("hello").await;
            took.push(began.elapsed());
            assert_eq!(reply.split_whitespace().count(), 2 * DELTAS, "{}: {reply}", self.name);
        }
        took
    }
}

/// The middle one.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Prints each side and the ratios.
pub fn report(rounds: &[Round]) {
    for (name, pick) in [("rookery", 0), ("bare loop", 1)] {
        let side = |pair: &(Run, Run)| if pick == 0 { pair.0 } else { pair.1 };
        let p50 = median(rounds.iter().map(|round| side(&round.alone).p50.as_secs_f64()).collect());
        let rate = median(rounds.iter().map(|round| side(&round.many).rate).collect());
        println!("{name:>10}: p50 alone {:.2} ms, rate at 32 {rate:.0}/s", p50 * 1e3);
    }
    let rate = median(rounds.iter().map(|round| round.many.0.rate / round.many.1.rate).collect());
    let p50 = rounds
        .iter()
        .map(|round| round.alone.0.p50.as_secs_f64() / round.alone.1.p50.as_secs_f64());
    let p50 = median(p50.collect());
    let verdict = |met: bool| if met { "met" } else { "MISSED" };
    println!(
        "rate ratio at 32: {rate:.2}, target >= {RATE_TARGET}: {}",
        verdict(rate >= RATE_TARGET)
    );
    println!("p50 ratio alone:  {p50:.2}, target <= {P50_TARGET}: {}", verdict(p50 <= P50_TARGET));
}
