//! A server that is reached by streamable HTTP.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{HeaderName, HeaderValue};
use rmcp::ServiceExt;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use tokio_util::sync::CancellationToken;

use super::handler::{Handler, ProgressSinks};
use super::session::{End, SdkSession, chain};
use super::{HttpTarget, version};
use crate::tool::mcp::client::{Connection, Events};

/// How long the network may take to connect.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// Largest answer, in bytes.
const LARGEST_ANSWER: usize = 48 * 1_024 * 1_024;
/// How long closing may take: the server is told that the session is over.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// Shakes hands with the server.
pub(super) async fn connect(
    target: HttpTarget,
    events: Arc<dyn Events>,
    close: CancellationToken,
) -> Result<Connection, String> {
    let client = reqwest::Client::builder()
        .connect_timeout(CONNECT_LIMIT)
        // A redirect would carry the headers, which are secrets, to another server.
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(|error| format!("no client can be made: {error}"))?;
    let config = StreamableHttpClientTransportConfig::with_uri(target.url.as_str())
        .custom_headers(headers(&target)?)
        .max_json_response_size(LARGEST_ANSWER)
        .max_sse_event_size(LARGEST_ANSWER);
    let progress = ProgressSinks::default();
    let handler = Handler { events, progress: Arc::clone(&progress) };
    let transport = StreamableHttpClientTransport::with_client(client, config);
    let token = CancellationToken::new();
    let service = tokio::select! {
        biased;
        served = handler.serve_with_ct(transport, token.clone()) => {
            served.map_err(|error| chain(&error))?
        }
        () = close.cancelled() => return Err("the attempt was given up".to_owned()),
    };
    let peer = service.peer().clone();
    let server = version(&peer);
    let end = Arc::new(End::default());
    let session = SdkSession { peer, progress, end: Arc::clone(&end), by_pipe: false };
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

fn headers(target: &HttpTarget) -> Result<HashMap<HeaderName, HeaderValue>, String> {
    let header = |(name, value): &(String, rookery_messages::settings::Secret)| {
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
