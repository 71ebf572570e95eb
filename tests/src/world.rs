//! A test's own service, model and folder, and what must hold when it is done.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;

use crate::api::{Api, Turn};
use crate::cli::{self, Printed};
use crate::config::Config;
use crate::db;
use crate::ending::check_ending;
use crate::model::MockModel;
use crate::once::check_once;
use crate::quiet::check_quiet;
use crate::service::{Ended, Env, ServiceProcess, free_port};
use crate::wait::until;

/// The mock model's key: a configured secret (I12).
pub const MODEL_KEY: &str = "key-for-the-mock-model";

/// A service with its model. Ends with [`World::finish`], or the test fails.
pub struct World {
    /// The model.
    pub model: MockModel,
    /// The process.
    pub service: ServiceProcess,
    /// A client with the admin token.
    pub api: Api,
    dir: TempDir,
    program: PathBuf,
    port: u16,
    config: Config,
    env: Env,
    finished: bool,
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the service's newest lines ---\n{}", self.service.log_tail(60));
        } else {
            assert!(
                self.finished,
                "a test ends with World::finish, which holds it against the invariants"
            );
        }
    }
}

impl World {
    /// Starts model and service; `program` is [`program!`](crate::program).
    pub async fn start(program: &str, config: Config) -> Self {
        Self::start_with(program, config, Env::new()).await
    }

    /// The same, with these variables in the environment of the service and of the commands.
    pub async fn start_with(program: &str, config: Config, env: Env) -> Self {
        let model = MockModel::start().await;
        let dir = tempfile::Builder::new().prefix("rookery-e2e-").tempdir().unwrap();
        std::fs::create_dir(dir.path().join("work")).unwrap();
        let port = free_port();
        let program = PathBuf::from(program);
        let text = config.render(dir.path(), port, &model.base_url());
        std::fs::write(dir.path().join("rookery.toml"), text).unwrap();
        let mut service = ServiceProcess::spawn_with(&program, dir.path(), port, env.clone());
        service.ready().await;
        let api = Api::new(&format!("http://127.0.0.1:{port}"), admin_token(dir.path()));
        Self { model, service, api, dir, program, port, config, env, finished: false }
    }

    /// The folder that holds configuration, `data` and `work`.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A path in the agent's workspace.
    pub fn work(&self, name: &str) -> PathBuf {
        self.dir.path().join("work").join(name)
    }

    /// Writes a file into the agent's workspace.
    pub fn put(&self, name: &str, text: &str) {
        std::fs::write(self.work(name), text).unwrap();
    }

    /// The text of a file in the agent's workspace; nothing if it isn't there.
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.work(name)).unwrap_or_default()
    }

    /// Waits until a file of the workspace is there, which a tool makes to say that it runs.
    pub async fn file(&self, name: &str) {
        let path = self.work(name);
        until(&format!("{name} appears"), || async {
            if path.exists() { Ok(()) } else { Err("not there".to_owned()) }
        })
        .await;
    }

    /// Another text for the configuration, read at the next start.
    pub fn reconfigure(&mut self, config: Config) {
        self.config = config;
        let text = self.config.render(self.dir.path(), self.port, &self.model.base_url());
        std::fs::write(self.dir.path().join("rookery.toml"), text).unwrap();
    }

    /// `kill -9` and a new start on the same folder.
    pub async fn crash(&mut self) {
        self.service.kill_9().await;
        self.service.restart().await;
    }

    /// Calls the program with this world's configuration.
    pub async fn cli(&self, args: &[&str]) -> Printed {
        self.cli_with_input(args, "").await
    }

    /// The same, with something on standard input.
    pub async fn cli_with_input(&self, args: &[&str], input: &str) -> Printed {
        let config = self.dir().join("rookery.toml");
        let mut env = vec![("ROOKERY_CONFIG", config.to_str().unwrap())];
        env.extend(self.env.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        cli::run_with_input(&self.program, self.dir(), args, &env, input).await
    }

    /// Waits until nothing of any turn is left; the ledger adds up, the tree has its shape, no invariant
    /// was counted as broken, every turn of the test has its one end and repeated no call that must not be
    /// repeated (I1, I5, I6, I9).
    pub async fn assert_quiet(&self) {
        until("no actor of a turn is left", || async { check_quiet(&self.api.tree().await) }).await;
        let ledger = self.api.ledger().await;
        ledger.adds_up().unwrap();
        assert_eq!(ledger.open, 0, "{ledger:?}");
        let turns = self.api.known_turns();
        assert!(ledger.accepted >= turns.len() as u64, "{ledger:?} for {} messages", turns.len());
        if turns.len() <= 200 {
            for id in turns {
                let turn = self.api.turn(&id).await;
                assert_eq!(turn.state, "ended", "{turn:?}");
                assert!(turn.outcome.is_some() && turn.ended_at.is_some(), "{turn:?}");
                let open = turn
                    .call_states()
                    .iter()
                    .any(|s| ["planned", "waiting", "running"].contains(s));
                assert!(!open, "an ended turn with an open call: {turn:?}");
                let journal = db::journal(self.dir(), &id);
                check_once(&journal, &HashMap::new()).unwrap();
            }
        }
        self.assert_no_violation().await;
        self.model.assert_well_formed();
        assert_eq!(self.model.streaming(), 0, "a reply is still being read");
    }

    /// Each call of a turn wrote its word into `log` no more often than it may have had its effect (I5).
    pub fn assert_once(&self, turn: &Turn, log: &str, words: &[&str]) {
        let log = self.read(log);
        let times = |word: &str| log.lines().filter(|line| *line == word).count();
        let calls = turn.calls.iter().map(|call| serde_json::from_value(json!(call.id)).unwrap());
        let ran = calls.zip(words).map(|(call, word)| (call, times(word))).collect();
        check_once(&db::journal(self.dir(), &turn.id), &ran).unwrap();
    }

    /// The service counted no broken invariant (I3, I4, I9, I10).
    pub async fn assert_no_violation(&self) {
        let metrics = self.api.metrics().await;
        let counted = metrics.series("invariant");
        assert!(!counted.is_empty(), "no metric counts broken invariants: {:?}", metrics.names());
        for (name, labels, count) in counted {
            assert_eq!(count, 0.0, "{name}{{{labels}}}");
        }
    }

    /// Ends the test: quiet, then SIGTERM, exit code 0 in time (I14), and no secret anywhere (I12).
    pub async fn finish(mut self) {
        self.assert_quiet().await;
        let ended = self.stop().await;
        assert_eq!(ended.code, Some(0), "{}", self.service.log_tail(40));
        self.assert_no_secret();
        self.finished = true;
    }

    /// SIGTERM, and the end within the phases' deadlines and their sum (I14).
    pub async fn stop(&mut self) -> Ended {
        let ended = self.service.term(Duration::from_secs(100)).await;
        self.assert_ended_in_time(&ended).await;
        ended
    }

    /// The service's report of the shutdown that has ended keeps to its deadlines (I14).
    pub async fn assert_ended_in_time(&self, ended: &Ended) {
        // Its last lines may still be on their way through the pipe.
        until("a shutdown within its deadlines", || async {
            check_ending(&self.service.log(), ended.took)
        })
        .await;
    }

    /// Ends a test whose service has ended already.
    pub fn over(mut self) {
        assert!(!self.service.lives(), "the service lives");
        self.assert_no_secret();
        self.finished = true;
    }

    /// The model's key is in nothing the service wrote (I12).
    fn assert_no_secret(&self) {
        assert!(!self.service.log().contains(MODEL_KEY), "the log holds the model's key");
        for entry in std::fs::read_dir(self.dir().join("data")).unwrap().flatten() {
            let bytes = std::fs::read(entry.path()).unwrap_or_default();
            let found = bytes.windows(MODEL_KEY.len()).any(|part| part == MODEL_KEY.as_bytes());
            assert!(!found, "{} holds the model's key", entry.path().display());
        }
    }
}

/// The admin token of the service in `dir`.
pub fn admin_token(dir: &Path) -> Option<String> {
    let text = std::fs::read_to_string(dir.join("data/admin.token")).ok()?;
    Some(text.trim().to_owned()).filter(|token| !token.is_empty())
}
