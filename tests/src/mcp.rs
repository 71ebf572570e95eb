//! MCP servers for tests: one of our own that misbehaves on purpose, and those of others.

use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::peer;
use crate::wait::until;
use crate::world::World;

/// The variable that names the folder others' servers are installed in: `node_modules` and `venv`.
pub const MCP_PEERS: &str = "ROOKERY_MCP_PEERS";

/// The configuration of a server that is a program, with more lines of its section.
pub fn section(name: &str, command: &str, args: &[&str], more: &str) -> String {
    format!("[mcp.servers.{name}]\ncommand = {}\nargs = {}\n{more}\n", json!(command), json!(args))
}

/// The configuration of a bundle of the same name that grants a server.
pub fn bundle(name: &str) -> String {
    format!("[mcp_bundles.{name}]\nservers = [\"{name}\"]\n")
}

/// The server of our own, in a folder of its own.
pub struct FakeServer {
    dir: tempfile::TempDir,
}

impl FakeServer {
    /// With a list of tools.
    pub fn new(tools: &[Value]) -> Self {
        let dir = tempfile::Builder::new().prefix("rookery-mcp-").tempdir().unwrap();
        std::fs::write(dir.path().join("server.py"), include_str!("mcp/fake.py")).unwrap();
        let server = Self { dir };
        server.offer(&json!({"lists": [tools]}));
        server
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// What it lists from now on; see `fake.py`.
    pub fn offer(&self, plan: &Value) {
        let (file, new) = (self.path().join("tools.json"), self.path().join("tools.new"));
        std::fs::write(&new, plan.to_string()).unwrap();
        std::fs::rename(new, file).unwrap();
    }

    /// Its section of the configuration.
    pub fn section(&self, name: &str, mode: &[&str], more: &str) -> String {
        let (program, home) = (self.path().join("server.py"), self.path().to_owned());
        let mut args = vec![program.to_str().unwrap(), home.to_str().unwrap()];
        args.extend(mode);
        section(name, "python3", &args, more)
    }

    /// Every message it received, over all of its lives; a life begins with its `pid`.
    pub fn log(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path().join("log")).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// How many messages of a method it received.
    pub fn count(&self, method: &str) -> usize {
        self.log().iter().filter(|message| message["method"] == method).count()
    }

    /// The process of its newest life.
    pub fn pid(&self) -> i32 {
        let log = self.log();
        let pid = log.iter().rev().find_map(|message| message["pid"].as_i64()).unwrap();
        i32::try_from(pid).unwrap()
    }

    /// How often it was started.
    pub fn lives(&self) -> usize {
        self.log().iter().filter(|message| message["pid"].is_i64()).count()
    }

    /// A signal to its newest life.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid()).unwrap(), signal).unwrap();
    }
}

/// A tool of the fake server, with a schema that admits anything.
pub fn tool(name: &str) -> Value {
    json!({"name": name, "description": format!("does {name}"), "inputSchema": {"type": "object"}})
}

impl World {
    /// What a server's actor shows of itself.
    pub async fn mcp(&self, server: &str) -> Value {
        let path = format!("/admin/v1/actors/root/service/toolbox/mcp/{server}");
        self.api.get(&path).await["detail"].clone()
    }

    /// Waits until a server's actor shows what is wanted.
    pub async fn mcp_when(
        &self,
        server: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        until(&format!("MCP server {server}: {what}"), || async {
            let state = self.mcp(server).await;
            if wanted(&state) { Ok(state) } else { Err(state.to_string()) }
        })
        .await
    }

    /// Waits until a server is ready.
    pub async fn mcp_ready(&self, server: &str) {
        self.mcp_when(server, "ready", |state| state["status"] == "ready").await;
    }
}

/// The names of the tools a request offers.
pub fn offered(request: &Value) -> Vec<String> {
    let tools = request["tools"].as_array().cloned().unwrap_or_default();
    tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
}

/// The names of a server's tools that a request offers.
pub fn offered_of(request: &Value, server: &str) -> Vec<String> {
    let prefix = format!("{server}__");
    offered(request).into_iter().filter(|name| name.starts_with(&prefix)).collect()
}

/// Servers of others, as installed; see [`MCP_PEERS`].
pub struct McpPeers {
    home: PathBuf,
}

impl McpPeers {
    /// Where they are, or the test is skipped.
    pub fn find() -> Option<Self> {
        let how = "make a folder, `npm i --prefix FOLDER @modelcontextprotocol/server-everything \
                   @modelcontextprotocol/server-filesystem @modelcontextprotocol/conformance@0.1 \
                   node@24`, `python3 -m venv FOLDER/venv`, `FOLDER/venv/bin/pip install \
                   mcp-server-time`, and set it to FOLDER";
        peer::find(MCP_PEERS, how).map(|home| Self { home })
    }

    /// The Node that was installed with them, which is new enough.
    pub fn node(&self) -> String {
        self.text("node_modules/.bin/node")
    }

    /// A server of the reference collection, by its package's name.
    pub fn reference(&self, package: &str) -> String {
        self.text(&format!("node_modules/@modelcontextprotocol/{package}/dist/index.js"))
    }

    /// The Python server `mcp-server-time`.
    pub fn time(&self) -> String {
        self.text("venv/bin/mcp-server-time")
    }

    fn text(&self, path: &str) -> String {
        self.home.join(path).to_str().unwrap().to_owned()
    }
}
