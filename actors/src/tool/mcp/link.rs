//! What the service sees of a server, without a message: status, tools, the session calls go over.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rookery_messages::address::Address;
use tokio::sync::watch;
use tokio::time::Instant;

use super::actor::McpMsg;
use super::client::Session;
use super::tool::McpTool;

/// A call waits for a server that comes back within this; otherwise it fails at once.
const WORTH_WAITING: Duration = Duration::from_secs(5);

/// Where a server stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Status {
    /// Being connected to.
    Connecting,
    /// Connected, its tools known.
    Ready,
    /// Not connected; tried again then.
    Failed {
        /// Why, cleaned of secrets.
        reason: String,
        /// When it is tried again.
        retry_at: Instant,
    },
    /// Ended with its actor.
    Stopped,
}

impl Status {
    /// Short stable word for metrics and people.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Ready => "ready",
            Self::Failed { .. } => "failed",
            Self::Stopped => "stopped",
        }
    }

    /// All words.
    pub const WORDS: [&'static str; 4] = ["connecting", "ready", "failed", "stopped"];
}

/// A connection's life, for calls.
#[derive(Clone)]
pub(super) struct Live {
    /// Which life: what a call reports of a former one is void.
    pub(super) life: u64,
    pub(super) session: Arc<dyn Session>,
}

#[derive(Clone)]
struct Shown {
    status: Status,
    live: Option<Live>,
    /// Kept while the server is away: they come back with it (A101).
    tools: Arc<[Arc<McpTool>]>,
    /// Whether a list was ever read, or a connection failed: there is nothing more to wait for.
    settled: bool,
}

/// One server, as calls and turns see it. Outlives every incarnation of its actor.
pub struct Link {
    server: String,
    shown: watch::Sender<Shown>,
    lives: AtomicU64,
    actor: Address<McpMsg>,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("server", &self.server)
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}

impl Link {
    /// For a server whose actor is reached there.
    pub fn new(server: impl Into<String>, actor: Address<McpMsg>) -> Arc<Self> {
        let shown =
            Shown { status: Status::Connecting, live: None, tools: Arc::default(), settled: false };
        Arc::new(Self {
            server: server.into(),
            shown: watch::Sender::new(shown),
            lives: AtomicU64::new(0),
            actor,
        })
    }

    /// The server's configured name.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Where it stands.
    pub fn status(&self) -> Status {
        self.shown.borrow().status.clone()
    }

    /// Its tools, as last listed, in the order of their names.
    pub fn tools(&self) -> Arc<[Arc<McpTool>]> {
        Arc::clone(&self.shown.borrow().tools)
    }

    /// Why it does not do its work, if it doesn't.
    pub fn trouble(&self) -> Option<String> {
        match self.status() {
            Status::Ready => None,
            Status::Failed { reason, .. } => Some(format!("failed: {reason}")),
            other => Some(other.as_str().to_owned()),
        }
    }

    /// Waits until its tools are known or it has failed, at most so long.
    pub async fn settled(&self, limit: Duration) {
        let mut shown = self.shown.subscribe();
        // Whichever comes first, the caller looks at what there is.
        let _ = tokio::time::timeout(limit, shown.wait_for(|shown| shown.settled)).await;
    }

    /// Whether the server still lists that tool.
    pub(super) fn offers(&self, original: &str) -> bool {
        self.shown.borrow().tools.iter().any(|tool| tool.original() == original)
    }

    /// The session, waited for while the server is about to come back. Otherwise the reason why not.
    pub(super) async fn session(&self, limit: Duration) -> Result<Live, String> {
        let deadline = Instant::now() + limit;
        let mut shown = self.shown.subscribe();
        let mut tried = false;
        loop {
            let now = shown.borrow_and_update().clone();
            match (now.status, now.live) {
                // One that has just ended is about to be replaced.
                (Status::Ready, Some(live)) if !live.session.is_over() => return Ok(live),
                (Status::Failed { reason, retry_at }, _)
                    if tried || retry_at > Instant::now() + WORTH_WAITING =>
                {
                    return Err(reason);
                }
                (Status::Stopped, _) => return Err("it was stopped".to_owned()),
                (Status::Connecting, _) => tried = true,
                _ => {}
            }
            match tokio::time::timeout_at(deadline, shown.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => {
                    return Err(format!("it was not connected within {} s", limit.as_secs()));
                }
            }
        }
    }

    /// A call got no answer: the actor looks whether the server lives at all.
    pub(super) fn suspect(&self, life: u64) {
        // A full mailbox holds suspicions enough.
        let _ = self.actor.try_send(McpMsg::Suspect { life });
    }

    pub(super) fn next_life(&self) -> u64 {
        self.lives.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn show_connecting(&self) {
        self.shown.send_modify(|shown| {
            shown.status = Status::Connecting;
            shown.live = None;
        });
    }

    pub(super) fn show_ready(&self, live: Live, tools: Arc<[Arc<McpTool>]>) {
        self.shown.send_modify(|shown| {
            *shown = Shown { status: Status::Ready, live: Some(live), tools, settled: true };
        });
    }

    pub(super) fn show_failed(&self, reason: String, retry_at: Instant) {
        self.shown.send_modify(|shown| {
            shown.status = Status::Failed { reason, retry_at };
            shown.live = None;
            shown.settled = true;
        });
    }

    pub(super) fn show_stopped(&self) {
        self.shown.send_modify(|shown| {
            shown.status = Status::Stopped;
            shown.live = None;
            shown.settled = true;
        });
    }
}
