//! The official SDK (crate `rmcp`) behind our own traits. Nothing outside this folder names its types.

mod convert;
mod handler;
mod http;
mod session;
mod stdio;

use std::path::PathBuf;
use std::sync::Arc;

use rmcp::model::ServerPeerInfo;
use rmcp::service::{Peer, RoleClient};
use rookery_messages::BoxFuture;
use rookery_messages::settings::Secret;
use rookery_messages::time::Ids;
use rookery_messages::tool::{ProcessLedger, head};
use tokio_util::sync::CancellationToken;

use super::client::{Connection, Connector, Events};

/// Longest name and version of a server that is shown, in bytes.
const LONGEST_VERSION: usize = 200;

/// A program that speaks on its standard input and output.
#[derive(Clone)]
pub struct StdioTarget {
    /// The program, looked for in our own PATH.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its environment beside PATH, HOME, LANG and TZ.
    pub env: Vec<(String, Secret)>,
    /// The folder it is started in; none: our own.
    pub cwd: Option<PathBuf>,
    /// Where its processes are recorded.
    pub ledger: Arc<dyn ProcessLedger>,
    /// Marks its processes.
    pub ids: Arc<dyn Ids>,
}

/// A server that is reached by streamable HTTP.
#[derive(Clone)]
pub struct HttpTarget {
    /// Its address.
    pub url: String,
    /// Headers of every request.
    pub headers: Vec<(String, Secret)>,
}

/// How a server is reached.
#[derive(Clone)]
pub enum Target {
    /// As a program.
    Stdio(StdioTarget),
    /// Over the network.
    Http(HttpTarget),
}

/// Connects with the SDK.
pub struct SdkConnector {
    target: Target,
}

impl SdkConnector {
    /// To this server.
    pub fn new(target: Target) -> Arc<Self> {
        Arc::new(Self { target })
    }
}

impl Connector for SdkConnector {
    fn connect(
        &self,
        events: Arc<dyn Events>,
        close: CancellationToken,
    ) -> BoxFuture<'static, Result<Connection, String>> {
        match self.target.clone() {
            Target::Stdio(target) => Box::pin(stdio::connect(target, events, close)),
            Target::Http(target) => Box::pin(http::connect(target, events, close)),
        }
    }
}

/// Name and version, as the server gives them.
fn version(peer: &Peer<RoleClient>) -> String {
    let info: Option<Arc<ServerPeerInfo>> = peer.peer_info();
    let shown = info.and_then(|info| {
        let server = info.server_info.as_ref()?;
        Some(format!("{} {}", server.name, server.version))
    });
    head(&shown.unwrap_or_default(), LONGEST_VERSION).to_owned()
}
