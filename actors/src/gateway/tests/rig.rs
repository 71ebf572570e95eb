//! The gateway with all it needs, and a client of it.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::routing::get;
use futures_util::{SinkExt, StreamExt};
use parking_lot::Mutex;
use reqwest::{Method, StatusCode};
use rookery_messages::address::Message as _;
use rookery_messages::exit::{ActorError, ExitReason};
use rookery_messages::ids::{AgentName, ChannelId, ConversationId, TurnId};
use rookery_messages::observe::{Observation, ObserverMsg};
use rookery_messages::settings::{Secret, Settings, TokenSettings, WebhookSettings};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::channel::commands::{Desk, DeskDeps, ModelName, Stopper};
use crate::channel::pairing::Door;
use crate::channel::testing::{Base, SOON};
use crate::channel::{Intake, IntakeArgs, IntakeHandle};
use crate::gateway::*;
use crate::observe::ObserverHandle;
use crate::runtime::{Child, Ctx, SpawnSpec, Supervised};

/// The secret of `webhook.signed`.
pub(super) const SECRET: &str = "whsec-0123456789abcdef";
/// The generated admin token.
pub(super) const ADMIN: &str = "admin-token-0123456789";

pub(super) type Seen = Arc<Mutex<Vec<Observation>>>;

struct Watcher;

impl Supervised for Watcher {
    const KIND: &'static str = "observer";
    type Msg = ObserverMsg;
    type Args = Seen;
    type State = Seen;

    fn start(_: &mut Ctx<Self>, args: Seen) -> Result<Seen, ActorError> {
        Ok(args)
    }

    async fn handle(
        _: &mut Ctx<Self>,
        seen: &mut Seen,
        message: ObserverMsg,
    ) -> Result<(), ActorError> {
        let ObserverMsg::Observed(observation) = message;
        seen.lock().push(*observation);
        Ok(())
    }
}

/// Stands for a running turn: it has a path, and a stop cell.
pub(super) struct FakeTurn;

impl Supervised for FakeTurn {
    const KIND: &'static str = "turn";
    type Msg = ();
    type Args = ();
    type State = ();

    fn start(_: &mut Ctx<Self>, (): ()) -> Result<(), ActorError> {
        Ok(())
    }

    async fn handle(_: &mut Ctx<Self>, (): &mut (), message: ()) -> Result<(), ActorError> {
        assert_eq!(message.kind(), "unit");
        Ok(())
    }
}

pub(super) struct Rig {
    pub base: Base,
    pub address: SocketAddr,
    pub gateway: Child<GatewayMsg>,
    pub args: GatewayArgs,
    pub seen: Seen,
    pub client: reqwest::Client,
    /// The workspace of `home`.
    pub work: tempfile::TempDir,
}

pub(super) fn settings() -> Settings {
    let mut settings = Settings::default();
    let hook = |secret: Option<&str>, allowed: &str| WebhookSettings {
        secret: secret.map(Secret::new),
        allowed_users: vec![allowed.to_owned()],
        queue_limit: 2,
        ..Default::default()
    };
    settings.gateway.listen = "127.0.0.1:0".to_owned();
    settings.gateway.body_limit_bytes = 16_384;
    settings.gateway.max_connections = 4;
    settings.channels.webhook.insert("ci".to_owned(), hook(None, "*"));
    settings.channels.webhook.insert("signed".to_owned(), hook(Some(SECRET), "*"));
    settings.channels.webhook.insert("few".to_owned(), hook(None, "ann"));
    settings
}

fn desk(base: &Base, observer: &ObserverHandle) -> Arc<Desk> {
    let model = |profile: &str, model: &str| ModelName {
        profile: profile.to_owned(),
        model: model.to_owned(),
    };
    Desk::new(DeskDeps {
        stopper: Stopper {
            directory: Arc::clone(base.spawner.directory()),
            store: base.store.clone(),
            hub: Arc::clone(&base.hub),
            router: base.router.clone(),
            world: base.world.clone(),
        },
        models: HashMap::from([(
            AgentName::new("home"),
            vec![model("main", "large-1"), model("other", "small-2")],
        )]),
        posts: HashMap::new(),
        observer: observer.clone(),
    })
}

impl Rig {
    /// As a service without configured tokens.
    pub async fn new() -> Self {
        Self::with(settings()).await
    }

    pub async fn with(settings: Settings) -> Self {
        let _already = rustls::crypto::ring::default_provider().install_default();
        let base = Base::new().await;
        let seen = Seen::default();
        let spec = SpawnSpec::new("observer").mailbox(1_024);
        let watcher = base.spawner.spawn::<Watcher>(spec, Arc::clone(&seen)).await.unwrap();
        let observer = ObserverHandle::new(watcher.address);
        let work = tempfile::tempdir().unwrap();
        let mut intakes = HashMap::new();
        for channel in
            ["ws", "cli", "webhook.ci", "webhook.signed", "webhook.few", "webhook.paired"]
        {
            let args = IntakeArgs {
                channel: ChannelId::new(channel),
                queue: Default::default(),
                queue_limit: 2,
                debounce: Duration::ZERO,
                claim: None,
                store: base.store.clone(),
                hub: Arc::clone(&base.hub),
                router: base.router.clone(),
                sender: None,
                observer: observer.clone(),
            };
            let spec = SpawnSpec::new(format!("intake/{channel}"));
            let intake = base.spawner.spawn::<Intake>(spec, args).await.unwrap();
            let handle = IntakeHandle { address: intake.address, agent: AgentName::new("home") };
            intakes.insert(ChannelId::new(channel), handle);
        }
        let doors = settings
            .channels
            .webhook
            .iter()
            .map(|(alias, hook)| {
                let channel = ChannelId::new(format!("webhook.{alias}"));
                let (store, world) = (base.store.clone(), base.world.clone());
                let allowed = hook.allowed_users.clone();
                (channel.clone(), Door::new(channel, allowed, hook.pairing, store, world))
            })
            .collect();
        let tokens = if settings.gateway.tokens.is_empty() {
            Tokens::generated(&Secret::new(ADMIN))
        } else {
            Tokens::configured(&settings.gateway.tokens)
        };
        let extra = axum::Router::new()
            .route("/admin/v1/tree", get(|| async { "tree" }))
            .route("/v1/crash", get(|| async { crash().await }));
        let deps = GatewayDeps {
            redactor: Arc::default(),
            store: base.store.clone(),
            hub: Arc::clone(&base.hub),
            directory: Arc::clone(base.spawner.directory()),
            router: base.router.clone(),
            intakes,
            workspaces: HashMap::from([(AgentName::new("home"), work.path().to_owned())]),
            outlets: HashMap::new(),
            senders: HashMap::new(),
            observer: observer.clone(),
            doors,
            desk: desk(&base, &observer),
            world: base.world.clone(),
            probes: Probes {
                metrics: Arc::new(|| Box::pin(async { "rookery_up 1\n".to_owned() })),
                ready: Arc::new(|| Readiness {
                    ready: false,
                    components: vec![Component {
                        name: "store".to_owned(),
                        ready: false,
                        reason: Some("starting".to_owned()),
                    }],
                }),
                live: Arc::new(|| true),
            },
            tokens,
            receipts: Arc::default(),
            extra: vec![extra],
            settings: Arc::new(settings),
        };
        let listener = listen(&deps.settings.gateway.listen).unwrap();
        let address = listener.local_addr().unwrap();
        let args = GatewayArgs { deps: Arc::new(deps), listener };
        let gateway = start(&base, &args).await;
        let client = reqwest::Client::builder().no_proxy().timeout(SOON).build().unwrap();
        Self { base, address, gateway, args, seen, client, work }
    }

    pub fn listener(&self) -> Arc<TcpListener> {
        Arc::clone(&self.args.listener)
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.client.request(method, self.url(path))
    }

    pub async fn get(&self, path: &str) -> (StatusCode, Value) {
        answer(self.request(Method::GET, path)).await
    }

    pub async fn get_as(&self, token: &str, path: &str) -> (StatusCode, Value) {
        answer(self.request(Method::GET, path).bearer_auth(token)).await
    }

    pub async fn post_as(&self, token: &str, path: &str, body: &Value) -> (StatusCode, Value) {
        answer(self.request(Method::POST, path).bearer_auth(token).json(body)).await
    }

    pub async fn delete_as(&self, token: &str, path: &str) -> (StatusCode, Value) {
        answer(self.request(Method::DELETE, path).bearer_auth(token)).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        answer(self.request(Method::POST, path).json(body)).await
    }

    /// Posts a message to `webhook.ci`.
    pub async fn say(&self, conversation: &str, id: &str) -> (StatusCode, Value) {
        self.post("/v1/channels/webhook/ci", &message(conversation, id)).await
    }

    /// The conversation a turn belongs to.
    pub async fn conversation_of(&self, turn: &Value) -> ConversationId {
        let turn = turn.as_str().unwrap().parse::<TurnId>().unwrap();
        self.base.store.turn(turn).await.unwrap().unwrap().conversation_id
    }

    /// A turn's actor, as far as a cancel sees it.
    pub async fn fake_turn(&self, turn: &Value) -> Child<()> {
        let spec = SpawnSpec::new(format!("turn/{}", turn.as_str().unwrap()));
        self.base.spawner.spawn::<FakeTurn>(spec, ()).await.unwrap()
    }

    pub async fn socket(&self, query: &str) -> Socket {
        let request = format!("ws://{}/v1/ws?{query}", self.address);
        let (socket, _) = tokio_tungstenite::connect_async(request).await.unwrap();
        Socket(socket)
    }

    pub async fn socket_as(&self, token: &str, query: &str) -> Socket {
        let mut request =
            format!("ws://{}/v1/ws?{query}", self.address).into_client_request().unwrap();
        let value = format!("Bearer {token}").parse().unwrap();
        request.headers_mut().insert("authorization", value);
        let (socket, _) = tokio_tungstenite::connect_async(request).await.unwrap();
        Socket(socket)
    }

    /// Reasons counted for what was refused.
    pub fn refusals(&self) -> Vec<(String, &'static str)> {
        let refused = |observation: &Observation| match observation {
            Observation::Refused { surface, reason } => Some((surface.clone(), *reason)),
            _ => None,
        };
        self.seen.lock().iter().filter_map(refused).collect()
    }

    pub async fn end(self) {
        drop(self.client);
        self.base.end().await;
    }
}

pub(super) async fn start(base: &Base, args: &GatewayArgs) -> Child<GatewayMsg> {
    let spec = SpawnSpec::new("gateway").mailbox(MAILBOX).grace(Duration::from_secs(2));
    base.spawner.spawn::<Gateway>(spec, args.clone()).await.unwrap()
}

async fn crash() -> &'static str {
    panic!("a handler crashes");
}

pub(super) async fn answer(request: reqwest::RequestBuilder) -> (StatusCode, Value) {
    let response = request.send().await.unwrap();
    let status = response.status();
    assert_eq!(response.headers()["x-rookery"], env!("CARGO_PKG_VERSION"), "{status}");
    let bytes = response.bytes().await.unwrap();
    let body = serde_json::from_slice(&bytes)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
    (status, body)
}

pub(super) fn message(conversation: &str, id: &str) -> Value {
    json!({ "id": id, "sender": "ann", "conversation": conversation, "text": format!("say {id}") })
}

pub(super) fn token(name: &str, role: rookery_messages::settings::AuthRole) -> TokenSettings {
    TokenSettings { name: name.to_owned(), token: Secret::new(token_of(name)), role }
}

pub(super) fn token_of(name: &str) -> String {
    format!("token-of-{name}-0123456789")
}

pub(super) struct Socket(pub WebSocketStream<MaybeTlsStream<tokio::net::TcpStream>>);

impl Socket {
    pub async fn send(&mut self, frame: Value) {
        self.raw(Message::text(frame.to_string())).await;
    }

    pub async fn raw(&mut self, message: Message) {
        self.0.send(message).await.unwrap();
    }

    /// The next frame.
    pub async fn next(&mut self) -> Value {
        match self.message().await {
            Message::Text(text) => serde_json::from_str(&text).unwrap(),
            other => panic!("no frame: {other:?}"),
        }
    }

    pub async fn message(&mut self) -> Message {
        loop {
            let next = tokio::time::timeout(SOON, self.0.next()).await.expect("a frame in time");
            match next.expect("an open socket").unwrap() {
                Message::Ping(_) | Message::Pong(_) => {}
                other => return other,
            }
        }
    }

    /// The next frame of a type; others before it are skipped.
    pub async fn next_of(&mut self, kind: &str) -> Value {
        loop {
            let frame = self.next().await;
            if frame["type"] == kind {
                return frame;
            }
        }
    }

    /// Sends a message and gives its turn.
    pub async fn say(&mut self, id: &str, text: &str) -> Value {
        self.send(json!({ "type": "message", "id": id, "text": text })).await;
        let accepted = self.next_of("accepted").await;
        assert_eq!(accepted["id"], id);
        accepted["turn"].clone()
    }
}

/// How an actor that was told to stop ended.
pub(super) async fn ended<M>(child: &Child<M>) -> ExitReason {
    tokio::time::timeout(SOON, child.handle.ended()).await.unwrap()
}
