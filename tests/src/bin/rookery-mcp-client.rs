//! The client that the MCP conformance suite drives: our own connector, without the rest of the service.
//!
//! The suite gives the server's address as the last argument, the scenario's name in
//! `MCP_CONFORMANCE_SCENARIO`, and what a scenario needs beyond that in `MCP_CONFORMANCE_CONTEXT`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a program of the tests: it fails at the place of the fault, and is no actor"
)]

use std::sync::Arc;
use std::time::Duration;

use rookery_actors::tool::mcp::{
    CallRequest, Connection, Connector, Consent, Events, HttpTarget, OAuth, SdkConnector, Session,
    Target, ToolInfo,
};
use rookery_messages::BoxFuture;
use rookery_messages::settings::Secret;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

/// Where the suite's authorization servers send a person back to. Nobody listens there: the address
/// alone says what is needed.
const REDIRECT: &str = "http://localhost:3000/callback";
/// The client's metadata document, as the suite knows it.
const METADATA: &str = "https://conformance-test.local/client-metadata.json";

/// A person who consents to everything.
struct Willing;

impl Consent for Willing {
    fn redirect(&self) -> String {
        REDIRECT.to_owned()
    }

    fn obtain(&self, url: String) -> BoxFuture<'_, Result<String, String>> {
        Box::pin(async move {
            let client = reqwest::Client::builder()
                .redirect(reqwest::redirect::Policy::none())
                .no_proxy()
                .build()
                .unwrap();
            let answer = client.get(url).send().await.map_err(|error| error.to_string())?;
            let back = answer.headers().get("location").and_then(|back| back.to_str().ok());
            back.map(str::to_owned).ok_or_else(|| "nobody was sent back".to_owned())
        })
    }
}

struct Deaf;

impl Events for Deaf {
    fn tools_changed(&self) {}
}

fn oauth(scenario: &str, context: &Value) -> Option<OAuth> {
    let text = |key: &str| context[key].as_str().map(str::to_owned);
    scenario.starts_with("auth/").then(|| OAuth {
        client_id: text("client_id"),
        client_secret: text("client_secret").map(Secret::new),
        metadata_url: Some(METADATA.to_owned()),
        scopes: Vec::new(),
        for_itself: scenario.starts_with("auth/client-credentials"),
        tokens: None,
        consent: Some(Arc::new(Willing)),
    })
}

/// Arguments that fit a tool's schema well enough for the suite's tools.
fn arguments(tool: &ToolInfo) -> Map<String, Value> {
    let properties = tool.schema["properties"].as_object().cloned().unwrap_or_default();
    let value = |schema: &Value| match schema["type"].as_str() {
        Some("number" | "integer") => json!(5),
        Some("boolean") => json!(true),
        _ => json!("text"),
    };
    properties.iter().map(|(name, schema)| (name.clone(), value(schema))).collect()
}

async fn drive(session: &dyn Session) -> Result<(), String> {
    let mut cursor = None;
    let mut tools = Vec::new();
    loop {
        let page = session.list(cursor.take()).await.map_err(|error| error.to_string())?;
        tools.extend(page.tools);
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    for tool in &tools {
        let call = CallRequest {
            tool: &tool.name,
            arguments: &arguments(tool),
            cancel: &CancellationToken::new(),
            limit: Duration::from_secs(20),
            progress: Arc::new(|_| {}),
        };
        session.call(call).await.map_err(|error| format!("{}: {error}", tool.name))?;
    }
    Ok(())
}

#[tokio::main]
async fn main() {
    rookery_tests::install_tls();
    let url = std::env::args().next_back().expect("the server's address");
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
    let context = serde_json::from_str(&context).unwrap_or_default();
    let target = HttpTarget {
        url,
        headers: Vec::new(),
        oauth: oauth(&scenario, &context),
        answer_with_defaults: true,
    };
    let close = CancellationToken::new();
    let connector = SdkConnector::new(Target::Http(target));
    let connected = connector.connect(Arc::new(Deaf), close.clone()).await;
    let Connection { session, life, .. } = connected.unwrap_or_else(|error| {
        eprintln!("not connected: {error}");
        std::process::exit(1)
    });
    let life = tokio::spawn(life);
    let driven = drive(&*session).await;
    drop(session);
    close.cancel();
    let _ = life.await;
    if let Err(error) = driven {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
