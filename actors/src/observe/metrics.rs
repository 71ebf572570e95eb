//! Observations as Prometheus metrics. All names begin with `rookery_`.
//!
//! Labels are bounded: channels, providers and tools are known from the configuration and the registry,
//! everything else is `other`; ids are never labels. Numbers of live things are read from the directory
//! at the scrape.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::RwLock;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use rookery_messages::chat::Usage;
use rookery_messages::invariant::{self, Invariant};
use rookery_messages::model::ModelErrorClass;
use rookery_messages::observe::{Observation, Observer};
use rookery_messages::store::Backlog;
use rookery_messages::turn::{Outcome, TurnState};

use super::feed::ObservationFeed;
use super::handle::ObserverHandle;
use crate::runtime::Directory;
use crate::tool::mcp::{Link, Status};

/// Most names of one kind that become labels.
const NAMES: usize = 512;
const OTHER: &str = "other";

type Label = Cow<'static, str>;
type Counts<const N: usize> = Family<[(&'static str, Label); N], Counter>;
type Durations = Family<[(&'static str, Label); 1], Histogram, fn() -> Histogram>;

/// The names that may become labels.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Configured channels.
    pub channels: BTreeSet<String>,
    /// Configured provider profiles.
    pub providers: BTreeSet<String>,
    /// Registered tools.
    pub tools: BTreeSet<String>,
}

/// Where numbers of live things are read at the scrape.
#[derive(Clone)]
pub struct Sources {
    /// Actors, tasks, mailboxes.
    pub directory: Arc<Directory>,
    /// Observations that found no room.
    pub observer: ObserverHandle,
    /// Observations that subscribers were too slow for.
    pub feed: Arc<ObservationFeed>,
    /// Panics of sinks; the same as the observer actor's.
    pub panics: Arc<AtomicU64>,
    /// MCP servers.
    pub mcp: Vec<Arc<Link>>,
}

/// How the service stands, noted before a scrape by somebody who may wait for the store.
#[derive(Clone, Debug)]
pub struct Standing {
    /// When.
    pub at: Timestamp,
    /// What `/readyz` says.
    pub ready: bool,
    /// What waits; none: the store did not say in time.
    pub backlog: Option<Backlog>,
}

/// The registry and its observer.
pub struct Metrics {
    known: RwLock<Known>,
    standing: Arc<RwLock<Option<Standing>>>,
    registry: Registry,
    messages: Counts<2>,
    refused: Counts<2>,
    attempts: Counter,
    turns: Counts<1>,
    turn_seconds: Histogram,
    model_calls: Counts<2>,
    model_seconds: Durations,
    tokens: Counts<2>,
    tool_calls: Counts<2>,
    tool_seconds: Durations,
    gate: Counts<1>,
    hooks: Counts<2>,
    loops: Counts<2>,
    approvals: Counts<1>,
    deliveries: Counts<2>,
    exits: Counts<2>,
    store_failures: Counts<1>,
    trimmed: Counter,
    repaired: Counter,
    cost: Counts<1>,
    over_budget: Counter,
    recalls: Counts<1>,
    meanings_failed: Counts<2>,
}

impl Metrics {
    /// With all counters at zero.
    pub fn new(known: Known, sources: Sources) -> Arc<Self> {
        let mut metrics = Self {
            known: RwLock::new(known),
            standing: Arc::default(),
            registry: Registry::with_prefix("rookery"),
            messages: Family::default(),
            refused: Family::default(),
            attempts: Counter::default(),
            turns: Family::default(),
            turn_seconds: histogram(),
            model_calls: Family::default(),
            model_seconds: Family::new_with_constructor(histogram),
            tokens: Family::default(),
            tool_calls: Family::default(),
            tool_seconds: Family::new_with_constructor(histogram),
            gate: Family::default(),
            hooks: Family::default(),
            loops: Family::default(),
            approvals: Family::default(),
            deliveries: Family::default(),
            exits: Family::default(),
            store_failures: Family::default(),
            trimmed: Counter::default(),
            repaired: Counter::default(),
            cost: Family::default(),
            over_budget: Counter::default(),
            recalls: Family::default(),
            meanings_failed: Family::default(),
        };
        metrics.register();
        let standing = Arc::clone(&metrics.standing);
        metrics.registry.register_collector(Box::new(Live(sources, standing)));
        // A rate needs a first value.
        for outcome in Outcome::ALL {
            let _at_zero = metrics.turns.get_or_create(&[("outcome", outcome.as_str().into())]);
        }
        Arc::new(metrics)
    }

    fn register(&mut self) {
        let Self { registry: r, .. } = self;
        r.register("messages", "Messages received, by what became of them", self.messages.clone());
        r.register(
            "refused",
            "Inbound requests refused, by place and reason",
            self.refused.clone(),
        );
        r.register("turn_attempts", "Attempts of turns begun", self.attempts.clone());
        r.register("turns", "Turns ended, by outcome", self.turns.clone());
        r.register(
            "turn_duration_seconds",
            "How long attempts of turns took",
            self.turn_seconds.clone(),
        );
        r.register("model_calls", "Provider calls by error class", self.model_calls.clone());
        r.register(
            "model_call_duration_seconds",
            "How long provider calls took",
            self.model_seconds.clone(),
        );
        r.register("tokens", "Tokens as providers report them", self.tokens.clone());
        r.register("tool_calls", "Tool calls by how they ended", self.tool_calls.clone());
        r.register(
            "tool_call_duration_seconds",
            "How long tool calls took",
            self.tool_seconds.clone(),
        );
        r.register("gate_decisions", "Calls judged by the access gate", self.gate.clone());
        r.register("hooks", "Hooks asked, by what they said", self.hooks.clone());
        r.register("loop_verdicts", "Turns found going in circles", self.loops.clone());
        r.register("approvals", "Approvals decided, by decision", self.approvals.clone());
        r.register("deliveries", "Outbox rows tried, by result", self.deliveries.clone());
        r.register("actor_exits", "Unplanned ends of actors", self.exits.clone());
        r.register("store_failures", "Requests the store failed", self.store_failures.clone());
        r.register("history_trimmed_messages", "Messages left out to fit", self.trimmed.clone());
        r.register("history_repairs", "Changes to malformed histories", self.repaired.clone());
        r.register("cost_micros", "Cost of tokens, in millionths", self.cost.clone());
        r.register("budget_refusals", "Turns a budget ended", self.over_budget.clone());
        r.register("memory_recalls", "Memory asked, by what it had", self.recalls.clone());
        r.register(
            "memory_meaning_failures",
            "Meanings that could not be had, by what was to be read and why",
            self.meanings_failed.clone(),
        );
    }

    /// Tools that came later, such as those of an MCP server, may become labels too.
    pub fn know_tools(&self, tools: impl IntoIterator<Item = String>) {
        let mut known = self.known.write();
        for tool in tools {
            if known.tools.len() < NAMES {
                known.tools.insert(tool);
            }
        }
    }

    /// Notes how the service stands, for the next scrape.
    pub fn note(&self, standing: Standing) {
        *self.standing.write() = Some(standing);
    }

    /// The text format of `/metrics`.
    pub fn render(&self) -> String {
        let mut text = String::new();
        if let Err(error) = prometheus_client::encoding::text::encode(&mut text, &self.registry) {
            tracing::error!(%error, "metrics could not be written");
        }
        text
    }

    fn channel(&self, name: &str) -> Label {
        bounded(&self.known.read().channels, name)
    }

    fn provider(&self, name: &str) -> Label {
        bounded(&self.known.read().providers, name)
    }

    fn tool(&self, name: &str) -> Label {
        bounded(&self.known.read().tools, name)
    }

    fn model_call(
        &self,
        provider: &str,
        error: Option<ModelErrorClass>,
        took: Duration,
        usage: Usage,
    ) {
        let provider = self.provider(provider);
        let class = error
            .map_or("none", |class| class.code().strip_prefix("provider_").unwrap_or(class.code()));
        count(&self.model_calls, [("provider", provider.clone()), ("error", class.into())], 1);
        let by_provider = [("provider", provider.clone())];
        self.model_seconds.get_or_create(&by_provider).observe(took.as_secs_f64());
        for (direction, tokens) in [("input", usage.input), ("output", usage.output)] {
            let labels = [("provider", provider.clone()), ("direction", direction.into())];
            count(&self.tokens, labels, tokens);
        }
    }
}

impl Observer for Metrics {
    fn observe(&self, observation: &Observation) {
        match observation {
            Observation::Accepted { channel, duplicate, rejected } => {
                let result = match (duplicate, rejected) {
                    (true, _) => "duplicate",
                    (false, true) => "rejected",
                    (false, false) => "accepted",
                };
                let channel = self.channel(channel.as_str());
                count(&self.messages, [("channel", channel), ("result", result.into())], 1);
            }
            Observation::Refused { surface, reason } => {
                let surface =
                    if surface == "gateway" { "gateway".into() } else { self.channel(surface) };
                let reason = Label::from(*reason);
                count(&self.refused, [("surface", surface), ("reason", reason)], 1);
            }
            Observation::TurnStarted { .. } => {
                self.attempts.inc();
            }
            Observation::TurnEnded { outcome, duration, .. } => {
                count(&self.turns, [("outcome", outcome.as_str().into())], 1);
                self.turn_seconds.observe(duration.as_secs_f64());
            }
            Observation::ModelCall { provider, error, duration, usage, .. } => {
                self.model_call(provider, *error, *duration, *usage);
            }
            // Counted at its end.
            Observation::ToolCallStart { .. } => {}
            Observation::ToolCall { tool, state, duration, .. } => {
                let tool = self.tool(tool);
                let labels = [("tool", tool.clone()), ("state", state.as_str().into())];
                count(&self.tool_calls, labels, 1);
                let by_tool = [("tool", tool)];
                self.tool_seconds.get_or_create(&by_tool).observe(duration.as_secs_f64());
            }
            Observation::Gate { decision, .. } => {
                count(&self.gate, [("decision", Label::from(*decision))], 1);
            }
            Observation::Hook { event, result, .. } => {
                let labels = [("event", Label::from(*event)), ("result", (*result).into())];
                count(&self.hooks, labels, 1);
            }
            Observation::Loop { pattern, verdict, .. } => {
                let labels = [("pattern", Label::from(*pattern)), ("verdict", (*verdict).into())];
                count(&self.loops, labels, 1);
            }
            Observation::Approval { decision, .. } => {
                count(&self.approvals, [("decision", Label::from(*decision))], 1);
            }
            Observation::Trimmed { dropped, .. } => {
                self.trimmed.inc_by(u64::from(*dropped));
            }
            Observation::Recalled { success, entries, .. } => {
                let result = match (success, entries) {
                    (false, _) => "failed",
                    (true, 0) => "nothing",
                    (true, _) => "told",
                };
                count(&self.recalls, [("result", Label::from(result))], 1);
            }
            Observation::MeaningFailed { what, error, .. } => {
                let labels = [("what", Label::from(*what)), ("error", error.code().into())];
                count(&self.meanings_failed, labels, 1);
            }
            Observation::Repaired { changes, .. } => {
                self.repaired.inc_by(u64::from(*changes));
            }
            Observation::Cost { provider, micros, .. } => {
                let provider = self.provider(provider);
                self.cost.get_or_create(&[("provider", provider)]).inc_by(*micros);
            }
            Observation::OverBudget { .. } => {
                self.over_budget.inc();
            }
            Observation::StoreFailed { code } => {
                count(&self.store_failures, [("code", Label::from(*code))], 1);
            }
            Observation::Delivery { channel, result, .. } => {
                let channel = self.channel(channel.as_str());
                let result = Label::from(*result);
                count(&self.deliveries, [("channel", channel), ("result", result)], 1);
            }
            Observation::ActorExit { kind, reason, .. } => {
                let labels = [("kind", Label::from(*kind)), ("reason", reason.as_str().into())];
                count(&self.exits, labels, 1);
            }
        }
    }
}

fn count<const N: usize>(counts: &Counts<N>, labels: [(&'static str, Label); N], by: u64) {
    counts.get_or_create(&labels).inc_by(by);
}

fn bounded(known: &BTreeSet<String>, name: &str) -> Label {
    if known.contains(name) { Cow::Owned(name.to_owned()) } else { OTHER.into() }
}

/// From 5 ms to 11 minutes.
fn histogram() -> Histogram {
    Histogram::new(exponential_buckets(0.005, 2.0, 18))
}

/// What is read at the scrape.
struct Live(Sources, Arc<RwLock<Option<Standing>>>);

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Live")
    }
}

impl Collector for Live {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Sources { directory, observer, feed, panics, mcp } = &self.0;
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        let (help, kind) = ("The program, by version", MetricType::Gauge);
        let mut family = encoder.encode_descriptor("build_info", help, None, kind)?;
        ConstGauge::new(1_i64).encode(family.encode_family(&version)?)?;
        if let Some(standing) = &*self.1.read() {
            encode_standing(&mut encoder, standing)?;
        }
        let mut kinds: Vec<_> = directory.counts().into_iter().collect();
        kinds.sort_unstable();
        let kind = MetricType::Gauge;
        let mut family = encoder.encode_descriptor("actors", "Live actors by kind", None, kind)?;
        for (kind, live) in kinds {
            ConstGauge::new(signed(live)).encode(family.encode_family(&[("kind", kind)])?)?;
        }
        let gauges = [
            ("tasks", "Tasks that live actors own", directory.task_count()),
            ("mailbox_depth_max", "The deepest mailbox now", directory.deepest_mailbox()),
        ];
        for (name, help, value) in gauges {
            let gauge = ConstGauge::new(signed(value));
            gauge.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        let help = "Observations nobody had room for";
        let kind = MetricType::Counter;
        let mut family = encoder.encode_descriptor("observations_lost", help, None, kind)?;
        for (place, lost) in [("observer", observer.lost()), ("subscriber", feed.lost())] {
            ConstCounter::new(lost).encode(family.encode_family(&[("at", place)])?)?;
        }
        let (help, kind) = ("MCP servers by state", MetricType::Gauge);
        let mut family = encoder.encode_descriptor("mcp_server_state", help, None, kind)?;
        for link in mcp {
            let now = link.status();
            for state in Status::WORDS {
                let gauge = ConstGauge::new(i64::from(state == now.as_str()));
                let labels = [("server", link.server()), ("state", state)];
                gauge.encode(family.encode_family(&labels)?)?;
            }
        }
        let help = "Panics of observation sinks";
        let kind = MetricType::Counter;
        let panics = ConstCounter::new(panics.load(Ordering::Relaxed));
        panics.encode(encoder.encode_descriptor("observer_panics", help, None, kind)?)?;
        let help = "Broken invariants, by number";
        let kind = MetricType::Counter;
        let mut family = encoder.encode_descriptor("invariant_violations", help, None, kind)?;
        for id in Invariant::ALL {
            let counter = ConstCounter::new(invariant::violations(id));
            counter.encode(family.encode_family(&[("invariant", id.name())])?)?;
        }
        Ok(())
    }
}

fn encode_standing(encoder: &mut DescriptorEncoder<'_>, now: &Standing) -> Result<(), fmt::Error> {
    let mut gauge = |name: &str, help: &str, value: i64| {
        let gauge = ConstGauge::new(value);
        gauge.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
    };
    gauge("ready", "1 if the service can take work, as /readyz says", i64::from(now.ready))?;
    let Some(backlog) = &now.backlog else { return Ok(()) };
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let oldest = backlog.oldest_open.map_or(0, |at| now.at.duration_since(at).as_secs().max(0));
    let gauges = [
        ("oldest_open_turn_seconds", "Since the oldest unfinished turn's message came", oldest),
        ("approvals_pending", "Approvals that wait for a decision", number(backlog.approvals)),
        ("outbox_waiting", "Messages that are to be sent", number(backlog.outbox)),
        ("dead_letters", "Messages that could not be sent", number(backlog.dead_letters)),
    ];
    for (name, help, value) in gauges {
        gauge(name, help, value)?;
    }
    let (help, kind) = ("Turns that have not ended, by state", MetricType::Gauge);
    let mut family = encoder.encode_descriptor("turns_open", help, None, kind)?;
    for state in [TurnState::Queued, TurnState::Running, TurnState::WaitingApproval] {
        let open = backlog.open.iter().find(|(one, _)| *one == state).map_or(0, |(_, n)| *n);
        let gauge = ConstGauge::new(number(open));
        gauge.encode(family.encode_family(&[("state", state.as_str())])?)?;
    }
    Ok(())
}

fn signed(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
