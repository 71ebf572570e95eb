//! Call preparation, in the order of T9: the call is made ready (`steps`), the gate is asked (DESIGN.md,
//! section 4.6), then come the guards against duplicates and against asking for ever.

mod delivery;
mod marker;
mod repeat;
mod steps;
mod twins;

use std::sync::Arc;

use rookery_messages::approval::{Approval, ApprovalState};
use rookery_messages::chat::{Arguments, ToolCall};
use rookery_messages::ids::{ApprovalId, ChannelId, ConversationId, TurnId};
use rookery_messages::model::FinishReason;
use rookery_messages::observe::Observation;
use rookery_messages::time::World;
use rookery_messages::tool::{CallEffects, Effects, JudgedCall, SlotOutcome, Verdict, text};
use rookery_messages::turn::CallState;
use serde_json::{Map, Value};

use super::bundle::{AgentBundle, ChannelFacts, TurnDeps};
use super::machine::{OpenCall, settle};
use super::tools::TurnTools;
use crate::observe::TurnVoice;
use crate::policy::arguments::{arguments_hash, canonical_arguments};
use crate::policy::gate::{Access, CallToJudge};

use self::repeat::{asked_in_vain, ends_turn};
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
    /// Requests of former attempts: decisions already made stand, for the same arguments.
    pub approvals: Vec<Approval>,
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
        for (index, call) in calls.into_iter().enumerate() {
            let cut = index == last && *finish == FinishReason::Length;
            let one = self.judge_one(index, call, cut, &mut twins).await;
            judged.push(one);
        }
        judged
    }

    /// The order is that of T9.
    async fn judge_one(
        &self,
        index: usize,
        open: OpenCall,
        cut: bool,
        twins: &mut Twins,
    ) -> JudgedCall {
        let call = open.call.clone();
        let Draft { name, tool, arguments } = match self.prepare(open, cut).await {
            Ok(draft) => draft,
            Err(Refused { tool, outcome }) => {
                let (effects, verdict) = (Effects::Once, Verdict::Filled(outcome));
                return JudgedCall { call, tool, arguments: None, effects, verdict };
            }
        };
        let effects = tool.effects(&arguments);
        let mut verdict = self.verdict(&call, &name, &arguments, &effects).await;
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
        JudgedCall { call, tool: name, arguments, effects: effects.effects, verdict }
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
    ) -> Verdict {
        if let Some(outcome) = self.left_out(name) {
            return Verdict::Filled(outcome);
        }
        let hash = arguments_hash(arguments);
        let earlier = self.approvals.iter().find(|a| a.call == call.id && a.arguments_hash == hash);
        if let Some(approval) = earlier {
            return self.stands(approval, name, effects, &hash);
        }
        let now = self.world.now();
        let mut ask = CallToJudge {
            tool: name,
            effects,
            arguments_hash: &hash,
            conversation_id: self.conversation_id,
            grant: None,
            approval: None,
            now,
        };
        let mut decision = self.bundle.gate.evaluate(&ask);
        let grant;
        if matches!(decision.decision, Access::NeedsApproval(_)) {
            // A store that can't say whether there is a grant means that the person is asked.
            let found =
                self.deps.store.grant(self.conversation_id, name.to_owned(), hash.clone(), now);
            grant = found.await.ok().flatten();
            ask.grant = grant.as_ref();
            decision = self.bundle.gate.evaluate(&ask);
        }
        self.tell_gate(name, &decision.decision);
        match decision.decision {
            Access::Allowed(authority) => Verdict::Run(authority),
            Access::Blocked(reason) => Verdict::Filled(SlotOutcome::unrun(
                CallState::Blocked,
                format!("{}{reason}", text::BLOCKED_PREFIX),
            )),
            Access::NeedsApproval(_) if !self.somebody_can_be_asked() => {
                Verdict::Filled(SlotOutcome::unrun(CallState::Denied, text::DENIED_NOBODY_ASKED))
            }
            Access::NeedsApproval(reason) => Verdict::Ask(Box::new(Approval {
                id: ApprovalId(self.world.ids.next()),
                turn: self.turn,
                conversation_id: self.conversation_id,
                channel: self.channel_id.clone(),
                call: call.id,
                tool: name.to_owned(),
                arguments: Value::Object(self.deps.redactor.clean_arguments(arguments)),
                arguments_hash: hash,
                risk: decision.risk,
                reason,
                asked_at: now,
                expires_at: now + self.deps.approval_timeout,
                approvers: self
                    .channel
                    .approvers
                    .clone()
                    .unwrap_or_else(|| vec![self.sender.clone()]),
                state: ApprovalState::Pending,
                decision: None,
                decided_by: None,
                decided_at: None,
            })),
        }
    }

    /// A request of a former attempt: still pending, or decided. A decision answers the question; what
    /// the gate blocks by now stays blocked.
    fn stands(
        &self,
        approval: &Approval,
        name: &str,
        effects: &CallEffects,
        hash: &str,
    ) -> Verdict {
        if approval.state == ApprovalState::Pending {
            return Verdict::Ask(Box::new(approval.clone()));
        }
        match settle(approval) {
            Err(outcome) => Verdict::Filled(outcome),
            Ok(_) => self.recheck(name, effects, hash, Some(approval.id)),
        }
    }

    /// The gate, asked again right before a call starts.
    pub fn recheck(
        &self,
        name: &str,
        effects: &CallEffects,
        hash: &str,
        approval: Option<ApprovalId>,
    ) -> Verdict {
        if let Some(outcome) = self.left_out(name) {
            return Verdict::Filled(outcome);
        }
        let ask = CallToJudge {
            tool: name,
            effects,
            arguments_hash: hash,
            conversation_id: self.conversation_id,
            grant: None,
            approval,
            now: self.world.now(),
        };
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

    fn somebody_can_be_asked(&self) -> bool {
        self.channel.can_ask || self.bundle.approval_route.is_some()
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
