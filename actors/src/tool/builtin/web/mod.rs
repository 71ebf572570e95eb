//! The tools that use the network: `http_request` and `web_fetch`.
//!
//! Both go through the network guard, both frame what they bring back as content from outside, and neither
//! follows what that content says.

mod body;
mod fetch;
mod frame;
mod hidden;
mod html;
mod request;
#[cfg(test)]
mod tests;
mod tree;

use std::sync::Arc;
use std::time::Duration;

use rookery_messages::tool::{CallEffects, Effects, Reach, Tool, ToolContext, ToolResult};

use self::frame::Framer;
use super::files::interrupted;
use crate::policy::network::NetworkRules;
use crate::policy::network::client::{WebAnswer, WebClient, WebRequest};

/// Longest time of a request, all redirects and the body included.
const REQUEST_TIME: Duration = Duration::from_secs(30);
/// What a call may take beyond that, to turn a page into text.
const CALL_TIME: Duration = Duration::from_secs(45);

/// What both tools share.
#[derive(Clone)]
struct Web {
    client: WebClient,
    framer: Arc<Framer>,
}

impl Web {
    /// Sends a request by the rules of the call's agent, until the call is cancelled.
    async fn send(&self, cx: &ToolContext, request: WebRequest) -> Result<WebAnswer, ToolResult> {
        let rules = NetworkRules::new(&cx.network);
        tokio::select! {
            answer = self.client.send(&rules, request) => {
                answer.map_err(|error| ToolResult::failed(error.to_string()))
            }
            () = cx.cancel.cancelled() => Err(interrupted()),
        }
    }
}

/// What a call to this address does. What comes back is a stranger's, and the address itself can carry data
/// out.
fn reaching(effects: Effects, url: Option<&str>) -> CallEffects {
    CallEffects {
        effects,
        reach: Reach::Outside,
        connects: url.map(str::to_owned).into_iter().collect(),
        brings_in: true,
        carries_out: true,
        ..CallEffects::read_only()
    }
}

/// Both tools, on this client.
pub(super) fn tools(client: WebClient) -> [Arc<dyn Tool>; 2] {
    let web = Web { client, framer: Arc::new(Framer::new()) };
    [Arc::new(request::HttpRequest::new(web.clone())), Arc::new(fetch::WebFetch::new(web))]
}
