//! A place where a script waits until the test lets it go on: no sleeps.

use std::sync::Arc;

use tokio::sync::watch;

use crate::wait::within;

/// Two facts that cross between a script and its test: *reached* and *open*.
#[derive(Clone)]
pub struct Gate(Arc<Inner>);

struct Inner {
    reached: watch::Sender<u32>,
    open: watch::Sender<bool>,
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Gate {
    /// A closed one.
    pub fn new() -> Self {
        Self(Arc::new(Inner { reached: watch::Sender::new(0), open: watch::Sender::new(false) }))
    }

    /// Waits until some script stands at the gate.
    pub async fn reached(&self) {
        self.reached_times(1).await;
    }

    /// Waits until scripts have come to the gate so many times in all.
    pub async fn reached_times(&self, times: u32) {
        let mut reached = self.0.reached.subscribe();
        within(&format!("a script reaches the gate {times} times"), async {
            reached.wait_for(|seen| *seen >= times).await.unwrap();
        })
        .await;
    }

    /// Lets everybody through, now and later.
    pub fn open(&self) {
        self.0.open.send_replace(true);
    }

    /// The script's side: says that it is here, and waits.
    pub async fn pass(&self) {
        self.0.reached.send_modify(|seen| *seen += 1);
        let mut open = self.0.open.subscribe();
        // The sender lives in `self`: this ends only by opening.
        let _ = open.wait_for(|open| *open).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_script_waits_at_a_gate_until_it_is_opened() {
        let gate = Gate::new();
        let script = tokio::spawn({
            let gate = gate.clone();
            async move { gate.pass().await }
        });
        gate.reached().await;
        assert!(!script.is_finished());
        gate.open();
        script.await.unwrap();
        gate.pass().await;
        gate.reached_times(2).await;
    }
}
