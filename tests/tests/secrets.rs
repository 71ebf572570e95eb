//! Secrets of every kind, a whole run, and a search of everything that came out of it (I12, T25).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails at the place of the fault"
)]
#![allow(clippy::disallowed_methods, reason = "the server of a test is no actor")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use parking_lot::Mutex;
use reqwest::Method;
use rookery_tests::api::{fresh_id, message};
use rookery_tests::canary::{Canary, Shown};
use rookery_tests::mcp::{FakeServer, bundle, tool};
use rookery_tests::receiver::{sign, unix_now};
use rookery_tests::wait::until;
use rookery_tests::{Call, Config, Gate, MockModel, Reply, World, program};
use serde_json::{Value, json};

/// A site on loopback that plays everybody the service talks to beside the model, and repeats whatever
/// it is told. It remembers who told it what.
#[derive(Clone, Default)]
struct Site {
    seen: Arc<Mutex<Vec<(String, String, String)>>>,
}

impl Site {
    async fn start(self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let routes = Router::new().fallback(repeat).with_state((self, base.clone()));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        base
    }

    /// Headers and bodies that came to a path.
    fn told(&self, path: &str) -> Vec<(String, String)> {
        let seen = self.seen.lock();
        seen.iter().filter(|s| s.0 == path).map(|s| (s.1.clone(), s.2.clone())).collect()
    }
}

async fn repeat(
    State((site, base)): State<(Site, String)>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, String) {
    let headers = format!("{headers:?}");
    let body = String::from_utf8_lossy(&body).into_owned();
    site.seen.lock().push((uri.path().to_owned(), headers.clone(), body.clone()));
    let echo = format!("you sent {headers} and {body} to {uri}");
    match uri.path() {
        "/hook" => (StatusCode::OK, json!({"action": "continue"}).to_string()),
        "/page" => (StatusCode::OK, echo),
        "/reply" => (StatusCode::GONE, echo),
        "/.well-known/oauth-authorization-server/closed" => {
            let about = json!({
                "issuer": format!("{base}/closed"),
                "authorization_endpoint": format!("{base}/authorize"),
                "token_endpoint": format!("{base}/token"),
                "token_endpoint_auth_methods_supported": ["client_secret_post", "client_secret_basic"],
                "grant_types_supported": ["client_credentials"],
                "response_types_supported": ["code"],
            });
            (StatusCode::OK, about.to_string())
        }
        "/token" => {
            let refusal = json!({"error": "invalid_client", "error_description": echo});
            (StatusCode::UNAUTHORIZED, refusal.to_string())
        }
        "/closed" => (StatusCode::UNAUTHORIZED, echo),
        path if path.contains("well-known") => (StatusCode::NOT_FOUND, String::new()),
        _ => (StatusCode::BAD_REQUEST, echo),
    }
}

/// The canaries: configured ones by their key of the schema, and others by name.
struct Set(BTreeMap<&'static str, Canary>);

impl Set {
    fn new() -> Self {
        let names = [
            "providers.<name>.api_key",
            "gateway.tokens[].token",
            "hooks.<name>.token",
            "mcp.servers.<name>.env.<name>",
            "mcp.servers.<name>.headers.<name>",
            "mcp.servers.<name>.oauth.client_secret",
            "refusing api_key",
            "overlaid api_key",
            "second token",
            "environment",
        ];
        let mut set: BTreeMap<_, _> =
            names.into_iter().map(|name| (name, Canary::new(name))).collect();
        let webhook = "channels.webhook.<alias>.secret";
        set.insert(webhook, Canary::awkward(webhook));
        let bot = "channels.telegram.<alias>.bot_token";
        set.insert(bot, Canary::numbered(bot));
        Self(set)
    }

    fn value(&self, name: &str) -> &str {
        &self.0.get(name).unwrap_or_else(|| panic!("no canary {name}")).value
    }

    fn all(&self) -> Vec<Canary> {
        self.0.values().cloned().collect()
    }

    /// A sentence with each of them.
    fn told(&self) -> String {
        let told: Vec<String> =
            self.0.iter().map(|(name, canary)| format!("{name} is {}.", canary.value)).collect();
        told.join("\n")
    }
}

/// Secrets of a kind that only their surroundings tell: no configuration knows them.
fn like() -> Vec<Canary> {
    ["argument", "nested", "header", "assigned", "bearer", "denied", "printed"]
        .map(Canary::new)
        .into()
}

fn env(set: &Set) -> Vec<(String, String)> {
    [
        ("CANARY_MAIN_KEY", set.value("providers.<name>.api_key")),
        ("CANARY_MCP", set.value("mcp.servers.<name>.env.<name>")),
        ("ROOKERY__PROVIDERS__SPARE__API_KEY", set.value("overlaid api_key")),
        ("ROOKERY_TOKEN", set.value("gateway.tokens[].token")),
        ("AWS_SECRET_ACCESS_KEY", set.value("environment")),
        ("RUST_LOG", "debug"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

/// Every key of the schema that is a secret is set, in every way a secret can be given.
fn config(set: &Set, keys: &Path, site: &str, refusing: &str, fake: &FakeServer) -> Config {
    std::fs::write(keys.join("hook"), format!("{}\n", set.value("hooks.<name>.token"))).unwrap();
    let text = |name: &str| json!(set.value(name)).to_string();
    let extra = format!(
        r#"
[[gateway.tokens]]
name = "ops"
role = "admin"
token = {ops}
[[gateway.tokens]]
name = "eyes"
role = "viewer"
token = {eyes}
[providers.refusing]
kind = "openai"
base_url = "{refusing}"
model = "mock"
api_key = {refused}
[providers.spare]
kind = "demo"
[agents.second]
provider = "refusing"
workspace = "{{dir}}/second"
channels = ["webhook.signed", "telegram.refused"]
[channels.telegram.refused]
bot_token = {bot}
api_base_url = "{site}"
allowed_users = ["1"]
[channels.webhook.signed]
secret = {secret}
reply_url = "{site}/reply"
[hooks.watch]
event = "before_tool_call"
url = "{site}/hook"
token = "${{file:{keys}/hook}}"
[mcp.servers.remote]
url = "{site}/mcp"
headers = {{ X-Api-Key = {header} }}
[mcp.servers.closed]
url = "{site}/closed"
oauth = {{ grant = "client_credentials", client_id = "rookery", client_secret = {oauth} }}
[risk_profiles.default.network]
allow_private = ["127.0.0.1"]
{fake}{bundle}"#,
        ops = text("gateway.tokens[].token"),
        bot = text("channels.telegram.<alias>.bot_token"),
        eyes = text("second token"),
        refused = text("refusing api_key"),
        secret = text("channels.webhook.<alias>.secret"),
        header = text("mcp.servers.<name>.headers.<name>"),
        oauth = text("mcp.servers.<name>.oauth.client_secret"),
        keys = keys.display(),
        fake = fake.section("fake", &[], "env = { CANARY = \"${env:CANARY_MCP}\" }"),
        bundle = bundle("fake"),
    );
    Config::new()
        .provider("api_key = \"${env:CANARY_MAIN_KEY}\"")
        .agent("hooks = [\"watch\"]")
        .agent("mcp_bundles = [\"fake\"]")
        .risk("always_ask = [\"file_write\"]")
        .extra("[agents.home.tool_receipts]\nenabled = true\nshow_in_response = true")
        .extra(&extra)
}

/// Calls that bring secrets in by every way: arguments, files, the shell, the network, MCP.
fn calls(set: &Set, site: &str, like: &[Canary]) -> Vec<Call> {
    let value = |name: &str| like.iter().find(|canary| canary.name == name).unwrap().value.clone();
    let telling = format!(
        "cat told.txt; echo password={}; tr '\\0' '\\n' < /proc/$PPID/environ",
        value("printed")
    );
    let headers = json!({"Authorization": format!("Bearer {}", value("header")), "X-Note": "x"});
    vec![
        Call::new("file_read", json!({"path": "told.txt"})),
        Call::new("file_read", json!({"path": "assigned.txt"})),
        Call::new("file_read", json!({"path": set.value("refusing api_key")})),
        Call::shell(&telling),
        Call::new(
            "http_request",
            json!({"url": format!("{site}/page"), "method": "POST", "headers": headers,
                   "body": set.told()}),
        ),
        Call::new("fake__tell", json!({"do": "env", "text": "CANARY"})),
        Call::new(
            "fake__tell",
            json!({"text": set.told(), "password": value("argument"),
                   "deep": [{"api_key": value("nested"), "Authorization": value("header")}]}),
        ),
        Call::new("fake__tell", json!({"do": "die", "text": set.told()})),
        Call::new(set.value("refusing api_key"), json!({})),
    ]
}

/// A text in parts of five characters, so that every secret in it is split.
fn in_parts(text: &str) -> Reply {
    let letters: Vec<char> = text.chars().collect();
    letters
        .chunks(5)
        .fold(Reply::stream(), |reply, part| reply.delta(&part.iter().collect::<String>()))
}

/// What the program's commands print.
async fn add_commands(shown: &mut Shown, world: &World, turns: &[String]) {
    let plain: [&[&str]; 13] = [
        &["config", "show"],
        &["config", "check"],
        &["config", "schema"],
        &["doctor"],
        &["tree"],
        &["turns", "list"],
        &["approvals", "list", "--all"],
        &["approvals", "grants"],
        &["deadletters", "list"],
        &["sessions", "list"],
        &["crashes"],
        &["audit"],
        &["actor", "show", "root/service/toolbox/mcp/closed"],
    ];
    let mut all: Vec<Vec<&str>> = plain.iter().map(|args| args.to_vec()).collect();
    all.extend(turns.iter().map(|turn| vec!["turns", "show", turn.as_str()]));
    for args in all {
        for form in [None, Some("--json")] {
            if args == ["config", "check"] && form.is_some() {
                continue;
            }
            let args: Vec<&str> = args.iter().copied().chain(form).collect();
            let printed = world.cli(&args).await;
            shown.add(&format!("`{}`", args.join(" ")), format!("{printed:?}"));
        }
    }
}

/// What the routes answer.
async fn add_routes(shown: &mut Shown, world: &World, turns: &[String]) {
    let mut paths: Vec<String> = [
        "/livez",
        "/readyz",
        "/metrics",
        "/v1/turns",
        "/v1/conversations",
        "/v1/conversations/ws/talk/messages",
        "/v1/conversations/webhook.ci/c/messages",
        "/admin/v1/tree",
        "/admin/v1/approvals",
        "/admin/v1/approvals?all=true",
        "/admin/v1/grants",
        "/admin/v1/deadletters",
        "/admin/v1/crashes",
        "/admin/v1/audit",
        "/admin/v1/ledger",
        "/admin/v1/conversations",
        "/admin/v1/actors/root/service/toolbox/mcp/fake",
        "/admin/v1/actors/root/service/toolbox/mcp/remote",
        "/admin/v1/actors/root/service/providers/refusing",
    ]
    .map(str::to_owned)
    .into();
    for turn in turns {
        paths.extend([format!("/v1/turns/{turn}"), format!("/v1/turns/{turn}/events")]);
    }
    for path in paths {
        let answer = world.api.request(Method::GET, &path).send().await.unwrap();
        let headers = format!("{:?}", answer.headers());
        shown.add(&format!("GET {path}"), headers + &answer.text().await.unwrap());
    }
}

/// The files of the data folder.
fn add_files(shown: &mut Shown, world: &World, when: &str) {
    let mut folders = vec![world.dir().join("data")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
                continue;
            }
            let content = std::fs::read(entry.path()).unwrap();
            if !content.is_empty() {
                shown.add(&format!("{} {when}", entry.path().display()), content);
            }
        }
    }
}

// I12, T25, V-I20
#[tokio::test]
async fn after_a_full_run_no_secret_is_anywhere_but_in_the_request_it_authenticates() {
    let set = Set::new();
    let like = like();
    let value = |name: &str| like.iter().find(|canary| canary.name == name).unwrap().value.clone();
    let keys = tempfile::tempdir().unwrap();
    let seen = Site::default();
    let site = seen.clone().start().await;
    let refusing = MockModel::start().await;
    let echo = format!("no such key: {}; known are: {}", set.value("refusing api_key"), set.told());
    refusing.rule("", move |_| Reply::error(401, &echo));
    let mut telltale = tool("tell");
    telltale["description"] = json!(format!("tells {}", set.told()));
    telltale["inputSchema"] = json!({"type": "object", "description": set.told()});
    let fake = FakeServer::new(&[telltale]);
    let config = config(&set, keys.path(), &site, &refusing.base_url(), &fake);
    let mut world = World::start_with(program!(), config, env(&set)).await;
    world.api = world.api.with_token(Some(set.value("gateway.tokens[].token")));

    // The list is complete: what the schema calls a secret has a canary.
    let schema = world.cli(&["config", "schema", "--json"]).await.json();
    for key in schema.as_array().unwrap() {
        if key["type"].as_str().unwrap().contains("secret") {
            assert!(set.0.contains_key(key["name"].as_str().unwrap()), "no canary for {key}");
        }
    }
    world.mcp_ready("fake").await;
    world.put("told.txt", &set.told());
    let assigned = format!("api_key = {}\nbearer {}\n", value("assigned"), value("bearer"));
    world.put("assigned.txt", &assigned);

    // A chat: streamed text, many tools, an approval by the command, one denied.
    let write = |name: &str, password: &str| {
        let content = format!("token={password}\n");
        Call::new("file_write", json!({"path": name, "content": content, "password": password}))
    };
    world.model.script(
        "work",
        [
            in_parts(&set.told()).ask(calls(&set, &site, &like)).complete("tool_calls"),
            Reply::calls([write("approved.txt", &value("argument"))]),
            Reply::calls([write("denied.txt", &value("denied"))]),
            in_parts(&set.told()).complete("stop"),
        ],
    );
    let (mut shown, mut kept) = (Shown::default(), Shown::default());
    let mut ws = world.api.ws("talk").await;
    ws.say("one", "work").await;
    let mut frames = ws.until("approval").await;
    let turn = frames.iter().find_map(|frame| frame["turn"].as_str()).unwrap().to_owned();
    let approval = world.api.approval_of(&turn).await;
    let id = approval["id"].as_str().unwrap();
    shown.add("an approval", approval.to_string());
    shown.add("`approvals list`", world.cli(&["approvals", "list"]).await.out);
    shown.add(
        "`approvals approve`",
        format!("{:?}", world.cli(&["approvals", "approve", id]).await),
    );
    frames.extend(ws.until("approval").await);
    let approval = world.api.approval_of(&turn).await;
    let reason = format!("not with {}", set.told());
    let denial = json!({"decision": "deny", "reason": reason});
    shown.add("a denial", format!("{:?}", world.api.decide(&approval, &denial).await));
    frames.extend(ws.until("ended").await);
    shown.add("WebSocket frames", Value::from(frames).to_string());
    ws.close().await;
    assert!(
        world.read("approved.txt").contains(&value("argument"))
            && world.read("denied.txt").is_empty()
    );

    // A provider that refuses the key and repeats it; a webhook with a wrong signature and with a right one.
    let body = message(&fresh_id(), "s", "hello").to_string().into_bytes();
    let secret = set.value("channels.webhook.<alias>.secret").to_owned();
    let mut turns = vec![turn];
    for (key, status) in [("wrong", 401), (secret.as_str(), 200)] {
        let request = world
            .api
            .with_token(None)
            .request(Method::POST, "/v1/channels/webhook/signed?wait=30")
            .header("content-type", "application/json")
            .header("x-rookery-signature", sign(key, unix_now(), &body))
            .body(body.clone());
        let answer = world.api.send(request).await;
        assert_eq!(answer.status, status, "{answer:?}");
        shown.add("the webhook's answer", answer.body.to_string());
        turns.extend(answer.body["turn"].as_str().map(str::to_owned));
    }
    until("a dead letter", || async {
        let list = world.api.get("/admin/v1/deadletters").await;
        if list == json!([]) { Err(list.to_string()) } else { Ok(()) }
    })
    .await;

    // Somebody with a wrong token, and an operator who gives a secret as the reason.
    let intruder = world.api.with_token(Some(&format!("{}x", set.value("second token"))));
    assert_eq!(intruder.try_get("/admin/v1/tree").await.status, 401);
    let path = "/admin/v1/actors/root/service/providers/main/kill";
    world.api.post(path, &json!({"reason": set.told()})).await;
    until("the killed one is a crash", || async {
        let list = world.api.get("/admin/v1/crashes").await;
        if list == json!([]) { Err(list.to_string()) } else { Ok(()) }
    })
    .await;

    // A crash in the middle of a turn, whose events are followed to the end.
    let gate = Gate::new();
    let held = in_parts(&set.told()).gate(&gate).complete("stop");
    world.model.script("hold", [held, in_parts(&set.told()).complete("stop")]);
    let turn = world.api.tell("c", "hold").await;
    gate.reached().await;
    add_files(&mut kept, &world, "before the crash");
    world.crash().await;
    let mut events = world.api.events(&turn).await;
    shown.add("events", Value::from(events.until("ended").await).to_string());
    world.api.ended(&turn).await;
    turns.push(turn);

    add_routes(&mut shown, &world, &turns).await;
    add_commands(&mut shown, &world, &turns).await;
    let asked = seen.told("/hook");
    assert!(!asked.is_empty());
    for (headers, question) in asked {
        assert!(headers.contains(set.value("hooks.<name>.token")), "{headers}");
        shown.add("a hook's question", question);
    }
    add_files(&mut kept, &world, "while it runs");
    world.assert_quiet().await;
    world.stop().await;
    shown.add("the log", world.service.log());
    add_files(&mut kept, &world, "at the end");
    kept.add("model requests", Value::from(world.model.requests()).to_string());
    kept.add("refused requests", Value::from(refusing.requests()).to_string());
    kept.add("what the MCP server was sent", Value::from(fake.log()).to_string());
    kept.add(
        "replies",
        format!("{:?}", seen.told("/reply").iter().map(|t| &t.1).collect::<Vec<_>>()),
    );

    // Each authenticates its own requests, and nothing else knows it.
    let bearer = |name: &str| format!("Bearer {}", set.value(name));
    assert_eq!(world.model.authorizations(), [bearer("providers.<name>.api_key")]);
    assert_eq!(refusing.authorizations(), [bearer("refusing api_key")]);
    let told = |path: &str, name: &str| {
        seen.told(path)
            .iter()
            .any(|(headers, body)| format!("{headers}{body}").contains(set.value(name)))
    };
    assert!(told("/mcp", "mcp.servers.<name>.headers.<name>"));
    let leaks = [shown.finds(&set.all()), kept.finds(&set.all()), shown.finds(&like)].concat();
    assert!(leaks.is_empty(), "{} leaks:\n{}", leaks.len(), leaks.join("\n"));

    // The search can find what is there: the files the secrets were put in, and what only looks like a
    // secret, which the model may read.
    let mut control = Shown::default();
    control.add("the file", world.read("told.txt"));
    assert_eq!(control.finds(&set.all()).len(), set.0.len());
    for name in ["assigned", "bearer", "printed"] {
        let canary = Canary::new(name);
        let found = kept.finds(std::slice::from_ref(&canary));
        assert!(found.iter().any(|find| find.contains("model requests")), "{name}: {found:?}");
    }
    world.over();
}

// A099
#[tokio::test]
async fn no_tool_reads_the_configuration_its_copies_its_secret_files_the_data_or_the_environment() {
    let set = Set::new();
    let keys = tempfile::tempdir().unwrap();
    let seen = Site::default();
    let site = seen.clone().start().await;
    let fake = FakeServer::new(&[tool("tell")]);
    let config = config(&set, keys.path(), &site, "http://127.0.0.1:1/v1", &fake);
    let mut world = World::start_with(program!(), config, env(&set)).await;
    world.api = world.api.with_token(Some(set.value("gateway.tokens[].token")));
    let own = world.dir().join("rookery.toml");
    std::fs::copy(&own, world.dir().join("rookery.toml.bak")).unwrap();
    let paths = [
        own,
        world.dir().join("rookery.toml.bak"),
        world.dir().join("data/rookery.db"),
        keys.path().join("hook"),
        "/proc/self/environ".into(),
        format!("/proc/{}/environ", world.service.pid()).into(),
    ];
    let mut calls: Vec<Call> =
        paths.iter().map(|path| Call::new("file_read", json!({ "path": path }))).collect();
    let shells = paths.iter().map(|path| Call::shell(&format!("cat {}", path.display())));
    calls.extend(shells);
    let count = calls.len();
    world.model.script("go", [Reply::calls(calls), Reply::text("done")]);
    let turn = world.api.say("c", "go").await;
    assert_eq!(turn.call_states(), vec!["blocked"; count], "{turn:?}");
    let mut shown = Shown::default();
    shown.add("model requests", Value::from(world.model.requests()).to_string());
    shown.assert_none(&set.all());
    world.finish().await;
}
