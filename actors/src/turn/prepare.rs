//! Call preparation, in the order of T9: the call is made ready (`steps`), the gate is asked (DESIGN.md,
//! section 4.6), then come the guards against duplicates and against asking for ever.

mod delivery;
mod marker;
mod repeat;
mod siblings;
mod steps;
mod twins;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rookery_messages::approval::{Approval, ApprovalState, Grant, GrantScope, QUESTION_TOOL, Risk};
use rookery_messages::chat::{Arguments, ToolCall};
use rookery_messages::delegation::ChildOf;
use rookery_messages::ids::{ChannelId, ConversationId, GrantId, TurnId};
use rookery_messages::model::FinishReason;
use rookery_messages::observe::Observation;
use rookery_messages::time::World;
use rookery_messages::tool::{
    Authority, CallEffects, Effects, JudgedCall, SlotOutcome, Verdict, text,
};
use rookery_messages::turn::CallState;
use serde_json::{Map, Value};

use super::asking::{self, Why};
use super::bundle::{AgentBundle, ChannelFacts, TurnDeps};
use super::machine::{OpenCall, settle};
use super::tools::TurnTools;
use crate::observe::TurnVoice;
use crate::policy::arguments::{arguments_hash, canonical_arguments};
use crate::policy::cover::{Cover, cover};
use crate::policy::gate::{Access, CallToJudge};
use crate::policy::shell::Amid;

use self::repeat::{asked_in_vain, ends_turn};
use self::siblings::{Beside, Siblings};
use self::steps::{Draft, Refused};
use self::twins::Twins;

/// What a turn's calls are judged by.
#[derive(Clone)]
pub struct Judge {
    /// The service's shared parts.
    pub deps: Arc<TurnDeps>,
    /// The agent.
    pub bundle: Arc<AgentBundle>,
    /// Its tools in this model step.
    pub tools: Arc<TurnTools>,
    /// The channel.
    pub channel: ChannelFacts,
    /// The turn.
    pub turn: TurnId,
    /// Its conversation.
    pub conversation_id: ConversationId,
    /// The platform's id of it.
    pub conversation: String,
    /// Its channel's id.
    pub channel_id: ChannelId,
    /// Its sender.
    pub sender: String,
    /// Its place, if another turn handed it on.
    pub child_of: Option<ChildOf>,
    /// Requests of former attempts: decisions already made stand, for the same arguments.
    pub approvals: Vec<Approval>,
    /// Grants that let calls of the response in work run.
    pub grants: Arc<Mutex<HashMap<GrantId, Grant>>>,
    /// The tool that brought content from outside into the conversation, if one did.
    pub tainted: Option<String>,
    /// The turn's voice.
    pub voice: TurnVoice,
    /// Clock and ids.
    pub world: World,
}

impl Judge {
    /// Judges the calls of one response, in order.
    pub async fn judge(&self, calls: Vec<OpenCall>, finish: &FinishReason) -> Vec<JudgedCall> {
        self.tools.settled(calls.iter().map(OpenCall::name)).await;
        let mut twins = Twins::default();
        let mut judged = Vec::with_capacity(calls.len());
        let last = calls.len().saturating_sub(1);
        let siblings = Siblings::of(calls.iter().map(|call| self.disturbs(call)));
        self.grants.lock().clear();
        for (index, call) in calls.into_iter().enumerate() {
            let ends = matches!(finish, FinishReason::Length | FinishReason::ContentFilter);
            let cut = index == last && ends;
            let one = self.judge_one(index, call, cut, siblings.of_one(index), &mut twins).await;
            judged.push(one);
        }
        asking::place(&mut judged);
        judged
    }

    /// The order is that of T9.
    async fn judge_one(
        &self,
        index: usize,
        open: OpenCall,
        cut: bool,
        beside: Beside,
        twins: &mut Twins,
    ) -> JudgedCall {
        let call = open.call.clone();
        let Draft { name, tool, arguments } = match self.prepare(open, cut).await {
            Ok(draft) => draft,
            Err(Refused { tool, outcome }) => {
                return JudgedCall {
                    call,
                    tool,
                    arguments: None,
                    effects: Effects::Once,
                    brings_in: false,
                    verdict: Verdict::Filled(*outcome),
                };
            }
        };
        let effects = tool.effects(&arguments);
        let mut verdict = self.verdict(&call, &name, &arguments, &effects, beside).await;
        let (canonical, runtime) = (canonical_arguments(&arguments), &self.bundle.runtime);
        if let Some(twin) = twins.find(index, &name, canonical, &effects, &verdict, runtime) {
            verdict = Verdict::SameAs(twin);
        } else if let Verdict::Ask(request) = &verdict
            && effects.command.is_some()
            && asked_in_vain(&self.approvals, &name, &request.arguments_hash, call.id)
        {
            verdict = ends_turn(&name);
        }
        let changed = !matches!(&call.arguments, Arguments::Object(own) if *own == arguments);
        let arguments = changed.then_some(arguments);
        let CallEffects { effects, brings_in, .. } = effects;
        JudgedCall { call, tool: name, arguments, effects, brings_in, verdict }
    }

    /// What a call may do to the workspace, where its siblings run at the same time. None: it only reads.
    fn disturbs(&self, open: &OpenCall) -> Option<Amid> {
        let own = match &open.call.arguments {
            Arguments::Object(arguments) => Some(arguments),
            Arguments::Invalid { .. } => None,
        };
        let arguments = open.prepared.as_ref().map(|(_, arguments)| arguments).or(own)?;
        let (name, tool) = self.tools.resolve(open.name())?;
        let effects = tool.effects(arguments);
        if effects.effects == Effects::ReadOnly {
            return None;
        }
        if effects.command.is_none() {
            return Some(Amid::Changes);
        }
        let ask = self.to_judge(&name, &effects, Amid::Quiet);
        let harmless = self.bundle.gate.evaluate(&ask).risk == Risk::Low;
        Some(if harmless { Amid::Quiet } else { Amid::Commands })
    }

    /// A decision of this attempt: later questions are held against it.
    pub fn remember(&mut self, decided: &Approval) {
        self.approvals.retain(|known| known.id != decided.id);
        self.approvals.push(decided.clone());
    }

    async fn verdict(
        &self,
        call: &ToolCall,
        name: &str,
        arguments: &Map<String, Value>,
        effects: &CallEffects,
        beside: Beside,
    ) -> Verdict {
        if let Some(outcome) = self.left_out(name) {
            return Verdict::Filled(outcome);
        }
        let hash = arguments_hash(arguments);
        let earlier = self.approvals.iter().find(|a| a.call == call.id && a.arguments_hash == hash);
        if let Some(approval) = earlier {
            return self.stands(approval, name, arguments, effects);
        }
        let mut ask = self.to_judge(name, effects, beside.amid);
        let mut decision = self.bundle.gate.evaluate(&ask);
        let (cover, grant);
        let mut offer = None;
        if matches!(decision.decision, Access::NeedsApproval(_)) {
            cover = decision.bound.then(|| self.cover(name, arguments, effects)).flatten();
            // What a sibling could change while it waits is not surely what was granted (A085).
            let steady = cover.as_ref().filter(|cover| beside.alone || !cover.binds_files);
            grant = match steady {
                Some(cover) => self.granted(name, &cover.key).await,
                None => None,
            };
            ask.key = cover.as_ref().map(|cover| cover.key.as_str());
            ask.grant = grant.as_ref();
            decision = self.bundle.gate.evaluate(&ask);
            offer = cover.as_ref().filter(|_| !self.bundle.gate.always_asks(name));
        }
        self.tell_gate(name, &decision.decision);
        match decision.decision {
            Access::Allowed(_) if name == QUESTION_TOOL => self.question(call, arguments, hash),
            Access::Allowed(authority) => Verdict::Run(authority),
            Access::Blocked(reason) => Verdict::Filled(SlotOutcome::unrun(
                CallState::Blocked,
                format!("{}{reason}", text::BLOCKED_PREFIX),
            )),
            Access::NeedsApproval(reason) => match self.request(
                call,
                name,
                arguments,
                hash,
                Why { risk: decision.risk, reason, offer },
            ) {
                Ok(request) => Verdict::Ask(Box::new(request)),
                Err(why) => Verdict::Filled(SlotOutcome::unrun(CallState::Denied, why)),
            },
        }
    }

    fn to_judge<'a>(
        &'a self,
        name: &'a str,
        effects: &'a CallEffects,
        amid: Amid,
    ) -> CallToJudge<'a> {
        CallToJudge {
            tool: name,
            effects,
            key: None,
            conversation_id: self.conversation_id,
            agent: &self.bundle.name,
            tainted: self.tainted.as_deref(),
            amid,
            grant: None,
            approval: None,
            now: self.world.now(),
        }
    }

    fn cover(
        &self,
        name: &str,
        arguments: &Map<String, Value>,
        effects: &CallEffects,
    ) -> Option<Cover> {
        let shown = self.deps.redactor.clean_arguments(arguments);
        cover(name, arguments, &shown, effects, self.bundle.gate.workspace())
    }

    /// A standing grant. A store that can't say whether there is one means that the person is asked.
    async fn granted(&self, name: &str, key: &str) -> Option<Grant> {
        let (store, agent) = (&self.deps.store, self.bundle.name.clone());
        let (name, key, now) = (name.to_owned(), key.to_owned(), self.world.now());
        let found =
            store.grant(self.conversation_id, agent, name, key, now).await.ok().flatten()?;
        // A child's grants start empty: what its agent was granted elsewhere is not handed on (V-H18).
        if self.child_of.is_some() && found.scope != GrantScope::Conversation {
            return None;
        }
        self.grants.lock().insert(found.id, found.clone());
        Some(found)
    }

    /// A request of a former attempt: still pending, or decided. A decision answers the question; what
    /// the gate blocks by now stays blocked.
    fn stands(
        &self,
        approval: &Approval,
        name: &str,
        arguments: &Map<String, Value>,
        effects: &CallEffects,
    ) -> Verdict {
        if approval.state == ApprovalState::Pending {
            return Verdict::Ask(Box::new(approval.clone()));
        }
        match settle(approval) {
            Err(outcome) => Verdict::Filled(outcome),
            Ok(authority) => self.recheck(name, arguments, effects, &authority),
        }
    }

    /// The gate, asked again right before a call starts: what changed since counts, be it a setting, a
    /// link, or the script that a grant is bound to.
    pub fn recheck(
        &self,
        name: &str,
        arguments: &Map<String, Value>,
        effects: &CallEffects,
        authority: &Authority,
    ) -> Verdict {
        if let Some(outcome) = self.left_out(name) {
            return Verdict::Filled(outcome);
        }
        let mut ask = self.to_judge(name, effects, Amid::Quiet);
        let (cover, grant);
        match authority {
            Authority::Policy => {}
            Authority::Approved { approval } => {
                // A yes to a command is one to the files it runs as they were when it was asked (I7).
                let asked = self.approvals.iter().find(|known| known.id == *approval);
                let offer = asked.and_then(|asked| asked.offer.as_ref());
                if let Some(offer) = offer.filter(|_| effects.command.is_some())
                    && (!self.bundle.gate.evaluate(&ask).bound
                        || self
                            .cover(name, arguments, effects)
                            .is_none_or(|now| now.runs_files && now.key != offer.key))
                {
                    return Verdict::Filled(SlotOutcome::unrun(
                        CallState::Blocked,
                        format!("{}{}", text::BLOCKED_PREFIX, text::FILES_CHANGED),
                    ));
                }
                ask.approval = Some(*approval);
            }
            Authority::Granted { grant: id } => {
                cover = self.cover(name, arguments, effects);
                grant = self.grants.lock().get(id).cloned();
                ask.key = cover.as_ref().map(|cover| cover.key.as_str());
                ask.grant = grant.as_ref();
            }
        }
        match self.bundle.gate.evaluate(&ask).decision {
            Access::Allowed(authority) => Verdict::Run(authority),
            Access::Blocked(reason) | Access::NeedsApproval(reason) => Verdict::Filled(
                SlotOutcome::unrun(CallState::Blocked, format!("{}{reason}", text::BLOCKED_PREFIX)),
            ),
        }
    }

    /// A tool that the agent has and this run has not (V-D4).
    fn left_out(&self, name: &str) -> Option<SlotOutcome> {
        (!self.bundle.narrowing.admits(name)).then(|| {
            let why =
                format!("{}tool `{name}` is not among the tools of this run", text::BLOCKED_PREFIX);
            SlotOutcome::unrun(CallState::Blocked, why)
        })
    }

    fn tell_gate(&self, tool: &str, access: &Access) {
        let decision = match access {
            Access::Allowed(_) => "allowed",
            Access::NeedsApproval(_) => "needs_approval",
            Access::Blocked(_) => "blocked",
        };
        let tool = tool.to_owned();
        self.voice.observe(|scope| Observation::Gate { scope, tool, decision });
    }
}
