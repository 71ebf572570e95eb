//! Approvals: a durable request, bound to exact arguments, a turn, and the people who may decide (B3).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::address::Message;
use crate::delegation::AskedFor;
use crate::envelope::ReplyAddress;
use crate::ids::{AgentName, ApprovalId, CallId, ChannelId, ConversationId, GrantId, TurnId};
use crate::store::StoreError;

/// The tool whose requests are questions: what stands in the call's place is the answer.
pub const QUESTION_TOOL: &str = "ask_user";

/// How dangerous a call is (DESIGN.md, section 4.6).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// Only reads.
    Low,
    /// Repeatable, or once inside the workspace.
    Medium,
    /// Once outside, network writes, or unknown.
    High,
}

impl Risk {
    /// The word in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// Where a request stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalState {
    /// Nobody decided yet.
    Pending,
    /// Somebody said yes (or always).
    Approved,
    /// Somebody said no, or gave a result in the call's place.
    Denied,
    /// The deadline passed: no answer, which is not a refusal (A082).
    Expired,
    /// The turn was cancelled.
    Cancelled,
}

impl ApprovalState {
    /// The word in the database and the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
        }
    }
}

/// What was decided.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Decision {
    /// Run it, this once.
    Approve,
    /// Don't run it.
    Deny {
        /// What the person said.
        #[serde(default)]
        reason: Option<String>,
    },
    /// Run it, and don't ask again for the same: a [`Grant`] is written.
    Always,
    /// Don't run it; this text is its result (deny-with-edit).
    Replace {
        /// The result, cleaned and bounded.
        replacement: String,
    },
    /// Nobody decided in time.
    NoAnswer,
    /// Whoever sent the message has nobody to ask, and no route leads to somebody else. No refusal.
    NobodyAsked,
    /// The turn was stopped first.
    Cancelled,
}

impl Approval {
    /// Whether it is a question, which is answered, and not a call, which is approved.
    pub fn is_question(&self) -> bool {
        self.tool == QUESTION_TOOL
    }

    /// Whether people of a conversation may see it: it is asked there, or for a turn that runs there.
    pub fn concerns(&self, conversation: ConversationId) -> bool {
        self.conversation_id == conversation
            || self.asked_for.as_ref().is_some_and(|parent| parent.root == conversation)
    }

    /// What became of it, as people read it: a state says *denied* also of a call that was answered in its
    /// place, and *approved* also of one that may run from now on.
    pub fn verdict(&self) -> &'static str {
        match (self.state, &self.decision) {
            (ApprovalState::Approved, Some(Decision::Always)) => "always approved",
            (ApprovalState::Denied, Some(Decision::Replace { .. })) if self.is_question() => {
                "answered"
            }
            (ApprovalState::Denied, Some(Decision::Replace { .. })) => "replaced",
            (ApprovalState::Denied, Some(Decision::NobodyAsked)) => "not run, nobody was asked",
            (state, _) => state.as_str(),
        }
    }

    /// What somebody is told who comes too late: who decided, by which surface, and what.
    pub fn stands(&self) -> String {
        match &self.decided_by {
            Some(by) => {
                format!("already decided by {} via {}: {}", by.who, by.via, self.verdict())
            }
            None => self.verdict().to_owned(),
        }
    }

    /// Whether this person, at this surface, is among those asked. A person is one of a channel: the same
    /// name elsewhere is somebody else.
    pub fn may_decide(&self, decider: &Decider) -> bool {
        let routed =
            self.route.as_ref().is_some_and(|route| route.asks(&decider.who, &decider.via));
        routed || (self.channel.as_str() == decider.via && self.approvers.contains(&decider.who))
    }
}

impl Decision {
    /// Short stable word.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Deny { .. } => "deny",
            Self::Always => "always",
            Self::Replace { .. } => "replace",
            Self::NoAnswer => "no_answer",
            Self::NobodyAsked => "nobody_asked",
            Self::Cancelled => "cancelled",
        }
    }

    /// The state the request gets.
    pub fn state(&self) -> ApprovalState {
        match self {
            Self::Approve | Self::Always => ApprovalState::Approved,
            Self::Deny { .. } | Self::Replace { .. } | Self::NobodyAsked => ApprovalState::Denied,
            Self::NoAnswer => ApprovalState::Expired,
            Self::Cancelled => ApprovalState::Cancelled,
        }
    }
}

/// Who decided, by which surface.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Decider {
    /// The person: a platform's sender id, or a token's name.
    pub who: String,
    /// The channel or surface: `cli`, `ws`, `admin`, `runtime`.
    pub via: String,
}

/// What *always* would cover, as it is shown to the person before they say so.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GrantOffer {
    /// The tool and its arguments, or the resolved command; secrets cleaned.
    pub pattern: String,
    /// SHA-256 (hex) of exactly what the pattern stands for.
    pub key: String,
    /// It can only hold in its conversation: it may run files that nothing is bound to.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub narrow: bool,
}

impl GrantOffer {
    /// Whether a grant of it may hold there.
    pub fn allows(&self, scope: GrantScope) -> bool {
        !self.narrow || scope == GrantScope::Conversation
    }
}

/// The place of a request among those of one response, which are shown together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BatchPlace {
    /// The batch: the id of its first request.
    pub id: ApprovalId,
    /// From 1.
    pub position: u32,
    /// How many there are.
    pub of: u32,
}

/// The place of a route that leads to the admin API, its command line included. It has no approvers of its
/// own: every operator may decide.
pub const ADMIN_ROUTE: &str = "admin";

/// Another place where the request is asked too: a channel, or [`ADMIN_ROUTE`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ApprovalRoute {
    /// The channel.
    pub channel: ChannelId,
    /// Its people who may decide, beside operators.
    pub approvers: Vec<String>,
    /// It is posted there; else whoever is connected is shown it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub posted: bool,
    /// The chat it is posted in, with buttons. None: what is posted is words, and goes to all of the channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<ReplyAddress>,
}

impl ApprovalRoute {
    /// Whether this person, at this surface, is asked.
    pub fn asks(&self, who: &str, via: &str) -> bool {
        self.channel.as_str() == via && self.approvers.iter().any(|one| one == who)
    }

    /// Whether it is posted in this chat.
    pub fn is_in(&self, channel: &ChannelId, conversation: &str) -> bool {
        self.address
            .as_ref()
            .is_some_and(|chat| chat.channel == *channel && chat.conversation == conversation)
    }
}

/// A request as stored and as the admin API shows it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Approval {
    /// The request.
    pub id: ApprovalId,
    /// The turn that asks.
    pub turn: TurnId,
    /// Its conversation.
    pub conversation_id: ConversationId,
    /// For whom, if the turn was handed on by another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_for: Option<AskedFor>,
    /// The channel the turn came by.
    pub channel: ChannelId,
    /// The call.
    pub call: CallId,
    /// The tool's resolved name.
    pub tool: String,
    /// The arguments shown to the approver: exactly those that will run, secrets cleaned.
    pub arguments: Value,
    /// SHA-256 (hex) of the canonical arguments as they will run (I7).
    pub arguments_hash: String,
    /// How dangerous.
    pub risk: Risk,
    /// Why it asks.
    pub reason: String,
    /// When it was asked.
    #[serde(with = "crate::time::millis")]
    pub asked_at: Timestamp,
    /// When it becomes *no answer*.
    #[serde(with = "crate::time::millis")]
    pub expires_at: Timestamp,
    /// The sender ids that may decide, beside tokens of role operator and admin.
    pub approvers: Vec<String>,
    /// The arguments on one line: path first, long values cut, secrets cleaned.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// What *always* would cover; none: this call can only be decided by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offer: Option<GrantOffer>,
    /// Its place among the requests of the same response, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<BatchPlace>,
    /// Where else it is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<ApprovalRoute>,
    /// Where it stands.
    pub state: ApprovalState,
    /// What was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// Who decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<Decider>,
    /// When.
    #[serde(
        default,
        with = "crate::time::millis::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub decided_at: Option<Timestamp>,
}

/// Where a grant holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantScope {
    /// In the conversation it was given in.
    #[default]
    Conversation,
    /// In every conversation of the agent.
    Agent,
}

impl GrantScope {
    /// The word in the database and the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Conversation => "conversation",
            Self::Agent => "agent",
        }
    }
}

/// A standing grant: what somebody said *always* to, as it was shown to them, until it ends or is revoked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Grant {
    /// The grant.
    pub id: GrantId,
    /// How far it holds.
    pub scope: GrantScope,
    /// The conversation it was given in.
    pub conversation_id: ConversationId,
    /// The agent whose call it was.
    pub agent: AgentName,
    /// The tool's resolved name.
    pub tool: String,
    /// What it covers, as shown.
    pub pattern: String,
    /// SHA-256 (hex) of exactly what the pattern stands for.
    pub key: String,
    /// Who gave it.
    pub granted_by: Decider,
    /// When.
    #[serde(with = "crate::time::millis")]
    pub granted_at: Timestamp,
    /// Until when.
    #[serde(with = "crate::time::millis")]
    pub expires_at: Timestamp,
    /// Who took it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_by: Option<Decider>,
    /// When.
    #[serde(
        default,
        with = "crate::time::millis::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub revoked_at: Option<Timestamp>,
}

impl Grant {
    /// Whether it holds in this conversation of this agent, now.
    pub fn holds(
        &self,
        conversation_id: ConversationId,
        agent: &AgentName,
        now: Timestamp,
    ) -> bool {
        let here = match self.scope {
            GrantScope::Conversation => self.conversation_id == conversation_id,
            GrantScope::Agent => self.agent == *agent,
        };
        here && self.revoked_at.is_none() && now < self.expires_at
    }
}

/// A decision as the store holds it.
#[derive(Clone, PartialEq, Debug)]
pub struct Decided {
    /// The request, with its final state.
    pub approval: Approval,
}

/// What an approval's actor takes.
#[derive(Debug)]
pub enum ApprovalMsg {
    /// A decision may be in the store: look.
    Hint,
    /// The look's answer.
    Looked(Box<Result<Approval, StoreError>>),
    /// The request's own deadline passed.
    Expired,
}

impl Message for ApprovalMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Hint => "Hint",
            Self::Looked(_) => "Looked",
            Self::Expired => "Expired",
        }
    }
}
