//! Call preparation: resolve, read arguments, find duplicates, ask the gate (T9, DESIGN.md section 4.6).

use std::collections::HashMap;
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
use super::machine::{settle, unusable};
use super::tools::TurnTools;
use crate::observe::TurnVoice;
use crate::policy::arguments::{arguments_hash, canonical_arguments};
use crate::policy::gate::{Access, CallToJudge};

/// What the model reads of a call that a capped response may have cut (A036).
const CUT_CALL: &str = "the call was not run: the response reached the model's output limit and the call may be \
     incomplete; ask again with less text";

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
    pub async fn judge(&self, calls: Vec<ToolCall>, finish: &FinishReason) -> Vec<JudgedCall> {
        self.tools.settled(&calls).await;
        let mut seen: HashMap<(String, String), usize> = HashMap::new();
        let mut judged = Vec::with_capacity(calls.len());
        let last = calls.len().saturating_sub(1);
        for (index, call) in calls.into_iter().enumerate() {
            let cut = index == last && *finish == FinishReason::Length;
            let one = self.judge_one(index, call, cut, &mut seen).await;
            judged.push(one);
        }
        judged
    }

    async fn judge_one(
        &self,
        index: usize,
        call: ToolCall,
        cut: bool,
        seen: &mut HashMap<(String, String), usize>,
    ) -> JudgedCall {
        let filled = |call: ToolCall, tool: String, state, output: String| JudgedCall {
            call,
            tool,
            effects: Effects::Once,
            verdict: Verdict::Filled(SlotOutcome::unrun(state, output)),
        };
        let Some((name, tool)) = self.tools.resolve(&call.name) else {
            let output = self.tools.unknown(&call.name);
            let name = call.name.clone();
            return filled(call, name, CallState::Failed, output);
        };
        if cut {
            return filled(call, name, CallState::Failed, CUT_CALL.to_owned());
        }
        let arguments = match &call.arguments {
            Arguments::Object(arguments) => arguments.clone(),
            invalid @ Arguments::Invalid { .. } => {
                let outcome = unusable(invalid).map(|o| o.output).unwrap_or_default();
                return filled(call, name, CallState::Failed, outcome);
            }
        };
        let effects = tool.effects(&arguments);
        if let Some(twin) = self.twin(index, &name, &arguments, &effects, seen) {
            let verdict = Verdict::SameAs(twin);
            return JudgedCall { call, tool: name, effects: effects.effects, verdict };
        }
        let verdict = self.verdict(&call, &name, &arguments, &effects).await;
        JudgedCall { call, tool: name, effects: effects.effects, verdict }
    }

    /// An identical call earlier in this response, if the guard covers it (V-G10–V-G12).
    fn twin(
        &self,
        index: usize,
        name: &str,
        arguments: &Map<String, Value>,
        effects: &CallEffects,
        seen: &mut HashMap<(String, String), usize>,
    ) -> Option<usize> {
        let runtime = &self.bundle.runtime;
        let exempt = !runtime.duplicate_guard
            || effects.effects == Effects::ReadOnly
            || runtime.duplicate_exempt.iter().any(|exempt| exempt == name);
        if exempt {
            return None;
        }
        let key = (name.to_owned(), canonical_arguments(arguments));
        match seen.get(&key) {
            Some(&first) => Some(first),
            None => {
                seen.insert(key, index);
                None
            }
        }
    }

    async fn verdict(
        &self,
        call: &ToolCall,
        name: &str,
        arguments: &Map<String, Value>,
        effects: &CallEffects,
    ) -> Verdict {
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
