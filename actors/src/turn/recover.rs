//! Where a turn goes on: a pure function of its journal (DESIGN.md, section 6).
//!
//! | found | then |
//! |---|---|
//! | `started`, or nothing | run from the start |
//! | a response whose calls are unprepared, undecided or not started | judged again; decisions made stand |
//! | approval asked, undecided | still pending, shown again |
//! | `call_started` without end | ReadOnly or Idempotent: again; Once: *outcome unknown* |
//! | all calls finished | recorded |
//! | `appended` | next model call |

use std::collections::HashMap;

use rookery_messages::approval::Decision;
use rookery_messages::chat::{ChatMessage, Usage};
use rookery_messages::ids::CallId;
use rookery_messages::journal::{JournalEntry, JournalKind};
use rookery_messages::receipt::ReceiptRecord;
use rookery_messages::store::StoredMessage;
use rookery_messages::tool::{Effects, SlotOutcome, text};
use rookery_messages::turn::CallState;

use super::loops::{Past, Seen};
use super::machine::{Round, RoundCall};

/// What a machine starts from.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Resume {
    /// Model calls done.
    pub iteration: u32,
    /// Tokens spent by former attempts.
    pub usage: Usage,
    /// The conversation, this turn's recorded rounds included.
    pub history: Vec<ChatMessage>,
    /// A response that does not stand in the history yet.
    pub round: Option<Round>,
    /// The rounds in the history, as the watch for circles wants them.
    pub past: Vec<Past>,
    /// Tools and receipts of the rounds that do.
    pub receipts: Vec<(String, ReceiptRecord)>,
}

struct Prepared {
    state: CallState,
    arguments: Option<serde_json::Map<String, serde_json::Value>>,
    effects: Effects,
    brings_in: bool,
    output: Option<String>,
    tool: String,
    same_as: Option<usize>,
}

#[derive(Default)]
struct Trace {
    prepared: Option<Prepared>,
    /// A person refused it, or nobody answered.
    refused: bool,
    started: bool,
    finished: Option<SlotOutcome>,
}

impl Trace {
    fn receipt(&self) -> Option<(String, ReceiptRecord)> {
        let receipt = self.finished.as_ref()?.receipt.clone()?;
        Some((self.prepared.as_ref()?.tool.clone(), receipt))
    }

    /// Its batch had begun: calls that were not to run had been told to the clients right before.
    fn has_begun(&self) -> bool {
        self.started || self.finished.is_some()
    }
}

/// From the journal of former attempts, in order, and the history.
pub fn resume(journal: &[JournalEntry], history: &[StoredMessage], usage: Usage) -> Resume {
    let mut round: Option<Round> = None;
    let mut iteration = 0;
    let mut traces: HashMap<CallId, Trace> = HashMap::new();
    let mut past = Vec::new();
    let mut receipts = Vec::new();
    for entry in journal {
        match &entry.kind {
            JournalKind::ModelResponse { iteration: n, text, calls, usage, opaque } => {
                iteration = iteration.max(*n);
                // A response without calls is final, or goes on by steering: it is in the history.
                round = (!calls.is_empty()).then(|| Round {
                    iteration: *n,
                    text: text.clone(),
                    calls: calls.iter().cloned().map(RoundCall::unjudged).collect(),
                    journalled: true,
                    usage: *usage,
                    opaque: opaque.clone(),
                    requests: Vec::new(),
                    decisions: Vec::new(),
                    asked_before: Vec::new(),
                });
            }
            JournalKind::CallPrepared {
                call,
                tool,
                state,
                arguments,
                effects,
                output,
                same_as,
                brings_in,
            } => {
                traces.entry(*call).or_default().prepared = Some(Prepared {
                    state: *state,
                    arguments: arguments.clone(),
                    effects: *effects,
                    brings_in: *brings_in,
                    output: output.clone(),
                    tool: tool.clone(),
                    same_as: *same_as,
                });
            }
            JournalKind::ApprovalDecided { call, decision, .. } => {
                traces.entry(*call).or_default().refused =
                    !matches!(decision, Decision::Approve | Decision::Always);
            }
            JournalKind::CallStarted { call } => traces.entry(*call).or_default().started = true,
            JournalKind::CallFinished { call, state, output, receipt } => {
                let receipt = receipt.clone();
                let outcome = SlotOutcome::unrun(*state, output.clone());
                traces.entry(*call).or_default().finished =
                    Some(SlotOutcome { receipt, ..outcome });
            }
            JournalKind::Appended { .. } => {
                if let Some(round) = round.take() {
                    let given = |call: &RoundCall| traces.get(&call.call.id)?.receipt();
                    receipts.extend(round.calls.iter().filter_map(given));
                    past.push(Past::Round(recorded(round, &traces, history)));
                }
            }
            JournalKind::Steered { .. } => past.push(Past::Steered),
            JournalKind::ApprovalAsked { approval, .. } => {
                if let Some(round) = &mut round {
                    round.asked_before.push(*approval);
                }
            }
            JournalKind::Started
            | JournalKind::Notice { .. }
            | JournalKind::Final { .. }
            | JournalKind::Ended { .. } => {}
        }
    }
    if let Some(round) = &mut round {
        let mut of_round = round.calls.iter().filter_map(|call| traces.get(&call.call.id));
        let begun = of_round.any(Trace::has_begun);
        for call in &mut round.calls {
            if let Some(trace) = traces.remove(&call.call.id) {
                apply(call, trace, begun);
            }
        }
    }
    Resume {
        iteration,
        usage,
        history: history.iter().map(|stored| stored.message.clone()).collect(),
        round,
        past,
        receipts,
    }
}

/// A round with the results the history has of it.
fn recorded(round: Round, traces: &HashMap<CallId, Trace>, history: &[StoredMessage]) -> Vec<Seen> {
    let output = |id: CallId| {
        history.iter().rev().find_map(|stored| match &stored.message {
            ChatMessage::Tool { call, output, .. } if *call == id => Some(output.clone()),
            _ => None,
        })
    };
    let seen = round.calls.into_iter().filter_map(|call| {
        let id = call.call.id;
        let output = output(id)?;
        let trace = traces.get(&id);
        let prepared = trace.and_then(|trace| trace.prepared.as_ref());
        let finished =
            trace.and_then(|trace| trace.finished.as_ref()).map(|finished| finished.state);
        Some(Seen {
            tool: prepared.map_or_else(|| call.tool.clone(), |prepared| prepared.tool.clone()),
            read_only: prepared.is_some_and(|prepared| prepared.effects == Effects::ReadOnly),
            outcome: SlotOutcome::unrun(
                finished.or(prepared.map(|prepared| prepared.state)).unwrap_or(CallState::Failed),
                output,
            ),
            call: call.call,
        })
    });
    seen.collect()
}

fn apply(call: &mut RoundCall, trace: Trace, batch_begun: bool) {
    let unrun = trace.refused || trace.prepared.as_ref().is_some_and(|p| p.state.is_end());
    call.told = trace.finished.is_some() || (unrun && batch_begun);
    if let Some(prepared) = trace.prepared {
        call.prepared = true;
        call.tool = prepared.tool;
        call.arguments = prepared.arguments;
        call.effects = prepared.effects;
        call.brings_in = prepared.brings_in;
        call.same_as = prepared.same_as;
        if prepared.state.is_end() {
            let output = prepared.output.unwrap_or_default();
            call.outcome = Some(SlotOutcome::unrun(prepared.state, output));
        }
    }
    if trace.finished.is_some() {
        call.outcome = trace.finished;
    } else if trace.started && call.effects == Effects::Once {
        // I5: it may have had its effect; it is not repeated, and shown as unknown.
        call.outcome = Some(SlotOutcome::unrun(CallState::Unknown, text::OUTCOME_UNKNOWN));
    }
}

#[cfg(test)]
mod tests {
    use rookery_messages::chat::{Arguments, ToolCall};
    use uuid::Uuid;

    use super::*;

    fn call(n: u128) -> ToolCall {
        ToolCall {
            id: CallId(Uuid::from_u128(n)),
            provider_id: Some(format!("c{n}")),
            name: "tool".into(),
            arguments: Arguments::Object(serde_json::Map::new()),
        }
    }

    fn journal(kinds: Vec<JournalKind>) -> Vec<JournalEntry> {
        kinds
            .into_iter()
            .enumerate()
            .map(|(seq, kind)| JournalEntry { attempt: 1, seq: seq as u64, kind })
            .collect()
    }

    fn response(calls: Vec<ToolCall>) -> JournalKind {
        JournalKind::ModelResponse {
            iteration: 1,
            text: "t".into(),
            calls,
            usage: Usage::default(),
            opaque: Vec::new(),
        }
    }

    fn prepared(n: u128, effects: Effects) -> JournalKind {
        JournalKind::CallPrepared {
            call: call(n).id,
            tool: "tool".into(),
            state: CallState::Planned,
            arguments: None,
            effects,
            output: None,
            same_as: None,
            brings_in: false,
        }
    }

    // V-N1, I5
    #[test]
    fn finished_calls_are_kept_and_a_started_once_call_is_unknown() {
        let found = resume(
            &journal(vec![
                JournalKind::Started,
                response(vec![call(1), call(2), call(3), call(4)]),
                prepared(1, Effects::Once),
                prepared(2, Effects::Once),
                prepared(3, Effects::ReadOnly),
                prepared(4, Effects::Once),
                JournalKind::CallStarted { call: call(1).id },
                JournalKind::CallStarted { call: call(2).id },
                JournalKind::CallStarted { call: call(3).id },
                JournalKind::CallFinished {
                    call: call(1).id,
                    state: CallState::Succeeded,
                    output: "done".into(),
                    receipt: None,
                },
            ]),
            &[],
            Usage::default(),
        );
        let states: Vec<_> = found
            .round
            .unwrap()
            .calls
            .iter()
            .map(|c| c.outcome.as_ref().map(|o| (o.state, o.output.clone())))
            .collect();
        assert_eq!(
            states,
            [
                Some((CallState::Succeeded, "done".to_owned())),
                Some((CallState::Unknown, text::OUTCOME_UNKNOWN.to_owned())),
                None,
                None,
            ]
        );
    }

    #[test]
    fn an_appended_round_is_done_and_the_next_model_call_follows() {
        let found = resume(
            &journal(vec![
                JournalKind::Started,
                response(vec![call(1)]),
                JournalKind::Appended { iteration: 1 },
            ]),
            &[],
            Usage { input: 3, output: 4 },
        );
        assert_eq!((found.iteration, found.round), (1, None));
        assert_eq!(found.usage, Usage { input: 3, output: 4 });
    }

    #[test]
    fn nothing_but_a_start_runs_from_the_start() {
        let found = resume(&journal(vec![JournalKind::Started]), &[], Usage::default());
        assert_eq!(found, Resume::default());
    }
}
