//! A server that is a program: in a process group of its own, recorded, ended as a group.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rmcp::ServiceExt;
use rmcp::transport::async_rw::AsyncRwTransport;
use rookery_messages::ids::CallId;
use tokio::io::AsyncReadExt;
use tokio::process::ChildStderr;
use tokio_util::sync::CancellationToken;

use super::handler::Handler;
use super::session::{End, SdkSession, chain};
use super::{StdioTarget, version};
use crate::tool::mcp::client::{Connection, Events};
use crate::tool::process::{Launch, Pipes, ProcessGroup};

/// Longest message of a server, in bytes.
const LONGEST_LINE: usize = 48 * 1_024 * 1_024;
/// What is kept of a server's complaints, in bytes.
const KEPT: usize = 4 * 1_024;
/// How long complaints may still come after the server has ended.
const LINGER: Duration = Duration::from_millis(100);
/// How long it may take to end by itself once its input is closed, and again after SIGTERM.
const GRACE: Duration = Duration::from_secs(1);

/// Starts the program and shakes hands with it.
pub(super) async fn connect(
    target: StdioTarget,
    events: Arc<dyn Events>,
    close: CancellationToken,
) -> Result<Connection, String> {
    let launch = launch(&target)?;
    let (group, Pipes { input, output, errors }) =
        ProcessGroup::start_spoken(launch).await.map_err(|error| error.to_string())?;
    let mut process = Process { group, errors: Complaints::new(errors) };
    let progress = super::handler::ProgressSinks::default();
    let handler = Handler { events, progress: Arc::clone(&progress) };
    let transport = AsyncRwTransport::new_client(output, input).with_max_line_length(LONGEST_LINE);
    let token = CancellationToken::new();
    let served = tokio::select! {
        biased;
        served = handler.serve_with_ct(transport, token.clone()) => {
            served.map_err(|error| chain(&error))
        }
        () = process.over() => Err("it ended before it answered".to_owned()),
        () = close.cancelled() => Err("the attempt was given up".to_owned()),
    };
    let service = match served {
        Ok(service) => service,
        Err(why) => {
            let cause = process.cause(why).await;
            process.end().await;
            return Err(cause);
        }
    };
    let peer = service.peer().clone();
    let server = version(&peer);
    let end = Arc::new(End::default());
    let session = SdkSession { peer, progress, end: Arc::clone(&end), by_pipe: true };
    let life = async move {
        let waiting = service.waiting();
        tokio::pin!(waiting);
        let why = tokio::select! {
            biased;
            () = close.cancelled() => "we closed the connection",
            () = process.over() => "its process ended",
            _ = &mut waiting => "it closed its output",
        };
        // Calls that wait learn of it at once, before what is left has been ended.
        end.set(process.cause(why.to_owned()).await);
        token.cancel();
        // Closes its input, which asks it to end. The SDK gives up by itself after a while.
        let _ = tokio::time::timeout(GRACE, waiting).await;
        let _ = tokio::time::timeout(GRACE, process.over()).await;
        process.end().await;
        end.cause()
    };
    Ok(Connection { session: Arc::new(session), server, life: Box::pin(life) })
}

/// The program's processes and what it complains.
struct Process {
    group: ProcessGroup,
    errors: Complaints,
}

impl Process {
    /// Resolves when the leader has ended. Takes its complaints meanwhile, so that it never waits for us.
    async fn over(&mut self) {
        let exit = self.group.leader_exited();
        tokio::pin!(exit);
        loop {
            tokio::select! {
                biased;
                () = &mut exit => return,
                () = self.errors.take(), if self.errors.open => {}
            }
        }
    }

    /// Why, how it ended if it has, and its last words.
    async fn cause(&mut self, why: String) -> String {
        let late = tokio::time::sleep(LINGER);
        tokio::pin!(late);
        while self.errors.open {
            tokio::select! {
                biased;
                () = self.errors.take() => {}
                () = &mut late => break,
            }
        }
        let mut cause = why;
        if let Some(how) = self.group.leader_end() {
            cause.push_str(&format!(" ({how})"));
        }
        let words = self.errors.text();
        if !words.is_empty() {
            cause.push_str(&format!("; its last words: {words}"));
        }
        cause
    }

    async fn end(self) {
        if let Err(error) = self.group.end(GRACE).await {
            tracing::error!(%error, "processes of an MCP server are left");
        }
    }
}

/// The newest of what a program writes to its standard error.
struct Complaints {
    from: ChildStderr,
    kept: VecDeque<u8>,
    open: bool,
}

impl Complaints {
    fn new(from: ChildStderr) -> Self {
        Self { from, kept: VecDeque::with_capacity(KEPT), open: true }
    }

    async fn take(&mut self) {
        let mut chunk = [0; 4 * 1_024];
        match self.from.read(&mut chunk).await {
            Ok(0) | Err(_) => self.open = false,
            Ok(n) => {
                let over = (self.kept.len() + n).saturating_sub(KEPT);
                self.kept.drain(..over.min(self.kept.len()));
                self.kept.extend(&chunk[..n]);
            }
        }
    }

    fn text(&self) -> String {
        let bytes: Vec<u8> = self.kept.iter().copied().collect();
        String::from_utf8_lossy(&bytes).trim().to_owned()
    }
}

fn launch(target: &StdioTarget) -> Result<Launch, String> {
    let cwd = target.cwd.as_deref().unwrap_or(Path::new("."));
    let folder = std::fs::File::open(cwd)
        .map_err(|error| format!("its folder {} can't be opened: {error}", cwd.display()))?;
    let mut argv = vec![OsString::from(&target.command)];
    argv.extend(target.args.iter().map(OsString::from));
    Ok(Launch {
        argv,
        folder: Arc::new(folder.into()),
        environment: environment(target),
        call: CallId(target.ids.next()),
        ledger: Arc::clone(&target.ledger),
    })
}

/// All that it sees of ours: no key, no configuration but its own.
fn environment(target: &StdioTarget) -> Vec<(String, OsString)> {
    let mut environment: Vec<(String, OsString)> = ["PATH", "HOME", "LANG", "TZ"]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), std::env::var_os(name)?)))
        .collect();
    let own = target.env.iter().map(|(name, value)| (name.clone(), value.expose().into()));
    environment.extend(own);
    environment
}
