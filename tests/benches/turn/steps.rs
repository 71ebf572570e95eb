//! Does a step cost more the more steps there are, beyond the bytes that must be sent?

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::measure::{Load, median};

const STEPS: [usize; 3] = [1, 10, 40];
const REPEATS: usize = 7;

/// Prints, for turns of 1, 10 and 40 tool steps, the cost a step without what sending its bytes costs.
pub async fn report(load: &Load, model: &str) {
    let client = rookery_tests::http_client();
    let mut first = None;
    for steps in STEPS {
        let mut costs = Vec::new();
        let mut bytes = 0;
        for _ in 0..REPEATS {
            take_sizes(&client, model).await;
            let began = Instant::now();
            load.turn(&format!("steps:{steps};")).await;
            let took = began.elapsed();
            let sizes = take_sizes(&client, model).await;
            assert_eq!(sizes.len(), steps + 1, "one request a step, and the last");
            bytes = sizes.iter().sum();
            let sending = send(&client, model, &sizes).await;
            costs.push(took.saturating_sub(sending).as_secs_f64() / (steps + 1) as f64);
        }
        let cost = median(costs);
        let base = *first.get_or_insert(cost);
        println!(
            "{steps:>2} steps: {:.2} ms a request without sending, {:.2} x that of 1 step; {bytes} bytes sent",
            cost * 1e3,
            cost / base
        );
    }
}

async fn take_sizes(client: &reqwest::Client, model: &str) -> Vec<usize> {
    let text = client.get(format!("{model}/sizes")).send().await.unwrap().text().await.unwrap();
    serde_json::from_str(&text).unwrap()
}

/// How long it takes to send bodies of these sizes and read the replies.
async fn send(client: &reqwest::Client, model: &str, sizes: &[usize]) -> Duration {
    let began = Instant::now();
    for size in sizes {
        let padding = "x".repeat(size.saturating_sub(100));
        let body: Value =
            json!({"model": "mock", "messages": [{"role": "user", "content": padding}]});
        let request = client.post(format!("{model}/v1/chat/completions")).json(&body);
        request.send().await.unwrap().bytes().await.unwrap();
    }
    let took = began.elapsed();
    take_sizes(client, model).await;
    took
}
