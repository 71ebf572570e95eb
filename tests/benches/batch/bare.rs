//! As many actors by ractor alone: spawned, told to do nothing, reported, gone.

use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// An actor that answers its one message and stops.
struct Bare;

impl Actor for Bare {
    type Msg = ();
    type State = (usize, mpsc::Sender<usize>);
    type Arguments = (usize, mpsc::Sender<usize>);

    async fn pre_start(
        &self,
        myself: ActorRef<()>,
        args: Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        myself.send_message(())?;
        Ok(args)
    }

    async fn handle(
        &self,
        myself: ActorRef<()>,
        (): (),
        (slot, report): &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        report.send(*slot).await?;
        myself.stop(None);
        Ok(())
    }
}

/// How long so many take.
pub async fn run(actors: usize) -> Duration {
    let (report, mut reports) = mpsc::channel(actors);
    let began = Instant::now();
    let mut handles = Vec::with_capacity(actors);
    for slot in 0..actors {
        let (_, handle) = Bare::spawn(None, Bare, (slot, report.clone())).await.unwrap();
        handles.push(handle);
    }
    for _ in 0..actors {
        reports.recv().await.unwrap();
    }
    for handle in handles {
        handle.await.unwrap();
    }
    began.elapsed()
}
