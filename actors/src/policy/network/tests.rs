use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Redirect};
use axum::routing::{get, post};
use parking_lot::Mutex;
use reqwest::Method;
use rookery_messages::BoxFuture;

use super::client::{Resolver, WebClient, WebError, WebRequest};
use super::*;

fn rules(change: impl FnOnce(&mut NetworkSettings)) -> NetworkRules {
    let mut settings = NetworkSettings::default();
    change(&mut settings);
    NetworkRules::new(&settings)
}

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

fn refused(rules: &NetworkRules, url: &str) -> String {
    rules.judge(url).map(|to| to.url.to_string()).unwrap_err().to_string()
}

// A095
#[test]
fn every_spelling_of_a_private_address_is_refused_and_the_refusal_names_the_key() {
    let rules = rules(|_| {});
    for (url, kind) in [
        ("http://127.0.0.1/", "loopback"),
        ("http://127.1/", "loopback"),
        ("http://2130706433/", "loopback"),
        ("http://0x7f.1/", "loopback"),
        ("http://0x7f000001/", "loopback"),
        ("http://0177.0.0.1/", "loopback"),
        ("http://%31%32%37.0.0.1/", "loopback"),
        ("http://１２７.0.0.1/", "loopback"),
        ("http://127.0.0.1./", "loopback"),
        ("http://localhost/", "loopback"),
        ("http://LOCALHOST./", "loopback"),
        ("http://a.localhost/", "loopback"),
        ("http://0.0.0.0/", "unspecified"),
        ("http://0/", "unspecified"),
        ("http://10.1.2.3/", "private"),
        ("http://172.31.255.255/", "private"),
        ("http://192.168.0.1/", "private"),
        ("http://169.254.169.254/latest/meta-data/", "link-local"),
        ("http://100.100.100.200/", "carrier-grade"),
        ("http://198.18.0.1/", "benchmarking"),
        ("http://224.0.0.1/", "multicast"),
        ("http://255.255.255.255/", "reserved"),
        ("http://[::1]/", "loopback"),
        ("http://[::]/", "unspecified"),
        ("http://[::ffff:127.0.0.1]/", "loopback"),
        ("http://[::ffff:7f00:1]/", "loopback"),
        ("http://[::ffff:0:10.0.0.1]/", "private"),
        ("http://[::127.0.0.1]/", "loopback"),
        ("http://[64:ff9b::169.254.169.254]/", "link-local"),
        ("http://[64:ff9b:1::1]/", "reserved"),
        ("http://[2002:7f00:1::]/", "loopback"),
        ("http://[2002:a9fe:a9fe::1]/", "link-local"),
        ("http://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/", "protocol"),
        ("http://[fd00::1]/", "unique local"),
        ("http://[fe80::1]/", "link-local"),
        ("http://[fec0::1]/", "site-local"),
        ("http://[ff02::1]/", "multicast"),
        ("http://[2001:db8::1]/", "documentation"),
        ("http://[4000::1]/", "reserved"),
    ] {
        let why = refused(&rules, url);
        assert!(why.contains(kind) && why.contains("network.allow_private"), "{url}: {why}");
    }
    for url in [
        "http://example.org/",
        "https://example.org",
        "https://93.184.215.14/",
        "https://172.32.0.1/",
        "https://100.128.0.1/",
        "https://[2606:2800:21f:cb07::1]/",
        "https://[64:ff9b::8.8.8.8]/",
        "https://[2002:808:808::1]/",
    ] {
        assert!(rules.judge(url).is_ok(), "{url}");
    }
}

// A095
#[test]
fn schemes_credentials_and_ports_are_judged_first() {
    let rules = rules(|_| {});
    for (url, part) in [
        ("ftp://example.org/", "scheme `ftp`"),
        ("file:///etc/passwd", "scheme `file`"),
        ("gopher://example.org/", "scheme `gopher`"),
        ("javascript:alert(1)", "scheme `javascript`"),
        ("data:text/html,x", "scheme `data`"),
        ("/etc/passwd", "not an absolute"),
        ("", "not an absolute"),
        ("http://", "not an absolute"),
        ("https://user:secret@example.org/", "user name or password"),
        ("https://user@example.org/", "user name or password"),
        ("http://example.org:22/", "port 22 is not in the risk profile's `network.allow_ports`"),
        ("https://example.org:6379/", "port 6379"),
    ] {
        let why = refused(&rules, url);
        assert!(why.contains(part), "{url}: {why}");
        assert!(!why.contains("secret"), "{why}");
    }
}

#[test]
fn lists_of_hosts_admit_and_close() {
    let rules = rules(|settings| {
        settings.allow_hosts = Some(texts(&["example.org", "*.example.net", "198.41.0.0/24"]));
        settings.deny_hosts = texts(&["bad.example.net", "*.bad.example.net", "198.41.0.9"]);
        settings.allow_ports = vec![443, 8443];
    });
    let listed = ["https://example.org/", "https://EXAMPLE.org.:8443/", "https://a.b.example.net/"];
    for url in listed.into_iter().chain(["https://198.41.0.4/"]) {
        assert!(rules.judge(url).is_ok(), "{url}");
    }
    let unlisted = [
        "https://example.net/",
        "https://xexample.org/",
        "https://www.example.org/",
        "https://1.1.1.1/",
    ];
    for url in unlisted {
        assert!(refused(&rules, url).contains("network.allow_hosts"), "{url}");
    }
    for url in ["https://bad.example.net/", "https://x.bad.example.net/", "https://198.41.0.9/"] {
        assert!(refused(&rules, url).contains("network.deny_hosts"), "{url}");
    }
    assert!(refused(&rules, "http://example.org/").contains("network.allow_ports"));
    let none = super::tests::rules(|settings| settings.allow_hosts = Some(Vec::new()));
    assert!(refused(&none, "https://example.org/").contains("network.allow_hosts"));
}

#[test]
fn a_private_destination_is_open_where_the_operator_names_it_and_nowhere_else() {
    let rules = rules(|settings| {
        settings.allow_private = texts(&[
            "127.0.0.1:8080",
            "10.1.0.0/16",
            "[::1]:9000",
            "wiki.example:8443",
            "fd00::/8",
        ]);
        settings.deny_hosts = texts(&["10.1.9.0/24"]);
    });
    for url in [
        "http://127.0.0.1:8080/",
        "http://[::ffff:127.0.0.1]:8080/",
        "http://10.1.2.3:5000/",
        "http://[::1]:9000/",
        "http://wiki.example:8443/",
        "http://[fd12::1]/",
    ] {
        assert!(rules.judge(url).is_ok(), "{url}");
    }
    for url in
        ["http://127.0.0.1/", "http://127.0.0.2:8080/", "http://10.2.0.1/", "http://[::1]:80/"]
    {
        assert!(refused(&rules, url).contains("network.allow_private"), "{url}");
    }
    assert!(refused(&rules, "http://10.1.9.1/").contains("network.deny_hosts"));
    // A named host may be anywhere; a name that merely resolves into an open network may be there.
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    let wiki = rules.judge("http://wiki.example:8443/").unwrap();
    assert_eq!(rules.judge_address(&wiki, address("192.168.7.7")), Ok(()));
    let other = rules.judge("http://intra.example:5000/").unwrap();
    assert_eq!(rules.judge_address(&other, address("10.1.2.3")), Ok(()));
    assert!(rules.judge_address(&other, address("10.2.2.3")).is_err());
    assert_eq!(rules.judge_address(&other, address("1.1.1.1")), Err(Refusal::Port(5000)));
}

#[test]
fn a_rule_that_cant_be_read_closes_everything() {
    for bad in ["https://example.org", "example.org/x", "*.*.org", "", "a b", "10.0.0.0/40"] {
        assert!(check_host_pattern(bad).is_err(), "{bad}");
        let rules = rules(|settings| settings.deny_hosts = texts(&[bad]));
        assert!(refused(&rules, "https://example.org/").contains("nothing is allowed"), "{bad}");
    }
    for bad in ["*", "127.0.0.1:0", "127.0.0.1:x", "[::1]80", "host:99999", "http://a"] {
        assert!(check_private_pattern(bad).is_err(), "{bad}");
    }
    for good in ["::1", "fd00::/8", "localhost:80", "*.intern", "127.0.0.1"] {
        assert_eq!(check_private_pattern(good), Ok(()), "{good}");
    }
}

// A095: the gateway is closed whatever the rules open.
#[test]
fn the_gateways_own_address_is_recognised_in_every_form() {
    let address = |text: &str| text.parse::<SocketAddr>().unwrap();
    let own = address("127.0.0.1:7717");
    for to in ["127.0.0.1:7717", "[::ffff:127.0.0.1]:7717", "0.0.0.0:7717", "[::]:7717"] {
        assert!(reaches_own(own, address(to)), "{to}");
    }
    for to in ["127.0.0.1:7718", "127.0.0.2:7717", "1.1.1.1:7717"] {
        assert!(!reaches_own(own, address(to)), "{to}");
    }
    let everywhere = address("0.0.0.0:7717");
    assert!(reaches_own(everywhere, address("127.0.0.3:7717")));
    assert!(!reaches_own(everywhere, address("192.0.2.1:7717")));
}

/// Answers by script; counts.
#[derive(Default)]
struct Fake {
    answers: Mutex<HashMap<String, VecDeque<Vec<IpAddr>>>>,
    asked: Mutex<Vec<String>>,
}

impl Fake {
    fn knows(answers: &[(&str, &[&[&str]])]) -> Arc<Self> {
        let parse = |list: &&[&str]| list.iter().map(|text| text.parse().unwrap()).collect();
        let known = answers
            .iter()
            .map(|(name, turns)| ((*name).to_owned(), turns.iter().map(parse).collect()));
        Arc::new(Self { answers: Mutex::new(known.collect()), ..Self::default() })
    }
}

impl Resolver for Fake {
    fn lookup<'a>(&'a self, name: &'a str) -> BoxFuture<'a, std::io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            self.asked.lock().push(name.to_owned());
            let mut answers = self.answers.lock();
            let turns = answers.get_mut(name).ok_or(std::io::ErrorKind::NotFound)?;
            Ok(turns.pop_front().unwrap_or_default())
        })
    }
}

/// A server on loopback that remembers what it was asked.
struct Server {
    port: u16,
    seen: Arc<Mutex<Vec<(String, HeaderMap)>>>,
}

impl Server {
    async fn start(routes: Router) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let seen: Arc<Mutex<Vec<(String, HeaderMap)>>> = Arc::default();
        let notes = Arc::clone(&seen);
        let app = routes.layer(axum::middleware::from_fn(
            move |uri: Uri, headers: HeaderMap, request, next: axum::middleware::Next| {
                notes.lock().push((uri.to_string(), headers));
                async move { next.run(request).await }
            },
        ));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        #[allow(clippy::disallowed_methods, reason = "a test's server is no actor")]
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { port, seen }
    }

    fn paths(&self) -> Vec<String> {
        self.seen.lock().iter().map(|(path, _)| path.clone()).collect()
    }

    /// The rules of an operator who opened this server and nothing else.
    fn rules(&self) -> NetworkRules {
        rules(|settings| settings.allow_private = vec![format!("127.0.0.1:{}", self.port)])
    }
}

fn get_of(url: impl Into<String>) -> WebRequest {
    WebRequest {
        method: Method::GET,
        url: url.into(),
        headers: HeaderMap::new(),
        body: None,
        limit: 1_000,
        time: Duration::from_secs(20),
    }
}

async fn send(
    resolver: Arc<Fake>,
    rules: &NetworkRules,
    request: WebRequest,
) -> Result<client::WebAnswer, WebError> {
    WebClient::new(resolver, None).send(rules, request).await
}

// A095
#[tokio::test]
async fn a_redirect_to_a_private_address_is_refused_before_a_connection_is_made() {
    for target in [
        "http://169.254.169.254/latest/meta-data/",
        "http://[::ffff:169.254.169.254]/",
        "http://2130706433/",
        "file:///etc/passwd",
        "//10.0.0.1/",
        "http://user:pw@example.org/",
    ] {
        let routes = Router::new().route("/", get(move || async move { Redirect::to(target) }));
        let server = Server::start(routes).await;
        let url = format!("http://127.0.0.1:{}/", server.port);
        let error = send(Arc::default(), &server.rules(), get_of(url)).await.unwrap_err();
        assert!(matches!(error, WebError::RedirectRefused(_)), "{target}: {error}");
        assert_eq!(server.paths(), ["/"]);
    }
}

// A095
#[tokio::test]
async fn a_name_is_looked_up_once_a_hop_and_a_changed_answer_is_judged_anew() {
    let routes = Router::new()
        .route("/", get(|| async { "here" }))
        .route("/again", get(|| async { Redirect::to("/second") }));
    let server = Server::start(routes).await;
    let loopback: &[&str] = &["127.0.0.1"];
    let resolver = Fake::knows(&[("flip.example", &[loopback, loopback, &["127.0.0.2"]])]);
    let base = format!("http://flip.example:{}", server.port);
    let answer = send(resolver.clone(), &server.rules(), get_of(&base)).await.unwrap();
    assert_eq!((answer.status, answer.body.as_slice()), (StatusCode::OK, b"here".as_slice()));
    assert_eq!(resolver.asked.lock().len(), 1);
    let host = server.seen.lock()[0].1["host"].to_str().unwrap().to_owned();
    assert_eq!(host, format!("flip.example:{}", server.port));

    let error =
        send(resolver.clone(), &server.rules(), get_of(format!("{base}/again"))).await.unwrap_err();
    let WebError::RedirectRefused(Refusal::Private { address, kind, .. }) = &error else {
        panic!("{error}");
    };
    assert_eq!((address.to_string().as_str(), *kind), ("127.0.0.2", "loopback"));
    assert_eq!(resolver.asked.lock().len(), 3);
    assert_eq!(server.paths(), ["/", "/again"]);
}

// A095
#[tokio::test]
async fn one_private_answer_among_public_ones_spoils_the_name() {
    let resolver = Fake::knows(&[
        ("mixed.example", &[&["93.184.215.14", "10.0.0.1"]]),
        ("mapped.example", &[&["::ffff:169.254.169.254"]]),
        ("empty.example", &[&[]]),
    ]);
    let rules = rules(|_| {});
    for name in ["mixed.example", "mapped.example"] {
        let url = format!("http://{name}/");
        let error = send(resolver.clone(), &rules, get_of(url)).await.unwrap_err();
        assert!(matches!(error, WebError::Refused(Refusal::Private { .. })), "{error}");
    }
    for name in ["empty.example", "nowhere.example"] {
        let url = format!("http://{name}/?token=hidden");
        let error = send(resolver.clone(), &rules, get_of(url)).await.unwrap_err();
        assert!(matches!(&error, WebError::NoAddress(host, _) if host == name), "{error}");
        assert!(!error.to_string().contains("hidden"), "{error}");
    }
}

// A095
#[tokio::test]
async fn the_gateways_own_address_is_refused_though_the_operator_opened_it() {
    let server = Server::start(Router::new().route("/", get(|| async { "inside" }))).await;
    let own = SocketAddr::from(([127, 0, 0, 1], server.port));
    let client = WebClient::new(Fake::knows(&[("me.example", &[&["127.0.0.1"]])]), Some(own));
    for host in ["127.0.0.1", "me.example"] {
        let url = format!("http://{host}:{}/", server.port);
        let error = client.send(&server.rules(), get_of(url)).await.unwrap_err();
        assert_eq!(error, WebError::Refused(Refusal::OwnGateway(own)));
    }
    assert_eq!(server.paths(), Vec::<String>::new());
}

// A095
#[tokio::test]
async fn bodies_and_redirects_are_bounded() {
    let endless = || async {
        let chunk = || Ok::<_, std::io::Error>(axum::body::Bytes::from(vec![b'x'; 700]));
        let chunks = futures_util::stream::repeat_with(chunk);
        axum::body::Body::from_stream(chunks).into_response()
    };
    let routes = Router::new()
        .route("/endless", get(endless))
        .route("/exact", get(|| async { "x".repeat(1_000) }))
        .route("/loop", get(|| async { Redirect::to("/loop") }));
    let server = Server::start(routes).await;
    let base = format!("http://127.0.0.1:{}", server.port);
    let fetch = |path: &str| {
        let request = get_of(format!("{base}{path}"));
        let rules = server.rules();
        async move { send(Arc::default(), &rules, request).await }
    };
    let answer = fetch("/endless").await.unwrap();
    assert_eq!((answer.body.len(), answer.cut), (1_000, true));
    let answer = fetch("/exact").await.unwrap();
    assert_eq!((answer.body.len(), answer.cut), (1_000, false));
    let error = fetch("/loop").await.unwrap_err();
    assert!(matches!(error, WebError::TooManyRedirects(_)), "{error}");
    assert_eq!(server.paths().iter().filter(|path| *path == "/loop").count(), 6);
}

// A095: the time cap covers all of it; the clock is paused and runs on as soon as nothing else happens.
#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_is_given_up_in_time() {
    let never = || async { std::future::pending::<()>().await };
    let server = Server::start(Router::new().route("/", get(never))).await;
    let url = format!("http://127.0.0.1:{}/", server.port);
    let error = send(Arc::default(), &server.rules(), get_of(url)).await.unwrap_err();
    assert_eq!(error, WebError::TimedOut(Duration::from_secs(20)));
}

#[tokio::test]
async fn headers_stay_with_their_origin_and_what_writes_is_not_sent_on() {
    let other = Server::start(Router::new().route("/", get(|| async { "other" }))).await;
    let target = format!("http://127.0.0.1:{}/", other.port);
    let away = target.clone();
    let routes = Router::new()
        .route("/away", get(move || async move { Redirect::temporary(&away) }))
        .route("/near", get(|| async { Redirect::to("/end") }))
        .route("/end", get(|| async { "end" }))
        .route("/write", post(move || async move { Redirect::temporary(&target) }));
    let server = Server::start(routes).await;
    let rules = rules(|settings| settings.allow_private = texts(&["127.0.0.1"]));
    let base = format!("http://127.0.0.1:{}", server.port);
    let request = |path: &str| {
        let mut request = get_of(format!("{base}{path}"));
        request.headers.insert("authorization", "Bearer mine".parse().unwrap());
        request
    };
    send(Arc::default(), &rules, request("/near")).await.unwrap();
    assert!(server.seen.lock().iter().all(|(_, headers)| headers.contains_key("authorization")));
    let answer = send(Arc::default(), &rules, request("/away")).await.unwrap();
    assert_eq!(answer.body, b"other");
    assert!(!other.seen.lock()[0].1.contains_key("authorization"));
    let write =
        WebRequest { method: Method::POST, body: Some(b"data".to_vec()), ..request("/write") };
    let answer = send(Arc::default(), &rules, write).await.unwrap();
    assert_eq!(answer.status, StatusCode::TEMPORARY_REDIRECT);
    assert_eq!(other.seen.lock().len(), 1);
}
