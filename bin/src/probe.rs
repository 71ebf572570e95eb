//! Who listens at an address: a Rookery, something else, nobody.

use std::net::SocketAddr;
use std::time::Duration;

use crate::endpoint::base_url;

/// The header by which a Rookery tells itself, with its version.
pub const HEADER: &str = "x-rookery";

/// Who listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Listener {
    /// A Rookery of this version.
    Rookery(String),
    /// Something that is none, or does not answer.
    Other,
    /// Nobody.
    Nobody,
}

/// Asks `GET /livez`.
pub async fn probe(address: SocketAddr) -> Listener {
    let Ok(base) = base_url(address) else { return Listener::Nobody };
    let client = reqwest::Client::builder()
        .no_proxy()
        .http1_only()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(Duration::from_secs(3))
        .build();
    let Ok(client) = client else { return Listener::Other };
    match client.get(format!("{base}/livez")).send().await {
        Ok(answer) => match answer.headers().get(HEADER).and_then(|value| value.to_str().ok()) {
            Some(version) => Listener::Rookery(crate::render::strict(version)),
            None => Listener::Other,
        },
        Err(error) if error.is_connect() && !error.is_timeout() => Listener::Nobody,
        Err(_) => Listener::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    async fn answered_with(answer: &'static str) -> Listener {
        crate::install_crypto();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let length = stream.read(&mut request).unwrap();
            assert!(request[..length].starts_with(b"GET /livez "));
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let found = probe(address).await;
        server.join().unwrap();
        found
    }

    #[tokio::test]
    async fn a_rookery_is_told_from_another_program_and_from_nobody() {
        let ours = "HTTP/1.1 200 OK\r\nx-rookery: 0.1.0\r\ncontent-length: 0\r\n\r\n";
        assert_eq!(answered_with(ours).await, Listener::Rookery("0.1.0".to_owned()));
        let other = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        assert_eq!(answered_with(other).await, Listener::Other);
        assert_eq!(answered_with("SSH-2.0-x\r\n").await, Listener::Other);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        assert_eq!(probe(address).await, Listener::Nobody);
    }
}
