//! `rookery mcp login`: has a person authorize the service at an MCP server, in their browser.
//!
//! The tokens are kept in the data folder, where a running service finds them at its next attempt to
//! connect.

use std::sync::Arc;
use std::time::Duration;

use rookery_actors::tool::mcp::{Connector, Consent, Events, SdkConnector, Target};
use rookery_messages::BoxFuture;
use rookery_messages::settings::{OAuthGrant, Settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::exit::{Exit, Failure};
use crate::output::{to_stderr, to_stdout};
use crate::render::prose;
use crate::service::http_target;

/// How long a person may take.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long a browser may take to say what it wants: some connect to be quick, and say nothing.
const SILENCE: Duration = Duration::from_secs(3);
/// Longest request line of the browser that comes back, in bytes.
const LONGEST_REQUEST: usize = 16 * 1_024;
/// What the browser shows then.
const PAGE: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n\
     Rookery is authorized. You can close this page.\n";

/// Logs in at the server of this name.
pub async fn login(settings: &Settings, name: &str) -> Result<Exit, Failure> {
    let Some(server) = settings.mcp.servers.get(name) else {
        return Err(Failure::failed(format!(
            "there is no MCP server `{}`; `rookery config show` lists them",
            prose(name)
        )));
    };
    let by_person = server.oauth.as_ref().is_some_and(|o| o.grant == OAuthGrant::AuthorizationCode);
    let (Some(url), true) = (&server.url, by_person) else {
        return Err(Failure::failed(format!(
            "nobody has to log in at `{name}`: it needs a `url`, and a section mcp.servers.{name}.oauth with \
             grant = \"authorization_code\""
        )));
    };
    let listener = TcpListener::bind("127.0.0.1:0")
        .await
        .map_err(|error| Failure::failed(format!("can't listen on loopback: {error}")))?;
    let port = listener
        .local_addr()
        .map_err(|error| Failure::failed(format!("can't listen on loopback: {error}")))?
        .port();
    let mut target = http_target(settings, name, server, url);
    if let Some(oauth) = &mut target.oauth {
        oauth.consent = Some(Arc::new(Browser { listener, port }));
    }
    let close = CancellationToken::new();
    let connecting = SdkConnector::new(Target::Http(target)).connect(Arc::new(Deaf), close.clone());
    let connection = tokio::time::timeout(PATIENCE, connecting)
        .await
        .map_err(|_| Failure::failed("nobody came back from the browser; try again"))?
        .map_err(|error| Failure::failed(prose(&format!("not logged in at {name}: {error}"))))?;
    close.cancel();
    connection.life.await;
    to_stdout(&format!("logged in at {name}\n"))?;
    Ok(Exit::Ok)
}

/// The connection is only made to be authorized.
struct Deaf;

impl Events for Deaf {
    fn tools_changed(&self) {}
}

/// A person with a browser on this machine.
struct Browser {
    listener: TcpListener,
    port: u16,
}

impl Consent for Browser {
    fn redirect(&self) -> String {
        format!("http://127.0.0.1:{}/callback", self.port)
    }

    fn obtain(&self, url: String) -> BoxFuture<'_, Result<String, String>> {
        Box::pin(async move {
            to_stderr(&format!("Open this address in a browser:\n\n{}\n\n", prose(&url)));
            loop {
                let (mut stream, _) =
                    self.listener.accept().await.map_err(|error| error.to_string())?;
                let mut request = Vec::new();
                let mut chunk = [0; 4 * 1_024];
                while !request.contains(&b'\n') && request.len() < LONGEST_REQUEST {
                    match tokio::time::timeout(SILENCE, stream.read(&mut chunk)).await {
                        Ok(Ok(n @ 1..)) => request.extend_from_slice(&chunk[..n]),
                        _ => break,
                    }
                }
                let request = String::from_utf8_lossy(&request);
                let path = request.split_ascii_whitespace().nth(1).unwrap_or_default();
                // Browsers ask for icons, too.
                if path.starts_with("/callback?") {
                    // The person may have closed the page; what it said is known all the same.
                    let _ = stream.write_all(PAGE.as_bytes()).await;
                    return Ok(format!("http://127.0.0.1:{}{path}", self.port));
                }
                let _ =
                    stream.write_all(b"HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n").await;
            }
        })
    }
}
