//! A call's context for tests, on a real folder, with a ledger that remembers.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rookery_messages::BoxFuture;
use rookery_messages::envelope::TurnOrigin;
use rookery_messages::ids::{AgentName, CallId, ChannelId, ConversationId, TurnId};
use rookery_messages::store::StoreError;
use rookery_messages::tool::{Authority, ProcessLedger, ProcessRecord, ToolContext};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// A look at a record while it is made.
pub(crate) type OnStart = Box<dyn Fn(&ProcessRecord) + Send + Sync>;

/// What was recorded of processes.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) started: Mutex<Vec<ProcessRecord>>,
    pub(crate) ended: Mutex<Vec<ProcessRecord>>,
    /// Refuse to record.
    pub(crate) broken: bool,
    /// Runs while a start is being recorded.
    pub(crate) on_start: Option<OnStart>,
}

impl ProcessLedger for Ledger {
    fn started(&self, record: ProcessRecord) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            if self.broken {
                return Err(StoreError::Unavailable("locked".to_owned()));
            }
            if let Some(on_start) = &self.on_start {
                on_start(&record);
            }
            self.started.lock().push(record);
            Ok(())
        })
    }

    fn ended(&self, record: ProcessRecord) -> BoxFuture<'_, ()> {
        Box::pin(async move { self.ended.lock().push(record) })
    }
}

/// A context in `workspace`. Every context is another call.
pub(crate) fn context(workspace: &Path, forbidden: &[PathBuf]) -> (ToolContext, Arc<Ledger>) {
    let ledger = Arc::new(Ledger::default());
    (context_with(workspace, forbidden, Arc::clone(&ledger)), ledger)
}

/// The same with a ledger of one's own.
pub(crate) fn context_with(
    workspace: &Path,
    forbidden: &[PathBuf],
    processes: Arc<Ledger>,
) -> ToolContext {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    let n = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    // Unique on the machine, too: the mark in a process's environment is looked for everywhere.
    let call = Uuid::from_u64_pair(u64::from(std::process::id()), n);
    ToolContext {
        turn: TurnId(Uuid::nil()),
        call: CallId(call),
        conversation_id: ConversationId(Uuid::nil()),
        channel: ChannelId::new("cli"),
        agent: AgentName::new("home"),
        origin: TurnOrigin::Interactive,
        workspace: workspace.to_path_buf(),
        forbidden_paths: forbidden.into(),
        network: Arc::default(),
        authority: Authority::Policy,
        tainted: None,
        cancel: CancellationToken::new(),
        grace: Duration::from_secs(2),
        processes,
        progress: Arc::new(|_| {}),
    }
}
