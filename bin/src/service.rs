//! The one place where the service is put together and started.

use std::net::SocketAddr;
use std::path::PathBuf;

use rookery_messages::BoxFuture;
use rookery_messages::settings::Settings;
use rookery_messages::store::StoreError;

/// Why the service did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Somebody listens there already.
    #[error("can't listen on {address}: the address is in use")]
    PortTaken {
        /// Where.
        address: SocketAddr,
    },
    /// The store can't be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Anything else: what was tried, what to do.
    #[error("{0}")]
    Failed(String),
}

/// How a shutdown went.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ShutdownReport {
    /// One line a phase.
    pub lines: Vec<String>,
    /// Actors that had to be killed.
    pub killed: usize,
}

/// A running service.
pub struct Running {
    address: SocketAddr,
}

impl Running {
    /// Where the gateway listens; the port is real also when 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Resolves when the service ended although nobody asked, with its cause.
    pub async fn ended(&mut self) -> String {
        std::future::pending().await
    }

    /// Ends it in phases (DESIGN.md, section 8). From `hurry` on nothing is waited for.
    pub async fn shutdown(self, hurry: BoxFuture<'static, ()>) -> ShutdownReport {
        drop(hurry);
        ShutdownReport::default()
    }
}

/// Starts the service. `own_files` are the configuration's own: tools may not touch them.
pub async fn start(settings: Settings, own_files: Vec<PathBuf>) -> Result<Running, StartError> {
    let _ = (settings, own_files);
    Err(StartError::Failed("the service is not wired yet".to_owned()))
}
