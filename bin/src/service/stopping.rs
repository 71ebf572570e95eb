//! The phases of a shutdown (DESIGN.md, section 8).

use std::sync::Arc;
use std::time::Duration;

use rookery_actors::runtime::{Directory, Entry};
use rookery_messages::channel::SenderMsg;
use rookery_messages::exit::StopReason;
use rookery_supervisors::shutdown::Phase;
use tokio::time::Instant;

use super::Running;

/// How long turns that are told to stop may take.
const STOP_LIMIT: Duration = Duration::from_secs(16);
/// How long senders may flush.
const FLUSH_LIMIT: Duration = Duration::from_secs(5);
/// How long the gateway may take to end what is in hand.
const GATEWAY_LIMIT: Duration = Duration::from_secs(6);
/// How long the rest of the tree may take.
const TREE_LIMIT: Duration = Duration::from_secs(30);
/// The same for what waits for a store that takes nothing: what is not written by then is gone on with at the
/// next start.
const LOST_STORE_LIMIT: Duration = Duration::from_secs(3);
/// How often a phase looks whether it is done.
const LOOK: Duration = Duration::from_millis(10);
/// So many of the turns that are waited for are in the log.
const LISTED: usize = 20;
/// What a turn that a person has to decide about waits on.
const WAITS_FOR_A_PERSON: &str = "waiting_approval";
/// What stands in the path of a turn, once for each turn it runs below.
const TURN: &str = "/turn/";

pub(super) fn phases(running: Running) -> Vec<Phase> {
    let Running { directory, root, store, senders, world, drain, store_health, .. } = running;
    let mut phases = Vec::new();
    let d = directory.clone();
    phases.push(Phase::new("intakes stop", Duration::from_secs(1), move |_, _| async move {
        Ok(format!("{} paused", pause(&d, "intake")))
    }));
    let d = directory.clone();
    phases.push(Phase::new(
        "sessions claim nothing",
        Duration::from_secs(1),
        move |_, _| async move {
            let paused = pause(&d, "router") + pause(&d, "session");
            Ok(format!("{paused} paused"))
        },
    ));
    let d = directory.clone();
    phases.push(Phase::new("turns finish", drain, move |_, _| async move {
        let mut parked = 0;
        for turn in d.of_kind("turn").iter().take(LISTED) {
            let waiting_on = turn.waiting_on();
            tracing::info!(turn = turn.path, waiting_on, "the end of a turn is waited for");
        }
        loop {
            let turns = d.of_kind("turn");
            for turn in parked_at_once(&d, &turns) {
                turn.stop(StopReason::Shutdown);
                parked += 1;
            }
            if turns.is_empty() {
                return Ok(format!("{parked} parked for an approval"));
            }
            tokio::time::sleep(LOOK).await;
        }
    }));
    let (d, health) = (directory.clone(), Arc::clone(&store_health));
    phases.push(
        Phase::new("the rest stops", STOP_LIMIT, move |_, _| {
            let turns = d.of_kind("turn");
            for turn in &turns {
                turn.stop(StopReason::Shutdown);
            }
            async move {
                let given_up = Instant::now() + LOST_STORE_LIMIT;
                while !d.of_kind("turn").is_empty() {
                    if Instant::now() >= given_up
                        && let Err(why) = health.standing()
                    {
                        return Ok(format!("they are left as they are: {why}"));
                    }
                    tokio::time::sleep(LOOK).await;
                }
                Ok(format!("{} stopped, to be resumed", turns.len()))
            }
        })
        .hurried(Duration::from_secs(5)),
    );
    let health = Arc::clone(&store_health);
    phases.push(Phase::new("senders flush", FLUSH_LIMIT, move |_, _| async move {
        loop {
            if let Err(why) = health.standing() {
                return Ok(format!("not waited for: {why}"));
            }
            let mut due = 0;
            for (channel, sender) in &senders {
                let next = store.outbox_due(channel.clone()).await.map_err(|e| e.to_string())?;
                if next.is_some_and(|at| at <= world.now()) {
                    due += 1;
                    // A full mailbox holds the same hint already.
                    let _ = sender.try_send(SenderMsg::Due);
                }
            }
            if due == 0 {
                return Ok("nothing is due".to_owned());
            }
            tokio::time::sleep(LOOK).await;
        }
    }));
    let d = directory.clone();
    phases.push(Phase::new("gateway", GATEWAY_LIMIT, move |_, _| {
        for gateway in d.of_kind("gateway") {
            gateway.stop(StopReason::Shutdown);
        }
        async move {
            while !d.of_kind("gateway").is_empty() {
                tokio::time::sleep(LOOK).await;
            }
            Ok("closed".to_owned())
        }
    }));
    phases.push(
        Phase::new("store", TREE_LIMIT, move |until, _| {
            let until = match store_health.standing() {
                Ok(()) => until,
                Err(_) => until.min(Instant::now() + LOST_STORE_LIMIT),
            };
            root.address.stop_by(StopReason::Shutdown, Some(until));
            async move {
                let reason = root.handle.ended().await;
                directory.wait_empty().await;
                Ok(format!("the tree ended: {reason}"))
            }
        })
        .hurried(Duration::from_secs(10)),
    );
    phases
}

fn pause(directory: &Directory, kind: &str) -> usize {
    directory.of_kind(kind).iter().filter(|entry| entry.drain()).count()
}

/// The turns in which nothing happens before a person answers, and nobody knows when that is: parked at
/// once, asked again after the start. A turn that waits for others below it is parked with them, if all of
/// them wait and none of its tools runs.
fn parked_at_once<'a>(directory: &Directory, turns: &'a [Arc<Entry>]) -> Vec<&'a Arc<Entry>> {
    let tools = directory.of_kind("tool");
    let outermost = turns.iter().filter(|turn| turn.path.matches(TURN).count() == 1);
    outermost
        .filter(|outer| {
            let within = format!("{}/", outer.path);
            let inside = |path: &str| path == outer.path || path.starts_with(&within);
            let last = |turn: &Entry| {
                let below = format!("{}/", turn.path);
                !turns.iter().any(|other| other.path.starts_with(&below))
            };
            let waits = |turn: &Entry| turn.waiting_on().as_deref() == Some(WAITS_FOR_A_PERSON);
            let mut ends = turns.iter().filter(|turn| inside(&turn.path) && last(turn));
            ends.all(|turn| waits(turn)) && !tools.iter().any(|tool| inside(&tool.path))
        })
        .collect()
}
