//! SIGINT and SIGTERM.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Failure;

/// Both signals, from the moment it is made.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Takes over both signals: from now on they no longer end the process.
    pub fn take() -> Result<Self, Failure> {
        let take = |kind| {
            signal(kind).map_err(|error| Failure::failed(format!("can't take signals: {error}")))
        };
        Ok(Self {
            interrupt: take(SignalKind::interrupt())?,
            terminate: take(SignalKind::terminate())?,
        })
    }

    /// The next signal, whichever. Cancel safe.
    pub async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.interrupt.recv() => Asked::Interrupt,
            _ = self.terminate.recv() => Asked::Terminate,
        }
    }
}

/// What a signal asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// Ctrl-C.
    Interrupt,
    /// The service manager.
    Terminate,
}
