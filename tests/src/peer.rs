//! Programs of others that a test can speak to.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use tokio::process::{Child, Command};

use crate::service::free_port;
use crate::wait::until;

/// The variable that names aimock's folder (`node_modules/@copilotkit/aimock`).
pub const AIMOCK: &str = "ROOKERY_AIMOCK";

/// A path a peer is installed at. Elsewhere than in CI its absence skips the test, with a line that is seen.
pub fn find(variable: &str, how: &str) -> Option<PathBuf> {
    if let Some(path) = std::env::var_os(variable).map(PathBuf::from).filter(|path| path.exists()) {
        return Some(path);
    }
    let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(!ci, "{variable} names nothing that is there; {how}");
    // Not `eprintln!`: its output is kept back when a test passes.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {variable} is not set; {how}");
    None
}

/// `@copilotkit/aimock`: a provider nobody here wrote.
pub struct Aimock {
    /// Ends the process with the handle.
    _child: Child,
    port: u16,
}

impl Aimock {
    /// Starts it with these fixtures, or skips (see [`find`]).
    pub async fn start(dir: &Path, fixtures: &Value, chunk_latency_ms: u32) -> Option<Self> {
        let how =
            "`npm i @copilotkit/aimock` somewhere, and set it to node_modules/@copilotkit/aimock";
        let home = find(AIMOCK, how)?;
        let file = dir.join("aimock.json");
        std::fs::write(&file, fixtures.to_string()).unwrap();
        let port = free_port();
        let child = Command::new("node")
            .arg(home.join("dist/cli.js"))
            .args(["--host", "127.0.0.1", "--strict", "--log-level", "silent"])
            .args(["--port", &port.to_string(), "--latency", &chunk_latency_ms.to_string()])
            .arg("--fixtures")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let peer = Self { _child: child, port };
        let client = crate::http_client();
        until("aimock answers", || async {
            let answer = client.get(format!("http://127.0.0.1:{port}/health")).send().await;
            answer.map(drop).map_err(|error| error.to_string())
        })
        .await;
        Some(peer)
    }

    /// Its address up to and including `/v1`.
    pub fn base_url(&self) -> String {
        format!("{}/v1", self.root_url())
    }

    /// Its address without a path.
    pub fn root_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}
