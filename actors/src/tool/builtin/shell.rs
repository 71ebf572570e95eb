//! `shell`: runs a command in the workspace, in a process group of its own.
//!
//! A plain command runs as it was judged, word by word, without a shell (A089); anything else by the shell
//! whose grammar it was judged by, as exactly the text that was judged.

mod kept;

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use rookery_messages::BoxFuture;
use rookery_messages::tool::{CallEffects, Tool, ToolContext, ToolResult, ToolSpec, text};
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

use super::args::{self, Arguments};
use crate::policy::paths::PathGate;
use crate::policy::programs::search_path;
use crate::policy::shell::plain_words;
use crate::policy::taint::fetches;
use crate::tool::process::{Launch, NotEnded, ProcessGroup};
use kept::Kept;

/// How long a command may run if the call says nothing, in seconds.
const DEFAULT_TIMEOUT_SECS: u64 = 120;
/// Longest time a call may ask for, in seconds.
const MAX_TIMEOUT_SECS: u64 = 3_600;
/// How long processes may take to end after SIGTERM, when the time is over.
const TIMEOUT_GRACE: Duration = Duration::from_secs(2);
/// How long output may still come after the command has ended: what its children left in the pipe.
const LINGER: Duration = Duration::from_millis(200);
/// What ending a group may take beyond its grace, so that the tool's own limit comes first.
const MARGIN: Duration = Duration::from_secs(10);
/// Most bytes taken from a pipe after everybody who should write to it is gone.
const MAX_LAST_BYTES: usize = 4 * 1_024 * 1_024;

/// The tool.
pub(super) struct Shell {
    spec: Arc<ToolSpec>,
}

impl Shell {
    pub(super) fn new() -> Self {
        let spec = super::spec(
            "shell",
            "Runs a shell command in the workspace and gives its output. It has no input and no terminal. Whatever it leaves running in the background is ended with it.",
            json!({
                "command": {"type": "string", "description": "The command."},
                "timeout_secs": {"type": "integer", "minimum": 1, "maximum": MAX_TIMEOUT_SECS, "description": "How long it may run, in seconds. Default: 120."},
                "workdir": {"type": "string", "description": "The folder to run it in, relative to the workspace. Default: the workspace itself."},
            }),
            &["command"],
        );
        Self { spec }
    }
}

impl Tool for Shell {
    fn spec(&self) -> Arc<ToolSpec> {
        Arc::clone(&self.spec)
    }

    /// Unknown but for the command itself. The folder it starts in is judged as a path it reads.
    fn effects(&self, arguments: &Arguments) -> CallEffects {
        let workdir = args::optional(arguments, "workdir").ok().flatten().map(str::to_owned);
        let command = args::required(arguments, "command").ok().map(str::to_owned);
        CallEffects {
            reads: workdir.into_iter().collect(),
            brings_in: command.as_deref().is_some_and(fetches),
            command,
            ..CallEffects::unknown()
        }
    }

    fn timeout(&self, arguments: &Arguments) -> Duration {
        let asked = args::number(arguments, "timeout_secs", 1..=MAX_TIMEOUT_SECS).ok().flatten();
        Duration::from_secs(asked.unwrap_or(DEFAULT_TIMEOUT_SECS)) + TIMEOUT_GRACE + MARGIN
    }

    fn execute<'a>(
        &'a self,
        arguments: &'a Arguments,
        cx: &'a ToolContext,
    ) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move { run(arguments, cx).await.unwrap_or_else(|failed| failed) })
    }
}

/// Why a command is over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Exited,
    TimedOut,
    Cancelled,
}

async fn run(arguments: &Arguments, cx: &ToolContext) -> Result<ToolResult, ToolResult> {
    let command = args::required(arguments, "command")?;
    let seconds = args::number(arguments, "timeout_secs", 1..=MAX_TIMEOUT_SECS)?
        .unwrap_or(DEFAULT_TIMEOUT_SECS);
    let workdir = args::optional(arguments, "workdir")?.unwrap_or(".");
    if command.trim().is_empty() {
        return Err(ToolResult::failed("`command` is empty; give a command to run"));
    }
    let (folder, workspace) = folder(cx, workdir.to_owned()).await?;
    let launch = Launch {
        argv: argv(command),
        folder,
        environment: environment(&workspace),
        call: cx.call,
        ledger: Arc::clone(&cx.processes),
    };
    let started = tokio::select! {
        biased;
        // Dropped at its gate, the command is killed before it did anything.
        () = cx.cancel.cancelled() => return Err(ToolResult::failed(text::INTERRUPTED_RUNNING)),
        started = ProcessGroup::start(launch) => started,
    };
    let (mut group, mut output) = started.map_err(|e| ToolResult::failed(e.to_string()))?;
    let mut kept = Kept::default();
    let end = watch(&mut group, &mut output, &mut kept, Duration::from_secs(seconds), cx).await;
    let grace = match end {
        // The call is aborted at the end of its own grace: SIGKILL must come well before.
        End::Cancelled => cx.grace / 2,
        End::TimedOut | End::Exited => TIMEOUT_GRACE,
    };
    let status = finish(group, &mut output, &mut kept, grace).await;
    Ok(result(end, seconds, status, kept))
}

/// The folder to start in, by its handle, and the workspace's real path.
async fn folder(
    cx: &ToolContext,
    workdir: String,
) -> Result<(Arc<OwnedFd>, std::path::PathBuf), ToolResult> {
    let (workspace, forbidden) = (cx.workspace.clone(), Arc::clone(&cx.forbidden_paths));
    let look = move || {
        let gate = PathGate::open(&workspace, &forbidden)?;
        let folder = gate.resolve(&workdir)?.open_folder()?;
        Ok((folder, gate.workspace().to_path_buf()))
    };
    match tokio::task::spawn_blocking(look).await {
        Ok(found) => found.map_err(super::files::refused),
        Err(_) => Err(super::files::interrupted()),
    }
}

/// Where bash is. Commands are judged by its grammar; the gate only lets through what `sh` reads alike.
const BASH: &[&str] = &["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"];

fn argv(command: &str) -> Vec<OsString> {
    if let Some(words) = plain_words(command) {
        return words.into_iter().map(OsString::from).collect();
    }
    match BASH.iter().find(|path| Path::new(path).exists()) {
        // No start-up file may change what the text means.
        Some(bash) => [*bash, "--noprofile", "--norc", "-c", command].map(OsString::from).into(),
        None => ["/bin/sh", "-c", command].map(OsString::from).into(),
    }
}

/// All that a command sees of ours: no key, no configuration (V-M21).
fn environment(workspace: &Path) -> Vec<(String, OsString)> {
    let lang = std::env::var_os("LANG").unwrap_or_else(|| OsString::from("C.UTF-8"));
    let mut environment = vec![
        ("PATH".to_owned(), search_path(workspace)),
        ("HOME".to_owned(), workspace.as_os_str().to_owned()),
        ("LANG".to_owned(), lang),
        ("TERM".to_owned(), OsString::from("dumb")),
    ];
    // Nobody sits at a pager, and looking at a repository must not start what its settings name.
    for (name, value) in [
        ("PAGER", "cat"),
        ("GIT_PAGER", "cat"),
        // Nor in an editor.
        ("GIT_EDITOR", ":"),
        ("GIT_SEQUENCE_EDITOR", ":"),
        ("GIT_TERMINAL_PROMPT", "0"),
        // Nor may it fetch what is missing there, from where they say.
        ("GIT_NO_LAZY_FETCH", "1"),
        ("GIT_CONFIG_COUNT", "3"),
        ("GIT_CONFIG_KEY_0", "core.fsmonitor"),
        ("GIT_CONFIG_VALUE_0", "false"),
        // A folder of plain files is no repository.
        ("GIT_CONFIG_KEY_1", "safe.bareRepository"),
        ("GIT_CONFIG_VALUE_1", "explicit"),
        // Hooks run on many a command that seems to look only: `status` writes the index.
        ("GIT_CONFIG_KEY_2", "core.hooksPath"),
        ("GIT_CONFIG_VALUE_2", "/dev/null"),
    ] {
        environment.push((name.to_owned(), OsString::from(value)));
    }
    environment.extend(std::env::var_os("TZ").map(|zone| ("TZ".to_owned(), zone)));
    environment
}

/// Takes the output until the command is over, by itself or not.
async fn watch(
    group: &mut ProcessGroup,
    output: &mut pipe::Receiver,
    kept: &mut Kept,
    limit: Duration,
    cx: &ToolContext,
) -> End {
    let deadline = tokio::time::sleep(limit);
    let exit = group.leader_exited();
    let linger = tokio::time::sleep(LINGER);
    tokio::pin!(deadline, exit, linger);
    let (mut open, mut exited) = (true, false);
    let mut chunk = vec![0; 64 * 1_024];
    while open || !exited {
        tokio::select! {
            biased;
            () = cx.cancel.cancelled() => return End::Cancelled,
            () = &mut deadline, if !exited => return End::TimedOut,
            // Somebody in the background keeps the pipe open: not waited for (A128).
            () = &mut linger, if exited => return End::Exited,
            () = &mut exit, if !exited => {
                exited = true;
                linger.as_mut().reset(tokio::time::Instant::now() + LINGER);
            }
            read = output.read(&mut chunk), if open => match read {
                Ok(0) | Err(_) => open = false,
                Ok(n) => kept.push(&chunk[..n]),
            },
        }
    }
    End::Exited
}

/// Ends the group, while its output is still taken: nobody hangs on a full pipe.
async fn finish(
    group: ProcessGroup,
    output: &mut pipe::Receiver,
    kept: &mut Kept,
    grace: Duration,
) -> Result<ExitStatus, NotEnded> {
    let ending = group.end(grace);
    tokio::pin!(ending);
    let mut chunk = vec![0; 64 * 1_024];
    let mut open = true;
    let status = loop {
        tokio::select! {
            biased;
            status = &mut ending => break status,
            read = output.read(&mut chunk), if open => match read {
                Ok(0) | Err(_) => open = false,
                Ok(n) => kept.push(&chunk[..n]),
            },
        }
    };
    // What is left in the pipe; a process that got away may go on writing.
    let mut last = 0;
    while let Ok(n @ 1..) = output.try_read(&mut chunk) {
        kept.push(&chunk[..n]);
        last += n;
        if last > MAX_LAST_BYTES {
            break;
        }
    }
    status
}

/// What a shell adds to the number of the signal that ended its command.
const SIGNALLED: i32 = 128;

/// What a signal says that the system sends at a limit (`getrlimit(2)`).
fn limit_signal(signal: i32) -> Option<&'static str> {
    Some(match signal {
        24 => "SIGXCPU: it used more processor time than its limit allows",
        25 => "SIGXFSZ: it wrote a file larger than its limit allows; see `ulimit -f`",
        _ => return None,
    })
}

fn result(end: End, seconds: u64, status: Result<ExitStatus, NotEnded>, kept: Kept) -> ToolResult {
    let output = kept.into_text();
    let gone = match &status {
        Ok(_) => String::new(),
        Err(e) => format!("; {e}"),
    };
    let error = match (end, &status) {
        (End::Cancelled, _) => Some(format!("{}{gone}", text::INTERRUPTED_RUNNING)),
        (End::TimedOut, _) => Some(format!(
            "the command timed out after {seconds} seconds and was ended{gone}; give it a longer \
             `timeout_secs`, or less to do"
        )),
        (End::Exited, Ok(status)) if status.success() => None,
        (End::Exited, Ok(status)) => Some(match (status.code(), status.signal()) {
            (Some(code), _) => {
                let why = limit_signal(code - SIGNALLED).map(|why| format!(" ({why})"));
                format!("exit code {code}{}", why.unwrap_or_default())
            }
            (None, Some(signal)) => {
                let why = limit_signal(signal).map(|why| format!(" ({why})"));
                format!("ended by signal {signal}{}", why.unwrap_or_default())
            }
            (None, None) => "ended in an unknown way".to_owned(),
        }),
        (End::Exited, Err(e)) => Some(e.to_string()),
    };
    ToolResult { success: error.is_none(), output, error, unknown: false }
}
