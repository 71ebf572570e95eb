//! What a caller sees as its own, and under which names.

use rookery_messages::caller::Caller;
use rookery_messages::ids::ChannelId;
use rookery_messages::settings::AuthRole;
use rookery_messages::store::ConversationRow;
use rookery_messages::turn::TurnRecord;

use super::auth::LOOPBACK;
use super::deps::Shared;
use super::error::ApiError;
use crate::channel::scope;

/// A caller's view.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum View {
    /// Everything, under the stored names.
    All,
    /// What came by channels that are open on this machine.
    Local,
    /// What a token created.
    Own(String),
}

impl View {
    /// The caller's.
    pub fn of(caller: &Caller) -> Self {
        if caller.role > AuthRole::Chat {
            Self::All
        } else if caller.via == LOOPBACK {
            Self::Local
        } else {
            Self::Own(caller.name.clone())
        }
    }

    /// The token whose names are used, if any.
    pub fn owner(&self) -> Option<&str> {
        match self {
            Self::Own(owner) => Some(owner),
            Self::All | Self::Local => None,
        }
    }

    /// The stored name of what the caller calls `name`.
    pub fn stored(&self, name: &str) -> String {
        match self {
            Self::Own(owner) => scope::inside(owner, name),
            Self::All | Self::Local => name.to_owned(),
        }
    }

    /// Whether the caller may see a conversation.
    pub fn sees(&self, shared: &Shared, channel: &ChannelId, stored: &str) -> bool {
        match self {
            Self::All => true,
            Self::Local => shared.is_open_channel(channel) && !scope::is_scoped(stored),
            Self::Own(owner) => scope::of_owner(owner, stored).is_some(),
        }
    }

    /// A conversation as the caller knows it; none if it isn't the caller's to see.
    pub fn conversation(
        &self,
        shared: &Shared,
        mut row: ConversationRow,
    ) -> Option<ConversationRow> {
        if !self.sees(shared, &row.channel, &row.conversation) {
            return None;
        }
        if let Self::Own(owner) = self
            && let Some(name) = scope::of_owner(owner, &row.conversation)
        {
            row.conversation = name.to_owned();
        }
        Some(row)
    }

    /// The turn as the caller knows it; none if it isn't the caller's to see.
    pub fn turn(&self, shared: &Shared, mut turn: TurnRecord) -> Option<TurnRecord> {
        if !self.sees(shared, &turn.channel, &turn.conversation) {
            return None;
        }
        if let Self::Own(owner) = self
            && let Some(name) = scope::of_owner(owner, &turn.conversation)
        {
            turn.conversation = name.to_owned();
        }
        Some(turn)
    }
}

/// Refuses a role below `least`.
pub(super) fn require(caller: &Caller, least: AuthRole) -> Result<(), ApiError> {
    if caller.role >= least {
        return Ok(());
    }
    let message =
        format!("role {} does not suffice, this needs {}", caller.role.as_str(), least.as_str());
    Err(ApiError::forbidden(message))
}
