//! A hook that is a command: the question on standard input, the answer on standard output.
//!
//! It runs without a shell, in a process group of its own and with a clean environment. However it ends, by
//! itself, too late or with its turn, nothing of its group is left.

use std::ffi::OsString;
use std::io;
use std::process::{ExitStatus, Stdio};

use rookery_messages::hook::HookError;
use rookery_messages::tool::head;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use super::external::MAX_ANSWER_BYTES;
use crate::tool::process::{Kin, spawn};

/// What is passed on of its environment.
const VARIABLES: [&str; 5] = ["PATH", "HOME", "LANG", "TZ", "TMPDIR"];
/// Longest complaint of it that is passed on, in bytes.
const MAX_COMPLAINT_BYTES: usize = 400;

/// Runs it to its end.
pub(super) async fn run(argv: &[String], question: Vec<u8>) -> Result<Vec<u8>, HookError> {
    let start = |error: io::Error| {
        let program = argv.first().map_or("", String::as_str);
        HookError(format!("the command `{program}` can't be started: {error}"))
    };
    let mut running = Running::start(argv).map_err(start)?;
    let broken = |error: io::Error| HookError(format!("the command broke off: {error}"));
    let (Some(mut input), Some(output), Some(errors)) =
        (running.child.stdin.take(), running.child.stdout.take(), running.child.stderr.take())
    else {
        return Err(broken(io::Error::other("its pipes are missing")));
    };
    let write = async move {
        // A hook need not read all it is sent.
        let _ = input.write_all(&question).await;
    };
    let ((), answer, complaint, exited) = tokio::join!(
        write,
        bounded(output, MAX_ANSWER_BYTES),
        bounded(errors, MAX_COMPLAINT_BYTES),
        running.leader_exited(),
    );
    exited.map_err(broken)?;
    let status = running.end().await.map_err(broken)?;
    let (answer, all) = answer.map_err(broken)?;
    if !status.success() {
        let (complaint, _) = complaint.map_err(broken)?;
        let complaint = String::from_utf8_lossy(&complaint);
        let said = head(complaint.trim(), MAX_COMPLAINT_BYTES);
        return Err(HookError(format!("the command ended with {status}: {said}")));
    }
    if !all {
        return Err(HookError(format!("its answer has more than {MAX_ANSWER_BYTES} bytes")));
    }
    Ok(answer)
}

/// What comes, up to a limit, and whether that was all. The rest is read and dropped, so that nobody waits
/// for a full pipe.
async fn bounded(mut from: impl AsyncRead + Unpin, limit: usize) -> io::Result<(Vec<u8>, bool)> {
    let mut kept = Vec::new();
    let mut all = true;
    let mut buffer = vec![0_u8; 8_192];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return Ok((kept, all));
        }
        let room = limit - kept.len();
        all &= read <= room;
        kept.extend_from_slice(&buffer[..read.min(room)]);
    }
}

/// A running command. Dropped, its whole group is killed (I6).
struct Running {
    group: Option<Pid>,
    // After the group's kill: until it is reaped nobody else gets its id.
    child: Child,
    _kin: Kin,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Running {
    fn start(argv: &[String]) -> io::Result<Self> {
        let [program, arguments @ ..] = argv else {
            return Err(io::Error::other("it names no program"));
        };
        let passed = VARIABLES.iter().filter_map(|name| Some((*name, std::env::var_os(name)?)));
        let environment: Vec<(&str, OsString)> = passed.collect();
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .envs(environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let (child, kin) = spawn(&mut command, None)?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok(Self { group, child, _kin: kin })
    }

    /// Resolves when the leader has ended. It is not reaped yet, so that its id stays taken.
    async fn leader_exited(&self) -> io::Result<()> {
        let Some(leader) = self.group else { return Ok(()) };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let wait = move || rustix::process::waitid(WaitId::Pid(leader), options).map(drop);
        let waited = tokio::task::spawn_blocking(wait).await.map_err(io::Error::other)?;
        // What it left behind would keep the pipes open.
        self.kill();
        waited.map_err(io::Error::from)
    }

    async fn end(mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        self.group = None;
        Ok(status)
    }

    fn kill(&self) {
        if let Some(group) = self.group {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
    }
}
