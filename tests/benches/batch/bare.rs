//! The same work by ractor and SQLite alone: as many actors below one that collects, each runs its call and
//! reports, and the batch's beginnings and ends are written, a transaction each.

use std::path::Path;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use rookery_messages::BoxFuture;
use rookery_messages::tool::ToolResult;
use rusqlite::{Connection, params};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use tokio::time::Instant;
use uuid::Uuid;

/// What a call does.
type Work = fn(&Map<String, Value>) -> BoxFuture<'_, ToolResult>;

/// An actor that runs its call and stops.
struct Call;

struct CallArgs {
    slot: usize,
    arguments: Map<String, Value>,
    work: Work,
    report: ActorRef<Report>,
}

impl Actor for Call {
    type Msg = ();
    type State = CallArgs;
    type Arguments = CallArgs;

    async fn pre_start(
        &self,
        myself: ActorRef<()>,
        args: CallArgs,
    ) -> Result<CallArgs, ActorProcessingErr> {
        myself.send_message(())?;
        Ok(args)
    }

    async fn handle(
        &self,
        myself: ActorRef<()>,
        (): (),
        args: &mut CallArgs,
    ) -> Result<(), ActorProcessingErr> {
        let result = (args.work)(&args.arguments).await;
        args.report.send_message(Report { slot: args.slot, result })?;
        myself.stop(None);
        Ok(())
    }
}

/// A call's result.
struct Report {
    slot: usize,
    result: ToolResult,
}

/// Collects the results, and waits for its children to be gone.
struct Collector;

struct Collected {
    results: Vec<Option<ToolResult>>,
    reports: usize,
    exits: usize,
    done: Option<oneshot::Sender<Vec<Option<ToolResult>>>>,
}

impl Collected {
    /// An exit may be seen before the report that went before it.
    fn end_if_done(&mut self, myself: &ActorRef<Report>) {
        let calls = self.results.len();
        if (self.reports, self.exits) == (calls, calls) {
            let results = std::mem::take(&mut self.results);
            self.done.take().unwrap().send(results).unwrap();
            myself.stop(None);
        }
    }
}

impl Actor for Collector {
    type Msg = Report;
    type State = Collected;
    type Arguments = Collected;

    async fn pre_start(
        &self,
        _: ActorRef<Report>,
        args: Collected,
    ) -> Result<Collected, ActorProcessingErr> {
        Ok(args)
    }

    async fn handle(
        &self,
        myself: ActorRef<Report>,
        Report { slot, result }: Report,
        state: &mut Collected,
    ) -> Result<(), ActorProcessingErr> {
        state.results[slot] = Some(result);
        state.reports += 1;
        state.end_if_done(&myself);
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<Report>,
        event: SupervisionEvent,
        state: &mut Collected,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorTerminated(..) = event {
            state.exits += 1;
            state.end_if_done(&myself);
        }
        Ok(())
    }
}

/// The same table of entries and table of calls as the service's.
pub struct Journal(Connection);

impl Journal {
    /// On a fresh database, as durable as the service's is with `process`.
    pub fn open(path: &Path) -> Self {
        let db = Connection::open(path).unwrap();
        db.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON; \
             CREATE TABLE turns (seq INTEGER PRIMARY KEY); \
             CREATE TABLE journal (turn_seq INTEGER NOT NULL REFERENCES turns (seq), \
             attempt INTEGER NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, kind TEXT NOT NULL, \
             body TEXT NOT NULL, PRIMARY KEY (turn_seq, attempt, seq)) WITHOUT ROWID; \
             CREATE TABLE calls (seq INTEGER PRIMARY KEY AUTOINCREMENT, \
             turn_seq INTEGER NOT NULL REFERENCES turns (seq), id BLOB NOT NULL, tool TEXT NOT NULL, \
             state TEXT NOT NULL, started_at INTEGER, ended_at INTEGER, UNIQUE (turn_seq, id));",
        )
        .unwrap();
        Self(db)
    }

    fn turn(&self) -> i64 {
        self.0.execute("INSERT INTO turns DEFAULT VALUES", []).unwrap();
        self.0.last_insert_rowid()
    }

    fn begin(&self, turn: i64, calls: &[Uuid]) {
        self.0.execute_batch("BEGIN IMMEDIATE").unwrap();
        for (seq, id) in calls.iter().enumerate() {
            self.entry(turn, seq, "call_started", &json!({ "call": id }));
            let sql = "INSERT INTO calls (turn_seq, id, tool, state, started_at) \
                       VALUES (?1, ?2, 'nothing', 'running', 1)";
            let mut statement = self.0.prepare_cached(sql).unwrap();
            statement.execute(params![turn, id.as_bytes()]).unwrap();
        }
        self.0.execute_batch("COMMIT").unwrap();
    }

    fn end(&self, turn: i64, calls: &[Uuid], results: &[Option<ToolResult>]) {
        self.0.execute_batch("BEGIN IMMEDIATE").unwrap();
        for (seq, (id, result)) in calls.iter().zip(results).enumerate() {
            let output = &result.as_ref().unwrap().output;
            let body = json!({ "call": id, "state": "succeeded", "output": output });
            self.entry(turn, calls.len() + seq, "call_finished", &body);
            let sql = "UPDATE calls SET state = 'succeeded', ended_at = 2 \
                       WHERE turn_seq = ?1 AND id = ?2";
            let mut statement = self.0.prepare_cached(sql).unwrap();
            statement.execute(params![turn, id.as_bytes()]).unwrap();
        }
        self.0.execute_batch("COMMIT").unwrap();
    }

    fn entry(&self, turn: i64, seq: usize, kind: &str, body: &Value) {
        let sql = "INSERT INTO journal (turn_seq, attempt, seq, at, kind, body) \
                   VALUES (?1, 1, ?2, 1, ?3, ?4)";
        let mut statement = self.0.prepare_cached(sql).unwrap();
        let seq = i64::try_from(seq).unwrap();
        statement.execute(params![turn, seq, kind, body.to_string()]).unwrap();
    }
}

/// How long so many calls take; with a journal its part too.
pub async fn run(calls: usize, journal: Option<&Journal>) -> Duration {
    let ids: Vec<Uuid> = (0..calls).map(|_| Uuid::now_v7()).collect();
    let turn = journal.map(Journal::turn);
    let began = Instant::now();
    if let (Some(journal), Some(turn)) = (journal, turn) {
        journal.begin(turn, &ids);
    }
    let (done, results) = oneshot::channel();
    let results_of = (0..calls).map(|_| None).collect();
    let args = Collected { results: results_of, reports: 0, exits: 0, done: Some(done) };
    let (collector, handle) = Collector::spawn(None, Collector, args).await.unwrap();
    for slot in 0..calls {
        let args = CallArgs {
            slot,
            arguments: Map::new(),
            work: |_| Box::pin(async { ToolResult::ok("done") }),
            report: collector.clone(),
        };
        Call::spawn_linked(None, Call, args, collector.get_cell()).await.unwrap();
    }
    let results = results.await.unwrap();
    handle.await.unwrap();
    if let (Some(journal), Some(turn)) = (journal, turn) {
        journal.end(turn, &ids, &results);
    }
    began.elapsed()
}
