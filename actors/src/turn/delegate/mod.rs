//! Work that a turn hands on to child turns (T24).
//!
//! A *delegate* is waited for: its turn's actor stands below the call, `…/tool/<call>/turn/<child>`, so that
//! whatever stops the call stops all that is below it within its grace (I6), and its row ends with its
//! parent's, if not before. A *task* is begun and left: its row is a session's to run like any other, so that
//! it outlives the turn that began it, goes on from its journal after a restart, and is cancelled by its
//! own id, or with the turn that began it while that runs. Both are turns like any other (R15): one
//! engine, a conversation of their own (I3), the fence, the journal; what they were granted stands in
//! their row.
//!
//! A grant only narrows, field by field (V-M29). A child's people are those of the turn above all its
//! parents: its questions are shown there, and name both turns (V-H18, V-H21).

mod actor;
mod begin;
mod grant;
mod nested;
mod policy;
mod request;
mod task;
#[cfg(test)]
mod tests;
mod tools;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use rookery_messages::delegation::ChildOf;
use rookery_messages::envelope::{ReplyAddress, TurnOrigin};
use rookery_messages::ids::{AgentName, ChannelId, ConversationId, TurnId};
use rookery_messages::time::World;
use rookery_messages::turn::TurnClaim;

use super::budget::Purse;
use super::bundle::{AgentBundle, ChannelFacts, TurnDeps};
use super::tools::TurnTools;

pub(crate) use actor::{DelegateActor, DelegateArgs};
pub(crate) use grant::granted;
pub use nested::Nested;
pub(crate) use task::notice;
pub use tools::{DELEGATE, NAMES, SPAWN, TASKS};

/// What a turn hands work on with.
pub struct Delegator {
    deps: Arc<TurnDeps>,
    /// What the turn itself may do.
    bundle: Arc<AgentBundle>,
    channel: ChannelFacts,
    world: World,
    turn: TurnId,
    conversation_id: ConversationId,
    conversation: String,
    channel_id: ChannelId,
    sender: String,
    /// Its own place, if it is a child itself.
    child_of: Option<ChildOf>,
    reply_to: ReplyAddress,
    /// Its tools in the present model step.
    tools: OnceLock<Weak<TurnTools>>,
    /// What brought content from outside into the turn, if anything did.
    tainted: Mutex<Option<String>>,
    /// Delegates it waits for now.
    waits: AtomicU32,
    /// What it may spend, its delegates included.
    purse: Arc<Purse>,
}

impl Delegator {
    /// For a turn of this claim.
    pub(super) fn new(
        claim: &TurnClaim,
        bundle: Arc<AgentBundle>,
        channel: ChannelFacts,
        deps: Arc<TurnDeps>,
        world: World,
    ) -> Arc<Self> {
        let record = &claim.record;
        let given = record.parent.as_ref().map(|of| of.grant.allowance);
        let purse =
            Purse::new(bundle.runtime.budget.turn, given, claim.children_spent.iter().copied());
        Arc::new(Self {
            deps,
            bundle,
            channel,
            world,
            turn: record.id,
            conversation_id: record.conversation_id,
            conversation: record.conversation.clone(),
            channel_id: record.channel.clone(),
            sender: claim.sender.clone(),
            child_of: record.parent.as_deref().cloned(),
            reply_to: claim.reply_address.clone(),
            tools: OnceLock::new(),
            tainted: Mutex::default(),
            waits: AtomicU32::new(0),
            purse,
        })
    }

    /// The same agent with the tools that hand work on, unless they are turned off. What policy leaves of
    /// them is decided like that of any tool.
    pub(super) fn equip(self: &Arc<Self>) -> Arc<AgentBundle> {
        if self.bundle.runtime.delegation.max_depth == 0 {
            return Arc::clone(&self.bundle);
        }
        let mut registry = self.bundle.tools.as_ref().clone();
        for tool in tools::all(self) {
            if let Err(error) = registry.insert(tool) {
                tracing::error!(%error, "a tool that hands work on is left out");
            }
        }
        Arc::new(AgentBundle { tools: Arc::new(registry), ..AgentBundle::clone(&self.bundle) })
    }

    /// Its tools, once they are put together.
    pub(super) fn with_tools(&self, tools: &Arc<TurnTools>) {
        let _only_once = self.tools.set(Arc::downgrade(tools));
    }

    /// What the calls to come are judged by: what brought content from outside into the turn, or into the
    /// one that handed it on. Told to its own children in turn.
    pub(super) fn taint(&self, own: Option<&str>) -> Option<String> {
        let above = || self.child_of.as_ref().and_then(|of| of.grant.tainted.clone());
        let tainted = own.map(str::to_owned).or_else(above);
        self.tainted.lock().clone_from(&tainted);
        tainted
    }

    /// What it may spend.
    pub(super) fn purse(&self) -> &Arc<Purse> {
        &self.purse
    }

    /// Whether a delegate runs: it has a progress limit of its own.
    pub(super) fn waits(&self) -> bool {
        self.waits.load(Ordering::Relaxed) > 0
    }

    /// How many turns stand above it.
    fn depth(&self) -> u32 {
        self.child_of.as_ref().map_or(0, |of| of.depth)
    }

    /// The conversation above all parents.
    fn root(&self) -> ConversationId {
        self.child_of.as_ref().map_or(self.conversation_id, |of| of.root)
    }

    /// The agent above all parents.
    fn people_of(&self) -> AgentName {
        let own = || self.bundle.name.clone();
        self.child_of.as_ref().map_or_else(own, |of| of.people_of.clone())
    }

    /// Its agent, and those above it.
    fn payers(&self) -> BTreeSet<AgentName> {
        let above = self.child_of.iter().flat_map(|of| of.grant.payers.iter().cloned());
        above.chain([self.bundle.name.clone()]).collect()
    }

    fn tools(&self) -> Option<Arc<TurnTools>> {
        self.tools.get().and_then(Weak::upgrade)
    }

    /// The names of the tools it has in the present model step.
    fn tool_names(&self) -> Vec<String> {
        let specs = self.tools().map(|tools| tools.specs()).unwrap_or_default();
        specs.iter().map(|spec| spec.name.clone()).collect()
    }
}

/// Where a child turn comes from.
const ORIGIN: TurnOrigin = TurnOrigin::SubTurn;
