use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rookery_messages::chat::Usage;
use rookery_messages::exit::{ExitReason, StopReason};
use rookery_messages::ids::{AgentName, CallId, ChannelId, ConversationId, TurnId};
use rookery_messages::model::ModelErrorClass;
use rookery_messages::observe::{Observation, Observer, ObserverMsg, TurnScope};
use rookery_messages::store::CrashRow;
use rookery_messages::turn::{CallState, Outcome};
use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::runtime::{Child, Directory, SpawnSpec, Spawner, system_world};

fn scope() -> TurnScope {
    TurnScope {
        turn: TurnId(Uuid::from_u128(7)),
        conversation_id: ConversationId(Uuid::from_u128(8)),
        channel: ChannelId::new("webhook.ci"),
        agent: AgentName::new("home"),
    }
}

fn started() -> Observation {
    Observation::TurnStarted { scope: scope(), attempt: 1 }
}

fn tool_call(tool: &str, state: CallState) -> Observation {
    Observation::ToolCall {
        scope: scope(),
        call: CallId(Uuid::from_u128(9)),
        provider_id: None,
        tool: tool.into(),
        arguments: json!({ "path": "/secret/place" }),
        state,
        duration: Duration::from_millis(30),
        output: "a long story".into(),
    }
}

#[derive(Default)]
struct Seen(Mutex<Vec<Observation>>);

impl Observer for Seen {
    fn observe(&self, observation: &Observation) {
        self.0.lock().push(observation.clone());
    }
}

struct Grumpy;

impl Observer for Grumpy {
    fn observe(&self, _: &Observation) {
        panic!("I don't want to know");
    }
}

struct Rig {
    spawner: Spawner,
    child: Child<ObserverMsg>,
    panics: Arc<AtomicU64>,
}

impl Rig {
    async fn new(sinks: Vec<Arc<dyn Observer>>) -> Self {
        let world = system_world();
        let spawner = Spawner::new(Directory::new(world.clone()), world);
        let panics = Arc::default();
        let args = ObserverArgs { sinks, panics: Arc::clone(&panics) };
        let spec = SpawnSpec::new("observer").mailbox(4);
        let child = spawner.spawn::<ObserverActor>(spec, args).await.unwrap();
        Self { spawner, child, panics }
    }

    async fn tell(&self, observation: Observation) {
        let message = ObserverMsg::Observed(Box::new(observation));
        self.child.address.send(message).await.unwrap();
    }

    /// The actor has handled all it was told.
    async fn settled(&self) -> serde_json::Value {
        let entry = self.spawner.directory().find("observer").unwrap();
        entry.observe(Duration::from_secs(5)).await
    }

    async fn finish(self) {
        self.child.address.stop(StopReason::Shutdown);
        self.spawner.directory().wait_empty().await;
    }
}

#[tokio::test]
async fn a_sink_that_panics_costs_itself_only() {
    // V-N5
    let (before, after) = (Arc::<Seen>::default(), Arc::<Seen>::default());
    let rig = Rig::new(vec![before.clone(), Arc::new(Grumpy), after.clone()]).await;
    for _ in 0..3 {
        rig.tell(started()).await;
    }
    assert_eq!(rig.settled().await, json!({ "sinks": 3, "panics": [0, 3, 0] }));
    assert_eq!((before.0.lock().len(), after.0.lock().len()), (3, 3));
    assert_eq!(rig.panics.load(Ordering::Relaxed), 3);
    rig.finish().await;
}

#[tokio::test]
async fn a_full_or_absent_observer_costs_the_observation_which_is_counted() {
    // V-N5, I10
    struct Gate(Mutex<std::sync::mpsc::Receiver<()>>);
    impl Observer for Gate {
        fn observe(&self, _: &Observation) {
            let _ = self.0.lock().recv();
        }
    }
    let (open, gate) = std::sync::mpsc::sync_channel(16);
    let rig = Rig::new(vec![Arc::new(Gate(Mutex::new(gate)))]).await;
    let handle = ObserverHandle::new(rig.child.address.clone());
    // The runtime has one thread: nothing is handled before this test waits.
    for _ in 0..10 {
        handle.observe(started());
    }
    assert_eq!(handle.lost(), 6);
    for _ in 0..4 {
        open.send(()).unwrap();
    }
    rig.settled().await;
    rig.finish().await;
    handle.observe(started());
    assert_eq!(handle.lost(), 7);
}

#[test]
fn a_slow_subscriber_loses_what_it_has_no_room_for_and_one_that_left_is_let_go() {
    // V-N5
    let feed = ObservationFeed::new();
    feed.observe(&started());
    let (mut slow, mut quick, gone) = (feed.subscribe(1), feed.subscribe(8), feed.subscribe(8));
    drop(gone);
    for _ in 0..3 {
        feed.observe(&started());
    }
    assert_eq!(feed.lost(), 2);
    assert!(slow.try_recv().is_ok() && slow.try_recv().is_err());
    for _ in 0..3 {
        assert_eq!(*quick.try_recv().unwrap(), started());
    }
    drop((slow, quick));
    feed.observe(&started());
    assert_eq!(feed.lost(), 2);
}

fn metrics(directory: Arc<Directory>, observer: ObserverHandle) -> Arc<Metrics> {
    let names = |names: &[&str]| -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    };
    let known = Known {
        channels: names(&["webhook.ci"]),
        providers: names(&["main"]),
        tools: names(&["time"]),
    };
    let (feed, panics) = (ObservationFeed::new(), Arc::default());
    Metrics::new(known, Sources { directory, observer, feed, panics, mcp: Vec::new() })
}

fn line<'a>(text: &'a str, name: &str) -> &'a str {
    text.lines().find(|line| line.starts_with(name)).unwrap_or("absent")
}

#[tokio::test]
async fn observations_become_counters_with_bounded_labels() {
    let metrics = metrics(Directory::new(system_world()), ObserverHandle::nobody());
    let channel = ChannelId::new("webhook.ci");
    let stranger = ChannelId::new("webhook.00000000-0000");
    let accepted = |channel: &ChannelId, duplicate, rejected| Observation::Accepted {
        channel: channel.clone(),
        duplicate,
        rejected,
    };
    let model = |error| Observation::ModelCall {
        scope: scope(),
        provider: "main".into(),
        error,
        duration: Duration::from_millis(700),
        usage: Usage { input: 10, output: 3 },
    };
    let panicked = ExitReason::Panicked { message: "boom".into(), location: "x:1".into() };
    let observations = [
        accepted(&channel, false, false),
        accepted(&channel, true, false),
        accepted(&channel, false, true),
        accepted(&stranger, false, false),
        Observation::Refused { surface: "gateway".into(), reason: "signature" },
        Observation::Refused { surface: "webhook.whatever".into(), reason: "unknown_alias" },
        started(),
        Observation::TurnEnded {
            scope: scope(),
            outcome: Outcome::Answered,
            duration: Duration::from_secs(1),
            usage: Usage::default(),
            error: None,
        },
        model(None),
        model(Some(ModelErrorClass::RateLimited)),
        tool_call("time", CallState::Succeeded),
        tool_call("made_up_by_a_model", CallState::Failed),
        Observation::Gate { scope: scope(), tool: "time".into(), decision: "allowed" },
        Observation::Approval { scope: scope(), decision: "approve" },
        Observation::StoreFailed { code: "store_full" },
        Observation::Delivery { channel, result: "sent", cause: None },
        Observation::Trimmed { scope: scope(), dropped: 4 },
        Observation::Repaired { scope: scope(), changes: 2 },
        Observation::Recalled {
            scope: scope(),
            success: true,
            entries: 3,
            duration: Duration::from_millis(1),
            error: None,
        },
        Observation::ActorExit {
            kind: "tool",
            path: "root/x".into(),
            reason: panicked,
            in_hand: None,
        },
    ];
    for observation in &observations {
        metrics.observe(observation);
    }
    let text = metrics.render();
    for expected in [
        r#"rookery_messages_total{channel="webhook.ci",result="accepted"} 1"#,
        r#"rookery_memory_recalls_total{result="told"} 1"#,
        r#"rookery_messages_total{channel="webhook.ci",result="duplicate"} 1"#,
        r#"rookery_messages_total{channel="webhook.ci",result="rejected"} 1"#,
        r#"rookery_messages_total{channel="other",result="accepted"} 1"#,
        r#"rookery_refused_total{surface="gateway",reason="signature"} 1"#,
        r#"rookery_refused_total{surface="other",reason="unknown_alias"} 1"#,
        "rookery_turn_attempts_total 1",
        r#"rookery_turns_total{outcome="answered"} 1"#,
        r#"rookery_turns_total{outcome="failed"} 0"#,
        "rookery_turn_duration_seconds_count 1",
        r#"rookery_model_calls_total{provider="main",error="none"} 1"#,
        r#"rookery_model_calls_total{provider="main",error="rate_limited"} 1"#,
        r#"rookery_model_call_duration_seconds_count{provider="main"} 2"#,
        r#"rookery_tokens_total{provider="main",direction="input"} 20"#,
        r#"rookery_tool_calls_total{tool="time",state="succeeded"} 1"#,
        r#"rookery_tool_calls_total{tool="other",state="failed"} 1"#,
        r#"rookery_gate_decisions_total{decision="allowed"} 1"#,
        r#"rookery_approvals_total{decision="approve"} 1"#,
        r#"rookery_store_failures_total{code="store_full"} 1"#,
        r#"rookery_deliveries_total{channel="webhook.ci",result="sent"} 1"#,
        "rookery_history_trimmed_messages_total 4",
        "rookery_history_repairs_total 2",
        r#"rookery_actor_exits_total{kind="tool",reason="panicked"} 1"#,
        r#"rookery_invariant_violations_total{invariant="I10"} "#,
    ] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
    // No id is a label, and every name is ours.
    assert!(!text.contains("00000000-0000"), "{text}");
    let ours = |line: &str| line.starts_with("rookery_") || line.starts_with('#');
    assert!(text.lines().all(ours), "{text}");
    metrics.know_tools(["made_up_by_a_model".to_owned()]);
    metrics.observe(&tool_call("made_up_by_a_model", CallState::Failed));
    let known = r#"rookery_tool_calls_total{tool="made_up_by_a_model",state="failed"} 1"#;
    assert!(metrics.render().contains(known));
}

#[tokio::test]
async fn live_numbers_are_read_at_the_scrape() {
    let rig = Rig::new(Vec::new()).await;
    let handle = ObserverHandle::new(rig.child.address.clone());
    let metrics = metrics(Arc::clone(rig.spawner.directory()), handle.clone());
    for _ in 0..5 {
        handle.observe(started());
    }
    let text = metrics.render();
    assert_eq!(line(&text, "rookery_actors{"), r#"rookery_actors{kind="observer"} 1"#);
    assert_eq!(line(&text, "rookery_mailbox_depth_max "), "rookery_mailbox_depth_max 4");
    assert_eq!(line(&text, "rookery_tasks "), "rookery_tasks 0");
    let lost = r#"rookery_observations_lost_total{at="observer"} 1"#;
    assert_eq!(line(&text, "rookery_observations_lost_total"), lost);
    rig.settled().await;
    rig.finish().await;
    assert_eq!(line(&metrics.render(), "rookery_actors{"), "absent");
}

#[tokio::test]
async fn unplanned_ends_become_an_observation_and_a_crash_row_and_planned_ones_do_not() {
    struct Fuse;
    impl Observer for Fuse {
        fn observe(&self, _: &Observation) {}
    }
    let seen = Arc::<Seen>::default();
    let rig = Rig::new(vec![seen.clone()]).await;
    let rows: Arc<Mutex<Vec<CrashRow>>> = Arc::default();
    let kept = Arc::clone(&rows);
    let handle = ObserverHandle::new(rig.child.address.clone());
    let hook = exit_hook(handle, move |row| kept.lock().push(row));
    let world = system_world();
    let other = Spawner::new(Directory::new(world.clone()), world);
    other.directory().set_exit_hook(hook);
    let args = || ObserverArgs { sinks: vec![Arc::new(Fuse)], panics: Arc::default() };
    let spawn = async |name: &str| {
        other.spawn::<ObserverActor>(SpawnSpec::new(name), args()).await.unwrap()
    };
    let planned = spawn("planned").await;
    planned.address.stop(StopReason::Shutdown);
    planned.handle.ended().await;
    let killed = spawn("killed").await;
    other.directory().find("killed").unwrap().kill_by("ada");
    killed.handle.ended().await;
    rig.settled().await;
    let exit = Observation::ActorExit {
        kind: "observer",
        path: "killed".into(),
        reason: ExitReason::Killed,
        in_hand: None,
    };
    assert_eq!(*seen.0.lock(), [exit]);
    let rows = rows.lock().clone();
    assert_eq!(
        (rows.len(), rows[0].path.as_str(), rows[0].cause.as_str()),
        (1, "killed", "killed by operator ada")
    );
    rig.finish().await;
}

#[test]
fn a_crash_row_keeps_cause_and_place_apart() {
    let rows: Arc<Mutex<Vec<CrashRow>>> = Arc::default();
    let kept = Arc::clone(&rows);
    let hook = exit_hook(ObserverHandle::nobody(), move |row| kept.lock().push(row));
    let world = system_world();
    hook(&crate::runtime::ExitRecord {
        id: rookery_messages::ids::ActorId(3),
        kind: "tool",
        path: "root/tool".into(),
        reason: ExitReason::Panicked { message: "😀".repeat(1_000), location: "a.rs:1:2".into() },
        at: world.now(),
        in_hand: Some("Run"),
        killed_by: None,
    });
    let row = rows.lock().remove(0);
    assert!(row.cause.starts_with("panicked: 😀") && row.cause.len() <= 2_000); // A136
    assert_eq!(row.location.as_deref(), Some("a.rs:1:2"));
    assert_eq!(row.message_in_hand.as_deref(), Some("Run"));
}

/// Keeps each event as `LEVEL name=value …`.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Lines {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        struct Fields(String);
        impl tracing::field::Visit for Fields {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0.push_str(&format!(" {}={value:?}", field.name()));
            }
        }
        let mut fields = Fields(event.metadata().level().to_string());
        event.record(&mut fields);
        self.0.lock().push(fields.0);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn log_lines_carry_turn_and_actor_ids_and_neither_arguments_nor_results() {
    let lines = Lines::default();
    tracing::subscriber::with_default(lines.clone(), || {
        LogObserver.observe(&started());
        LogObserver.observe(&tool_call("time", CallState::Succeeded));
        LogObserver.observe(&Observation::ModelCall {
            scope: scope(),
            provider: "main".into(),
            error: Some(ModelErrorClass::Auth),
            duration: Duration::from_millis(5),
            usage: Usage::default(),
        });
        LogObserver.observe(&Observation::ActorExit {
            kind: "tool",
            path: "root/service/x".into(),
            reason: ExitReason::Killed,
            in_hand: Some("Run"),
        });
    });
    let lines = lines.0.lock().clone();
    let turn = "turn=00000000-0000-0000-0000-000000000007";
    assert_eq!(lines.len(), 4, "{lines:?}");
    for line in &lines[..3] {
        assert!(line.contains(turn), "{line}");
    }
    let text = lines.join("\n");
    assert!(!text.contains("secret") && !text.contains("story"), "{text}");
    for expected in [
        "INFO message=turn started",
        r#"tool="time" state="succeeded" duration_ms=30"#,
        r#"WARN message=model call failed"#,
        r#"error="provider_auth""#,
        r#"ERROR message=actor crashed actor="root/service/x" kind="tool" reason=killed in_hand="Run""#,
    ] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
}

#[tokio::test]
async fn a_scrape_says_what_waits_and_since_when() {
    use rookery_messages::store::Backlog;
    use rookery_messages::turn::TurnState;

    let metrics = metrics(Directory::new(system_world()), ObserverHandle::nobody());
    assert_eq!(line(&metrics.render(), "rookery_ready"), "absent", "nobody has looked yet");
    let at: jiff::Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
    let backlog = Backlog {
        open: vec![(TurnState::Queued, 7), (TurnState::Running, 2)],
        oldest_open: Some(at - Duration::from_secs(90)),
        approvals: 3,
        outbox: 4,
        dead_letters: 5,
    };
    metrics.note(crate::observe::Standing { at, ready: true, backlog: Some(backlog) });
    let text = metrics.render();
    for expected in [
        "rookery_ready 1",
        "rookery_turns_open{state=\"queued\"} 7",
        "rookery_turns_open{state=\"running\"} 2",
        "rookery_turns_open{state=\"waiting_approval\"} 0",
        "rookery_oldest_open_turn_seconds 90",
        "rookery_approvals_pending 3",
        "rookery_outbox_waiting 4",
        "rookery_dead_letters 5",
    ] {
        assert!(text.lines().any(|line| line == expected), "{expected}:\n{text}");
    }
    // Without the store's answer its numbers are absent, not stale.
    metrics.note(crate::observe::Standing { at, ready: false, backlog: None });
    let text = metrics.render();
    assert_eq!(line(&text, "rookery_ready"), "rookery_ready 0");
    assert_eq!(line(&text, "rookery_dead_letters"), "absent");
    assert!(line(&text, "rookery_build_info").contains(env!("CARGO_PKG_VERSION")));
}
