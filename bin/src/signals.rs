//! SIGINT, SIGTERM and SIGHUP, and the one that a limit sends.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Failure;

/// "A file grew beyond the limit for its size" (`signal(7)`; the number is that of Linux on all but MIPS).
const FILE_SIZE: i32 = 25;

/// The signals, from the moment it is made.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// None: whoever started us wants it ignored (`nohup`).
    hang_up: Option<Signal>,
    /// Only held: a write past a limit has to fail, like one on a full disk, and not to end the process.
    _file_size: Signal,
}

impl Signals {
    /// Takes over the signals: from now on they no longer end the process.
    pub fn take() -> Result<Self, Failure> {
        let take = |kind| {
            signal(kind).map_err(|error| Failure::failed(format!("can't take signals: {error}")))
        };
        // What is ignored stays so: to listen would be to answer.
        let hang_up = match ignores(SignalKind::hangup()) {
            true => None,
            false => Some(take(SignalKind::hangup())?),
        };
        Ok(Self {
            interrupt: take(SignalKind::interrupt())?,
            terminate: take(SignalKind::terminate())?,
            hang_up,
            _file_size: take(SignalKind::from_raw(FILE_SIZE))?,
        })
    }

    /// The next signal, whichever. Cancel safe.
    pub async fn next(&mut self) -> Asked {
        let hang_up = async {
            match &mut self.hang_up {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => Asked::Interrupt,
            _ = self.terminate.recv() => Asked::Terminate,
            _ = hang_up => Asked::HangUp,
        }
    }
}

/// Whether the process was started with a signal ignored, or ignores it by now (`proc_pid_status(5)`).
fn ignores(kind: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored_in(&status, kind.as_raw_value())
}

fn ignored_in(status: &str, number: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    u32::try_from(number - 1).is_ok_and(|bit| mask.checked_shr(bit).unwrap_or(0) & 1 == 1)
}

/// What a signal asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// Ctrl-C.
    Interrupt,
    /// The service manager.
    Terminate,
    /// The terminal is gone. There is nothing to read anew, so that it ends the service as SIGTERM does.
    HangUp,
}

impl Asked {
    /// The signal's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
            Self::HangUp => "SIGHUP",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_was_told_to_ignore_is_read_from_its_status() {
        let status =
            "SigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\nSigCgt:\tffffffffffffffff\n";
        assert!(ignored_in(status, 1) && ignored_in(status, 13));
        assert!(!ignored_in(status, 2) && !ignored_in(status, 25));
        assert!(!ignored_in("", 1) && !ignored_in(status, 0));
    }
}
