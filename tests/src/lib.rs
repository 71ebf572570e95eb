//! The harness: a service in its own process and folder, a model that plays a script, and the checks
//! that hold at the end of every test (DESIGN.md, section 9).
//!
//! A test owns its world: [`World`] starts a [`MockModel`] and a [`ServiceProcess`] on free loopback
//! ports, and [`World::finish`] fails the test if anything is left running or doesn't add up.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a harness fails the test at the place of the fault"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "the harness is no actor: its servers and readers are plain tasks of the test"
)]

pub mod apart;
pub mod api;
pub mod book;
pub mod canary;
pub mod cli;
pub mod config;
pub mod conformance;
pub mod db;
pub mod embeddings;
pub mod ending;
pub mod gate;
pub mod level;
pub mod line;
pub mod mcp;
pub mod model;
pub mod once;
pub mod peer;
pub mod prom;
pub mod pty;
pub mod quiet;
pub mod receiver;
pub mod service;
pub mod sse;
pub mod telegram;
pub mod wait;
pub mod wire;
pub mod world;
pub mod ws;

pub use api::{Api, Turn};
pub use config::Config;
pub use gate::Gate;
pub use model::{Call, MockModel, Reply};
pub use service::ServiceProcess;
pub use world::World;

/// The path of the program under test. Only test targets of this package can ask for it.
#[macro_export]
macro_rules! program {
    () => {
        env!("CARGO_BIN_EXE_rookery-under-test")
    };
}

/// Installs the TLS provider. HTTP clients need one even for plain addresses.
pub fn install_tls() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        // A second installation in the same process is refused, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// A client without proxies, for loopback.
pub fn http_client() -> reqwest::Client {
    install_tls();
    reqwest::Client::builder().no_proxy().http1_only().build().unwrap()
}

/// A listener whose connections send small writes at once. A stream of deltas that waits for the peer's
/// delayed acknowledgement measures the kernel's timer, not the peer.
pub fn without_delay(
    listener: tokio::net::TcpListener,
) -> impl axum::serve::Listener<Io = tokio::net::TcpStream, Addr = std::net::SocketAddr> {
    use axum::serve::ListenerExt as _;
    listener.tap_io(|stream| {
        // Without it the stream is only slower.
        let _ = stream.set_nodelay(true);
    })
}
