//! A server that is reached by streamable HTTP.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{HeaderName, HeaderValue};
use rmcp::ServiceExt;
use rmcp::service::{ClientInitializeError, RoleClient, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rookery_messages::settings::Secret;
use tokio_util::sync::CancellationToken;

use super::handler::{Handler, ProgressSinks};
use super::oauth::Authority;
use super::session::{End, SdkSession, chain};
use super::{HttpTarget, version};
use crate::outbound;
use crate::tool::mcp::client::{Connection, Events};

/// How long the network may take to connect.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// Largest answer, in bytes.
const LARGEST_ANSWER: usize = 48 * 1_024 * 1_024;
/// How long closing may take: the server is told that the session is over.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// Shakes hands with the server, authorized if it asks for that.
pub(super) async fn connect(
    target: HttpTarget,
    events: Arc<dyn Events>,
    close: CancellationToken,
) -> Result<Connection, String> {
    let progress = ProgressSinks::default();
    let token = CancellationToken::new();
    let attempt = open(&target, events, &progress, &token);
    let (service, authority) = tokio::select! {
        biased;
        () = close.cancelled() => return Err("the attempt was given up".to_owned()),
        opened = attempt => opened?,
    };
    let peer = service.peer().clone();
    let server = version(&peer);
    let end = Arc::new(End::default());
    let session = SdkSession { peer, progress, end: Arc::clone(&end), by_pipe: false, authority };
    let life = async move {
        let waiting = service.waiting();
        tokio::pin!(waiting);
        tokio::select! {
            biased;
            () = close.cancelled() => {
                end.set("we closed the connection");
                token.cancel();
                let _ = tokio::time::timeout(CLOSE_LIMIT, waiting).await;
            }
            _ = &mut waiting => end.set("the connection was closed"),
        }
        end.cause()
    };
    Ok(Connection { session: Arc::new(session), server, life: Box::pin(life) })
}

type Service = RunningService<RoleClient, Handler>;

async fn open(
    target: &HttpTarget,
    events: Arc<dyn Events>,
    progress: &ProgressSinks,
    token: &CancellationToken,
) -> Result<(Service, Option<Authority>), String> {
    let client = outbound::client()
        .connect_timeout(CONNECT_LIMIT)
        .build()
        .map_err(|error| format!("no client can be made: {error}"))?;
    let config = StreamableHttpClientTransportConfig::with_uri(target.url.as_str())
        .custom_headers(headers(target)?)
        .max_json_response_size(LARGEST_ANSWER)
        .max_sse_event_size(LARGEST_ANSWER);
    let handler = || Handler {
        events: Arc::clone(&events),
        progress: Arc::clone(progress),
        answer_with_defaults: target.answer_with_defaults,
    };
    let Some(oauth) = &target.oauth else {
        let transport = StreamableHttpClientTransport::with_client(client, config);
        let served = handler().serve_with_ct(transport, token.clone()).await;
        return Ok((served.map_err(|error| failed(&error))?, None));
    };
    let authority = Authority::new(&target.url, oauth.clone(), client).await?;
    let serve = |authority: &Authority| {
        let transport =
            StreamableHttpClientTransport::with_client(authority.client(), config.clone());
        handler().serve_with_ct(transport, token.clone())
    };
    let error = match serve(&authority).await {
        Ok(service) => return Ok((service, Some(authority))),
        Err(error) => error,
    };
    let Some(challenge) = error.auth_challenge() else { return Err(failed(&error)) };
    authority.obtain(challenge).await?;
    let service = serve(&authority).await.map_err(|error| failed(&error))?;
    Ok((service, Some(authority)))
}

fn failed(error: &ClientInitializeError) -> String {
    if error.is_authorization_required() {
        "it refuses us without authorization: give it a token in mcp.servers.<name>.headers, or a \
         section mcp.servers.<name>.oauth"
            .to_owned()
    } else {
        chain(error)
    }
}

fn headers(target: &HttpTarget) -> Result<HashMap<HeaderName, HeaderValue>, String> {
    let header = |(name, value): &(String, Secret)| {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        let mut value = HeaderValue::from_str(value.expose()).ok()?;
        value.set_sensitive(true);
        Some((name, value))
    };
    let headers: Option<HashMap<_, _>> = target.headers.iter().map(header).collect();
    headers.ok_or_else(|| {
        "one of its headers can't be sent; check mcp.servers.<name>.headers".to_owned()
    })
}
