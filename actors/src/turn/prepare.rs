//! Call preparation: resolve, read arguments, find duplicates, ask the gate (T9, DESIGN.md section 4.6).

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rookery_messages::approval::{Approval, ApprovalState, Grant};
use rookery_messages::chat::{Arguments, ToolCall};
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
use super::machine::{settle, unusable};
use super::tools::TurnTools;
use crate::observe::TurnVoice;
use crate::policy::arguments::{arguments_hash, canonical_arguments};
use crate::policy::cover::{Cover, cover};
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
    pub async fn judge(&self, calls: Vec<ToolCall>, finish: &FinishReason) -> Vec<JudgedCall> {
        self.tools.settled(&calls).await;
        let mut seen: HashMap<(String, String), usize> = HashMap::new();
        let mut judged = Vec::with_capacity(calls.len());
        let last = calls.len().saturating_sub(1);
        let alone = calls.iter().filter(|call| self.changes(call)).count() <= 1;
        self.grants.lock().clear();
        for (index, call) in calls.into_iter().enumerate() {
            let cut = index == last && *finish == FinishReason::Length;
            let one = self.judge_one(index, call, cut, alone, &mut seen).await;
            judged.push(one);
        }
        asking::place(&mut judged);
        judged
    }

    async fn judge_one(
        &self,
        index: usize,
        call: ToolCall,
        cut: bool,
        alone: bool,
        seen: &mut HashMap<(String, String), usize>,
    ) -> JudgedCall {
        let filled = |call: ToolCall, tool: String, state, output: String| JudgedCall {
            call,
            tool,
            effects: Effects::Once,
            brings_in: false,
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
            let CallEffects { effects, brings_in, .. } = effects;
            return JudgedCall { call, tool: name, effects, brings_in, verdict };
        }
        let verdict = self.verdict(&call, &name, &arguments, &effects, alone).await;
        let CallEffects { effects, brings_in, .. } = effects;
        JudgedCall { call, tool: name, effects, brings_in, verdict }
    }

    /// Whether a call may change something.
    fn changes(&self, call: &ToolCall) -> bool {
        match (self.tools.resolve(&call.name), &call.arguments) {
            (Some((_, tool)), Arguments::Object(arguments)) => {
                tool.effects(arguments).effects != Effects::ReadOnly
            }
            _ => false,
        }
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
        alone: bool,
    ) -> Verdict {
        let hash = arguments_hash(arguments);
        let earlier = self.approvals.iter().find(|a| a.call == call.id && a.arguments_hash == hash);
        if let Some(approval) = earlier {
            return self.stands(approval, name, arguments, effects);
        }
        let mut ask = self.to_judge(name, effects);
        let mut decision = self.bundle.gate.evaluate(&ask);
        let (cover, grant);
        let mut offer = None;
        if matches!(decision.decision, Access::NeedsApproval(_)) {
            cover = self.cover(name, arguments, effects);
            // What a sibling could change while it waits is not surely what was granted (A085).
            let steady = cover.as_ref().filter(|cover| alone || !cover.binds_files);
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

    fn to_judge<'a>(&'a self, name: &'a str, effects: &'a CallEffects) -> CallToJudge<'a> {
        CallToJudge {
            tool: name,
            effects,
            key: None,
            conversation_id: self.conversation_id,
            agent: &self.bundle.name,
            tainted: self.tainted.as_deref(),
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
        let mut ask = self.to_judge(name, effects);
        let (cover, grant);
        match authority {
            Authority::Policy => {}
            Authority::Approved { approval } => ask.approval = Some(*approval),
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
