//! One process group: started through a gate, watched, ended, reaped.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rookery_messages::ids::CallId;
use rookery_messages::store::StoreError;
use rookery_messages::tool::{ProcessLedger, ProcessRecord};
use rustix::process::{Pid, Resource, Rlimit, Signal as Kill, WaitId, WaitIdOptions, WaitOptions};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::runtime::Handle;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{
    CALL_VARIABLE, KILL_WAIT, Kin, NotEnded, Target, boot_id, family, process_start_ticks, scan,
    tag,
};

/// Waits for a line, then becomes the command. If we die first the pipe closes and nothing is run, so
/// that no command acts unrecorded (A129).
const GATE: &str = r#"read -r _ && exec "$@" </dev/null"#;
/// The same for a program that is spoken to: `read` takes no byte beyond its line from a pipe (POSIX).
const OPEN_GATE: &str = r#"read -r _ && exec "$@""#;

/// What to start.
pub struct Launch {
    /// Program and arguments; the program is looked for in `PATH` of `environment`.
    pub argv: Vec<OsString>,
    /// The folder to start in, by its handle.
    pub folder: Arc<OwnedFd>,
    /// All of its environment, but for the mark.
    pub environment: Vec<(String, OsString)>,
    /// The call it is for.
    pub call: CallId,
    /// Where it is recorded.
    pub ledger: Arc<dyn ProcessLedger>,
}

/// Why a command was not run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The system refused.
    #[error("the command can't be started: {0}")]
    Spawn(#[from] io::Error),
    /// It could not be recorded.
    #[error("the command was not run, because it could not be recorded: {0}")]
    Record(#[from] StoreError),
}

/// A group whose leader is our child. Dropped, it is killed.
pub struct ProcessGroup {
    // First: it must act before the child is given up. Until the leader is reaped nobody gets its id.
    guard: KillOnDrop,
    child: Child,
    /// Tells that some child of ours ended.
    child_ended: Signal,
    record: ProcessRecord,
    ledger: Arc<dyn ProcessLedger>,
    _kin: Kin,
}

/// Sends SIGKILL to a group, and to who left it, unless told that it is gone (I6).
struct KillOnDrop {
    group: Pid,
    target: Option<Target>,
    armed: bool,
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if self.armed {
            let _ = rustix::process::kill_process_group(self.group, Kill::KILL);
            // Looking for them takes a moment. Without a runtime the next life does.
            if let (Some(target), Ok(runtime)) = (self.target, Handle::try_current()) {
                runtime.spawn_blocking(move || target.kill_rest());
            }
        }
    }
}

/// A program's ends of its pipes.
pub struct Pipes {
    /// What it reads.
    pub input: ChildStdin,
    /// What it writes.
    pub output: ChildStdout,
    /// What it complains.
    pub errors: ChildStderr,
}

/// A group that waits at its gate. Nothing of the command ran yet.
struct Waiting {
    group: ProcessGroup,
    gate: ChildStdin,
}

impl ProcessGroup {
    /// Starts a command in a group of its own, recorded before it acts. Its standard input is empty; its
    /// output and errors come, in their order, from the pipe.
    pub async fn start(launch: Launch) -> Result<(Self, pipe::Receiver), StartError> {
        let (output, writer) = io::pipe()?;
        let output = pipe::Receiver::from_owned_fd(output.into())?;
        let Waiting { group, mut gate } = Self::spawn(&launch, GATE, |command| {
            command.stdout(Stdio::from(writer.try_clone()?)).stderr(Stdio::from(writer));
            Ok(())
        })?;
        // A failure from here on drops the group, which kills it at its gate.
        group.ledger.started(group.record.clone()).await?;
        // The leader can only be gone if somebody killed it; its exit tells.
        let _ = gate.write_all(b"\n").await;
        Ok((group, output))
    }

    /// As [`ProcessGroup::start`], for a program that is spoken to over its standard input and output.
    pub async fn start_spoken(launch: Launch) -> Result<(Self, Pipes), StartError> {
        let Waiting { mut group, gate: mut input } = Self::spawn(&launch, OPEN_GATE, |command| {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            Ok(())
        })?;
        group.ledger.started(group.record.clone()).await?;
        let pipes = (group.child.stdout.take(), group.child.stderr.take());
        let (Some(output), Some(errors)) = pipes else {
            return Err(io::Error::other("its pipes are gone").into());
        };
        // The leader can only be gone if somebody killed it; its exit tells.
        let _ = input.write_all(b"\n").await;
        Ok((group, Pipes { input, output, errors }))
    }

    /// How the leader ended, if it has; it is not reaped by that.
    pub fn leader_end(&self) -> Option<String> {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let status = rustix::process::waitid(WaitId::Pid(self.guard.group), look).ok()??;
        Some(match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("ended by signal {signal}"),
            (None, None) => "ended in an unknown way".to_owned(),
        })
    }

    fn spawn(
        launch: &Launch,
        gate: &str,
        wire: impl FnOnce(&mut Command) -> io::Result<()>,
    ) -> io::Result<Waiting> {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", gate, "sh"])
            .args(&launch.argv)
            .env_clear()
            .envs(launch.environment.iter().map(|(name, value)| (name, value)))
            .env(CALL_VARIABLE, launch.call.to_string())
            // By the handle that was judged: a path could lead elsewhere by now.
            .current_dir(format!("/proc/self/fd/{}", launch.folder.as_raw_fd()))
            .stdin(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        wire(&mut command)?;
        // Listened to before there is anything to hear.
        let child_ended = signal(SignalKind::child())?;
        let (mut child, kin) = family::spawn(&mut command, Some(launch.call))?;
        // It holds the pipe's writing end, which would keep the pipe open.
        drop(command);
        let gone = || io::Error::other("it was ended by somebody else");
        let pgid = child.id().and_then(|id| i32::try_from(id).ok()).ok_or_else(gone)?;
        let group = Pid::from_raw(pgid).ok_or_else(gone)?;
        let mut guard = KillOnDrop { group, target: None, armed: true };
        let gate = child.stdin.take().ok_or_else(gone)?;
        // Where we may not (a container that limits it lower), the other marks have to do.
        let limit = Some(tag(launch.call));
        let _ = rustix::process::prlimit(
            Some(group),
            Resource::Locks,
            Rlimit { current: limit, maximum: limit },
        );
        let start_ticks = process_start_ticks(pgid)?;
        guard.target = Some(Target { group: Some(group), call: launch.call, since: start_ticks });
        let record = ProcessRecord { boot_id: boot_id()?, pgid, start_ticks, call: launch.call };
        let ledger = Arc::clone(&launch.ledger);
        let group = Self { guard, child, child_ended, record, ledger, _kin: kin };
        Ok(Waiting { group, gate })
    }

    /// Resolves when the leader has ended. It is not reaped yet, so that its id stays taken.
    pub async fn leader_exited(&mut self) {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        // An error would mean that it is no child of ours any more, so it has ended, too.
        while let Ok(None) = rustix::process::waitid(WaitId::Pid(self.guard.group), look) {
            if self.child_ended.recv().await.is_none() {
                return;
            }
            // It may have been one that was left to us, of this call or another one.
            let _ = tokio::task::spawn_blocking(scan::reap).await;
        }
    }

    /// Ends what lives of the group, makes sure that none does, reaps it, and takes it off the record.
    /// Gives the leader's status.
    pub async fn end(mut self, grace: Duration) -> Result<ExitStatus, NotEnded> {
        let Self { guard, record, .. } = &self;
        let since = record.start_ticks;
        let target = Target { group: Some(guard.group), call: record.call, since };
        // On failure the record stays: the next life tries again.
        target.end(grace).await?;
        let reaped = tokio::time::timeout(KILL_WAIT, self.child.wait()).await;
        let Ok(Ok(status)) = reaped else { return Err(NotEnded { left: 1 }) };
        self.guard.armed = false;
        // Where orphans are given to us (as the first process of a container) they are ours to reap.
        while let Ok(Some(_)) = rustix::process::waitpgid(self.guard.group, WaitOptions::NOHANG) {}
        self.ledger.ended(self.record.clone()).await;
        Ok(status)
    }
}
