//! The way out: what every HTTP client of the service has in common (A135).
//!
//! Of a name's IPv6 and IPv4 addresses those that answer are used: the second family is tried a third of a
//! second after the first (RFC 8305, as `hyper` does it). Which family answered is remembered for each name,
//! so that a dead route costs that once and not for each connection, and is tried again after a while.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, ClientBuilder, Response, redirect};
use tokio::time::Instant;

/// How long a family that did not answer is tried last.
const AVOIDED_FOR: Duration = Duration::from_secs(600);
/// Most names that something is remembered of.
const MAX_NAMES: usize = 256;

/// The beginning of a client. No redirects: what is sent, a key with it, goes where the configuration says
/// and nowhere else.
pub fn client() -> ClientBuilder {
    Client::builder()
        .user_agent(concat!("rookery/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::none())
        .dns_resolver(Arc::clone(&*ROUTES))
}

/// An answer came: by which family is worth knowing.
pub fn heard(answer: &Response) {
    if let (Some(name), Some(from)) = (answer.url().host_str(), answer.remote_addr()) {
        ROUTES.heard(name, from.ip());
    }
}

/// Addresses of a name, those first that are likely to answer.
pub fn arranged(name: &str, addresses: &mut [SocketAddr]) {
    ROUTES.arranged(name, addresses);
}

/// One for the process: reachability is the machine's, not a client's.
static ROUTES: LazyLock<Arc<Routes>> = LazyLock::new(Arc::default);

/// Names with addresses of both families, and until when IPv4 goes first.
#[derive(Debug, Default)]
struct Routes {
    names: Mutex<HashMap<String, Option<Instant>>>,
    #[cfg(test)]
    fixed: Mutex<HashMap<String, Vec<IpAddr>>>,
}

impl Routes {
    fn arranged(&self, name: &str, addresses: &mut [SocketAddr]) {
        let of_both =
            addresses.iter().any(SocketAddr::is_ipv4) && addresses.iter().any(SocketAddr::is_ipv6);
        if !of_both {
            return;
        }
        let now = Instant::now();
        let mut names = self.names.lock();
        if !names.contains_key(name) && names.len() >= MAX_NAMES {
            names.retain(|_, until| until.is_some_and(|until| now < until));
            if names.len() >= MAX_NAMES {
                return;
            }
        }
        let until = names.entry(name.to_owned()).or_default();
        if until.is_some_and(|until| now < until) {
            addresses.sort_by_key(SocketAddr::is_ipv6);
        } else {
            *until = None;
        }
    }

    fn heard(&self, name: &str, from: IpAddr) {
        let mut names = self.names.lock();
        let Some(until) = names.get_mut(name) else { return };
        match from {
            IpAddr::V6(_) => *until = None,
            // Not made longer by each answer: the other family has its chance again.
            IpAddr::V4(_) => {
                until.get_or_insert_with(|| Instant::now() + AVOIDED_FOR);
            }
        }
    }

    async fn lookup(&self, name: &str) -> std::io::Result<Vec<SocketAddr>> {
        #[cfg(test)]
        if let Some(fixed) = self.fixed.lock().get(name) {
            return Ok(fixed.iter().map(|address| SocketAddr::new(*address, 0)).collect());
        }
        Ok(tokio::net::lookup_host((name, 0)).await?.collect())
    }
}

impl Resolve for Routes {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let mut found = ROUTES.lookup(name.as_str()).await?;
            ROUTES.arranged(name.as_str(), &mut found);
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! Names as a test wants them.

    use tokio::net::{TcpListener, TcpSocket, TcpStream};
    use tokio::time::timeout;

    use super::*;

    /// A name whose IPv6 route is dead: what is sent there is never answered. Its IPv4 address is that of
    /// `listener`.
    pub(crate) struct DeadRoute {
        pub(crate) name: String,
        pub(crate) listener: TcpListener,
        _dead: Option<(TcpListener, Vec<TcpStream>)>,
    }

    impl DeadRoute {
        /// `name` belongs to one test alone.
        pub(crate) async fn of(name: &str) -> Self {
            let loopback = |six: bool| -> IpAddr {
                if six { std::net::Ipv6Addr::LOCALHOST.into() } else { [127, 0, 0, 1].into() }
            };
            let listener = TcpListener::bind((loopback(false), 0)).await.unwrap();
            let port = listener.local_addr().unwrap().port();
            // A machine without IPv6 refuses at once, which is dead too.
            let dead = async {
                let socket = TcpSocket::new_v6().ok()?;
                socket.bind(SocketAddr::new(loopback(true), port)).ok()?;
                let full = socket.listen(1).ok()?;
                let mut held = Vec::new();
                let next = || TcpStream::connect((loopback(true), port));
                while let Ok(Ok(stream)) = timeout(Duration::from_millis(500), next()).await {
                    held.push(stream);
                }
                Some((full, held))
            };
            let dead: Option<(TcpListener, Vec<TcpStream>)> = dead.await;
            let both = vec![loopback(true), loopback(false)];
            ROUTES.fixed.lock().insert(name.to_owned(), both);
            Self { name: name.to_owned(), listener, _dead: dead }
        }

        /// The address of its server.
        pub(crate) fn url(&self) -> String {
            format!("http://{}:{}", self.name, self.listener.local_addr().unwrap().port())
        }

        /// Answers so many requests, each on a connection of its own, with this JSON. How long each of them
        /// took to arrive.
        pub(crate) async fn answers<T>(
            &self,
            json: &str,
            times: usize,
            mut called: impl AsyncFnMut() -> T,
        ) -> Vec<Duration> {
            let mut took = Vec::new();
            for _ in 0..times {
                let began = Instant::now();
                let serve = async {
                    let (stream, _) = self.listener.accept().await.unwrap();
                    let arrived = began.elapsed();
                    answer(stream, json).await;
                    arrived
                };
                let (arrived, _) = tokio::join!(serve, called());
                took.push(arrived);
            }
            took
        }
    }

    async fn answer(stream: TcpStream, json: &str) {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let mut stream = stream;
        let mut asked = Vec::new();
        // The tests' requests are small: what has come when their body's closing brace has come is all.
        let mut part = [0; 4_096];
        loop {
            let read = stream.read(&mut part).await.unwrap();
            asked.extend_from_slice(&part[..read]);
            let text = String::from_utf8_lossy(&asked);
            let whole = text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
                let length = head.lines().find_map(|line| {
                    line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok()
                });
                body.len() >= length.unwrap_or(0)
            });
            if whole || read == 0 {
                break;
            }
        }
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{json}",
            json.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        // The client closes too, so that the next request makes a connection.
        stream.shutdown().await.unwrap();
        while stream.read(&mut part).await.is_ok_and(|read| read > 0) {}
    }
}

#[cfg(test)]
mod tests {
    use super::testing::DeadRoute;
    use super::*;

    fn addresses() -> Vec<SocketAddr> {
        ["[::1]:1", "127.0.0.1:1", "[::2]:1", "127.0.0.2:1"].map(|it| it.parse().unwrap()).to_vec()
    }

    // A135
    #[tokio::test(start_paused = true)]
    async fn the_family_that_answered_goes_first_for_a_while_then_the_other_has_its_chance_again() {
        let routes = Routes::default();
        let first = || {
            let mut found = addresses();
            routes.arranged("both.test", &mut found);
            assert_eq!(found.len(), 4);
            found[0].is_ipv4()
        };
        // Of a name that was never looked up nothing is kept.
        routes.heard("both.test", [127, 0, 0, 1].into());
        assert!(!first());
        routes.heard("both.test", [127, 0, 0, 1].into());
        assert!(first());
        tokio::time::advance(AVOIDED_FOR - Duration::from_secs(1)).await;
        routes.heard("both.test", [127, 0, 0, 1].into());
        assert!(first());
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(!first());
        routes.heard("both.test", [127, 0, 0, 1].into());
        assert!(first());
        routes.heard("both.test", std::net::Ipv6Addr::LOCALHOST.into());
        assert!(!first());
        // What is remembered is bounded.
        for n in 0..MAX_NAMES * 2 {
            routes.arranged(&format!("{n}.test"), &mut addresses());
        }
        assert!(routes.names.lock().len() <= MAX_NAMES);
    }

    // A135
    #[tokio::test]
    async fn behind_a_dead_ipv6_route_the_first_request_arrives_within_a_second_and_the_next_at_once()
     {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let route = DeadRoute::of("dead-route.test").await;
        let client = client().no_proxy().build().unwrap();
        let url = route.url();
        let call = async || heard(&client.get(&url).send().await.unwrap());
        let took = route.answers("{}", 2, call).await;
        assert!(took[0] < Duration::from_secs(1), "{took:?}");
        assert!(took[1] < Duration::from_millis(250), "{took:?}");
    }
}
