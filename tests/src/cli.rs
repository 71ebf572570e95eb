//! The program as a person at a shell calls it.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt;

use crate::service::clean_command;
use crate::wait::within_time;

/// How a call of the program went.
#[derive(Debug)]
pub struct Printed {
    /// The exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Printed {
    /// Standard output as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Calls the program in `dir` with nothing on standard input.
pub async fn run(program: &Path, dir: &Path, args: &[&str], env: &[(&str, &str)]) -> Printed {
    run_with_input(program, dir, args, env, "").await
}

/// Calls the program in `dir` with this on standard input.
pub async fn run_with_input(
    program: &Path,
    dir: &Path,
    args: &[&str],
    env: &[(&str, &str)],
    input: &str,
) -> Printed {
    let mut command = clean_command(program, dir);
    command.args(args).envs(env.iter().copied()).stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A program that doesn't read its input closes the pipe.
    let _ = stdin.write_all(input.as_bytes()).await;
    drop(stdin);
    let what = format!("`{}` ends", args.join(" "));
    let output =
        within_time(&what, Duration::from_secs(60), child.wait_with_output()).await.unwrap();
    Printed {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
