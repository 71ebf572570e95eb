//! One round: a response's calls, judged, perhaps approved, run, recorded.

use jiff::Timestamp;
use rookery_messages::approval::{Approval, ApprovalState, Decision};
use rookery_messages::chat::{Arguments, ChatMessage, OpaqueBlock, ToolCall, Usage};
use rookery_messages::ids::{ApprovalId, OutboxId};
use rookery_messages::journal::JournalKind;
use rookery_messages::model::ModelResponse;
use rookery_messages::store::TurnCommit;
use rookery_messages::time::World;
use rookery_messages::tool::{Authority, Effects, JudgedCall, SlotOutcome, Verdict, text};
use rookery_messages::turn::{CallRecord, CallState, TurnState};
use serde_json::{Map, Value};

use super::super::asking;
use super::super::loops::Level;
use super::super::question::answered;
use super::{BatchPlan, Effect, Machine, Next, Phase};

/// A call to be judged.
#[derive(Clone, PartialEq, Debug)]
pub struct OpenCall {
    /// The call, as the model wrote it.
    pub call: ToolCall,
    /// What a former attempt prepared: the tool's resolved name and the arguments. It stands; no hook is
    /// asked about the call again.
    pub prepared: Option<(String, Map<String, Value>)>,
}

impl OpenCall {
    /// The tool's name, as resolved by a former attempt or as the model wrote it.
    pub fn name(&self) -> &str {
        self.prepared.as_ref().map_or(&self.call.name, |(name, _)| name)
    }
}

/// A call of the round in work.
#[derive(Clone, PartialEq, Debug)]
pub struct RoundCall {
    /// The call.
    pub call: ToolCall,
    /// The tool's resolved name.
    pub tool: String,
    /// The arguments as they will run, where they are not the model's own.
    pub arguments: Option<Map<String, Value>>,
    /// A former attempt prepared it.
    pub prepared: bool,
    /// What repeating it would mean.
    pub effects: Effects,
    /// Its result is content from outside.
    pub brings_in: bool,
    /// Why it may run, once it may.
    pub authority: Option<Authority>,
    /// The request that is open for it.
    pub asked: Option<ApprovalId>,
    /// It takes that call's result.
    pub same_as: Option<usize>,
    /// Its end.
    pub outcome: Option<SlotOutcome>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// A former attempt told the clients of its end.
    pub told: bool,
}

impl RoundCall {
    /// A call of which only the response is known.
    pub fn unjudged(call: ToolCall) -> Self {
        Self {
            tool: call.name.clone(),
            call,
            arguments: None,
            prepared: false,
            effects: Effects::Once,
            brings_in: false,
            authority: None,
            asked: None,
            same_as: None,
            outcome: None,
            ended_at: None,
            told: false,
        }
    }

    /// As the record shows it.
    pub fn record(&self) -> CallRecord {
        let state = match (&self.outcome, self.asked) {
            (Some(outcome), _) => outcome.state,
            (None, Some(_)) => CallState::Waiting,
            (None, None) => CallState::Planned,
        };
        CallRecord {
            id: self.call.id,
            tool: self.tool.clone(),
            state,
            started_at: None,
            ended_at: self.ended_at,
        }
    }

    /// The call with the arguments it runs with (V-G2).
    pub fn as_run(&self) -> ToolCall {
        let mut call = self.call.clone();
        if let Some(arguments) = &self.arguments {
            call.arguments = Arguments::Object(arguments.clone());
        }
        call
    }

    fn open(&self) -> OpenCall {
        let prepared = match self.as_run().arguments {
            Arguments::Object(arguments) if self.prepared => Some((self.tool.clone(), arguments)),
            _ => None,
        };
        OpenCall { call: self.call.clone(), prepared }
    }

    /// It needed an approval, whatever came of it.
    pub fn was_asked(&self) -> bool {
        let refused = self.outcome.as_ref().map(|outcome| outcome.state);
        matches!(self.authority, Some(Authority::Approved { .. }))
            || matches!(refused, Some(CallState::Denied | CallState::Replaced))
    }

    /// Something from outside came with its result: what has no result of its own tool brought nothing.
    fn has_brought_in(&self) -> bool {
        let ran = [CallState::Succeeded, CallState::Failed, CallState::Duplicate];
        self.brings_in && self.outcome.as_ref().is_some_and(|outcome| ran.contains(&outcome.state))
    }

    /// It still has to be judged.
    pub(super) fn is_open(&self) -> bool {
        self.outcome.is_none() && self.same_as.is_none()
    }

    pub(super) fn fill(&mut self, outcome: SlotOutcome, now: Timestamp) {
        self.asked = None;
        self.outcome = Some(outcome);
        self.ended_at = Some(now);
    }
}

/// A response with calls, until it stands in the history.
#[derive(Clone, PartialEq, Debug)]
pub struct Round {
    /// Which model call gave it.
    pub iteration: u32,
    /// Its visible text.
    pub text: String,
    /// Its calls, in order.
    pub calls: Vec<RoundCall>,
    /// The response is in the journal already.
    pub journalled: bool,
    /// Tokens of the response, for its journal entry.
    pub usage: Usage,
    /// What its provider wants back with it.
    pub opaque: Vec<OpaqueBlock>,
    /// Requests of this attempt: questions once they are durable.
    pub requests: Vec<Approval>,
    /// Decisions the turn has taken over but not yet written.
    pub decisions: Vec<Approval>,
    /// Requests of former attempts.
    pub asked_before: Vec<ApprovalId>,
}

impl Round {
    pub(super) fn new(iteration: u32, response: ModelResponse) -> Self {
        Self {
            iteration,
            text: response.text,
            calls: response.calls.into_iter().map(RoundCall::unjudged).collect(),
            journalled: false,
            usage: response.usage,
            opaque: response.opaque,
            requests: Vec::new(),
            decisions: Vec::new(),
            asked_before: Vec::new(),
        }
    }

    pub(super) fn open_calls(&self) -> Vec<OpenCall> {
        self.calls.iter().filter(|call| call.is_open()).map(RoundCall::open).collect()
    }

    fn waits(&self) -> bool {
        self.calls.iter().any(|call| call.asked.is_some())
    }
}

impl Machine {
    pub(super) fn judged(&mut self, judged: Vec<JudgedCall>, world: &World) -> Vec<Effect> {
        if !matches!(self.phase, Phase::Judging) {
            return Vec::new();
        }
        let Some(mut round) = self.round.take() else { return Vec::new() };
        let now = world.now();
        let mut commit = self.blank(world);
        if !round.journalled {
            round.journalled = true;
            let kind = JournalKind::ModelResponse {
                iteration: round.iteration,
                text: round.text.clone(),
                calls: round.calls.iter().map(|c| c.call.clone()).collect(),
                usage: round.usage,
                opaque: round.opaque.clone(),
            };
            commit.entries.push(self.entry(kind));
        }
        let mut requests = Vec::new();
        let mut ends_turn = None;
        // The judge counts among the calls it was given; the round may have ended ones between them.
        let open = open_indices(&round);
        for judged in judged {
            let same_as = match &judged.verdict {
                Verdict::SameAs(other) => open.get(*other).copied(),
                _ => None,
            };
            let Some(call) = round.calls.iter_mut().find(|c| c.call.id == judged.call.id) else {
                continue;
            };
            call.tool = judged.tool;
            call.arguments = judged.arguments;
            call.effects = judged.effects;
            call.brings_in = judged.brings_in;
            match judged.verdict {
                Verdict::Run(authority) => call.authority = Some(authority),
                Verdict::Filled(outcome) => call.fill(outcome, now),
                Verdict::SameAs(_) => call.same_as = same_as,
                Verdict::Ask(request) => {
                    call.asked = Some(request.id);
                    requests.push(*request);
                }
                Verdict::EndsTurn { outcome, error } => {
                    call.fill(outcome, now);
                    ends_turn.get_or_insert(error);
                }
            }
        }
        if let Some(error) = ends_turn {
            // V-G14: nobody is asked and nothing runs; the round stands in the history.
            self.round = Some(round);
            self.append_round(&mut commit, world);
            return self.fail(commit, error, world);
        }
        // An end that the journal gave away, as *outcome unknown*, is known since now.
        for call in round.calls.iter_mut().filter(|call| call.outcome.is_some()) {
            call.ended_at.get_or_insert(now);
        }
        for request in requests {
            let (approval, call) = (request.id, request.call);
            commit.entries.push(self.entry(JournalKind::ApprovalAsked { approval, call }));
            // One of a former attempt was posted then.
            if !round.asked_before.contains(&approval) {
                commit.outbox.extend(asking::posted(&request, OutboxId(world.ids.next())));
            }
            commit.approvals.push(request);
        }
        for call in &round.calls {
            let prepared = JournalKind::CallPrepared {
                call: call.call.id,
                tool: call.tool.clone(),
                state: call.record().state,
                arguments: call.arguments.clone(),
                effects: call.effects,
                output: call.outcome.as_ref().map(|o| o.output.clone()),
                same_as: call.same_as,
                brings_in: call.brings_in,
            };
            commit.entries.push(self.entry(prepared));
            commit.calls.push(call.record());
        }
        self.account(&mut commit);
        let waits = round.waits();
        if waits {
            commit.state = Some(TurnState::WaitingApproval);
        }
        self.round = Some(round);
        let next = if waits { Next::Ask } else { Next::Run };
        if let Some(reason) = self.stop.clone() {
            return self.stop_now(&reason, world);
        }
        if let Some(round) = &mut self.round {
            round.requests.extend(commit.approvals.iter().cloned());
        }
        self.send(commit, next)
    }

    pub(super) fn ask(&mut self) -> Vec<Effect> {
        self.phase = Phase::Asking;
        let Some(round) = &mut self.round else { return Vec::new() };
        vec![Effect::Ask(round.requests.clone())]
    }

    pub(super) fn decided(&mut self, approval: &Approval, world: &World) -> Vec<Effect> {
        if !matches!(self.phase, Phase::Asking) || approval.state == ApprovalState::Pending {
            return Vec::new();
        }
        let now = world.now();
        let Some(round) = &mut self.round else { return Vec::new() };
        let Some(call) = round.calls.iter_mut().find(|c| c.asked == Some(approval.id)) else {
            return Vec::new();
        };
        match settle(approval) {
            Ok(authority) => {
                call.asked = None;
                call.authority = Some(authority);
            }
            Err(outcome) => call.fill(outcome, now),
        }
        round.decisions.push(approval.clone());
        if round.waits() {
            return Vec::new();
        }
        // Every question has its answer: one commit, then the batch.
        let decisions = std::mem::take(&mut round.decisions);
        let records: Vec<_> = round.calls.iter().map(RoundCall::record).collect();
        let mut commit = self.blank(world);
        for approval in decisions {
            let decision = approval.decision.clone().unwrap_or(Decision::NoAnswer);
            let kind = JournalKind::ApprovalDecided {
                approval: approval.id,
                call: approval.call,
                decision,
            };
            commit.entries.push(self.entry(kind));
            commit.outbox.extend(asking::settled(&approval, OutboxId(world.ids.next())));
        }
        commit.calls = records;
        commit.state = Some(TurnState::Running);
        self.send(commit, Next::Run)
    }

    pub(super) fn run(&mut self, world: &World) -> Vec<Effect> {
        let Some(round) = &self.round else { return Vec::new() };
        if round.calls.iter().all(|call| call.outcome.is_some() && call.told) {
            return self.record(world);
        }
        self.phase = Phase::Running;
        let plan =
            BatchPlan { batch: round.iteration, first_seq: self.seq, calls: round.calls.clone() };
        // A start and an end each, at most.
        self.seq += 2 * plan.calls.len() as u64 + 2;
        vec![Effect::Run(plan)]
    }

    pub(super) fn batch_ended(&mut self, outcomes: Vec<SlotOutcome>, world: &World) -> Vec<Effect> {
        if !matches!(self.phase, Phase::Running) {
            return Vec::new();
        }
        let now = world.now();
        let Some(round) = &mut self.round else { return Vec::new() };
        // I4: exactly one outcome a call, in order.
        rookery_messages::check_invariant!(
            I4,
            outcomes.len() == round.calls.len(),
            "{} outcomes for {} calls",
            outcomes.len(),
            round.calls.len()
        );
        for (call, outcome) in round.calls.iter_mut().zip(outcomes) {
            if call.outcome.is_none() {
                call.fill(outcome, now);
            }
        }
        match self.stop.clone() {
            Some(reason) => self.stop_now(&reason, world),
            None => self.record(world),
        }
    }

    /// The round goes into the history, in slot order, in one transaction.
    fn record(&mut self, world: &World) -> Vec<Effect> {
        let mut commit = self.blank(world);
        let found = self.watch_round();
        self.append_round(&mut commit, world);
        if let Some(found) = found {
            if found.level == Level::Break {
                return self.break_off(commit, found, world);
            }
            self.note_circle(&mut commit, found, world);
        }
        self.append_steering(&mut commit, world);
        self.account(&mut commit);
        commit.state = Some(TurnState::Running);
        self.send(commit, Next::Call)
    }

    /// Appends the assistant's calls and one result each. A call without an end was not started.
    pub(super) fn append_round(&mut self, commit: &mut TurnCommit, world: &World) {
        let Some(mut round) = self.round.take() else { return };
        let now = world.now();
        if !round.journalled {
            let kind = JournalKind::ModelResponse {
                iteration: round.iteration,
                text: round.text.clone(),
                calls: round.calls.iter().map(|c| c.call.clone()).collect(),
                usage: round.usage,
                opaque: round.opaque.clone(),
            };
            commit.entries.push(self.entry(kind));
        }
        let open = |id| round.calls.iter().any(|call| call.asked == Some(id));
        for request in round.requests.iter().filter(|request| open(request.id)) {
            commit.outbox.extend(asking::withdrawn(request, OutboxId(world.ids.next())));
        }
        for call in &mut round.calls {
            if call.outcome.is_none() {
                let unrun =
                    SlotOutcome::unrun(CallState::Interrupted, text::INTERRUPTED_NOT_STARTED);
                call.fill(unrun, now);
                let finished = JournalKind::CallFinished {
                    call: call.call.id,
                    state: CallState::Interrupted,
                    output: text::INTERRUPTED_NOT_STARTED.to_owned(),
                    receipt: None,
                };
                commit.entries.push(self.entry(finished));
            }
            commit.calls.push(call.record());
        }
        let assistant = ChatMessage::Assistant {
            text: round.text.clone(),
            calls: round.calls.iter().map(|c| c.call.clone()).collect(),
            interrupted: false,
            opaque: std::mem::take(&mut round.opaque),
        };
        self.append(commit, assistant, world);
        for call in round.calls {
            let outside = call.has_brought_in();
            let output = call.outcome.as_ref().map(SlotOutcome::with_receipt).unwrap_or_default();
            if let Some(receipt) = call.outcome.and_then(|outcome| outcome.receipt) {
                self.receipts.push((call.tool.clone(), receipt));
            }
            let result = ChatMessage::Tool {
                call: call.call.id,
                wire_id: call.call.wire_id(),
                name: call.tool,
                output,
                outside,
            };
            self.append(commit, result, world);
        }
        commit.entries.push(self.entry(JournalKind::Appended { iteration: round.iteration }));
    }
}

/// What a decision means for its call.
pub(crate) fn settle(approval: &Approval) -> Result<Authority, SlotOutcome> {
    if approval.is_question() {
        return Err(answered(approval));
    }
    let denied = |state, output: String| Err(SlotOutcome::unrun(state, output));
    match &approval.decision {
        Some(Decision::Approve | Decision::Always) => {
            Ok(Authority::Approved { approval: approval.id })
        }
        Some(Decision::Deny { reason: None }) => {
            denied(CallState::Denied, text::DENIED_BY_USER.to_owned())
        }
        Some(Decision::Deny { reason: Some(reason) }) => {
            denied(CallState::Denied, format!("{}. They said: {reason}", text::DENIED_BY_USER))
        }
        Some(Decision::Replace { replacement }) => {
            denied(CallState::Replaced, format!("{}{replacement}", text::REPLACED_PREFIX))
        }
        Some(Decision::NoAnswer) | None => {
            denied(CallState::Denied, text::DENIED_NO_ANSWER.to_owned())
        }
        Some(Decision::NobodyAsked) => {
            denied(CallState::Denied, text::DENIED_NOBODY_ASKED.to_owned())
        }
        Some(Decision::Cancelled) => {
            denied(CallState::Interrupted, text::INTERRUPTED_NOT_STARTED.to_owned())
        }
    }
}

/// What a model reads of a call whose arguments can't be used.
pub(crate) fn unusable(arguments: &Arguments) -> Option<SlotOutcome> {
    match arguments {
        Arguments::Object(_) => None,
        Arguments::Invalid { error, .. } => Some(SlotOutcome::unrun(
            CallState::Failed,
            format!("{}{error}", text::INVALID_ARGUMENTS_PREFIX),
        )),
    }
}

fn open_indices(round: &Round) -> Vec<usize> {
    let calls = round.calls.iter().enumerate();
    calls.filter(|(_, call)| call.is_open()).map(|(index, _)| index).collect()
}
