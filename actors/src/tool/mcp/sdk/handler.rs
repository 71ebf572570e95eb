//! What a server may say unasked, and what we say of ourselves.

use std::sync::Arc;

use dashmap::DashMap;
use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, ErrorData, FormElicitationCapability, Implementation,
    ProgressNotificationParam, ProgressToken, ProtocolVersion,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use serde_json::{Map, Value};

use crate::tool::mcp::client::Events;

/// Who is told of a call's progress, by the call's token.
pub(super) type ProgressSinks = Arc<DashMap<ProgressToken, Arc<dyn Fn(String) + Send + Sync>>>;

/// The client's side of a connection. Whatever else a server may ask (sampling, roots) is declined:
/// nobody agreed to it.
pub(super) struct Handler {
    pub(super) events: Arc<dyn Events>,
    pub(super) progress: ProgressSinks,
    /// The operator agrees to what the server itself proposes when it asks during a call.
    pub(super) answer_with_defaults: bool,
}

/// The answers a server proposes, if it proposes one for everything it needs (SEP-1034).
fn proposed(schema: &Value) -> Option<Value> {
    let properties = schema.get("properties").and_then(Value::as_object)?;
    let answers: Map<String, Value> = properties
        .iter()
        .filter_map(|(name, one)| Some((name.clone(), one.get("default")?.clone())))
        .collect();
    let required = schema.get("required").and_then(Value::as_array);
    let complete = required
        .into_iter()
        .flatten()
        .all(|name| name.as_str().is_some_and(|name| answers.contains_key(name)));
    complete.then_some(Value::Object(answers))
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

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let answers = match request {
            ElicitRequestParams::FormElicitationParams { requested_schema, .. }
                if self.answer_with_defaults =>
            {
                serde_json::to_value(requested_schema).ok().as_ref().and_then(proposed)
            }
            _ => None,
        };
        Ok(match answers {
            Some(answers) => ElicitResult::new(ElicitationAction::Accept).with_content(answers),
            None => ElicitResult::new(ElicitationAction::Decline),
        })
    }

    fn get_info(&self) -> ClientConfig {
        let client = Implementation::new("rookery", env!("CARGO_PKG_VERSION"));
        let mut capabilities = ClientCapabilities::default();
        if self.answer_with_defaults {
            let form = FormElicitationCapability::new();
            capabilities.elicitation = Some(ElicitationCapability::new().with_form(form));
        }
        // The newest revision whose handshake every server knows.
        ClientConfig::new(capabilities, client).with_protocol_version(ProtocolVersion::V_2025_11_25)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_servers_proposal_is_taken_only_if_it_covers_what_the_server_needs() {
        let schema = |required: &[&str]| json!({"properties": {"a": {"type": "string", "default": "x"}, "b": {"type": "number"}}, "required": required});
        assert_eq!(proposed(&schema(&[])), Some(json!({"a": "x"})));
        assert_eq!(proposed(&schema(&["a"])), Some(json!({"a": "x"})));
        assert_eq!(proposed(&schema(&["a", "b"])), None);
        assert_eq!(proposed(&json!({})), None);
    }
}
