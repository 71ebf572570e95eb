//! What the rest of the client needs of the protocol. The official SDK stands behind it ([`super::sdk`]).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rookery_messages::BoxFuture;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

/// What a server says of a tool's effects. Hints: believed only if the operator trusts the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Hints {
    /// It changes nothing.
    pub read_only: Option<bool>,
    /// It may destroy something.
    pub destructive: Option<bool>,
    /// Twice is the same as once.
    pub idempotent: Option<bool>,
    /// It reaches beyond what the server holds itself.
    pub open_world: Option<bool>,
}

/// A tool as its server lists it.
#[derive(Clone, PartialEq, Debug)]
pub struct ToolInfo {
    /// The server's own name for it.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of its arguments.
    pub schema: Value,
    /// What the server says of its effects.
    pub hints: Hints,
}

/// One page of a server's list.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Page {
    /// Its tools.
    pub tools: Vec<ToolInfo>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

/// One part of a result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// Text.
    Text(String),
    /// Bytes, in base64: an image, a sound, a resource's content.
    Bytes {
        /// `image`, `audio` or `resource`.
        what: &'static str,
        /// Base64.
        data: String,
        /// Its media type.
        mime: Option<String>,
    },
    /// A resource's text.
    Resource {
        /// Its address.
        uri: String,
        /// The text.
        text: String,
    },
    /// A reference to a resource.
    Link {
        /// Its address.
        uri: String,
        /// Its name.
        name: String,
        /// Its media type.
        mime: Option<String>,
    },
}

/// A call's result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallOutput {
    /// Its parts, in the server's order.
    pub parts: Vec<Part>,
    /// The tool says that it failed.
    pub is_error: bool,
}

/// A call to make.
pub struct CallRequest<'a> {
    /// The server's own name of the tool.
    pub tool: &'a str,
    /// The arguments.
    pub arguments: &'a Map<String, Value>,
    /// Cancelled when the call is to end.
    pub cancel: &'a CancellationToken,
    /// How long the server may take.
    pub limit: Duration,
    /// Told of the server's progress.
    pub progress: Arc<dyn Fn(String) + Send + Sync>,
}

/// Why there is no result.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CallError {
    /// The call was to end, and the server has been told.
    #[error("the call was stopped")]
    Cancelled,
    /// The server did not answer in time, and has been told not to.
    #[error("it did not answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The server answered with an error of the protocol.
    #[error("{message}")]
    Refused {
        /// The JSON-RPC code.
        code: i32,
        /// The server's words.
        message: String,
    },
    /// The request did not reach the server, or its answer did not reach us.
    #[error("it can't be reached: {0}")]
    Unreachable(String),
    /// The connection ended.
    #[error("{0}")]
    Gone(String),
    /// The answer is not what was asked for.
    #[error("{0}")]
    Protocol(String),
}

/// What a server says unasked.
pub trait Events: Send + Sync + 'static {
    /// Its list of tools changed.
    fn tools_changed(&self);
}

/// An open connection, for requests. Each request ends within a limit of our own.
pub trait Session: Send + Sync + 'static {
    /// One page of its tools.
    fn list(&self, cursor: Option<String>) -> BoxFuture<'_, Result<Page, CallError>>;
    /// Calls a tool.
    fn call<'a>(&'a self, call: CallRequest<'a>) -> BoxFuture<'a, Result<CallOutput, CallError>>;
    /// The connection has ended: nothing can be asked over it any more.
    fn is_over(&self) -> bool;
    /// Whether it answers at all.
    fn ping(&self) -> BoxFuture<'_, Result<(), CallError>>;
}

/// A connection that is up.
pub struct Connection {
    /// For requests.
    pub session: Arc<dyn Session>,
    /// The server's name and version, as it gives them.
    pub server: String,
    /// Serves the connection until it ends, by itself or because it was closed; then nothing of it is
    /// left, no process and no socket. Gives the cause.
    pub life: BoxFuture<'static, String>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("server", &self.server).finish_non_exhaustive()
    }
}

/// Opens connections to one server.
pub trait Connector: Send + Sync + 'static {
    /// Connects. `close` ends the attempt and, later, the connection. An error says what was tried and
    /// what came of it.
    fn connect(
        &self,
        events: Arc<dyn Events>,
        close: CancellationToken,
    ) -> BoxFuture<'static, Result<Connection, String>>;
}
