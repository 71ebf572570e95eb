//! Servers that only tests know: links with tools, and connections that do as they are told.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rookery_messages::BoxFuture;
use rookery_messages::address::{Address, AddressCell};
use serde_json::json;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::catalog::{self, Terms};
use super::client::{
    CallError, CallOutput, CallRequest, Connection, Connector, Events, Hints, Page, Part, Session,
    ToolInfo,
};
use super::link::{Link, Live};

/// A tool as a server lists it.
pub(crate) fn info(name: &str) -> ToolInfo {
    ToolInfo {
        name: name.to_owned(),
        description: format!("does {name}"),
        schema: json!({"type": "object"}),
        hints: Hints::default(),
    }
}

/// A link that nobody serves.
pub(crate) fn link(server: &str) -> Arc<Link> {
    Link::new(server, Address::new(AddressCell::new()))
}

/// A link to a ready server with these tools.
pub(crate) fn ready(server: &str, tools: &[&str]) -> Arc<Link> {
    let link = link(server);
    offer(&link, tools);
    link
}

/// Its server has these tools from now on.
pub(crate) fn offer(link: &Arc<Link>, tools: &[&str]) {
    let limit = Duration::from_secs(1);
    let terms = Terms { trusted: false, call_limit: limit, connect_limit: limit };
    let tools = catalog::tools(link, &terms, tools.iter().copied().map(info).collect());
    let session = Arc::new(Scripted::default());
    link.show_ready(Live { life: 1, session }, tools);
}

/// A session whose lists are given beforehand; the last one stays.
#[derive(Default)]
pub(crate) struct Scripted {
    pub(crate) lists: Mutex<VecDeque<Vec<Page>>>,
    /// The pages still to come of the list that is being read.
    open: Mutex<VecDeque<Page>>,
    pub(crate) listings: Mutex<u32>,
    pub(crate) deaf: Mutex<bool>,
}

impl Session for Scripted {
    fn list(&self, cursor: Option<String>) -> BoxFuture<'_, Result<Page, CallError>> {
        Box::pin(async move {
            // Like a real one it takes its time, so that announcements come meanwhile.
            tokio::time::sleep(Duration::from_millis(20)).await;
            let mut open = self.open.lock();
            if cursor.is_none() {
                *self.listings.lock() += 1;
                let mut lists = self.lists.lock();
                let list = match lists.len() {
                    0 => Vec::new(),
                    1 => lists[0].clone(),
                    _ => lists.pop_front().unwrap_or_default(),
                };
                *open = list.into();
            }
            Ok(open.pop_front().unwrap_or_default())
        })
    }

    fn call<'a>(&'a self, call: CallRequest<'a>) -> BoxFuture<'a, Result<CallOutput, CallError>> {
        let parts = vec![Part::Text(call.tool.to_owned())];
        Box::pin(async move { Ok(CallOutput { parts, is_error: false }) })
    }

    fn is_over(&self) -> bool {
        false
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), CallError>> {
        let deaf = *self.deaf.lock();
        Box::pin(async move {
            if deaf { Err(CallError::TimedOut(Duration::from_secs(5))) } else { Ok(()) }
        })
    }
}

/// What comes of one attempt to connect.
pub(crate) enum Attempt {
    Fails(&'static str),
    Hangs,
    Succeeds(Arc<Scripted>),
}

/// A connection that is up.
pub(crate) struct Up {
    pub(crate) events: Arc<dyn Events>,
    /// Ends it as if the server had died.
    pub(crate) die: Arc<Notify>,
    /// It has ended, and nothing of it is left.
    pub(crate) over: CancellationToken,
}

/// A connector that plays its attempts; without any left it hangs.
#[derive(Default)]
pub(crate) struct Script {
    pub(crate) attempts: Mutex<VecDeque<Attempt>>,
    pub(crate) tries: Mutex<Vec<tokio::time::Instant>>,
    pub(crate) ups: Mutex<Vec<Up>>,
}

impl Connector for Script {
    fn connect(
        &self,
        events: Arc<dyn Events>,
        close: CancellationToken,
    ) -> BoxFuture<'static, Result<Connection, String>> {
        self.tries.lock().push(tokio::time::Instant::now());
        let attempt = self.attempts.lock().pop_front().unwrap_or(Attempt::Hangs);
        match attempt {
            Attempt::Fails(why) => Box::pin(async move { Err(why.to_owned()) }),
            Attempt::Hangs => Box::pin(async move {
                close.cancelled().await;
                Err("given up".to_owned())
            }),
            Attempt::Succeeds(session) => {
                let (die, over) = (Arc::new(Notify::new()), CancellationToken::new());
                self.ups.lock().push(Up { events, die: Arc::clone(&die), over: over.clone() });
                let life = async move {
                    let cause = tokio::select! {
                        () = close.cancelled() => "we closed it",
                        () = die.notified() => "it died",
                    };
                    over.cancel();
                    cause.to_owned()
                };
                let server = "fake 1".to_owned();
                let up = Connection { session, server, life: Box::pin(life) };
                Box::pin(async move { Ok(up) })
            }
        }
    }
}
