//! The program in its own process and folder.

use std::collections::VecDeque;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::time::Instant;

use crate::level::Level;
use crate::wait::{until, within_time};

/// Most lines of output kept.
const LINES: usize = 20_000;

/// Environment variables with their values.
pub type Env = Vec<(String, String)>;

/// A running service.
pub struct ServiceProcess {
    program: PathBuf,
    dir: PathBuf,
    port: u16,
    env: Env,
    child: Child,
    pid: u32,
    output: Arc<Mutex<VecDeque<String>>>,
}

/// How a service ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// Its exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// From the request to the end.
    pub took: Duration,
}

/// A port nobody listens on. From a range the kernel gives to no outgoing connection, so that nobody
/// takes it before the service does.
pub fn free_port() -> u16 {
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 12_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = u16::try_from(std::process::id() % u32::from(COUNT)).unwrap();
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + (start.wrapping_mul(37).wrapping_add(step)) % COUNT;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port between {FIRST} and {}", FIRST + COUNT);
}

/// A command that sees nothing of the caller's environment but the path.
pub fn clean_command(program: &Path, dir: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", dir)
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

impl ServiceProcess {
    /// Starts it on `dir/rookery.toml`, which listens on `port`; doesn't wait.
    pub fn spawn(program: &Path, dir: &Path, port: u16) -> Self {
        Self::spawn_with(program, dir, port, Env::new())
    }

    /// The same, with these variables in its environment at every start.
    pub fn spawn_with(program: &Path, dir: &Path, port: u16, env: Env) -> Self {
        let mut command = clean_command(program, dir);
        command.args(["run", "--config"]).arg(dir.join("rookery.toml")).envs(env.iter().cloned());
        let mut child = command.spawn().unwrap();
        let output = Arc::default();
        keep_lines(child.stdout.take().unwrap(), &output);
        keep_lines(child.stderr.take().unwrap(), &output);
        let pid = child.id().unwrap();
        let (program, dir) = (program.to_owned(), dir.to_owned());
        Self { program, dir, port, env, child, pid, output }
    }

    /// Starts it and waits until it is ready.
    pub async fn start(program: &Path, dir: &Path, port: u16) -> Self {
        let mut service = Self::spawn(program, dir, port);
        service.ready().await;
        service
    }

    /// Waits until `/readyz` says so. Fails with the log if the process ends first.
    pub async fn ready(&mut self) {
        let client = crate::http_client();
        let url = format!("http://127.0.0.1:{}/readyz", self.port);
        until("the service is ready", || {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "the service ended ({ended:?}):\n{}", self.log());
            let request = client.get(&url);
            async move {
                match request.send().await {
                    Ok(answer) if answer.status().is_success() => Ok(()),
                    Ok(answer) => Err(answer.text().await.unwrap_or_default()),
                    Err(error) => Err(error.to_string()),
                }
            }
        })
        .await;
    }

    /// Starts it again, after an end, on the same folder and port.
    pub async fn restart(&mut self) {
        self.respawn();
        self.ready().await;
    }

    /// As [`ServiceProcess::restart`], without waiting.
    pub fn respawn(&mut self) {
        let ended = self.child.try_wait().unwrap();
        assert!(ended.is_some(), "restart before the end");
        let earlier = std::mem::take(&mut *self.output.lock());
        *self = Self::spawn_with(&self.program, &self.dir, self.port, self.env.clone());
        let mut output = self.output.lock();
        for line in earlier.into_iter().rev() {
            output.push_front(line);
        }
    }

    /// `kill -9`, and the wait for the end.
    pub async fn kill_9(&mut self) {
        self.child.start_kill().unwrap();
        self.wait(Duration::from_secs(10)).await;
    }

    /// SIGTERM, and the wait for the end.
    pub async fn term(&mut self, limit: Duration) -> Ended {
        self.signal_term();
        self.wait(limit).await
    }

    /// SIGTERM alone.
    pub fn signal_term(&self) {
        self.signal(Signal::TERM);
    }

    /// A signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.pid).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits for the end.
    pub async fn wait(&mut self, limit: Duration) -> Ended {
        let began = Instant::now();
        let ended = match tokio::time::timeout(limit, self.child.wait()).await {
            Ok(status) => status.unwrap(),
            Err(_) => panic!("the service did not end within {limit:?}:\n{}", self.log()),
        };
        Ended { code: ended.code(), took: began.elapsed() }
    }

    /// Whether it lives.
    pub fn lives(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Memory, handles and threads now.
    pub fn level(&self) -> Level {
        Level::of(self.pid)
    }

    /// All it wrote, over restarts too.
    pub fn log(&self) -> String {
        self.output.lock().make_contiguous().join("\n")
    }

    /// The newest lines it wrote.
    pub fn log_tail(&self, lines: usize) -> String {
        let mut output = self.output.lock();
        let output = output.make_contiguous();
        output[output.len().saturating_sub(lines)..].join("\n")
    }
}

fn keep_lines(
    source: impl AsyncRead + Unpin + Send + 'static,
    output: &Arc<Mutex<VecDeque<String>>>,
) {
    let output = Arc::clone(output);
    tokio::spawn(async move {
        let mut lines = BufReader::new(source).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let mut output = output.lock();
            if output.len() == LINES {
                output.pop_front();
            }
            output.push_back(line);
        }
    });
}

/// Processes whose command line contains `mark`, zombies left out.
pub fn processes_with(mark: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let Ok(line) = std::fs::read(entry.path().join("cmdline")) else { continue };
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        // A zombie has no command line any more.
        if line.contains(mark) && pid != std::process::id() {
            found.push(pid);
        }
    }
    found
}

/// Waits until no process has `mark` in its command line (I6).
pub async fn gone(mark: &str) {
    until(&format!("no process with {mark} is alive"), || async {
        match processes_with(mark) {
            alive if alive.is_empty() => Ok(()),
            alive => Err(format!("alive: {alive:?}")),
        }
    })
    .await;
}

/// Waits until a process has `mark` in its command line.
pub async fn alive(mark: &str) {
    until(&format!("a process with {mark} is alive"), || async {
        if processes_with(mark).is_empty() { Err("none".to_owned()) } else { Ok(()) }
    })
    .await;
}

/// The output of a command that ends by itself.
pub async fn output_of(mut command: Command, limit: Duration) -> std::process::Output {
    within_time("a command ends", limit, command.output()).await.unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_handed_out_differ_and_can_be_bound() {
        let (first, second) = (free_port(), free_port());
        assert_ne!(first, second);
        assert!(TcpListener::bind(("127.0.0.1", first)).is_ok());
    }

    // I6
    #[tokio::test]
    async fn a_process_is_found_by_its_mark_until_it_is_gone() {
        let mark = format!("{}.4711", std::process::id());
        let mut child =
            clean_command(Path::new("/bin/sleep"), Path::new("/")).arg(&mark).spawn().unwrap();
        alive(&mark).await;
        child.kill().await.unwrap();
        gone(&mark).await;
    }
}
