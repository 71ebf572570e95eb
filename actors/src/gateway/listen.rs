//! The listening socket, bound before the tree starts, so that a taken port is an error at once.

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;

/// Why the gateway can't listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The setting is no address.
    #[error("gateway.listen = `{listen}` is not an address with a port: {cause}")]
    BadAddress {
        /// The setting.
        listen: String,
        /// What is wrong.
        cause: String,
    },
    /// Somebody else has the port.
    #[error(
        "{address} (gateway.listen) is in use by another program; stop it, or choose another port"
    )]
    InUse {
        /// Where.
        address: SocketAddr,
    },
    /// The system refuses.
    #[error("can't listen on {address} (gateway.listen): {source}")]
    Refused {
        /// Where.
        address: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
}

/// Binds `gateway.listen`. Each incarnation of the gateway serves on a duplicate of it; connections that
/// come between two incarnations wait in its backlog.
pub fn listen(listen: &str) -> Result<Arc<TcpListener>, ListenError> {
    let bad = |cause: String| ListenError::BadAddress { listen: listen.to_owned(), cause };
    let address = listen
        .to_socket_addrs()
        .map_err(|error| bad(error.to_string()))?
        .next()
        .ok_or_else(|| bad("the name has no address".to_owned()))?;
    let failed = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::AddrInUse => ListenError::InUse { address },
        _ => ListenError::Refused { address, source },
    };
    let listener = TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(Arc::new(listener))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_and_a_bad_address_are_errors_at_once() {
        let first = listen("127.0.0.1:0").unwrap();
        let address = first.local_addr().unwrap();
        let second = listen(&address.to_string());
        assert!(matches!(second, Err(ListenError::InUse { address: a }) if a == address));
        assert!(matches!(listen("nonsense"), Err(ListenError::BadAddress { .. })));
    }
}
