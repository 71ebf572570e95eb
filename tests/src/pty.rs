//! A terminal, for what the program does only in front of one.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use tokio::io::AsyncReadExt as _;
use tokio::process::Child;
use tokio::sync::watch;

use crate::service::clean_command;
use crate::wait::{PATIENCE, within, within_time};

/// A program at a terminal of its own.
pub struct Terminal {
    child: Child,
    master: File,
    screen: Arc<Mutex<String>>,
    changed: watch::Receiver<usize>,
}

impl Terminal {
    /// Starts the program in `dir`.
    pub fn start(program: &Path, dir: &Path, args: &[&str], env: &[(&str, &str)]) -> Self {
        let (master, side) = pair();
        let mut command = clean_command(program, dir);
        command.args(args).envs(env.iter().copied()).env("NO_COLOR", "1").env("TERM", "dumb");
        let child = command.stdin(side()).stdout(side()).stderr(side()).spawn().unwrap();
        let screen = Arc::new(Mutex::new(String::new()));
        let (said, changed) = watch::channel(0);
        let (reader, shown) = (master.try_clone().unwrap(), Arc::clone(&screen));
        // A plain thread: the read ends with an error once the program has gone.
        std::thread::spawn(move || read_all(reader, &shown, &said));
        Self { child, master, screen, changed }
    }

    /// Waits until what stands after the byte `from` contains `text`; gives the place after it.
    pub async fn shows(&mut self, from: usize, text: &str) -> usize {
        let screen = Arc::clone(&self.screen);
        let seen = tokio::time::timeout(PATIENCE, async {
            loop {
                let place = screen.lock().get(from..).and_then(|rest| rest.find(text));
                if let Some(at) = place {
                    return Some(from + at + text.len());
                }
                if self.changed.changed().await.is_err() {
                    return None;
                }
            }
        });
        match seen.await {
            Ok(Some(place)) => place,
            _ => panic!("the terminal never showed {text:?} after {from}:\n{}", self.screen()),
        }
    }

    /// Types a line.
    pub fn types(&mut self, line: &str) {
        self.master.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// The program's process id.
    pub fn pid(&self) -> u32 {
        self.child.id().unwrap()
    }

    /// Everything shown so far.
    pub fn screen(&self) -> String {
        self.screen.lock().clone()
    }

    /// Waits for the end and gives the exit code.
    pub async fn ends(&mut self) -> Option<i32> {
        let waiting = self.child.wait();
        within_time("the program at the terminal ends", Duration::from_secs(30), waiting)
            .await
            .unwrap()
            .code()
    }

    /// Waits until all the program wrote has been read, after its end.
    pub async fn drained(&mut self) {
        within("the terminal is read to its end", async {
            while self.changed.changed().await.is_ok() {}
        })
        .await;
    }
}

/// A terminal's two sides: the one who types holds, and what the program is given.
fn pair() -> (File, impl Fn() -> Stdio) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let side = move || -> Stdio {
        let file = File::options().read(true).write(true).open(&name).unwrap();
        OwnedFd::from(file).into()
    };
    (File::from(master), side)
}

/// A program that reads from a terminal and writes to a pipe: what it says is not mixed with what is typed.
pub struct Typed {
    child: Mutex<Child>,
    master: File,
    said: Arc<Mutex<String>>,
}

impl Typed {
    /// Starts the program in `dir`.
    pub fn start(program: &Path, dir: &Path, args: &[&str], env: &[(&str, &str)]) -> Self {
        let (master, side) = pair();
        let mut command = clean_command(program, dir);
        command.args(args).envs(env.iter().copied()).env("NO_COLOR", "1").env("TERM", "dumb");
        let mut child = command.stdin(side()).spawn().unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let heard = Arc::clone(&said);
        tokio::spawn(async move {
            let mut rest = Vec::new();
            while let Ok(1..) = out.read_buf(&mut rest).await {
                take_whole(&mut rest, &mut heard.lock());
            }
        });
        tokio::spawn(async move {
            let _ended = tokio::io::copy(&mut err, &mut tokio::io::sink()).await;
        });
        // What is typed is echoed: somebody has to take it.
        let mut echo = master.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(1..) = echo.read(&mut chunk) {}
        });
        Self { child: Mutex::new(child), master, said }
    }

    /// Types a line.
    pub fn types(&self, line: &str) {
        // A program that has ended reads nothing.
        let _ = (&self.master).write_all(format!("{line}\n").as_bytes());
    }

    /// Everything said so far.
    pub fn said(&self) -> String {
        self.said.lock().clone()
    }

    /// Its exit code, once it has ended.
    pub fn code(&self) -> Option<i32> {
        self.child.lock().try_wait().unwrap().and_then(|status| status.code())
    }
}

/// Moves what is whole characters.
fn take_whole(rest: &mut Vec<u8>, text: &mut String) {
    let whole = match std::str::from_utf8(rest) {
        Ok(text) => text.len(),
        Err(error) => error.valid_up_to(),
    };
    text.push_str(&String::from_utf8_lossy(&rest[..whole]).replace("\r\n", "\n"));
    rest.drain(..whole);
}

fn read_all(mut reader: File, screen: &Mutex<String>, said: &watch::Sender<usize>) {
    let mut rest = Vec::new();
    let mut chunk = [0; 4096];
    while let Ok(count @ 1..) = reader.read(&mut chunk) {
        rest.extend_from_slice(&chunk[..count]);
        take_whole(&mut rest, &mut screen.lock());
        said.send_modify(|count| *count += 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_program_at_a_terminal_is_read_and_answered() {
        let script = "test -t 0 && printf 'name? ' && read name && echo \"hello $name\"; exit 7";
        let mut terminal =
            Terminal::start(Path::new("/bin/sh"), Path::new("/"), &["-c", script], &[]);
        let place = terminal.shows(0, "name? ").await;
        terminal.types("rook");
        terminal.shows(place, "hello rook").await;
        assert_eq!(terminal.ends().await, Some(7));
        terminal.drained().await;
        assert_eq!(terminal.screen(), "name? rook\nhello rook\n");
    }
}
