//! What a server may say unasked, and what we say of ourselves.

use std::sync::Arc;

use dashmap::DashMap;
use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, Implementation, ProgressNotificationParam, ProgressToken,
};
use rmcp::service::{NotificationContext, RoleClient};

use crate::tool::mcp::client::Events;

/// Who is told of a call's progress, by the call's token.
pub(super) type ProgressSinks = Arc<DashMap<ProgressToken, Arc<dyn Fn(String) + Send + Sync>>>;

/// The client's side of a connection. Whatever else a server may ask (sampling, roots, elicitation) is
/// declined: nobody agreed to it.
pub(super) struct Handler {
    pub(super) events: Arc<dyn Events>,
    pub(super) progress: ProgressSinks,
}

impl ClientHandler for Handler {
    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.events.tools_changed();
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let sink = self.progress.get(&params.progress_token).map(|sink| Arc::clone(&sink));
        if let Some(sink) = sink {
            let so_far = match params.total {
                Some(total) => format!("{} of {total}", params.progress),
                None => params.progress.to_string(),
            };
            sink(match params.message {
                Some(message) => format!("{message} ({so_far})"),
                None => so_far,
            });
        }
    }

    fn get_info(&self) -> ClientConfig {
        let client = Implementation::new("rookery", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), client)
    }
}
