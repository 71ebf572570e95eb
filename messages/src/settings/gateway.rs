//! HTTP, WebSocket, web page, admin API: where it listens, and who may come in.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Secret;

/// HTTP, WebSocket, web page, admin API.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GatewaySettings {
    /// Address and port. An address off loopback needs `tokens`.
    pub listen: String,
    /// Names under which requests may come beside loopback and `listen`, such as that of a proxy before it. A
    /// request for any other name is refused, so that no foreign page reaches the service by a name of its own.
    /// With a `listen` for all addresses (0.0.0.0) they are all unknown, so that from elsewhere any name goes,
    /// unless some are given here; an address always goes then.
    pub hosts: Vec<String>,
    /// Largest request body.
    pub body_limit_bytes: usize,
    /// Bearer tokens. None: an admin token is made in `data_dir` at first start.
    pub tokens: Vec<TokenSettings>,
    /// Most WebSocket connections at once.
    pub max_connections: usize,
}

impl Default for GatewaySettings {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:7717".to_owned(),
            hosts: Vec::new(),
            body_limit_bytes: 1_048_576,
            tokens: Vec::new(),
            max_connections: 1_024,
        }
    }
}

/// What a token's holder may do. Each role may do what those before it may.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum AuthRole {
    /// Its own conversations and turns.
    Chat,
    /// Read everything.
    Viewer,
    /// Decide approvals, cancel, pause, handle dead letters.
    Operator,
    /// Stop, kill and restart actors; configuration.
    Admin,
}

impl AuthRole {
    /// The word in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

/// A bearer token.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenSettings {
    /// Who it is, for the audit.
    pub name: String,
    /// The token; at least 16 characters.
    pub token: Secret,
    /// What it may do.
    pub role: AuthRole,
}
