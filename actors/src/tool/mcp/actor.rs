//! One MCP server's actor: `toolbox/mcp/<server>`.
//!
//! It owns the connection: opens it in the background, reads the list of tools, reads it again when the
//! server announces a change, and connects again with backoff when the connection ends. It never serves
//! calls; they go over the session that its [`Link`] shows. The connection's process or socket is held by
//! its task. It ends when told to, after the connection has.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rookery_messages::address::{Address, Message};
use rookery_messages::exit::{ActorError, ExitReason, StopReason};
use rookery_messages::tool::head;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::catalog::{self, Terms};
use super::client::{CallError, Connection, Connector, Events, Session, ToolInfo};
use super::link::{Link, Live, Status};
use super::listing::{Listing, Step};
use crate::policy::redact::Redactor;
use crate::runtime::{Ctx, Supervised, TaskKey};

/// The first pause before a new connection; doubles, with full jitter on half of it.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest one.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A connection that lasted this long starts over at the first pause.
const HEALTHY_AFTER: Duration = Duration::from_secs(60);
/// How long announcements are collected before the list is read again.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// How long until an empty list is read once more.
const RECHECK: Duration = Duration::from_millis(500);
/// How long a whole list may take to read.
const LIST_LIMIT: Duration = Duration::from_secs(30);
/// Most pages of a list.
const MOST_PAGES: usize = 200;
/// JSON-RPC: the method does not exist. A server without tools says so.
const NO_SUCH_METHOD: i32 = -32_601;
/// So much of a reason is shown in the tree, in bytes; the actor's detail has it whole.
const SHOWN_REASON: usize = 100;

/// See the module's documentation.
pub struct McpActor;

/// What it is built from.
#[derive(Clone)]
pub struct McpArgs {
    /// What the rest of the service sees.
    pub link: Arc<Link>,
    /// Opens connections.
    pub connector: Arc<dyn Connector>,
    /// What the server says of its tools' effects is believed.
    pub trusted: bool,
    /// How long connecting and the first list may take.
    pub connect_limit: Duration,
    /// How long one call may take.
    pub call_limit: Duration,
    /// Cleans what is shown of failures.
    pub redactor: Arc<Redactor>,
    /// Told of the tools' names, for metrics.
    pub known: Arc<dyn Fn(Vec<String>) + Send + Sync>,
}

/// What it takes. All but the first come from its own tasks and the connection.
#[derive(Debug)]
pub enum McpMsg {
    /// A call of that life got no answer.
    Suspect {
        /// Which connection.
        life: u64,
    },
    /// Time to connect.
    Connect,
    /// An attempt ended.
    Connected {
        /// Which connection.
        life: u64,
        /// It is up, or why not.
        result: Result<Connection, String>,
    },
    /// A connection ended; nothing of it is left.
    Ended {
        /// Which.
        life: u64,
        /// Why.
        cause: String,
    },
    /// The server says that its list changed.
    ListChanged {
        /// Which connection.
        life: u64,
    },
    /// The wait before a reading is over.
    ListDue {
        /// Which connection.
        life: u64,
    },
    /// A reading ended.
    Listed {
        /// Which connection.
        life: u64,
        /// The whole list, or why not.
        result: Result<Vec<ToolInfo>, CallError>,
    },
    /// The server was asked whether it lives.
    Pinged {
        /// Which connection.
        life: u64,
        /// Why not.
        result: Result<(), CallError>,
    },
}

impl Message for McpMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Suspect { .. } => "Suspect",
            Self::Connect => "Connect",
            Self::Connected { .. } => "Connected",
            Self::Ended { .. } => "Ended",
            Self::ListChanged { .. } => "ListChanged",
            Self::ListDue { .. } => "ListDue",
            Self::Listed { .. } => "Listed",
            Self::Pinged { .. } => "Pinged",
        }
    }
}

/// What it knows.
pub struct Server {
    args: McpArgs,
    life: Life,
    failures: u32,
    listing: Listing,
    tools: usize,
    version: String,
    pinging: bool,
    retry: Option<TaskKey>,
}

/// The connection there is, is to be, or was.
struct Life {
    number: u64,
    close: CancellationToken,
    session: Option<Arc<dyn Session>>,
    began: Instant,
    /// A task serves it, or tries to open it.
    open: bool,
    /// Why we closed it.
    fault: Option<String>,
}

impl Life {
    fn none() -> Self {
        let close = CancellationToken::new();
        Self { number: 0, close, session: None, began: Instant::now(), open: false, fault: None }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("link", &self.args.link).finish_non_exhaustive()
    }
}

/// The connection's voice: what it says of a former life is void.
struct Voice {
    life: u64,
    actor: Address<McpMsg>,
}

impl Events for Voice {
    fn tools_changed(&self) {
        // A full mailbox holds announcements enough: each is followed by a reading.
        let _ = self.actor.try_send(McpMsg::ListChanged { life: self.life });
    }
}

impl Supervised for McpActor {
    const KIND: &'static str = "mcp";
    type Msg = McpMsg;
    type Args = McpArgs;
    type State = Server;

    fn start(ctx: &mut Ctx<Self>, args: McpArgs) -> Result<Server, ActorError> {
        args.link.show_connecting();
        ctx.note_to_self(McpMsg::Connect);
        Ok(Server {
            tools: args.link.tools().len(),
            args,
            life: Life::none(),
            failures: 0,
            listing: Listing::default(),
            version: String::new(),
            pinging: false,
            retry: None,
        })
    }

    async fn handle(
        ctx: &mut Ctx<Self>,
        state: &mut Server,
        message: McpMsg,
    ) -> Result<(), ActorError> {
        match message {
            McpMsg::Connect => state.connect(ctx),
            McpMsg::Connected { life, result } if life == state.life.number => {
                state.connected(ctx, result);
            }
            McpMsg::Ended { life, cause } if life == state.life.number => state.ended(ctx, cause),
            McpMsg::ListChanged { life } if life == state.life.number => {
                let step = state.listing.announced();
                state.perform(ctx, step);
            }
            McpMsg::ListDue { life } if life == state.life.number => {
                let step = state.listing.begin();
                state.perform(ctx, step);
            }
            McpMsg::Listed { life, result } if life == state.life.number => {
                state.listed(ctx, result);
            }
            McpMsg::Suspect { life } if life == state.life.number => state.ping(ctx),
            McpMsg::Pinged { life, result } if life == state.life.number => {
                state.pinging = false;
                if let Err(error) = result {
                    state.close(format!("it does not answer: {error}"));
                }
            }
            // Of a life that is over. A connection that came too late is dropped, and ends with it.
            _ => {}
        }
        Ok(())
    }

    async fn stop_requested(
        ctx: &mut Ctx<Self>,
        state: &mut Server,
        reason: &StopReason,
    ) -> Result<(), ActorError> {
        if let Some(retry) = state.retry.take() {
            ctx.abort(retry);
        }
        if state.life.open {
            state.close(format!("stopped: {reason}"));
        } else {
            ctx.end();
        }
        Ok(())
    }

    async fn ended(_: &mut Ctx<Self>, state: &mut Server, _: &ExitReason) {
        state.args.link.show_stopped();
    }

    fn observe(state: &Server) -> Value {
        let status = state.args.link.status();
        let (reason, retry_ms) = match &status {
            Status::Failed { reason, retry_at } => {
                let left = retry_at.saturating_duration_since(Instant::now());
                (Some(reason.clone()), Some(u64::try_from(left.as_millis()).unwrap_or(u64::MAX)))
            }
            _ => (None, None),
        };
        json!({
            "server": state.args.link.server(),
            "status": status.as_str(),
            "reason": reason,
            "retry_ms": retry_ms,
            "version": state.version,
            "tools": state.tools,
            "connections": state.life.number,
            "failures_in_a_row": state.failures,
        })
    }
}

impl Server {
    fn connect(&mut self, ctx: &mut Ctx<McpActor>) {
        self.retry = None;
        if self.life.open || ctx.stopping().is_some() {
            return;
        }
        let number = self.args.link.next_life();
        self.life = Life { number, open: true, began: Instant::now(), ..Life::none() };
        self.args.link.show_connecting();
        ctx.set_waiting_on(Some("the server's connection".to_owned()));
        let events = Arc::new(Voice { life: number, actor: ctx.address() });
        let close = self.life.close.clone();
        let attempt = self.args.connector.connect(events, close.clone());
        let limit = self.args.connect_limit;
        ctx.task(async move {
            tokio::pin!(attempt);
            let result = tokio::select! {
                result = &mut attempt => result,
                () = tokio::time::sleep(limit) => {
                    close.cancel();
                    // It ends what it had begun, and then says so.
                    let _ = attempt.await;
                    Err(format!("it did not complete the connection within {} s", limit.as_secs()))
                }
            };
            Some(McpMsg::Connected { life: number, result })
        });
    }

    fn connected(&mut self, ctx: &mut Ctx<McpActor>, result: Result<Connection, String>) {
        match result {
            Ok(Connection { session, server, life }) => {
                let number = self.life.number;
                ctx.task(async move { Some(McpMsg::Ended { life: number, cause: life.await }) });
                self.life.session = Some(session);
                self.version = self.args.redactor.clean(&server);
                if ctx.stopping().is_some() {
                    self.life.close.cancel();
                    return;
                }
                let step = self.listing.first();
                self.perform(ctx, step);
            }
            Err(cause) => self.ended(ctx, cause),
        }
    }

    /// Nothing of the connection is left.
    fn ended(&mut self, ctx: &mut Ctx<McpActor>, cause: String) {
        self.life.open = false;
        self.life.session = None;
        self.pinging = false;
        self.listing = Listing::default();
        ctx.set_waiting_on(None);
        if ctx.stopping().is_some() {
            ctx.end();
            return;
        }
        if self.life.began.elapsed() >= HEALTHY_AFTER {
            self.failures = 0;
        }
        let pause = (FIRST_PAUSE * 2_u32.saturating_pow(self.failures.min(16))).min(LONGEST_PAUSE);
        let pause = pause / 2 + ctx.world().jitter(pause / 2);
        self.failures = self.failures.saturating_add(1);
        let cause = match self.life.fault.take() {
            Some(fault) => format!("{fault} ({cause})"),
            None => cause,
        };
        let reason = self.args.redactor.clean(&cause);
        let server = self.args.link.server();
        tracing::warn!(
            server,
            reason,
            retry_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX),
            "MCP server is not connected"
        );
        let shown = head(&reason, SHOWN_REASON);
        ctx.set_waiting_on(Some(format!("another try, not connected: {shown}")));
        self.args.link.show_failed(reason, Instant::now() + pause);
        self.retry = ctx.after(pause, McpMsg::Connect);
    }

    fn close(&mut self, fault: String) {
        self.life.fault.get_or_insert(fault);
        self.life.close.cancel();
    }

    fn ping(&mut self, ctx: &mut Ctx<McpActor>) {
        let Some(session) = self.life.session.clone() else { return };
        if std::mem::replace(&mut self.pinging, true) {
            return;
        }
        let life = self.life.number;
        ctx.task(async move { Some(McpMsg::Pinged { life, result: session.ping().await }) });
    }

    fn perform(&mut self, ctx: &mut Ctx<McpActor>, step: Step) {
        let life = self.life.number;
        match step {
            Step::Nothing | Step::Accept => {}
            Step::Debounce | Step::AcceptAndDebounce => {
                ctx.after(DEBOUNCE, McpMsg::ListDue { life });
            }
            Step::Recheck => {
                ctx.after(RECHECK, McpMsg::ListDue { life });
            }
            Step::Read => {
                let Some(session) = self.life.session.clone() else { return };
                ctx.task(async move {
                    let reading = tokio::time::timeout(LIST_LIMIT, whole_list(&*session));
                    let result = reading.await.unwrap_or(Err(CallError::TimedOut(LIST_LIMIT)));
                    Some(McpMsg::Listed { life, result })
                });
            }
        }
    }

    fn listed(&mut self, ctx: &mut Ctx<McpActor>, result: Result<Vec<ToolInfo>, CallError>) {
        let ready = self.args.link.status() == Status::Ready;
        match result {
            Ok(listed) => {
                let step = self.listing.ended(listed.len(), self.tools);
                if matches!(step, Step::Accept | Step::AcceptAndDebounce) {
                    self.publish(ctx, listed);
                }
                self.perform(ctx, step);
            }
            Err(error) if ready => {
                let (server, error) =
                    (self.args.link.server(), self.args.redactor.clean(&error.to_string()));
                tracing::warn!(server, error, "the changed list of tools could not be read");
                let step = self.listing.ended(self.tools, self.tools);
                self.perform(ctx, step);
                self.ping(ctx);
            }
            Err(error) => self.close(format!("its tools could not be listed: {error}")),
        }
    }

    fn publish(&mut self, ctx: &Ctx<McpActor>, listed: Vec<ToolInfo>) {
        let Some(session) = self.life.session.clone() else { return };
        let terms = Terms {
            trusted: self.args.trusted,
            call_limit: self.args.call_limit,
            connect_limit: self.args.connect_limit,
        };
        let link = &self.args.link;
        // A server knows its own secrets, and what it says of its tools goes to every model (I12).
        let redactor = &self.args.redactor;
        let listed = listed.into_iter().map(|tool| ToolInfo {
            description: redactor.scrub(&tool.description),
            schema: redactor.scrub_value(&tool.schema),
            ..tool
        });
        let tools = catalog::tools(link, &terms, listed.collect());
        self.tools = tools.len();
        (self.args.known)(tools.iter().map(|tool| tool.name().to_owned()).collect());
        if link.status() != Status::Ready {
            let (server, version) = (link.server(), &self.version);
            tracing::info!(server, version, tools = self.tools, "MCP server is connected");
        }
        ctx.set_waiting_on(None);
        link.show_ready(Live { life: self.life.number, session }, tools);
    }
}

/// All pages.
async fn whole_list(session: &dyn Session) -> Result<Vec<ToolInfo>, CallError> {
    let mut tools = Vec::new();
    let mut cursor = None;
    for _ in 0..MOST_PAGES {
        let page = match session.list(cursor.take()).await {
            // It has no tools at all.
            Err(CallError::Refused { code: NO_SUCH_METHOD, .. }) => return Ok(tools),
            page => page?,
        };
        tools.extend(page.tools);
        cursor = page.next;
        if cursor.is_none() {
            return Ok(tools);
        }
    }
    Err(CallError::Protocol(format!("its list of tools has more than {MOST_PAGES} pages")))
}
