//! Identifiers. Each is a newtype, so that a turn's id can't stand where an approval's is wanted.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Uuid::parse_str(text).map(Self)
            }
        }
    };
}

uuid_id! {
    /// One accepted inbound message.
    EnvelopeId
}
uuid_id! {
    /// One agent turn.
    TurnId
}
uuid_id! {
    /// One conversation, whatever the transport; our own id, safe in an actor path.
    ConversationId
}
uuid_id! {
    /// One tool call. Ours, unique for ever; the provider's id is kept beside it.
    CallId
}
uuid_id! {
    /// One approval request.
    ApprovalId
}
uuid_id! {
    /// One row of the outbox.
    OutboxId
}
uuid_id! {
    /// One standing grant ("always").
    GrantId
}
uuid_id! {
    /// One stored chat message.
    MessageId
}
uuid_id! {
    /// One entry of the memory.
    MemoryId
}

/// One incarnation of an actor, unique within the process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ActorId(pub u64);

impl fmt::Display for ActorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A configured channel: `<type>.<alias>`, such as `webhook.ci`, or a bare type, such as `cli`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChannelId(pub String);

impl ChannelId {
    /// From its text; not checked against the configuration.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text form, `<type>.<alias>` or `<type>`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The platform's name: what stands before the first dot.
    pub fn platform(&self) -> &str {
        self.0.split('.').next().unwrap_or(&self.0)
    }
}

impl fmt::Display for ChannelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A configured agent's name.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AgentName(pub String);

impl AgentName {
    /// From its text; not checked against the configuration.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The name's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AgentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
